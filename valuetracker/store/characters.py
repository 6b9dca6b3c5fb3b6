"""Characters: whom values belong to."""

from __future__ import annotations

from valuetracker.errors import CharacterNotFound
from valuetracker.records import Character, CharacterPage, FullCharacter, FullInstance, Success
from valuetracker.store.log.state_at import (
    At,
    character_at,
    find_moment,
    full_former,
    instances_at,
    shown_instance,
)
from valuetracker.store.rows.characters import SELECT_PAGE_OF_CHARACTERS, CharacterRow
from valuetracker.store.rows.holders import SELECT_VALUES_OF_CHARACTER, values_record
from valuetracker.store.rows.pages import Page
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import ALL_CHARACTERS, character_tag
from valuetracker.store.tx.changes import DropCharacter, PutCharacter
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.removal import removal_of
from valuetracker.store.tx.write_target import check_character_if_match, list_writable_instances


async def list_characters(tx: Snapshot) -> list[Character]:
    tx.lists(ALL_CHARACTERS)
    return [row.record() for row in await tx.list_characters()]


async def list_page_of_characters(tx: Snapshot, page: Page) -> CharacterPage:
    tx.lists(ALL_CHARACTERS)
    rows, cursor = await tx.read_page(SELECT_PAGE_OF_CHARACTERS, CharacterRow, page)
    return {"items": [row.record() for row in rows], "next": cursor}


async def get_character(tx: Snapshot, character_id: str, at: At | None = None) -> FullCharacter:
    if at is not None:
        return await _get_character_at(tx, character_id, at)
    tx.depends_on(character_tag(character_id))
    character = await tx.find_character(character_id)
    if character is None:
        raise CharacterNotFound()
    instances = await tx.list_instances_of(character_id)
    values = await tx.list_values_of(instances, SELECT_VALUES_OF_CHARACTER, character_id)
    tx.etag = max([character.revision, *(instance.revision for instance in instances)])
    full: list[FullInstance] = [
        {
            "instance": await shown_instance(tx, instance.shape()),
            "data": values_record(values[instance.number]),
        }
        for instance in instances
    ]
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
    await check_character_if_match(tx, character_id)
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
    instances = await list_writable_instances(tx, character_id)
    await check_character_if_match(tx, character_id)
    changes = [change for each in instances for change in await removal_of(tx, each)]
    await tx.apply([*changes, DropCharacter(character_id)])
    return {"success": True}
