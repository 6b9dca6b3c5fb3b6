"""
Parts: which rows belong to one chat, one character or one instance.

A part is what would be left of the extension if everything else were purged. So of other chats
that it speaks of, because it branched from them or an instance of it was there, only the row of a
purged chat is left. An instance without its chat keeps the messages of the chat, by which its
values follow the story.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound, ChatNotFound, InstanceNotFound
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.snapshot import Snapshot

_NUMBERS = "(SELECT value FROM json_each(:numbers))"
_NUMBERS_ON_POSTGRES = (
    "(SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:numbers AS json)) AS value)"
)


def _statement(text: str) -> Statement:
    """Return a statement with a list of numbers, as each engine takes it."""
    return Statement(
        text.replace("NUMBERS", _NUMBERS), postgres=text.replace("NUMBERS", _NUMBERS_ON_POSTGRES)
    )


SELECT_PARENTS = _statement("SELECT DISTINCT parent FROM {schema}.members WHERE holder IN NUMBERS")
SELECT_CHATS_OF_ENTRIES = _statement(
    "SELECT DISTINCT chat FROM {schema}.entries WHERE subject IN NUMBERS AND chat IS NOT NULL"
)
SELECT_KNOWN_CHARACTERS = _statement(
    "SELECT number FROM {schema}.characters WHERE number IN NUMBERS"
)


@dataclass(slots=True, frozen=True)
class Wanted:
    """The part that a request wants to have exported: one of these, or everything."""

    chat_id: str | None = None
    character_id: str | None = None
    instance_id: str | None = None

    def record(self) -> dict[str, str] | None:
        """Return what the first line of the file says of it; None for everything."""
        named = {
            "chatId": self.chat_id,
            "characterId": self.character_id,
            "instanceId": self.instance_id,
        }
        found = {name: id for name, id in named.items() if id is not None}
        return found or None


@dataclass(slots=True)
class Part:
    """The numbers of all that belongs to a part."""

    holders: set[int] = field(default_factory=set)
    characters: set[int] = field(default_factory=set)
    # Chats with all that they hold, chats of which only the messages are taken, and those of
    # which nothing is left.
    whole_chats: set[int] = field(default_factory=set)
    stories: set[int] = field(default_factory=set)
    purged_chats: set[int] = field(default_factory=set)

    @property
    def told_chats(self) -> set[int]:
        return self.whole_chats | self.stories

    @property
    def subjects(self) -> set[int]:
        """Whose entries belong to it."""
        return self.holders | self.characters | self.told_chats


async def find_part(tx: Snapshot, wanted: Wanted) -> Part | None:
    """Return the part that is wanted; None if that is everything."""
    if wanted.chat_id is not None:
        chat = await tx.find_chat(wanted.chat_id)
        if chat is None:
            raise ChatNotFound()
        part = Part(whole_chats={chat.number})
        holders = [*await tx.list_holders_of_chat(chat), *await _deleted_members(tx, chat)]
    elif wanted.character_id is not None:
        character = await tx.find_character(wanted.character_id)
        if character is None:
            raise CharacterNotFound()
        part = Part(characters={character.number})
        holders = [
            *await tx.list_instances_of(character.id),
            *await _deleted_members(tx, character),
        ]
    elif wanted.instance_id is not None:
        instance = await tx.find_instance(wanted.instance_id)
        if instance is None:
            raise InstanceNotFound()
        part, holders = Part(), [instance]
    else:
        return None
    part.holders = {holder.number for holder in holders}
    await _add_what_it_needs(tx, part, holders)
    return part


async def _deleted_members(tx: Snapshot, parent: CharacterRow | ChatRow) -> list[HolderRow]:
    """Return the instances that were deleted, and that a restore may bring back."""
    return [each for each in await tx.list_members(parent) if each.deleted]


async def _add_what_it_needs(tx: Snapshot, part: Part, holders: list[HolderRow]) -> None:
    parents = await _numbers(tx, SELECT_PARENTS, part.holders)
    part.characters |= await _numbers(tx, SELECT_KNOWN_CHARACTERS, parents)
    chats = (parents - part.characters) | await _numbers(tx, SELECT_CHATS_OF_ENTRIES, part.holders)
    chats |= {holder.chat for holder in holders if holder.chat is not None}
    chats -= part.whole_chats
    if part.whole_chats:
        part.purged_chats = chats
    else:
        part.stories = chats
    for number in part.told_chats:
        parent = (await tx.get_chat(number)).parent
        if parent is not None and parent not in part.told_chats:
            part.purged_chats.add(parent)
    # A purged chat is the branch of none.
    for number in [each for each in part.stories if (await tx.get_chat(each)).deleted]:
        part.stories.discard(number)
        part.purged_chats.add(number)


async def _numbers(tx: Snapshot, statement: Statement, numbers: set[int]) -> set[int]:
    given: Any = orjson.dumps(sorted(numbers)).decode()
    return {number for (number,) in await tx.fetch_all(statement, numbers=given)}
