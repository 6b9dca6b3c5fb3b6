"""
What changes do to the rows and leave in the log: one place for both.

A `Journal` belongs to one group of writes. It brings the rows of the working set to what
the changes make of them and collects the entries of the log and what was touched, all in
memory. Changes of one holder at one place become one entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from valuetracker.store.changes import (
    NO_CONTEXT,
    Anchor,
    Change,
    ChangeChain,
    ChangeChat,
    Context,
    DropCharacter,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
    SetValue,
)
from valuetracker.store.entries import (
    BETWEEN_CHANGES,
    DERIVED,
    FLIPPABLE,
    EntryRow,
    KeyframeRow,
    encode_name,
    encode_record,
    entry_checksum,
    first_of,
)
from valuetracker.store.rows import (
    CharacterRow,
    ChatRow,
    DataRow,
    Head,
    HolderRow,
    MemberRow,
    PlaceRow,
    content_sum,
    history_sum,
)
from valuetracker.store.tables import Table
from valuetracker.store.tags import EVERYTHING, Tag, character_tag, chat_tag, holder_tag
from valuetracker.store.working import WorkingSet

# After how many changes of a holder a keyframe is written, or after as many as it has keys.
FRAME_CHANGES = 64

ValueChange = SetValue | RemoveValue


class _OpenEntry:
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


class Journal:
    """The changes of one group, as they are made."""

    def __init__(self, rows: WorkingSet) -> None:
        self._rows = rows
        self._entries: list[EntryRow] = []
        self._keyframes: list[KeyframeRow] = []
        self._context = NO_CONTEXT
        self._chat: ChatRow | None = None
        self._now = ""
        self._open: _OpenEntry | None = None
        self._sequence = 0
        # What the changes have touched; None once that is not known.
        self.tags: set[Tag] = {EVERYTHING}
        # Whether all changes of the request took effect.
        self.live = True
        # Whether it has changed any value, or asked to.
        self.logged = False

    def begin(self, context: Context, now: str) -> None:
        """A new request: its entries are numbered from the beginning."""
        self._context = context
        self._chat = None
        self._now = now
        self._sequence = 0
        self.live = True
        self.logged = False

    def take(self) -> tuple[list[EntryRow], list[KeyframeRow]]:
        """The rows of the log collected since last asked."""
        taken = self._entries, self._keyframes
        self._entries, self._keyframes = [], []
        return taken

    async def record(self, changes: Sequence[Change], head: Head, chat: ChatRow | None) -> None:
        """
        Make these changes part of the head's revision.

        `chat` is the one the request says it is in, for what belongs to none itself.
        """
        self._chat = chat
        await self._load_for(changes)
        for where, run in groupby(changes, _where):
            if where is not None:
                await self._change_values(*where, cast(Iterable[ValueChange], run), head)
                continue
            for change in run:
                await self._apply_one(change, head)

    async def _load_for(self, changes: Sequence[Change]) -> None:
        """The rows the changes are about, as far as their verb has not loaded them."""
        tables = self._rows.values
        missing: list[tuple[int, str]] = []
        for change in changes:
            if isinstance(change, SetValue | RemoveValue):
                number = change.holder.number
                table = tables.get(number)
                if table is None or change.key not in table.rows:
                    missing.append((number, change.key))
        if missing:
            await self._rows.load_values(missing)

    async def _apply_one(self, change: Change, head: Head) -> None:
        if isinstance(change, PutInstance):
            await self._put_instance(change, head)
        elif isinstance(change, DropInstance):
            await self._drop_instance(change.holder, head)
        elif isinstance(change, PutCharacter):
            await self._put_character(change, head)
        elif isinstance(change, DropCharacter):
            await self._drop_character(change, head)
        elif isinstance(change, ChangeChat):
            await self._change_chat(change, head)
        elif isinstance(change, ChangeChain):
            self.touch_chat(change.chat, head.revision)
            await self._enter(change.chat.number, "chat", change.chat.id, None, change.chat)
        else:
            raise TypeError(f"There is no such change: {change!r}")

    # Entries

    async def _enter(
        self,
        subject: int,
        space: str,
        id: str,
        holder: HolderRow | None,
        chat: ChatRow | None,
        place: PlaceRow | None = None,
        effect: int = 1,
    ) -> _OpenEntry:
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
            entry = self._open = _OpenEntry(subject, space, id, holder, chat, place, effect)
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
            if _is_frame_due(holder, len(entry.records)):
                await self._rows.list_rows(holder)
            self._framed(holder, number, len(entry.records))

    def _framed(self, holder: HolderRow, entry: int, changes: int) -> None:
        """Count changes of a holder, and write a keyframe if one is due."""
        if not _is_frame_due(holder, changes):
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

    # Values

    async def _change_values(
        self, number: int, anchor: Anchor | None, changes: Iterable[ValueChange], head: Head
    ) -> None:
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys of a holder is done once, and nothing is called that need not be.
        changes = list(changes)
        holder = changes[0].holder
        chat = self._chat
        if holder.chat is not None:
            chat = await self._rows.get_chat(holder.chat)
        place = None
        flippable = False
        if anchor is not None:
            place = await self._place(chat, anchor, head.revision)
            flippable = bool(place.chat)
            if flippable and place.position is None:
                await self._store_dormant(holder, chat, place, changes, head)
                return
        entry = await self._enter(number, holder.space, holder.id, holder, chat, place)
        self._touch_holder(holder, chat, head.revision)
        table = self._rows.values[number]
        rows, revision = table.rows, head.revision
        tags, records, space, id = self.tags, entry.records, holder.space, holder.id
        weight = 0
        for change in changes:
            key, op, operand = change.key, change.op, change.operand
            if op not in DERIVED:
                self.logged = True
            value = change.after if isinstance(change, SetValue) else None
            old = rows[key]
            previous = place_of_row = anchored = 0
            if old is not None:
                previous, anchored = old.last, old.anchored
                if old.value is not None:
                    holder.digest ^= old.content
                    holder.keys -= 1
                    head.keys -= 1
                    place_of_row = old.place
            if flippable:
                anchored = 1
            if value is None:
                place_of_row = 0
            elif not place_of_row:
                place_of_row = head.next_place()
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(place_of_row, revision, revision, anchored)
            if value is not None:
                holder.digest ^= content
                holder.keys += 1
                head.keys += 1
                weight += len(value)
            table.put(
                key,
                DataRow(
                    number,
                    key,
                    value,
                    place_of_row,
                    revision,
                    revision,
                    anchored,
                    checksum,
                    content,
                ),
            )
            tags.add((space, id, key))
            records.append(encode_record(key, op, previous, place_of_row, value, operand))
        self._rows.values_touched(number, weight)

    def can_set_plainly(
        self, holder: HolderRow, table: Table[str, DataRow], values: dict[str, str]
    ) -> bool:
        """Whether all rows it takes are known."""
        if _is_frame_due(holder, len(values)) and not self._rows.is_complete(holder.number):
            return False
        rows = table.rows
        return all(key in rows for key in values)

    def set_plainly(
        self,
        holder: HolderRow,
        table: Table[str, DataRow],
        values: dict[str, str],
        head: Head,
    ) -> None:
        """The same as changing values, for an entry of nothing but unanchored sets."""
        number, revision = holder.number, head.revision
        space, id, tags, rows = holder.space, holder.id, self.tags, table.rows
        records: list[str] = []
        digest = holder.digest
        weight = 0
        for key, value in values.items():
            old = rows[key]
            previous = place = anchored = 0
            if old is not None:
                previous, anchored, place = old.last, old.anchored, old.place
                if old.value is not None:
                    digest ^= old.content
            if not place:
                place = head.next_place()
                holder.keys += 1
                head.keys += 1
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(place, revision, revision, anchored)
            digest ^= content
            weight += len(value)
            table.put(
                key,
                DataRow(number, key, value, place, revision, revision, anchored, checksum, content),
            )
            tags.add((space, id, key))
            records.append(f"{encode_name(key)}\x1fset\x1f{previous}\x1f{place}\x1f{value}\x1f")
        holder.digest = digest
        self.logged = True
        self._touch_holder(holder, None, revision)
        self._rows.values_touched(number, weight)
        entry = first_of(revision)
        self._framed(holder, entry, len(records))
        self._sequence = 1
        changes = BETWEEN_CHANGES.join(records)
        actor, now = self._context.actor, self._now
        checksum = entry_checksum(entry, number, now, actor, None, None, 1, FLIPPABLE, changes)
        self._entries.append(
            EntryRow(
                entry, number, now, actor, None, None, 1, FLIPPABLE, changes, checksum, space, id
            )
        )

    async def _store_dormant(
        self,
        holder: HolderRow,
        chat: ChatRow | None,
        place: PlaceRow,
        changes: Iterable[ValueChange],
        head: Head,
    ) -> None:
        """Keep what was asked for at a hidden place; no value changes."""
        self.live = False
        self.logged = True
        entry = await self._enter(
            holder.number, holder.space, holder.id, holder, chat, place, effect=0
        )
        table = self._rows.values[holder.number]
        for change in changes:
            key = change.key
            operand = change.operand
            if operand is None and isinstance(change, SetValue):
                operand = change.after
            old = table.rows[key]
            if old is None:
                old = DataRow(holder.number, key, None, 0, 0, 0, 1)
            entry.records.append(encode_record(key, change.op, old.last, 0, None, operand))
            row = DataRow(holder.number, key, old.value, old.place, old.revision, head.revision, 1)
            row.seal()
            table.put(key, row)
        self._rows.values_touched(holder.number)
        self._rows.put_holder(holder)

    def _touch_holder(self, holder: HolderRow, chat: ChatRow | None, revision: int) -> None:
        if holder.chat is not None and chat is not None:
            self.touch_chat(chat, revision)
        id = (holder.space, holder.id)
        if holder.revision != revision or not self._rows.holders.is_touched(id):
            holder.revision = revision
            self._rows.put_holder(holder)
            self.tags.add(holder_tag(*id))
            if holder.character_id is not None:
                self.tags.add(character_tag(holder.character_id))

    def touch_chat(self, chat: ChatRow, revision: int) -> None:
        if chat.revision != revision or not self._rows.chats.is_touched(chat.number):
            chat.revision = revision
            self._rows.chats.put(chat.number, chat)
            self.tags.add(chat_tag(chat.number))

    # Places

    async def _place(self, chat: ChatRow | None, anchor: Anchor, revision: int) -> PlaceRow:
        """The place a change is anchored to, which must have been seen before."""
        if chat is None:
            place = await self._rows.find_lone_place(anchor.message_id, anchor.swipe)
        else:
            chain = await self._rows.load_chain(chat.number)
            place = chain.places.get((anchor.message_id, anchor.swipe))
        if place is None:
            raise RuntimeError("A change was made at a place that nobody has seen.")
        if not place.written or place.hash is not None:
            place.written = place.written or revision
            place.hash = None
            self._rows.places.put(place.place, place)
        return place

    # Characters

    async def _put_character(self, change: PutCharacter, head: Head) -> None:
        old = await self._rows.find_character(change.id)
        present = old is not None and not old.gone
        if not present:
            head.characters += 1
        row = CharacterRow(
            head.next_number() if old is None else old.number,
            old.place if old is not None and present else head.next_place(),
            change.id,
            change.name,
            change.created_at,
            change.updated_at,
            0 if old is None else old.instances,
            0,
            head.revision,
        )
        row.seal()
        self._rows.characters.put(change.id, row)
        self.tags.add(character_tag(change.id))
        op = "update_character" if present else "create_character"
        entry = await self._enter(row.number, "character", row.id, None, None)
        entry.records.append(encode_record("", op, 0, row.place, row.text(), None))

    async def _drop_character(self, change: DropCharacter, head: Head) -> None:
        row = await self._rows.find_character(change.id)
        assert row is not None
        assert not row.gone
        head.characters -= 1
        row.gone, row.revision = 1, head.revision
        row.seal()
        self._rows.characters.put(row.id, row)
        self.tags.add(character_tag(row.id))
        entry = await self._enter(row.number, "character", row.id, None, None)
        entry.records.append(encode_record("", "delete_character", 0, 0, None, None))

    async def _touch_character(self, character_id: str, revision: int, more: int) -> CharacterRow:
        # Its list of instances changed, which is a change of what is read as one.
        self.tags.add(character_tag(character_id))
        character = await self._rows.find_character(character_id)
        assert character is not None
        character.instances += more
        character.revision = revision
        character.seal()
        self._rows.characters.put(character_id, character)
        return character

    # Instances

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        old = await self._rows.find_holder("instance", change.id)
        present = old is not None and not old.gone
        if not present:
            head.instances += 1
        elif old is not None and old.character_id is not None:
            # It may be leaving this character for another, and this chat.
            await self._touch_character(old.character_id, head.revision, -1)
            if old.chat is not None and old.chat != change.chat:
                self.touch_chat(await self._rows.get_chat(old.chat), head.revision)
        row = old
        if row is None:
            row = HolderRow(
                head.next_number(), 0, "instance", change.id, None, None, None, None, "", ""
            )
        if not present:
            row.place = head.next_place()
        row.gone, row.shaped = 0, head.revision
        row.character_id, row.chat, row.name = change.character_id, change.chat, change.name
        row.origin, row.created_at, row.updated_at = (
            change.origin,
            change.created_at,
            change.updated_at,
        )
        await self.close()
        chat = await self._rows.get_chat(change.chat) if change.chat is not None else None
        self._touch_holder(row, chat, head.revision)
        self._rows.restructured.add(row.number)
        character = await self._touch_character(change.character_id, head.revision, +1)
        self._rows.members.append(MemberRow(character.number, row.number))
        if chat is not None:
            self._rows.members.append(MemberRow(chat.number, row.number))
        entry = await self._enter(row.number, "instance", row.id, row, chat)
        op = "update_instance" if present else "create_instance"
        entry.records.append(encode_record("", op, 0, row.place, row.text(), None))

    async def _drop_instance(self, holder: HolderRow, head: Head) -> None:
        if holder.gone or holder.keys:
            raise RuntimeError("An instance was dropped that still has values, or is not there.")
        assert holder.character_id is not None
        head.instances -= 1
        chat = await self._rows.get_chat(holder.chat) if holder.chat is not None else None
        self._touch_holder(holder, chat, head.revision)
        self._rows.restructured.add(holder.number)
        await self._touch_character(holder.character_id, head.revision, -1)
        entry = await self._enter(holder.number, "instance", holder.id, holder, chat)
        text = encode_record("", "delete_instance", 0, 0, None, holder.text())
        entry.records.append(text)
        holder.gone, holder.shaped, holder.chat = 1, head.revision, None

    # Chats

    async def _change_chat(self, change: ChangeChat, head: Head) -> None:
        chat = change.chat
        await self.close()
        self._rows.put_chat(chat)
        self._rows.restructured.add(chat.number)
        self.touch_chat(chat, head.revision)
        after = None if chat.gone else chat.text()
        entry = await self._enter(chat.number, "chat", chat.id, None, chat)
        entry.records.append(encode_record("", change.op, 0, chat.place, after, None))


def _is_frame_due(holder: HolderRow, changes: int) -> bool:
    unframed = holder.unframed + changes
    return unframed >= FRAME_CHANGES and unframed >= holder.keys


def _where(change: Change) -> tuple[int, Anchor | None] | None:
    """The holder a value is changed in, and the anchor; None for any other change."""
    if isinstance(change, SetValue | RemoveValue):
        return change.holder.number, change.anchor
    return None
