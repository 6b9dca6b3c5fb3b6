"""How changes of characters, instances and chats themselves are applied."""

from __future__ import annotations

from valuetracker.store.rows.characters import CharacterRow, MemberRow, member_sum
from valuetracker.store.rows.chats import AliasRow, ChatRow
from valuetracker.store.rows.entries import encode_change
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.tx.changes import (
    AddAlias,
    AddSpace,
    ChangeChat,
    DropCharacter,
    DropInstance,
    PutCharacter,
    PutInstance,
)
from valuetracker.store.tx.log_writer import LogWriter
from valuetracker.store.tx.touched import Touched


class ApplySubjects:
    """Applies changes of characters, instances and chats."""

    def __init__(self, reader: RowReader, log: LogWriter, touched: Touched) -> None:
        self._reader = reader
        self._cache = reader.cache
        self._log = log
        self._touched = touched

    # Characters

    async def put_character(self, change: PutCharacter, head: Head) -> None:
        row = await self._reader.find_any_character(change.id)
        present = row is not None and not row.deleted
        if row is None:
            row = CharacterRow(head.next_subject(), 0, change.id, None, "", "")
        if not present:
            head.characters += 1
            row.ordinal = head.next_ordinal()
        row.name = change.name
        row.created_at, row.updated_at = change.created_at, change.updated_at
        row.deleted = 0
        self._touched.character(row, head.revision)
        op = "update_character" if present else "create_character"
        entry = await self._log.entry_for(row, "character", None)
        entry.changes.append(encode_change("", op, 0, row.ordinal, row.text(), None))

    async def drop_character(self, change: DropCharacter, head: Head) -> None:
        row = await self._reader.find_character(change.id)
        assert row is not None
        head.characters -= 1
        row.deleted = 1
        self._touched.character(row, head.revision)
        entry = await self._log.entry_for(row, "character", None)
        entry.changes.append(encode_change("", "delete_character", 0, 0, None, None))

    async def _count_instances(self, character_id: str, more: int, revision: int) -> CharacterRow:
        # A character is read with its instances, so this is a change of it.
        character = await self._reader.find_any_character(character_id)
        assert character is not None
        character.instances += more
        self._touched.character(character, revision)
        return character

    # Instances

    async def put_instance(self, change: PutInstance, head: Head) -> None:
        # A keyframe that is due speaks of the instance as it has been until now.
        await self._log.close()
        row = await self._reader.find_any_instance(change.id)
        is_new = row is None
        present = row is not None and not row.deleted
        if row is None:
            row = HolderRow(
                head.next_subject(), 0, "instance", change.id, None, None, None, None, "", ""
            )
        if not present:
            head.instances += 1
            row.ordinal = head.next_ordinal()
        else:
            await self._leave(row, head.revision)
        row.deleted, row.shape_revision = 0, head.revision
        row.character_id, row.chat, row.name = change.character_id, change.chat, change.name
        row.origin = change.origin
        row.created_at, row.updated_at = change.created_at, change.updated_at
        chat = await self._reader.get_chat(change.chat) if change.chat is not None else None
        self._touched.holder(row, chat, head.revision)
        self._cache.restructured.add(row.number)
        character = await self._count_instances(change.character_id, +1, head.revision)
        await self._add_member(character, row, is_new)
        if chat is not None:
            chat.instances += 1
            await self._add_member(chat, row, is_new)
        entry = await self._log.entry_for(row, "instance", chat)
        op = "update_instance" if present else "create_instance"
        entry.changes.append(encode_change("", op, 0, row.ordinal, row.text(), None))

    async def _leave(self, row: HolderRow, revision: int) -> None:
        """Count an instance out of the character and chat it may be leaving."""
        assert row.character_id is not None
        await self._count_instances(row.character_id, -1, revision)
        if row.chat is not None:
            chat = await self._reader.get_chat(row.chat)
            chat.instances -= 1
            self._touched.chat(chat, revision)

    async def _add_member(
        self, parent: CharacterRow | ChatRow, holder: HolderRow, is_new: bool
    ) -> None:
        """Record that an instance belongs to a character or chat, if it never did before."""
        id = (parent.number, holder.number)
        if id in self._cache.members:
            return
        if not is_new and await self._reader.has_member(parent, holder):
            return
        parent.members ^= member_sum(holder.number)
        self._cache.members[id] = MemberRow(*id)

    async def drop_instance(self, change: DropInstance, head: Head) -> None:
        holder = change.holder
        if holder.deleted or holder.keys:
            raise RuntimeError("An instance that is deleted must be there, without values.")
        assert holder.character_id is not None
        head.instances -= 1
        chat = await self._reader.get_chat(holder.chat) if holder.chat is not None else None
        self._touched.holder(holder, chat, head.revision)
        self._cache.restructured.add(holder.number)
        await self._count_instances(holder.character_id, -1, head.revision)
        if chat is not None:
            chat.instances -= 1
        entry = await self._log.entry_for(holder, "instance", chat)
        entry.changes.append(encode_change("", "delete_instance", 0, 0, None, holder.text()))
        holder.deleted, holder.shape_revision, holder.chat = 1, head.revision, None

    # Chats

    async def change_chat(self, change: ChangeChat, head: Head) -> None:
        chat = change.chat
        await self._log.close()
        if change.op == "create_chat":
            head.chats += 1
        elif change.op == "delete_chat":
            head.chats -= 1
        self._cache.put_chat(chat)
        self._cache.restructured.add(chat.number)
        self._touched.chat(chat, head.revision)
        after = None if chat.deleted else chat.text()
        entry = await self._log.entry_for(chat, "chat", chat)
        entry.changes.append(encode_change("", change.op, 0, chat.ordinal, after, None))

    def add_space(self, change: AddSpace) -> None:
        self._cache.put_holder(change.holder)
        self._cache.restructured.add(change.holder.number)
        change.chat.add_space(change.holder.space)
        self._cache.chats.put(change.chat.number, change.chat)

    def add_alias(self, change: AddAlias, head: Head) -> None:
        alias = AliasRow(change.id, change.chat)
        alias.seal()
        head.aliases += 1
        self._cache.aliases.append(alias)
