"""Characters: whom values belong to."""

from __future__ import annotations

from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound, DatabaseDamaged
from valuetracker.records import Character, FullCharacter, FullInstance, Success
from valuetracker.store.instances import (
    enter_instances_of,
    expect_character,
    full_former,
    instance_record,
    removal_of,
)
from valuetracker.store.log.state_at import At, character_at, find_moment, instances_at
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.row_types import CharacterRow, DataRow, HolderRow, values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import character_tag
from valuetracker.store.tx.changes import DropCharacter, PutCharacter
from valuetracker.store.tx.ledger import Ledger

SELECT_CHARACTERS = Statement(
    f"SELECT {sql.names(sql.CHARACTERS)} FROM {{schema}}.characters WHERE gone = 0 ORDER BY place"
)


async def list_characters(tx: Snapshot) -> list[Character]:
    rows = [CharacterRow(*row).verify() for row in await tx.fetch_all(SELECT_CHARACTERS)]
    if len(rows) != tx.head.characters:
        raise DatabaseDamaged()
    return [row.record() for row in rows]


# One statement for all values of a character, in the order of its answer.
SELECT_VALUES_OF_CHARACTER = Statement(
    f"""
    SELECT {sql.names(sql.DATA, "data")}
    FROM {{schema}}.holders JOIN {{schema}}.data ON data.holder = holders.number
    WHERE character_id = :character_id AND gone = 0 AND value IS NOT NULL
    ORDER BY holders.place, data.place
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
        HolderRow(*row).verify()
        for row in await tx.fetch_all(sql.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id)
    ]
    character.verify_instances(instances)
    values: dict[int, list[DataRow]] = {instance.number: [] for instance in instances}
    for row in await tx.fetch_all(SELECT_VALUES_OF_CHARACTER, character_id=character_id):
        value = DataRow(*row).verify()
        if value.holder not in values:
            raise DatabaseDamaged()
        values[value.holder].append(value)
    tx.etag = max([character.revision, *(instance.revision for instance in instances)])
    full: list[FullInstance] = []
    for instance in instances:
        instance.verify_values(values[instance.number])
        full.append(
            {
                "instance": await instance_record(tx, instance),
                "data": values_record(values[instance.number]),
            }
        )
    return {"character": character.record(), "instances": full}


async def _get_character_at(tx: Snapshot, character_id: str, at: At) -> FullCharacter:
    moment = await find_moment(tx, at)
    tx.etag = moment.revision
    character = await character_at(tx, character_id, moment)
    if character is None:
        raise CharacterNotFound()
    instances = [full_former(each) for each in await instances_at(tx, character_id, moment)]
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
    instances = await enter_instances_of(tx, character_id)
    await expect_character(tx, character_id)
    changes = [change for each in instances for change in await removal_of(tx, each)]
    await tx.apply([*changes, DropCharacter(character_id)])
    return {"success": True}
