"""Routes of characters."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    CharacterNotFound,
    InvalidBody,
    InvalidId,
    InvalidName,
    InvalidQuery,
    RevisionConflict,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import AT_FIELD, PAGE_FIELDS, PAST, Endpoint, Field
from valuetracker.http.kinds import CHARACTER_ID, NAME
from valuetracker.records import Character, CharacterPage, FullCharacter, Success
from valuetracker.runtime.extension import Read
from valuetracker.store import characters
from valuetracker.store.tx.jobs import Written


async def list_characters(call: Call) -> Read[Any]:
    """
    List all characters in order of creation.

    With `limit` the answer is a page: `items`, and in `next` the `cursor` of the next page, null
    on the last. What is created or deleted meanwhile moves no page.
    """
    if call.page is None:
        return await call.read(characters.list_characters)
    return await call.read(characters.list_page_of_characters, call.page)


async def get_character(call: Call) -> Read[Any]:
    """
    Read a character with all its instances and their values.

    `at` reads an earlier state, also of a character that has been deleted since.
    """
    return await call.read(characters.get_character, call.path["character"], call.query.get("at"))


async def put_character(call: Call) -> Written:
    """
    Create a character, or rename it.

    If `name` is absent, empty or null, the character keeps its name.
    """
    return await call.write(characters.put_character, call.body["id"], call.body.get("name"))


async def delete_character(call: Call) -> Written:
    """Delete a character with its instances and their values."""
    return await call.write(characters.delete_character, call.path["character"])


ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/characters",
        list_characters,
        returns=list[Character] | CharacterPage,
        query=PAGE_FIELDS,
        raises=(InvalidQuery,),
    ),
    Endpoint(
        ("POST",),
        "/characters",
        put_character,
        returns=Character,
        body=(
            Field("id", CHARACTER_ID, "The character's id."),
            Field("name", NAME, "The name to show.", required=False, nullable=True),
        ),
        raises=(InvalidBody, InvalidId, InvalidName, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        "/characters/{character}",
        get_character,
        returns=FullCharacter,
        query=(AT_FIELD,),
        raises=(InvalidId, CharacterNotFound, *PAST),
    ),
    Endpoint(
        ("DELETE",),
        "/characters/{character}",
        delete_character,
        returns=Success,
        raises=(InvalidId, CharacterNotFound, RevisionConflict),
    ),
]
