"""The revisions, tags and values that a group of writes has touched."""

from __future__ import annotations

from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.row_cache import HolderId, RowCache
from valuetracker.store.rows.tags import (
    ALL_CHARACTERS,
    ALL_CHATS,
    ALL_INSTANCES,
    EVERYTHING,
    Tag,
    character_tag,
    chat_tag,
    holder_tag,
)


class TouchedHolder:
    """A holder whose values have changed: its revision, and the changed rows as they are now."""

    __slots__ = ("revision", "rows")

    def __init__(self) -> None:
        self.revision = 0
        self.rows: dict[str, DataRow] = {}


class Touched:
    """Collects what a group touches; touching a subject moves its revision."""

    def __init__(self, cache: RowCache) -> None:
        self._cache = cache
        self.tags: set[Tag] = {EVERYTHING}
        self.holders: dict[HolderId, TouchedHolder] = {}

    def character(self, character: CharacterRow, revision: int) -> None:
        character.revision = revision
        self._cache.characters.put(character.id, character)
        self.tags.add(character_tag(character.id))
        self.tags.add(ALL_CHARACTERS)

    def holder(self, holder: HolderRow, chat: ChatRow | None, revision: int) -> TouchedHolder:
        """Touch a holder, and the chat it is in."""
        if holder.chat is not None and chat is not None:
            self.chat(chat, revision)
        id = (holder.space, holder.id)
        touched = self.holders.get(id)
        if touched is None:
            touched = self.holders[id] = TouchedHolder()
            if holder.character_id is not None:
                self.tags.add(character_tag(holder.character_id))
        # Also once it has been written: a later change of the group makes another account.
        self._cache.put_holder(holder)
        holder.revision = touched.revision = revision
        return touched

    def instance(self, holder: HolderRow, chat: ChatRow | None, revision: int) -> None:
        """Touch an instance that is itself created, changed or deleted."""
        self.holder(holder, chat, revision)
        self.tags.add(holder_tag(holder.space, holder.id))
        self.tags.add(ALL_INSTANCES)
        if holder.character_id is not None:
            self.tags.add(character_tag(holder.character_id))
        self._cache.restructured.add(holder.number)

    def chat(self, chat: ChatRow, revision: int) -> None:
        if chat.revision != revision or not self._cache.chats.is_touched(chat.number):
            chat.revision = revision
            self._cache.chats.put(chat.number, chat)
            self.tags.add(chat_tag(chat.number))
            self.tags.add(ALL_CHATS)
