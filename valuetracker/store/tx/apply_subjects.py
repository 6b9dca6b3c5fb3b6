"""How changes of characters, instances and chats themselves are applied."""

from __future__ import annotations

from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow
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
            row = CharacterRow(head.next_number(), 0, change.id, None, "", "")
        if not present:
            head.characters += 1
            row.ordinal = head.next_ordinal()
        row.name = change.name
        row.created_at, row.updated_at = change.created_at, change.updated_at
        row.deleted = 0
        self._touched.character(row, head.revision)
        op = "update_character" if present else "create_character"
        entry = await self._log.entry_for(row, "character", None)
        entry.add_shape(op, row.ordinal, row.text())

    async def drop_character(self, change: DropCharacter, head: Head) -> None:
        row = await self._reader.find_character(change.id)
        assert row is not None
        head.characters -= 1
        row.deleted = 1
        self._touched.character(row, head.revision)
        entry = await self._log.entry_for(row, "character", None)
        entry.add_shape("delete_character", 0, None)

    async def _touch_character(self, character_id: str, revision: int) -> CharacterRow:
        """Touch a character whose instances change: it is read with them."""
        character = await self._reader.find_any_character(character_id)
        assert character is not None
        self._touched.character(character, revision)
        return character

    # Instances

    async def put_instance(self, change: PutInstance, head: Head) -> None:
        # A keyframe that is due speaks of the instance as it has been until now.
        await self._log.close()
        row = await self._reader.find_any_instance(change.id)
        is_new = row is None
        present = row is not None and not row.deleted
        # One that comes to a chat later than it was created counts from the beginning there.
        is_bound = row is not None and present and row.chat != change.chat
        if row is None:
            row = HolderRow(
                head.next_number(), 0, "instance", change.id, None, None, None, None, "", ""
            )
        if not present:
            head.instances += 1
            row.ordinal = head.next_ordinal()
        else:
            await self._leave(row, head.revision)
        row.deleted = 0
        row.character_id, row.chat, row.name = change.character_id, change.chat, change.name
        row.origin = change.origin
        row.created_at, row.updated_at = change.created_at, change.updated_at
        chat = await self._reader.get_chat(change.chat) if change.chat is not None else None
        self._touched.instance(row, chat, head.revision)
        character = await self._touch_character(change.character_id, head.revision)
        await self._add_member(character, row, is_new)
        if chat is not None:
            await self._add_member(chat, row, is_new)
        stands = None if is_bound else await self._last_place(change.chat)
        entry = await self._log.entry_for(row, "instance", chat, stands=stands)
        op = "update_instance" if present else "create_instance"
        entry.add_shape(op, row.ordinal, row.text(), previous=change.former or row.shape_entry)
        row.shape_entry = entry.number

    async def _last_place(self, chat: int | None) -> int | None:
        """Return the last visible place of a chat: what happens now stands there."""
        last = (await self._reader.load_chain(chat)).last() if chat is not None else None
        return last.place if last is not None else None

    async def _leave(self, row: HolderRow, revision: int) -> None:
        """Touch the character and chat an instance may be leaving."""
        assert row.character_id is not None
        await self._touch_character(row.character_id, revision)
        if row.chat is not None:
            self._touched.chat(await self._reader.get_chat(row.chat), revision)

    async def _add_member(
        self, parent: CharacterRow | ChatRow, holder: HolderRow, is_new: bool
    ) -> None:
        """Record that an instance belongs to a character or chat, if it never did before."""
        id = (parent.number, holder.number)
        if id in self._cache.members:
            return
        if not is_new and await self._reader.has_member(parent, holder):
            return
        member = self._cache.members[id] = MemberRow(*id)
        member.seal()

    async def drop_instance(self, change: DropInstance, head: Head) -> None:
        holder = change.holder
        if holder.deleted or holder.keys:
            raise RuntimeError("An instance that is deleted must be there, without values.")
        assert holder.character_id is not None
        head.instances -= 1
        chat = await self._reader.get_chat(holder.chat) if holder.chat is not None else None
        self._touched.instance(holder, chat, head.revision)
        await self._touch_character(holder.character_id, head.revision)
        stands = await self._last_place(holder.chat)
        entry = await self._log.entry_for(holder, "instance", chat, stands=stands)
        entry.add_shape("delete_instance", 0, None, holder.text(), holder.shape_entry)
        holder.deleted, holder.shape_entry, holder.chat = 1, entry.number, None

    # Chats

    async def change_chat(self, change: ChangeChat, head: Head) -> None:
        chat = change.chat
        await self._log.close()
        self._cache.put_chat(chat)
        self._cache.restructured.add(chat.number)
        self._touched.chat(chat, head.revision)
        after = None if chat.deleted else chat.text()
        entry = await self._log.entry_for(chat, "chat", chat)
        entry.add_shape(change.op, chat.ordinal, after)

    def add_space(self, change: AddSpace) -> None:
        self._cache.put_holder(change.holder)
        self._cache.restructured.add(change.holder.number)

    def add_alias(self, change: AddAlias) -> None:
        alias = AliasRow(change.id, change.chat)
        alias.seal()
        self._cache.aliases.append(alias)
