"""The revisions and tags that a group of writes has touched."""

from __future__ import annotations

from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.row_cache import RowCache
from valuetracker.store.rows.tags import EVERYTHING, Tag, character_tag, chat_tag, holder_tag


class Touched:
    """The tags a group has touched; touching a subject moves its revision."""

    def __init__(self, cache: RowCache) -> None:
        self._cache = cache
        self.tags: set[Tag] = {EVERYTHING}

    def character(self, character: CharacterRow, revision: int) -> None:
        character.revision = revision
        self._cache.characters.put(character.id, character)
        self.tags.add(character_tag(character.id))

    def holder(self, holder: HolderRow, chat: ChatRow | None, revision: int) -> None:
        """Touch a holder, and the chat it is in."""
        if holder.chat is not None and chat is not None:
            self.chat(chat, revision)
        id = (holder.space, holder.id)
        if holder.revision != revision or not self._cache.holders.is_touched(id):
            holder.revision = revision
            self._cache.put_holder(holder)
            self.tags.add(holder_tag(*id))
            if holder.character_id is not None:
                self.tags.add(character_tag(holder.character_id))

    def chat(self, chat: ChatRow, revision: int) -> None:
        if chat.revision != revision or not self._cache.chats.is_touched(chat.number):
            chat.revision = revision
            self._cache.chats.put(chat.number, chat)
            self.tags.add(chat_tag(chat.number))
