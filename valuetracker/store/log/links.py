"""
The lists an entry stands in: the log, that of its subject, that of its chat.

An index finds entries quickly, and one that has lost some finds the rest as quickly. So
every entry names the one before it in each list, and the row a list belongs to names its
last. Whoever reads a stretch of a list begins at an entry that is known to be there and
follows the names: what is not where the one after it says it is, is damage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from operator import attrgetter

from valuetracker.engine import Row
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import EntryRow, first_of, last_of
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import CharacterRow, ChatRow, Head, HolderRow

# How many entries are read at once, at first and at the most: they may be large.
FIRST_CHUNK = 4
CHUNK = 256
CHUNK_BYTES = 1024 * 1024


def chunk_after(count: int, size: int) -> int:
    """How many entries to read next, after so many of this size."""
    return max(1, count // 4) if size > CHUNK_BYTES else min(CHUNK, count * 4)


class Kind:
    """A kind of list: where its entries are found, and which of their names leads on."""

    def __init__(self, column: str | None, end: str, link: str, table: str = "entries") -> None:
        scope = f"{column} = :scope AND " if column is not None else ""
        between = f"WHERE {scope}entry BETWEEN :since AND :until ORDER BY entry"
        self.newest_first = sql.entries(f"{between} DESC LIMIT :count", table=table)
        self.oldest_first = sql.entries(f"{between} LIMIT :count", table=table)
        self.next = sql.entries(f"WHERE {scope}entry > :until ORDER BY entry LIMIT 1", table=table)
        # The last entry, by the row the list belongs to; and the one before, by each entry.
        self.end = attrgetter(end)
        self.link = attrgetter(link)
        self._column = attrgetter(column) if column is not None else None

    def read(self, row: Row, scope: int) -> EntryRow:
        """An entry that was found for a list, if it belongs to it: an index may lie."""
        entry = EntryRow(*row).verify()
        if self._column is not None and self._column(entry) != scope:
            raise DatabaseDamaged()
        return entry


LOG = Kind(None, "entry", "prior")
OF_SUBJECT = Kind("subject", "entry", "before")
OF_CHAT = Kind("chat", "told", "earlier")
TAKEN = Kind("subject", "taken", "before", "taken")


@dataclass(slots=True, frozen=True)
class EntryList:
    """
    One list: what belongs to `owner`.

    Up to `folded` there is nothing to be found, whatever the entries after it say.
    """

    kind: Kind
    owner: Head | CharacterRow | HolderRow | ChatRow
    folded: int = 0

    @property
    def scope(self) -> int:
        return self.owner.number

    async def last(self, tx: Reader) -> int:
        """The number of its last entry; 0 if there is none."""
        await tx.settle()
        last: int = self.kind.end(self.owner)
        return last

    async def last_up_to(self, tx: Reader, until: int) -> int:
        """The number of its last entry up to one; 0 if there is none."""
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
        self, tx: Reader, since: int = 0, until: int | None = None
    ) -> AsyncIterator[list[EntryRow]]:
        """The entries from `until` back to `since`, some at a time."""
        last = await (self.last(tx) if until is None else self.last_up_to(tx, until))
        since = max(since, self.folded + 1)
        async for chunk in back(tx, self.kind, self.scope, last, since, FIRST_CHUNK):
            yield chunk

    async def oldest_first(
        self, tx: Reader, since: int = 0, until: int | None = None
    ) -> AsyncIterator[list[EntryRow]]:
        """The entries from `since` on up to `until`, some at a time."""
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
    tx: Reader, kind: Kind, scope: int, last: int, since: int, count: int
) -> AsyncIterator[list[EntryRow]]:
    """The entries of a list from one that is known to be there back to `since`."""
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


# A stretch of the log, and the entry after it.
SELECT_WITH_NEXT = sql.entries(
    """
    WHERE entry BETWEEN :since
        AND COALESCE((SELECT min(entry) FROM {schema}.entries WHERE entry > :until), :until)
    ORDER BY entry
    """
)


async def entries_of_revision(tx: Reader, revision: int) -> list[EntryRow]:
    """All that one revision did; not of one that was folded."""
    since, until = first_of(revision), last_of(revision)
    rows = await tx.fetch_all(SELECT_WITH_NEXT, since=since, until=until)
    entries = [EntryRow(*row).verify() for row in rows]
    before: int | None = None
    for entry in entries:
        if (entry.prior >= since) if before is None else (entry.prior != before):
            raise DatabaseDamaged()
        before = entry.entry
    if entries and entries[-1].entry > until:
        entries.pop()
    else:
        # Nothing follows, so the last of all is of it; or it has never been.
        end = (await tx.load_head()).entry
        if end != before and (before is not None or end >= since):
            raise DatabaseDamaged()
    return entries


async def log_list(tx: Reader) -> EntryList:
    return EntryList(LOG, await tx.load_head())


def subject_list(subject: CharacterRow | HolderRow | ChatRow) -> EntryList:
    return EntryList(OF_SUBJECT, subject)


async def chat_list(tx: Reader, chat: ChatRow) -> EntryList:
    """All that was made in a chat; what was folded is in no chat any more."""
    return EntryList(OF_CHAT, chat, last_of((await tx.load_head()).oldest))


def taken_list(holder: HolderRow) -> EntryList:
    """What a holder of a branch has taken over."""
    return EntryList(TAKEN, holder)


async def put_in_place(tx: Reader, entries: Iterable[EntryRow]) -> None:
    """Say of entries where the places they are anchored to stand."""
    anchored = [entry for entry in entries if entry.place is not None]
    if not anchored:
        return
    places = await tx.load_places(entry.place for entry in anchored if entry.place is not None)
    for entry in anchored:
        place = places.get(entry.place or 0)
        if place is not None:
            entry.anchor = place
        elif entry.chat is None or (await tx.get_chat(entry.chat)).floor < entry.revision:
            # Only the places of a chat that was purged since are gone.
            raise DatabaseDamaged()
