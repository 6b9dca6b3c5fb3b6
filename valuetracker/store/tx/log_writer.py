"""
The log as it is written: changes of one subject at one place become one entry.

A `LogWriter` belongs to one group of writes. It collects entries and keyframes in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    IN_ORDER,
    USUAL_ACTOR,
    EntryRow,
    KeyframeRow,
    encode_change,
)
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row_cache import Subject
from valuetracker.store.tx.context import Context

# A keyframe is written after this many changes of a holder, or after as many as it has keys.
FRAME_CHANGES = 64


@dataclass(slots=True)
class OpenEntry:
    """The entry that is being written: encoded changes of one subject at one place."""

    number: int
    subject: Subject
    space: str
    chat: ChatRow | None
    place: PlaceRow | None = None
    effect: int = IN_ORDER
    stands: int | None = None
    changes: list[str] = field(default_factory=list)
    # Values that the changes may leave out, by their index, if the feed shows them.
    known: dict[int, str] = field(default_factory=dict)

    def add_shape(
        self,
        op: str,
        ordinal: int,
        after: str | None,
        operand: str | None = None,
        previous: int = 0,
    ) -> None:
        """Add a change of the subject itself."""
        self.changes.append(encode_change(self.number, "", op, previous, ordinal, after, operand))


class LogWriter:
    """The entries and keyframes of one group."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self._cache = reader.cache
        self._entries: list[EntryRow] = []
        self._keyframes: list[KeyframeRow] = []
        self._actor: str | None = None
        self._now = 0
        # The entry that is being written.
        self.open: OpenEntry | None = None
        self._sequence = 0

    def begin(self, context: Context, now: int) -> None:
        """Begin a request: its entries are numbered from the first."""
        self._actor = context.actor if context.actor != USUAL_ACTOR else None
        self._now = now
        self._sequence = 0

    def take(self) -> tuple[list[EntryRow], list[KeyframeRow]]:
        """Return the rows collected since last asked."""
        taken = self._entries, self._keyframes
        self._entries, self._keyframes = [], []
        return taken

    def next_number(self) -> int:
        """Return the number of a new entry."""
        head = self._cache.head
        assert head is not None
        number = first_of(head.revision) + self._sequence
        self._sequence += 1
        return number

    async def entry_for(
        self,
        subject: Subject,
        space: str,
        chat: ChatRow | None,
        place: PlaceRow | None = None,
        effect: int = IN_ORDER,
        stands: int | None = None,
    ) -> OpenEntry:
        """Return the entry that changes of this subject at this place go into."""
        entry = self.open
        if (
            entry is None
            or entry.subject is not subject
            or entry.place is not place
            or entry.effect != effect
            or entry.stands != stands
            or entry.chat is not chat
        ):
            await self.close()
            number = self.next_number()
            entry = self.open = OpenEntry(number, subject, space, chat, place, effect, stands)
        return entry

    async def close(self) -> None:
        """End the entry that is open."""
        entry, self.open = self.open, None
        if entry is None:
            return
        subject = entry.subject
        if isinstance(subject, HolderRow) and is_frame_due(subject, len(entry.changes)):
            await self._reader.list_rows(subject)
        row = self.add(
            entry.number, subject, entry.space, entry.changes,
            entry.chat, entry.place, entry.effect, entry.stands,
        )  # fmt: skip
        row.known = entry.known or None

    def add(
        self,
        number: int,
        subject: Subject,
        space: str,
        changes: list[str],
        chat: ChatRow | None = None,
        place: PlaceRow | None = None,
        effect: int = IN_ORDER,
        stands: int | None = None,
    ) -> EntryRow:
        """
        Add a whole entry of a subject that has been touched.

        If a keyframe is due, all rows of the holder must be known.
        """
        last = subject.last_entry
        row = EntryRow(
            number, subject.number, self._now, self._actor, None, None, stands, effect, 0, 0,
            number - last if last else 0, BETWEEN_CHANGES.join(changes), 0, space, subject.id,
        )  # fmt: skip
        if chat is not None:
            row.chat, row.chat_id = chat.number, chat.id
        if place is not None:
            row.place, row.anchor = place.place, place
        row.seal()
        subject.last_entry = number
        self._entries.append(row)
        if isinstance(subject, HolderRow):
            self._count_changes(subject, number, len(changes))
        return row

    def _count_changes(self, holder: HolderRow, entry: int, changes: int) -> None:
        """Count changes of a holder, and add a keyframe if one is due."""
        if not is_frame_due(holder, changes):
            holder.changes_since_keyframe += changes
            return
        holder.changes_since_keyframe = 0
        entries = [
            (row.key, row.entry)
            for row in self._cache.values[holder.number].rows.values()
            if row is not None and row.value is not None
        ]
        if holder.shape_entry:
            entries.append(("", holder.shape_entry))
        self._keyframes.append(KeyframeRow.of(holder.number, entry, entries))


def is_frame_due(holder: HolderRow, changes: int) -> bool:
    """True if so many more changes of a holder make a keyframe due."""
    count = holder.changes_since_keyframe + changes
    return count >= FRAME_CHANGES and count >= holder.keys
