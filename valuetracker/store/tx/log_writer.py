"""
The log as it is written: changes of one subject at one place become one entry.

A `LogWriter` belongs to one group of writes. It collects entries and keyframes in memory.
"""

from __future__ import annotations

from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    FLIPPABLE,
    EntryRow,
    KeyframeRow,
    entry_checksum,
    first_of,
    record_sum,
)
from valuetracker.store.rows.row_cache import WorkingSet
from valuetracker.store.rows.row_types import CharacterRow, ChatRow, HolderRow, PlaceRow
from valuetracker.store.tx.changes import NO_CONTEXT, Context

# After how many changes of a holder a keyframe is written, or after as many as it has keys.
FRAME_CHANGES = 64

Subject = CharacterRow | HolderRow | ChatRow


class OpenEntry:
    """The entry that is being written: changes of one subject at one place."""

    __slots__ = ("chat", "effect", "place", "records", "space", "subject")

    def __init__(
        self,
        subject: Subject,
        space: str,
        chat: ChatRow | None,
        place: PlaceRow | None,
        effect: int,
    ) -> None:
        self.subject = subject
        self.space = space
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
        subject: Subject,
        space: str,
        chat: ChatRow | None,
        place: PlaceRow | None = None,
        effect: int = 1,
    ) -> OpenEntry:
        """The entry that changes of this subject at this place go into."""
        entry = self._open
        if (
            entry is None
            or entry.subject is not subject
            or entry.place is not place
            or entry.effect != effect
            or entry.chat is not chat
        ):
            await self.close()
            entry = self._open = OpenEntry(subject, space, chat, place, effect)
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
        subject, chat, place = entry.subject, entry.chat, entry.place
        row = EntryRow(
            number, subject.number, self._now, self._context.actor,
            chat.number if chat is not None else None,
            place.place if place is not None else None,
            entry.effect, FLIPPABLE,
            prior=head.entry, before=subject.entry, earlier=chat.told if chat is not None else 0,
            changes=BETWEEN_CHANGES.join(entry.records),
            space=entry.space, id=subject.id, chat_id=chat.id if chat is not None else None,
        )  # fmt: skip
        row.seal()
        head.entry = subject.entry = number
        self._rows.put_subject(subject)
        if chat is not None:
            chat.told = number
            self._rows.chats.put(chat.number, chat)
        if place is not None:
            row.anchor = place
            if place.chat:
                place.entries += 1
                self._rows.places.put(place.place, place)
        self._entries.append(row)
        if isinstance(subject, HolderRow) and entry.effect:
            if is_frame_due(subject, len(entry.records)):
                await self._rows.list_rows(subject)
            self._framed(subject, number, len(entry.records))

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
        digest = holder.digest
        if holder.shaped:
            revisions.append(("", holder.shaped))
            shape = holder.text() if not holder.gone else None
            digest ^= record_sum(holder.number, "", shape)
        self._keyframes.append(KeyframeRow.of(holder.number, entry, revisions, digest))

    def add_plain(self, holder: HolderRow, revision: int, records: list[str]) -> None:
        """An entry by itself: unanchored changes of a holder that is in no chat."""
        head = self._rows.head
        assert head is not None
        number, subject = first_of(revision), holder.number
        prior, before = head.entry, holder.entry
        head.entry = holder.entry = number
        self._framed(holder, number, len(records))
        self._sequence = 1
        changes = BETWEEN_CHANGES.join(records)
        actor, now = self._context.actor, self._now
        checksum = entry_checksum(
            number, subject, now, actor, None, None, 1, FLIPPABLE, prior, before, 0, changes
        )
        row = EntryRow(
            number, subject, now, actor, None, None, 1, FLIPPABLE, prior, before, 0, changes,
            checksum, holder.space, holder.id,
        )  # fmt: skip
        self._entries.append(row)


def is_frame_due(holder: HolderRow, changes: int) -> bool:
    unframed = holder.unframed + changes
    return unframed >= FRAME_CHANGES and unframed >= holder.keys
