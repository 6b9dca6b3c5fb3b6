"""
Going back: a new revision that sets rows to what they were at an old one.

History is never rewritten. A restored row is logged as `restore`, which is a base like
`set` and names the row's source changes that made the old state (their numbers, in
`operand`): should the story later lose one of them, what is left of them can be replayed.
"""

from __future__ import annotations

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound, InstanceNotFound
from valuetracker.model import Instance, Restored
from valuetracker.store.changes import (
    Change,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
    SetValue,
)
from valuetracker.store.instances import expect_character, expect_instance
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import (
    Moment,
    character_at,
    find_moment,
    instance_at,
    instances_at,
    values_at,
)
from valuetracker.store.rows import ChangeRow

# Base operations start a row anew; what came before them does not matter any more.
BASES = ("set", "remove", "restore", "adopt", "base")

SELECT_KEYS_CHANGED_SINCE = Statement(
    """
    SELECT key FROM {schema}.cells
    WHERE owner = :owner AND space = 'data' AND EXISTS (
        SELECT 1 FROM {schema}.changes WHERE changes.cell = cells.cell AND change > :since
    )
    """
)

SELECT_SOURCES = Statement(
    """
    SELECT change, op, operand FROM {schema}.changes
    WHERE cell = (
        SELECT cell FROM {schema}.cells
        WHERE owner = :owner AND key = :key AND space = 'data'
    ) AND change <= :until AND effect = 1 AND op <> 'reconcile'
    ORDER BY change DESC
    """
)


async def restore_instance(tx: Ledger, instance_id: str, revision: int) -> Restored:
    moment = await find_moment(tx, revision)
    former = await instance_at(tx, instance_id, moment)
    if former is None:
        raise InstanceNotFound("The instance did not exist at that revision.")
    await expect_instance(tx, instance_id)
    restoration = _Restoration(tx, moment)
    await restoration.bring_back_character(former["characterId"])
    await restoration.restore_instance(former)
    return await restoration.finish()


async def restore_character(tx: Ledger, character_id: str, revision: int) -> Restored:
    moment = await find_moment(tx, revision)
    former = await character_at(tx, character_id, moment)
    if former is None:
        raise CharacterNotFound("The character did not exist at that revision.")
    await expect_character(tx, character_id)
    restoration = _Restoration(tx, moment)
    await restoration.restore_character(character_id)
    then = {change.owner: change for change in await instances_at(tx, character_id, moment)}
    for instance in await tx.list_instances_of(character_id):
        if instance.id not in then:
            await restoration.send_away(instance.id)
    for change in then.values():
        await restoration.restore_instance(orjson.loads(change.after or "null"))
    return await restoration.finish()


class _Restoration:
    """The changes that lead back to a moment, collected into one revision."""

    def __init__(self, tx: Ledger, moment: Moment) -> None:
        self._tx = tx
        self._moment = moment
        self._changes: list[Change] = []
        self._changed = 0
        self._warnings: list[str] = []

    async def finish(self) -> Restored:
        revision = await self._tx.apply(self._changes)
        return {"revision": revision, "changed": self._changed, "warnings": self._warnings}

    async def restore_character(self, character_id: str) -> None:
        """The character as it was then."""
        former = await character_at(self._tx, character_id, self._moment)
        name = former["name"] if former is not None else None
        present = await self._tx.find_character(character_id)
        if present is None or present.name != name:
            self._changes.append(
                PutCharacter(
                    character_id,
                    name,
                    created_at=former["createdAt"] if former is not None else self._tx.now,
                    updated_at=self._tx.now,
                )
            )

    async def bring_back_character(self, character_id: str) -> None:
        """The character an instance needs, if it has gone meanwhile."""
        if await self._tx.find_character(character_id) is None:
            await self.restore_character(character_id)

    async def send_away(self, instance_id: str) -> None:
        """An instance the character did not have: back where it was, or gone."""
        former = await instance_at(self._tx, instance_id, self._moment)
        if former is not None:
            await self.bring_back_character(former["characterId"])
            await self._put_instance(former)
            return
        for row in await self._tx.list_values(instance_id):
            self._changes.append(RemoveValue(instance_id, row.key, "restore", anchored=False))
            self._changed += 1
        self._changes.append(DropInstance(instance_id))

    async def restore_instance(self, former: Instance) -> None:
        """An instance as it was then, with the values it had then."""
        await self._put_instance(former)
        instance_id = former["id"]
        then = {row.key: row for row in await values_at(self._tx, instance_id, self._moment)}
        touched = {
            key
            for (key,) in await self._tx.fetch_all(
                SELECT_KEYS_CHANGED_SINCE, owner=instance_id, since=self._moment.change
            )
        }
        now = {row.key: row for row in await self._tx.list_values(instance_id)}
        for key in [key for key in now if key not in then]:
            await self._restore_value(instance_id, key, None, now[key].value)
        # In the order of then, so that keys that come back stand in that order.
        for key, row in then.items():
            if key in touched:
                present = now[key].value if key in now else None
                await self._restore_value(instance_id, key, row, present)

    async def _restore_value(
        self, instance_id: str, key: str, former: ChangeRow | None, present: str | None
    ) -> None:
        value = former.after if former is not None else None
        if value != present:
            self._changed += 1
        sources = await self._sources(instance_id, key)
        if value is None:
            self._changes.append(RemoveValue(instance_id, key, "restore", sources, anchored=False))
        else:
            self._changes.append(
                SetValue(instance_id, key, value, "restore", sources, anchored=False)
            )

    async def _sources(self, instance_id: str, key: str) -> str:
        """The numbers of the source changes that made the value, oldest first, as JSON."""
        numbers: list[int] = []
        for change, op, operand in await self._tx.fetch_all(
            SELECT_SOURCES, owner=instance_id, key=key, until=self._moment.change
        ):
            if op == "restore":
                # It stands for those it names itself.
                numbers += reversed(orjson.loads(operand or "[]"))
                break
            numbers.append(change)
            if op in BASES:
                break
        return orjson.dumps(numbers[::-1]).decode()

    async def _put_instance(self, former: Instance) -> None:
        present = await self._tx.find_instance(former["id"])
        chat_id = former["chatId"]
        if present is not None and present.chat_id != chat_id:
            # Chats are rooms of their own: one is not taken out of a chat by looking back.
            chat_id = present.chat_id
            self._warnings.append(f"Instance {former['id']} stays in the chat it is in now.")
        if present is None or (former["characterId"], former["name"], chat_id) != (
            present.character_id,
            present.name,
            present.chat_id,
        ):
            self._changes.append(
                PutInstance(
                    former["id"],
                    former["characterId"],
                    chat_id,
                    former["name"],
                    created_at=former["createdAt"],
                    updated_at=self._tx.now,
                )
            )
