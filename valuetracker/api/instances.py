"""Routes of instances."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidName,
    InvalidQuery,
    RevisionConflict,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import AT_FIELD, PAGE_FIELDS, PAST, Endpoint, Field
from valuetracker.http.kinds import CHARACTER_ID, CHAT_ID, INSTANCE_ID, NAME
from valuetracker.records import Deleted, FullInstance, Instance, InstancePage, Success
from valuetracker.runtime.extension import Read
from valuetracker.store import instances
from valuetracker.store.tx.jobs import Written


async def list_instances(call: Call) -> Read[Any]:
    """
    List all instances, or those of a character, of a chat, or of both.

    The list is empty for an unknown character or chat. With `limit` the answer is a page, as of
    the list of characters.
    """
    return await _list(call, call.query.get("characterId"), call.query.get("chatId"))


async def list_instances_of(call: Call) -> Read[Any]:
    """
    List the instances of a character; the list is empty for an unknown character.

    With `limit` the answer is a page, as of the list of characters.
    """
    return await _list(call, call.path["character"])


async def _list(call: Call, character_id: str | None, chat_id: str | None = None) -> Read[Any]:
    if call.page is None:
        return await call.read(instances.list_instances, character_id, chat_id)
    return await call.read(instances.list_page_of_instances, call.page, character_id, chat_id)


async def delete_instances_of(call: Call) -> Written:
    """Delete all instances of a character with their values, and keep the character."""
    return await call.write(instances.delete_instances_of, call.path["character"])


async def put_instance(call: Call) -> Written:
    """
    Create an instance, or change its name, character or chat.

    An unknown character is created as well. If `name` is absent, empty or null, the instance
    keeps its name. If `chatId` is absent, the instance keeps its chat; null removes the
    instance from its chat.
    """
    return await call.write(
        instances.put_instance,
        call.body["id"],
        call.body["characterId"],
        call.body.get("name"),
        call.body.get("chatId", instances.KEEP),
    )


async def get_instance(call: Call) -> Read[Any]:
    """
    Read an instance with its values.

    `at` reads an earlier state, also of an instance that has been deleted since.
    """
    return await call.read(instances.get_instance, call.path["instance"], call.query.get("at"))


async def delete_instance(call: Call) -> Written:
    """Delete an instance with its values."""
    return await call.write(instances.delete_instance, call.path["instance"])


ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/instances",
        list_instances,
        returns=list[Instance] | InstancePage,
        query=(
            Field("characterId", CHARACTER_ID, "Only instances of this character.", required=False),
            Field("chatId", CHAT_ID, "Only instances of this chat.", required=False),
            *PAGE_FIELDS,
        ),
        raises=(InvalidId, InvalidQuery),
    ),
    Endpoint(
        ("POST",),
        "/instances",
        put_instance,
        returns=Instance,
        body=(
            Field("id", INSTANCE_ID, "The instance's id."),
            Field("characterId", CHARACTER_ID, "The character that the instance belongs to."),
            Field("name", NAME, "The name to show.", required=False, nullable=True),
            Field(
                "chatId",
                CHAT_ID,
                "The chat that the instance belongs to.",
                required=False,
                nullable=True,
            ),
        ),
        raises=(InvalidBody, InvalidId, InvalidName, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        "/instances/{instance}",
        get_instance,
        returns=FullInstance,
        query=(AT_FIELD,),
        raises=(InvalidId, InstanceNotFound, *PAST),
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}",
        delete_instance,
        returns=Success,
        raises=(InvalidId, InstanceNotFound, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        "/characters/{character}/instances",
        list_instances_of,
        returns=list[Instance] | InstancePage,
        query=PAGE_FIELDS,
        raises=(InvalidId, InvalidQuery),
    ),
    Endpoint(
        ("DELETE",),
        "/characters/{character}/instances",
        delete_instances_of,
        returns=Deleted,
        raises=(InvalidId, RevisionConflict),
    ),
]
