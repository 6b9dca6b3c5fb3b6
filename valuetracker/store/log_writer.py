"""
The log as it is written: changes of one subject at one place become one entry.

A `LogWriter` belongs to one group of writes. It collects entries and keyframes in memory.
"""

from __future__ import annotations

from valuetracker.store.changes import NO_CONTEXT, Context
from valuetracker.store.entries import (
    BETWEEN_CHANGES,
    FLIPPABLE,
    EntryRow,
    KeyframeRow,
    entry_checksum,
    first_of,
)
from valuetracker.store.rows import ChatRow, HolderRow, PlaceRow
from valuetracker.store.working import WorkingSet

# After how many changes of a holder a keyframe is written, or after as many as it has keys.
FRAME_CHANGES = 64


class OpenEntry:
    """The entry that is being written: changes of one subject at one place."""

    __slots__ = ("chat", "effect", "holder", "id", "place", "records", "space", "subject")

    def __init__(
        self,
        subject: int,
        space: str,
        id: str,
        holder: HolderRow | None,
        chat: ChatRow | None,
        place: PlaceRow | None,
        effect: int,
    ) -> None:
        self.subject = subject
        self.space = space
        self.id = id
        self.holder = holder
        self.chat = chat
        self.place = place
        self.effect = effect
        self.records: list[str] = []


class LogWriter:
    """The entries of one group, as they are made."""

    def __init__(self, rows: WorkingSet) -> None:
        self._rows = rows
        self._entries: list[EntryRow] = []
        self._keyframes: list[KeyframeRow] = []
        self._context = NO_CONTEXT
        self._now = ""
        self._open: OpenEntry | None = None
        self._sequence = 0

    def begin(self, context: Context, now: str) -> None:
        """A new request: its entries are numbered from the beginning."""
        self._context = context
        self._now = now
        self._sequence = 0

    @property
    def is_open(self) -> bool:
        """Whether an entry is being written."""
        return self._open is not None

    def take(self) -> tuple[list[EntryRow], list[KeyframeRow]]:
        """The rows of the log collected since last asked."""
        taken = self._entries, self._keyframes
        self._entries, self._keyframes = [], []
        return taken

    async def enter(
        self,
        subject: int,
        space: str,
        id: str,
        holder: HolderRow | None,
        chat: ChatRow | None,
        place: PlaceRow | None = None,
        effect: int = 1,
    ) -> OpenEntry:
        """The entry that changes of this subject at this place go into."""
        entry = self._open
        if (
            entry is None
            or entry.subject != subject
            or entry.place is not place
            or entry.effect != effect
            or entry.chat is not chat
        ):
            await self.close()
            entry = self._open = OpenEntry(subject, space, id, holder, chat, place, effect)
        return entry

    async def close(self) -> None:
        """Write down the entry that is open."""
        entry, self._open = self._open, None
        if entry is None:
            return
        head = self._rows.head
        assert head is not None
        number = first_of(head.revision) + self._sequence
        self._sequence += 1
        chat = entry.chat.number if entry.chat is not None else None
        place = entry.place
        anchor = place.place if place is not None else None
        changes = BETWEEN_CHANGES.join(entry.records)
        actor = self._context.actor
        row = EntryRow(
            number, entry.subject, self._now, actor, chat, anchor, entry.effect, FLIPPABLE, changes,
            entry_checksum(
                number, entry.subject, self._now, actor, chat, anchor, entry.effect, FLIPPABLE,
                changes,
            ),
            entry.space, entry.id, entry.chat.id if entry.chat is not None else None,
        )  # fmt: skip
        if place is not None:
            row.anchor_chat, row.position = place.chat, place.position
            row.message_id, row.swipe = place.message_id, place.swipe
        self._entries.append(row)
        holder = entry.holder
        if holder is not None and entry.effect:
            if is_frame_due(holder, len(entry.records)):
                await self._rows.list_rows(holder)
            self._framed(holder, number, len(entry.records))

    def _framed(self, holder: HolderRow, entry: int, changes: int) -> None:
        """Count changes of a holder, and write a keyframe if one is due."""
        if not is_frame_due(holder, changes):
            holder.unframed += changes
            return
        holder.unframed = 0
        revisions = [
            (row.key, row.revision)
            for row in self._rows.values[holder.number].rows.values()
            if row is not None and row.value is not None
        ]
        if holder.shaped:
            revisions.append(("", holder.shaped))
        self._keyframes.append(KeyframeRow.of(holder.number, entry, revisions))

    def add_plain(self, holder: HolderRow, revision: int, records: list[str]) -> None:
        """An entry by itself: unanchored changes of a holder that is in no chat."""
        number, subject = first_of(revision), holder.number
        self._framed(holder, number, len(records))
        self._sequence = 1
        changes = BETWEEN_CHANGES.join(records)
        actor, now = self._context.actor, self._now
        checksum = entry_checksum(number, subject, now, actor, None, None, 1, FLIPPABLE, changes)
        row = EntryRow(
            number, subject, now, actor, None, None, 1, FLIPPABLE, changes, checksum,
            holder.space, holder.id,
        )  # fmt: skip
        self._entries.append(row)


def is_frame_due(holder: HolderRow, changes: int) -> bool:
    unframed = holder.unframed + changes
    return unframed >= FRAME_CHANGES and unframed >= holder.keys
