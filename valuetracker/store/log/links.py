"""
The lists an entry is part of: the log, the list of its subject, the list of its chat.

An index that has lost some entries finds the rest as quickly as a whole one. So every entry
names the one before it in each list, and the row a list belongs to names its last entry. A
reader begins at an entry that is known to exist and follows the names: an entry that is not
where the one after it says is damage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from operator import attrgetter

from valuetracker.engine import Row
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow, first_of, last_of, select_entries
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row_cache import Subject

# How many entries are read at once, at first and at the most: they may be large.
FIRST_CHUNK = 4
CHUNK = 256
CHUNK_BYTES = 1024 * 1024


def chunk_after(count: int, size: int) -> int:
    """Return how many entries to read next, after so many of this size."""
    return max(1, count // 4) if size > CHUNK_BYTES else min(CHUNK, count * 4)


class Kind:
    """A kind of list: the statements that find its entries, and the link from one to the next."""

    def __init__(self, column: str | None, end: str, link: str, table: str = "entries") -> None:
        scope = f"{column} = :scope AND " if column is not None else ""
        between = f"WHERE {scope}entry BETWEEN :since AND :until ORDER BY entry"
        self.newest_first = select_entries(f"{between} DESC LIMIT :count", table=table)
        self.oldest_first = select_entries(f"{between} LIMIT :count", table=table)
        self.next = select_entries(
            f"WHERE {scope}entry > :until ORDER BY entry LIMIT 1", table=table
        )
        # The column that names the last entry, and the one that names the entry before.
        self.end = attrgetter(end)
        self.link = attrgetter(link)
        self._column = attrgetter(column) if column is not None else None

    def read(self, row: Row, scope: int) -> EntryRow:
        """Return an entry that was found for a list; raise if it is not part of it."""
        entry = EntryRow(*row).verify()
        if self._column is not None and self._column(entry) != scope:
            raise DatabaseDamaged()
        return entry


LOG = Kind(None, "last_entry", "prev_in_log")
OF_SUBJECT = Kind("subject", "last_entry", "prev_of_subject")
OF_CHAT = Kind("chat", "last_in_chat", "prev_in_chat")
TAKEN = Kind("subject", "last_taken", "prev_of_subject", "taken")


@dataclass(slots=True, frozen=True)
class EntryList:
    """
    One list, that of `owner`.

    Entries up to `folded` do not exist any more, whatever the entries after it say.
    """

    kind: Kind
    owner: Head | Subject
    folded: int = 0

    @property
    def scope(self) -> int:
        return self.owner.number

    async def last(self, tx: RowReader) -> int:
        """Return the number of its last entry; 0 if there is none."""
        await tx.settle()
        last: int = self.kind.end(self.owner)
        return last

    async def last_up_to(self, tx: RowReader, until: int) -> int:
        """Return the number of its last entry up to this one; 0 if there is none."""
        last = await self.last(tx)
        if last > until:
            row = await tx.fetch_one(self.kind.next, scope=self.scope, until=until)
            if row is None:
                raise DatabaseDamaged()
            after = self.kind.read(row, self.scope)
            last = self.kind.link(after)
            if not last <= until < after.entry:
                raise DatabaseDamaged()
        return last if last > self.folded else 0

    async def newest_first(
        self, tx: RowReader, since: int = 0, until: int | None = None
    ) -> AsyncIterator[list[EntryRow]]:
        """Yield the entries from `until` back to `since`, some at a time."""
        last = await (self.last(tx) if until is None else self.last_up_to(tx, until))
        since = max(since, self.folded + 1)
        async for chunk in back(tx, self.kind, self.scope, last, since, FIRST_CHUNK):
            yield chunk

    async def oldest_first(
        self, tx: RowReader, since: int = 0, until: int | None = None
    ) -> AsyncIterator[list[EntryRow]]:
        """Yield the entries from `since` up to `until`, some at a time."""
        last = await (self.last(tx) if until is None else self.last_up_to(tx, until))
        since, count = max(since, self.folded + 1), FIRST_CHUNK
        before: int | None = None
        while since <= last:
            chunk: list[EntryRow] = []
            for row in await tx.fetch_all(
                self.kind.oldest_first, scope=self.scope, since=since, until=last, count=count
            ):
                entry = self.kind.read(row, self.scope)
                link = self.kind.link(entry)
                if (link >= since) if before is None else (link != before):
                    raise DatabaseDamaged()
                before = entry.entry
                chunk.append(entry)
            if before is None or not chunk:
                raise DatabaseDamaged()
            yield chunk
            since = before + 1
            count = chunk_after(count, sum(len(entry.changes) for entry in chunk))


async def back(
    tx: RowReader, kind: Kind, scope: int, last: int, since: int, count: int
) -> AsyncIterator[list[EntryRow]]:
    """Yield the entries of a list from one that is known to exist back to `since`."""
    while last >= since and last:
        chunk: list[EntryRow] = []
        for row in await tx.fetch_all(
            kind.newest_first, scope=scope, since=since, until=last, count=count
        ):
            entry = kind.read(row, scope)
            if entry.entry != last:
                raise DatabaseDamaged()
            last = kind.link(entry)
            chunk.append(entry)
        if not chunk:
            raise DatabaseDamaged()
        yield chunk
        count = chunk_after(count, sum(len(entry.changes) for entry in chunk))


# Entries of the log, and the first one after them.
SELECT_WITH_NEXT = select_entries(
    """
    WHERE entry BETWEEN :since
        AND COALESCE((SELECT min(entry) FROM {schema}.entries WHERE entry > :until), :until)
    ORDER BY entry
    """
)


async def entries_of_revision(tx: RowReader, revision: int) -> list[EntryRow]:
    """Return all entries of a revision that is not folded."""
    since, until = first_of(revision), last_of(revision)
    rows = await tx.fetch_all(SELECT_WITH_NEXT, since=since, until=until)
    entries = [EntryRow(*row).verify() for row in rows]
    before: int | None = None
    for entry in entries:
        if (entry.prev_in_log >= since) if before is None else (entry.prev_in_log != before):
            raise DatabaseDamaged()
        before = entry.entry
    if entries and entries[-1].entry > until:
        entries.pop()
    else:
        # Nothing follows, so the last entry of the log is of this revision, or it has none.
        end = (await tx.load_head()).last_entry
        if end != before and (before is not None or end >= since):
            raise DatabaseDamaged()
    return entries


async def log_list(tx: RowReader) -> EntryList:
    return EntryList(LOG, await tx.load_head())


def subject_list(subject: Subject) -> EntryList:
    return EntryList(OF_SUBJECT, subject)


async def chat_list(tx: RowReader, chat: ChatRow) -> EntryList:
    """Return the list of all entries made in a chat; folded ones are in no chat any more."""
    return EntryList(OF_CHAT, chat, last_of((await tx.load_head()).oldest))


def taken_list(holder: HolderRow) -> EntryList:
    """Return the list of the entries that a holder of a branch has taken over."""
    return EntryList(TAKEN, holder)


async def find_anchors(tx: RowReader, entries: Iterable[EntryRow]) -> None:
    """Find the places that entries are anchored to, as they stand now."""
    anchored = [entry for entry in entries if entry.place is not None]
    if not anchored:
        return
    places = await tx.load_places(entry.place for entry in anchored if entry.place is not None)
    for entry in anchored:
        place = places.get(entry.place or 0)
        if place is not None:
            entry.anchor = place
        elif entry.chat is None or (await tx.get_chat(entry.chat)).readable_from < entry.revision:
            # Only the places of a chat that was purged since are missing.
            raise DatabaseDamaged()
