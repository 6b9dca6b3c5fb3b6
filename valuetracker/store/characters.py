"""Characters: whom values belong to."""

from __future__ import annotations

from typing import cast

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound, DatabaseDamaged
from valuetracker.model import Character, FullCharacter, FullInstance, Instance, Success
from valuetracker.store import statements as sql
from valuetracker.store.changes import DropCharacter, PutCharacter
from valuetracker.store.instances import expect_character, removal_of
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import At, character_at, find_moment, instances_at, values_at
from valuetracker.store.rows import (
    CharacterRow,
    DataRow,
    InstanceRow,
    former_values_record,
    values_record,
)
from valuetracker.store.snapshot import Snapshot
from valuetracker.store.tags import character_tag

SELECT_CHARACTERS = Statement(
    """
    SELECT cell, place, id, name, created_at, updated_at, instances, revision, checksum
    FROM {schema}.characters ORDER BY place
    """
)


async def list_characters(tx: Snapshot) -> list[Character]:
    rows = [CharacterRow(*row).verify() for row in await tx.fetch_all(SELECT_CHARACTERS)]
    if len(rows) != tx.head.characters:
        raise DatabaseDamaged()
    return [row.record() for row in rows]


# One statement for all values of a character, in the order of its answer.
SELECT_VALUES_OF_CHARACTER = Statement(
    """
    SELECT data.cell, data.place, data.instance_id, data.key, data.value, data.revision,
        data.checksum
    FROM {schema}.instances JOIN {schema}.data ON data.instance_id = instances.id
    WHERE instances.character_id = :character_id
    ORDER BY instances.place, data.place
    """
)


async def get_character(tx: Snapshot, character_id: str, at: At | None = None) -> FullCharacter:
    if at is not None:
        return await _get_character_at(tx, character_id, at)
    tx.depends_on(character_tag(character_id))
    character = await tx.find_character(character_id)
    if character is None:
        raise CharacterNotFound()
    instances = [
        InstanceRow(*row).verify()
        for row in await tx.fetch_all(sql.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id)
    ]
    character.verify_instances(len(instances))
    values: dict[str, list[DataRow]] = {instance.id: [] for instance in instances}
    for row in await tx.fetch_all(SELECT_VALUES_OF_CHARACTER, character_id=character_id):
        value = DataRow(*row).verify()
        values[value.instance_id].append(value)
    tx.etag = max([character.revision, *(instance.revision for instance in instances)])
    full: list[FullInstance] = []
    for instance in instances:
        instance.verify_values(values[instance.id])
        full.append({"instance": instance.record(), "data": values_record(values[instance.id])})
    return {"character": character.record(), "instances": full}


async def _get_character_at(tx: Snapshot, character_id: str, at: At) -> FullCharacter:
    moment = await find_moment(tx, at)
    tx.etag = moment.revision
    character = await character_at(tx, character_id, moment)
    if character is None:
        raise CharacterNotFound()
    instances: list[FullInstance] = []
    for change in await instances_at(tx, character_id, moment):
        values = await values_at(tx, change.owner, moment)
        instances.append(
            {
                "instance": cast(Instance, orjson.Fragment(change.after or "null")),
                "data": former_values_record(values),
            }
        )
    return {"character": character, "instances": instances}


async def put_character(tx: Ledger, character_id: str, name: str | None) -> Character:
    old = await tx.find_character(character_id)
    await expect_character(tx, character_id)
    if old is not None and (not name or name == old.name):
        return old.record()
    await tx.apply(
        [
            PutCharacter(
                character_id,
                name or None,
                created_at=tx.now if old is None else old.created_at,
                updated_at=tx.now,
            )
        ]
    )
    character = await tx.find_character(character_id)
    assert character is not None
    return character.record()


async def delete_character(tx: Ledger, character_id: str) -> Success:
    if await tx.find_character(character_id) is None:
        raise CharacterNotFound()
    await expect_character(tx, character_id)
    instances = await tx.list_instances_of(character_id)
    changes = [change for each in instances for change in await removal_of(tx, each.id)]
    await tx.apply([*changes, DropCharacter(character_id)])
    return {"success": True}
