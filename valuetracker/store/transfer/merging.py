"""
Merging: the state of a file becomes part of the extension, as one revision.

The file wins per key (`merge`), or what is there wins (`skip`). What was not there stands at the
beginning of the story. History, checkpoints and operations do not come along: they speak of
revisions and messages of another log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from valuetracker.errors import IdsClash, ImportInvalid, InvalidQuery
from valuetracker.records import Clash, Imported
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.spaces import SPACES
from valuetracker.store.transfer.importing import Import
from valuetracker.store.transfer.records import CHARACTER, CHAT, HOLDER, VALUE, Kind
from valuetracker.store.tx.binding import leave_chat
from valuetracker.store.tx.changes import ChangeValue, PutCharacter, PutInstance
from valuetracker.store.tx.jobs import NothingChanged
from valuetracker.store.tx.ledger import Ledger

# About how many characters of values are kept in memory.
CHUNK_LENGTH = 4 * 1024 * 1024
MERGED: dict[str, Kind] = {kind.type: kind for kind in (CHARACTER, CHAT, HOLDER, VALUE)}


async def import_state(tx: Ledger, asked: Import) -> Imported:
    found = _Found(asked)
    merging = _Merging(tx, asked, found)
    clashes = await merging.find_clashes()
    if clashes and not asked.dry_run:
        raise IdsClash(clashes=clashes)
    if not clashes:
        await merging.run()
    answer: Imported = {
        "mode": asked.mode or "",
        "dryRun": asked.dry_run,
        "revision": (await tx.load_head()).revision,
        "characters": len(found.characters),
        "instances": sum(row.space == "instance" for row in found.holders.values()),
        "chats": len(found.chats),
        "values": merging.values,
        "entries": 0,
        "skipped": merging.skipped,
        "warnings": [],
    }
    if asked.dry_run:
        answer["clashes"] = clashes
        raise NothingChanged(orjson.dumps(answer))
    return answer


class _Found:
    """Characters, chats and holders that are present in the file, by their numbers there."""

    def __init__(self, asked: Import) -> None:
        self.characters: dict[str, CharacterRow] = {}
        self.chats: dict[int, ChatRow] = {}
        self.holders: dict[int, HolderRow] = {}
        for row in _rows(asked):
            if isinstance(row, DataRow):
                # All that is asked for here stands before the values.
                break
            self._add(row)
        if asked.new_id is not None:
            if len(self.chats) != 1:
                raise InvalidQuery("`as` needs a file with one chat.")
            (chat,) = self.chats.values()
            chat.id = asked.new_id

    def _add(self, row: Any) -> None:
        if row.deleted:
            return
        if isinstance(row, CharacterRow):
            self.characters[row.id] = row
        elif isinstance(row, ChatRow):
            self.chats[row.number] = row
        elif isinstance(row, HolderRow):
            is_known = row.chat is None or row.chat in self.chats
            if row.space == "instance":
                is_known = is_known and row.character_id in self.characters
            elif row.space not in SPACES or row.chat is None:
                is_known = False
            if not is_known:
                raise ImportInvalid("An instance belongs to a chat or character that is missing.")
            self.holders[row.number] = row


def _rows(asked: Import) -> Any:
    for record in asked.lines.records():
        kind = MERGED.get(record["type"])
        if kind is not None:
            yield kind.decode(record, 0)


class _Merging:
    """Makes the changes of one import."""

    def __init__(self, tx: Ledger, asked: Import, found: _Found) -> None:
        self._tx = tx
        self._asked = asked
        self._found = found
        self._is_winning = asked.mode == "merge"
        self.values = self.skipped = 0

    # Ids that are something else here

    async def find_clashes(self) -> list[Clash]:
        clashes: list[Clash] = []
        for chat in self._found.chats.values():
            known = await self._tx.find_any_chat(chat.id)
            if known is not None and known.id != chat.id:
                reason = f"It is a former id of {known.id}."
                clashes.append({"kind": "chat", "id": chat.id, "reason": reason})
            elif known is not None and not known.deleted and known.archived_at is not None:
                reason = "It is archived."
                clashes.append({"kind": "chat", "id": chat.id, "reason": reason})
        for holder in self._found.holders.values():
            reason = await self._clash_of(holder) if holder.space == "instance" else ""
            if reason:
                clashes.append({"kind": "instance", "id": holder.id, "reason": reason})
        return clashes

    async def _clash_of(self, holder: HolderRow) -> str:
        """Return why an instance of the file is another one than that of its id here."""
        known = await self._tx.find_instance(holder.id)
        if known is None:
            return ""
        if known.character_id != holder.character_id:
            return f"It belongs to the character {known.character_id} here."
        chat_id = self._found.chats[holder.chat].id if holder.chat is not None else None
        known_chat_id = await self._tx.chat_id(known.chat)
        if known_chat_id != chat_id:
            return f"It belongs to {f'the chat {known_chat_id}' if known_chat_id else 'no chat'}."
        return ""

    # Changes

    async def run(self) -> None:
        await self._put_characters()
        chats = {
            number: (await self._tx.get_or_create_chat(row.id)).id
            for number, row in self._found.chats.items()
        }
        for holder in self._found.holders.values():
            if holder.space == "instance":
                await self._put_instance(holder, chats)
        await self._tx.forget_written()
        length = 0
        async for holder, values in self._values():
            length += sum(len(row.value or "") for row in values)
            await self._put_values(await self._holder(holder, chats), values)
            if length >= CHUNK_LENGTH:
                await self._tx.forget_written()
                length = 0
        await self._tx.forget_written()

    async def _put_characters(self) -> None:
        for row in self._found.characters.values():
            known = await self._tx.find_character(row.id)
            name = row.name
            if known is not None and (not self._is_winning or name in (None, known.name)):
                continue
            created = known.created_at if known is not None else row.created_at
            await self._tx.apply([PutCharacter(row.id, name, created, row.updated_at)])

    async def _put_instance(self, row: HolderRow, chats: dict[int, str]) -> None:
        known = await self._tx.find_any_instance(row.id)
        chat: int | None = None
        if row.chat is not None:
            chat = (await self._tx.get_or_create_chat(chats[row.chat])).number
        created = row.created_at
        if known is not None and not known.deleted:
            if not self._is_winning or row.name in (None, known.name):
                return
            created = known.created_at
        if known is not None:
            await leave_chat(self._tx, known, chat)
        assert row.character_id is not None
        await self._tx.apply(
            [
                PutInstance(
                    row.id, row.character_id, chat, row.name, created, row.updated_at, row.origin
                )
            ]
        )

    async def _holder(self, row: HolderRow, chats: dict[int, str]) -> HolderRow:
        """Return the holder here of a holder of the file."""
        if row.space == "instance":
            found = await self._tx.find_instance(row.id)
            assert found is not None
            return found
        assert row.chat is not None
        chat = await self._tx.get_or_create_chat(chats[row.chat])
        return await self._tx.get_or_create_space(chat, row.space)

    async def _values(self) -> AsyncIterator[tuple[HolderRow, list[DataRow]]]:
        """Yield the values of the file, holder by holder, in the order of their creation."""
        values: list[DataRow] = []
        for row in _rows(self._asked):
            if not isinstance(row, DataRow) or row.value is None:
                continue
            if values and values[0].holder != row.holder:
                yield self._owner(values), values
                values = []
            values.append(row)
        if values:
            yield self._owner(values), values

    def _owner(self, values: list[DataRow]) -> HolderRow:
        holder = self._found.holders.get(values[0].holder)
        if holder is None:
            raise ImportInvalid("A value belongs to an instance that is missing.")
        values.sort(key=lambda row: row.ordinal)
        return holder

    async def _put_values(self, holder: HolderRow, values: list[DataRow]) -> None:
        rows = await self._tx.load_rows(holder, [row.key for row in values])
        changes: list[ChangeValue] = []
        for row in values:
            there = rows[row.key]
            if there is not None and there.value is not None and not self._is_winning:
                self.skipped += 1
                continue
            changes.append(ChangeValue(holder, row.key, row.value, first=True))
        self.values += len(changes)
        await self._tx.apply(changes)
