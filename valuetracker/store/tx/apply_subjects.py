"""
How characters, instances and chats themselves come, change and go.

The rows of the working set become what the change says, what was touched is noted, and the
log is told. What happens to values is in `journal`, which is built on this.
"""

from __future__ import annotations

from valuetracker.store.rows.entries import encode_record
from valuetracker.store.rows.row_cache import WorkingSet
from valuetracker.store.rows.row_types import CharacterRow, ChatRow, Head, HolderRow
from valuetracker.store.rows.tags import EVERYTHING, Tag, character_tag, chat_tag, holder_tag
from valuetracker.store.tx.changes import (
    Change,
    ChangeChain,
    ChangeChat,
    DropCharacter,
    DropInstance,
    PutCharacter,
    PutInstance,
)
from valuetracker.store.tx.log_writer import LogWriter


class Shapes:
    """Changes of things themselves."""

    def __init__(self, rows: WorkingSet) -> None:
        self._rows = rows
        self._log = LogWriter(rows)
        # What the changes have touched.
        self.tags: set[Tag] = {EVERYTHING}

    async def _reshape(self, change: Change, head: Head) -> None:
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
            await self._log.enter(change.chat, "chat", change.chat)
        else:
            raise TypeError(f"There is no such change: {change!r}")

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

    # Characters

    async def _put_character(self, change: PutCharacter, head: Head) -> None:
        old = await self._rows.find_character(change.id)
        present = old is not None and not old.gone
        if not present:
            head.characters += 1
        row = old
        if row is None:
            row = CharacterRow(head.next_subject(), 0, change.id, None, "", "")
        if not present:
            row.place = head.next_place()
        row.name, row.created_at, row.updated_at = (
            change.name,
            change.created_at,
            change.updated_at,
        )
        row.gone, row.revision = 0, head.revision
        self._rows.characters.put(change.id, row)
        self.tags.add(character_tag(change.id))
        op = "update_character" if present else "create_character"
        entry = await self._log.enter(row, "character", None)
        entry.records.append(encode_record("", op, 0, row.place, row.text(), None))

    async def _drop_character(self, change: DropCharacter, head: Head) -> None:
        row = await self._rows.find_character(change.id)
        assert row is not None
        assert not row.gone
        head.characters -= 1
        row.gone, row.revision = 1, head.revision
        self._rows.characters.put(row.id, row)
        self.tags.add(character_tag(row.id))
        entry = await self._log.enter(row, "character", None)
        entry.records.append(encode_record("", "delete_character", 0, 0, None, None))

    async def _touch_character(self, character_id: str, revision: int, more: int) -> CharacterRow:
        # Its list of instances changed, which is a change of what is read as one.
        self.tags.add(character_tag(character_id))
        character = await self._rows.find_character(character_id)
        assert character is not None
        character.instances += more
        character.revision = revision
        self._rows.characters.put(character_id, character)
        return character

    # Instances

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        # A keyframe that is due speaks of the shape it has had until now.
        await self._log.close()
        old = await self._rows.find_holder("instance", change.id)
        present = old is not None and not old.gone
        if not present:
            head.instances += 1
        elif old is not None and old.character_id is not None:
            # It may be leaving this character for another, and this chat.
            await self._touch_character(old.character_id, head.revision, -1)
            if old.chat is not None:
                left = await self._rows.get_chat(old.chat)
                left.instances -= 1
                self.touch_chat(left, head.revision)
        row = old
        if row is None:
            row = HolderRow(
                head.next_subject(), 0, "instance", change.id, None, None, None, None, "", ""
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
        chat = await self._rows.get_chat(change.chat) if change.chat is not None else None
        self._touch_holder(row, chat, head.revision)
        self._rows.restructured.add(row.number)
        character = await self._touch_character(change.character_id, head.revision, +1)
        await self._rows.add_member(character, row, old is None)
        if chat is not None:
            chat.instances += 1
            await self._rows.add_member(chat, row, old is None)
        entry = await self._log.enter(row, "instance", chat)
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
        if chat is not None:
            chat.instances -= 1
        entry = await self._log.enter(holder, "instance", chat)
        text = encode_record("", "delete_instance", 0, 0, None, holder.text())
        entry.records.append(text)
        holder.gone, holder.shaped, holder.chat = 1, head.revision, None

    # Chats

    async def _change_chat(self, change: ChangeChat, head: Head) -> None:
        chat = change.chat
        await self._log.close()
        self._rows.put_chat(chat)
        self._rows.restructured.add(chat.number)
        self.touch_chat(chat, head.revision)
        after = None if chat.gone else chat.text()
        entry = await self._log.enter(chat, "chat", chat)
        entry.records.append(encode_record("", change.op, 0, chat.place, after, None))
