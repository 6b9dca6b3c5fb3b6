"""Feed events: what one revision did, as readers of the feed receive it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import orjson

from valuetracker.errors import IncarnationEnded, RevisionUnknown
from valuetracker.records import FeedChange, FeedEvent
from valuetracker.store.log.lists import find_anchors, log_list
from valuetracker.store.log.replay import resolve_value
from valuetracker.store.log.resolve_names import resolve_names
from valuetracker.store.log.state_at import check_not_compacted
from valuetracker.store.rows.entries import (
    DORMANT,
    KEPT,
    LARGEST_SHOWN,
    EntryRow,
    LoggedChange,
    anchor_record,
)
from valuetracker.store.rows.head import KnownRevision, marked
from valuetracker.store.rows.holders import instance_record
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import shown_key
from valuetracker.store.tx.jobs import Notice

# How many entries of the log are in memory before it is known how large they are.
ENTRIES_AT_ONCE = 4
# About how many bytes an entry takes beside its changes. Its changes are in memory twice, as one
# text and decoded. What an event shows of them is twice more, as JSON and as the event.
ENTRY_BYTES = 1_000


@dataclass(slots=True)
class Revision:
    """One revision: everything that one request changed."""

    revision: int
    entries: list[EntryRow]

    @property
    def size(self) -> int:
        """About how many bytes it takes while it is kept."""
        return sum(ENTRY_BYTES + 2 * sys.getsizeof(entry.changes) for entry in self.entries)


@dataclass(slots=True)
class Found:
    """Revisions of the log; none, if the next one takes more memory than the caller has for it."""

    revisions: list[Revision] = field(default_factory=list)
    # How many bytes are needed, if the caller has fewer.
    needed: int = 0


@dataclass(slots=True, frozen=True)
class Filter:
    """The changes a reader wants; revisions without any of them are passed over."""

    instance_id: str | None = None
    key: str | None = None
    chat_id: str | None = None
    # The number of that chat, if it exists already: it stays when the chat is renamed.
    chat: int | None = None

    @property
    def everything(self) -> bool:
        return self.instance_id is None and self.key is None and self.chat_id is None

    def wants_notice(self, notice: Notice) -> bool:
        if self.instance_id is not None or self.key is not None:
            return False
        return self.chat_id is None or (
            notice.chat == self.chat if self.chat is not None else notice.chat_id == self.chat_id
        )

    def wants_entry(self, entry: EntryRow) -> bool:
        if self.chat_id is not None and not self._is_of_chat(entry):
            return False
        return self.instance_id is None or (
            entry.id == self.instance_id and entry.space == "instance"
        )

    def _is_of_chat(self, entry: EntryRow) -> bool:
        if self.chat is not None:
            return entry.chat == self.chat
        return entry.chat is not None and entry.chat_id == self.chat_id

    def wants_chain(self, entry: EntryRow) -> bool:
        """True if an entry of this chat says only that other messages are visible."""
        alone = self.instance_id is None and self.key is None
        return alone and not entry.logged and self.wants_entry(entry)

    def wants(self, entry: EntryRow, record: LoggedChange) -> bool:
        if record.op in KEPT:
            return False
        return self.key is None or (record.key == self.key and entry.space in ("instance", "chat"))


async def check_cursor(tx: Snapshot, since: int) -> None:
    """Refuse a revision after which no feed can begin."""
    check_since(KnownRevision(tx.head.revision), KnownRevision(since))
    check_not_compacted(tx.head, since)


async def list_revisions(tx: Snapshot, since: int, count: int, enough: int, most: int) -> Found:
    """
    Return the revisions after `since`: at most `count`, and no more once they take `enough` bytes.

    The caller has memory for `most` bytes.
    """
    await check_cursor(tx, since)
    found = Found()
    size = 0
    async for entry in _entries_after(tx, since):
        if not found.revisions or found.revisions[-1].revision != entry.revision:
            # Only now is the revision before known to be whole.
            if len(found.revisions) == count or size > enough or found.needed:
                break
            found.revisions.append(Revision(entry.revision, []))
        size += _size_as_event(entry)
        if size <= most:
            await _resolve_shown(tx, entry)
            found.revisions[-1].entries.append(entry)
        elif len(found.revisions) > 1:
            # Those before it are enough for now.
            found.revisions.pop()
            break
        else:
            found.needed = size
            found.revisions[-1].entries.clear()
    if found.needed:
        found.revisions.clear()
    return found


async def _entries_after(tx: Snapshot, since: int) -> AsyncIterator[EntryRow]:
    log = await log_list(tx)
    async for entries in log.oldest_first(tx, first_of(since + 1), most=ENTRIES_AT_ONCE):
        await find_anchors(tx, entries)
        await resolve_names(tx, entries)
        for entry in entries:
            yield entry


def _size_as_event(entry: EntryRow) -> int:
    """Return about how many bytes an entry takes while an event is made of it."""
    shown = sum(_shown_length(change) for change in entry.logged)
    return ENTRY_BYTES + 2 * sys.getsizeof(entry.changes) + 2 * shown


def _shown_length(change: LoggedChange) -> int:
    """Return how many characters an event shows of a change."""
    length = change.size if change.is_left_out else len(change.held or change.operand or "")
    return length if length <= LARGEST_SHOWN else 0


async def _resolve_shown(tx: Snapshot, entry: EntryRow) -> None:
    """Put the values into an entry that the log leaves out, and its event shows."""
    for index, change in enumerate(entry.logged):
        if change.is_left_out and change.size <= LARGEST_SHOWN:
            await resolve_value(tx, entry, index)


async def find_chat_number(tx: Snapshot, chat_id: str) -> int | None:
    chat = await tx.find_any_chat(chat_id)
    return chat.number if chat is not None else None


def by_revision(entries: list[EntryRow]) -> list[Revision]:
    revisions: list[Revision] = []
    for entry in entries:
        if not revisions or revisions[-1].revision != entry.revision:
            revisions.append(Revision(entry.revision, []))
        revisions[-1].entries.append(entry)
    return revisions


def check_since(head: KnownRevision, since: KnownRevision) -> None:
    """Refuse a cursor of another incarnation, or one above the head."""
    if since.incarnation != head.incarnation:
        raise IncarnationEnded(current=head.tag)
    if since.revision > head.revision:
        raise RevisionUnknown(f"The latest revision is {head.revision}.", current=head.revision)


def wanted_events(revisions: list[Revision], wanted: Filter) -> list[FeedEvent]:
    """Return the events of these revisions for a reader; others are passed over."""
    events = [(revision, event_record(revision, wanted)) for revision in revisions]
    return [
        event
        for revision, event in events
        if event["changes"] or any(map(wanted.wants_chain, revision.entries))
    ]


def event_record(revision: Revision, wanted: Filter) -> FeedEvent:
    entries = revision.entries
    changes = [
        _change_record(entry, record)
        for entry in entries
        if wanted.wants_entry(entry)
        for record in entry.logged
        if wanted.wants(entry, record)
    ]
    chats = {entry.chat for entry in entries}
    anchors = {entry.place for entry in entries}
    first = entries[0]
    return {
        "revision": revision.revision,
        "at": first.time,
        "actor": first.shown_actor,
        # Given only if all changes share it; each change also has its own.
        "chatId": first.chat_id if len(chats) == 1 else None,
        "anchor": anchor_record(first) if len(anchors) == 1 else None,
        "changes": changes,
    }


def event_of_many(event: bytes, extension_id: str, cursor: bytes | None) -> bytes:
    """Return an event of one extension as readers of several get it: it says whose it is."""
    lines, _, fields = event.partition(b"data: {")
    name = lines[lines.index(b"event: ") :]
    id = b"" if cursor is None else b"id: %b\n" % cursor
    return b'%b%bdata: {"extensionId":"%b",%b' % (id, name, extension_id.encode(), fields)


def _change_record(entry: EntryRow, row: LoggedChange) -> FeedChange:
    record: FeedChange = {
        "instanceId": entry.id if entry.space == "instance" else None,
        "key": shown_key(entry.space, row.key),
        "op": row.op,
        # As it was when the change was made.
        "live": entry.effect != DORMANT,
        "chatId": entry.chat_id,
        "anchor": anchor_record(entry),
    }
    # One that is left out is too large to be shown.
    after = row.held
    if entry.space in ("series", "processed"):
        record["space"] = entry.space
    if entry.space == "character":
        record["characterId"] = entry.id
    elif entry.space == "instance" and not row.key:
        shape = orjson.loads(after or row.operand or "null")
        record["characterId"] = shape["characterId"]
        if after is not None:
            after = orjson.dumps(instance_record(shape, entry.chat_id)).decode()
    if entry.is_superseded:
        record["superseded"] = True
    if not entry.took_effect:
        record["value"] = orjson.Fragment(row.operand or "null")
    elif after is not None and _fits(after):
        record["after"] = orjson.Fragment(after)
    return record


def _fits(text: str) -> bool:
    # No character takes more than four bytes, so most need not be encoded to know.
    return 4 * len(text) <= LARGEST_SHOWN or len(text.encode()) <= LARGEST_SHOWN


def event_bytes(event: FeedEvent, incarnation: int = 0) -> bytes:
    # orjson writes one line, and line breaks inside strings are escaped.
    id = str(marked(event["revision"], incarnation)).encode()
    return b"id: %b\nevent: change\ndata: %b\n\n" % (id, orjson.dumps(event))


def notice_bytes(notices: list[Notice], wanted: Filter, extension_id: str | None = None) -> bytes:
    """Return the events of these notices; a reader of several extensions is told which it is."""
    of = {} if extension_id is None else {"extensionId": extension_id}
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (notice.name.encode(), orjson.dumps({**of, **notice.record}))
        for notice in notices
        if wanted.wants_notice(notice)
    )
