"""
The log as it is written: changes of one subject at one place become one entry.

A `LogWriter` belongs to one group of writes. It collects entries and keyframes in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    EntryRow,
    KeyframeRow,
    first_of,
)
from valuetracker.store.rows.holders import HolderRow, digest_part
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row_cache import Subject
from valuetracker.store.tx.context import NO_CONTEXT, Context

# A keyframe is written after this many changes of a holder, or after as many as it has keys.
FRAME_CHANGES = 64


@dataclass(slots=True)
class OpenEntry:
    """The entry that is being written: encoded changes of one subject at one place."""

    subject: Subject
    space: str
    chat: ChatRow | None
    place: PlaceRow | None = None
    effect: int = 1
    changes: list[str] = field(default_factory=list)


class LogWriter:
    """The entries and keyframes of one group."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self._cache = reader.cache
        self._entries: list[EntryRow] = []
        self._keyframes: list[KeyframeRow] = []
        self._context = NO_CONTEXT
        self._now = ""
        # The entry that is being written.
        self.open: OpenEntry | None = None
        self._sequence = 0

    def begin(self, context: Context, now: str) -> None:
        """Begin a request: its entries are numbered from the first."""
        self._context = context
        self._now = now
        self._sequence = 0

    def take(self) -> tuple[list[EntryRow], list[KeyframeRow]]:
        """Return the rows collected since last asked."""
        taken = self._entries, self._keyframes
        self._entries, self._keyframes = [], []
        return taken

    async def entry_for(
        self,
        subject: Subject,
        space: str,
        chat: ChatRow | None,
        place: PlaceRow | None = None,
        effect: int = 1,
    ) -> OpenEntry:
        """Return the entry that changes of this subject at this place go into."""
        entry = self.open
        if (
            entry is None
            or entry.subject is not subject
            or entry.place is not place
            or entry.effect != effect
            or entry.chat is not chat
        ):
            await self.close()
            entry = self.open = OpenEntry(subject, space, chat, place, effect)
        return entry

    async def close(self) -> None:
        """End the entry that is open."""
        entry, self.open = self.open, None
        if entry is None:
            return
        subject = entry.subject
        if isinstance(subject, HolderRow) and is_frame_due(subject, len(entry.changes)):
            await self._reader.list_rows(subject)
        self.add(subject, entry.space, entry.changes, entry.chat, entry.place, entry.effect)

    def add(
        self,
        subject: Subject,
        space: str,
        changes: list[str],
        chat: ChatRow | None = None,
        place: PlaceRow | None = None,
        effect: int = 1,
    ) -> None:
        """
        Add a whole entry of a subject that has been touched.

        If a keyframe is due, all rows of the holder must be known.
        """
        head = self._cache.head
        assert head is not None
        number = first_of(head.revision) + self._sequence
        self._sequence += 1
        row = EntryRow(
            number, subject.number, self._now, self._context.actor, None, None, effect, 0, 0,
            head.last_entry, subject.last_entry, 0, BETWEEN_CHANGES.join(changes), 0, space,
            subject.id,
        )  # fmt: skip
        if chat is not None:
            row.chat, row.chat_id, row.prev_in_chat = chat.number, chat.id, chat.last_in_chat
            chat.last_in_chat = number
            self._cache.chats.put(chat.number, chat)
        if place is not None:
            row.place, row.anchor = place.place, place
            if place.chat:
                place.entries += 1
                self._cache.places.put(place.place, place)
        row.seal()
        head.last_entry = subject.last_entry = number
        self._entries.append(row)
        if effect and isinstance(subject, HolderRow):
            self._count_changes(subject, number, len(changes))

    def _count_changes(self, holder: HolderRow, entry: int, changes: int) -> None:
        """Count changes of a holder, and add a keyframe if one is due."""
        if not is_frame_due(holder, changes):
            holder.changes_since_keyframe += changes
            return
        holder.changes_since_keyframe = 0
        revisions = [
            (row.key, row.revision)
            for row in self._cache.values[holder.number].rows.values()
            if row is not None and row.value is not None
        ]
        digest = holder.digest
        if holder.shape_revision:
            revisions.append(("", holder.shape_revision))
            shape = holder.text() if not holder.deleted else None
            digest ^= digest_part(holder.number, "", shape)
        self._keyframes.append(KeyframeRow.of(holder.number, entry, revisions, digest))


def is_frame_due(holder: HolderRow, changes: int) -> bool:
    """True if so many more changes of a holder make a keyframe due."""
    count = holder.changes_since_keyframe + changes
    return count >= FRAME_CHANGES and count >= holder.keys
