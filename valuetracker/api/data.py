"""Values over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from valuetracker.errors import (
    DataKeyNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidKey,
    InvalidPatch,
    NumberOutOfRange,
    PatchFailed,
    PatchTestFailed,
    RevisionConflict,
    TooDeep,
    TooManyKeys,
    UnsupportedMediaType,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import AT_FIELD, PAST, AnyDocument, AnyKeys, Endpoint, Field
from valuetracker.http.kinds import KEY, KEYS, VALUE, check_key_count
from valuetracker.records import Removed, Success, SuccessMessage, Values, ValueSet
from valuetracker.store import data
from valuetracker.store.json_patch import PATCH_OPERATIONS
from valuetracker.store.rows.spaces import Address, chat, instance


def _target(call: Call) -> Address:
    """The instance or the chat that the path names."""
    instance_id = call.path.get("instance")
    return instance(instance_id) if instance_id is not None else chat(call.path["chat"])


async def list_values(call: Call) -> Any:
    """
    Read all values of an instance, or of a chat.

    Each key stands where it last came into being; an update keeps its place. An unknown
    one has none. With `at`, as they were then, also of what has been deleted.
    """
    return await call.read(data.list_values, _target(call), call.query.get("at"))


async def find_value(call: Call) -> Any:
    """
    Read one key, as an object of that key; an absent one gives an empty object.

    With `at`, as it was then.
    """
    return await call.read(data.find_value, _target(call), call.path["key"], call.query.get("at"))


async def set_value(call: Call) -> Any:
    """Set one key."""
    return await call.write(data.set_value, _target(call), call.body["key"], call.body["value"])


async def remove_value(call: Call) -> Any:
    """Remove one key."""
    return await call.write(data.remove_value, _target(call), call.path["key"])


async def clear_values(call: Call) -> Any:
    """Remove all keys of an instance, or of a chat."""
    return await call.write(data.clear_values, _target(call))


async def override_values(call: Call) -> Any:
    """
    Replace all values of an instance, or of a chat, with those in the body.

    Keys that stay keep their places. All of it happens, or nothing.
    """
    return await call.write(data.override_values, _target(call), call.values)


async def merge_values(call: Call) -> Any:
    """
    Set each key in the body and leave the others alone.

    A value replaces the old one whole. All of it happens, or nothing.
    """
    return await call.write(data.merge_values, _target(call), call.values)


async def remove_values(call: Call) -> Any:
    """Remove the named keys; those that are not there are not counted."""
    return await call.write(data.remove_values, _target(call), call.body["keys"])


async def patch_values(call: Call) -> Any:
    """
    Change values with a patch, all of it or nothing; answers all values.

    As `application/merge-patch+json` (RFC 7396, also for plain `application/json` and
    `application/vnd.valuetracker+json`): objects are merged deeply, null removes, anything
    else replaces. As `application/json-patch+json` (RFC 6902): paths begin with the key, as
    in `/outfit/top`; a failed `test` is `409`.
    """
    target = _target(call)
    if call.media_type == JSON_PATCH:
        if not isinstance(call.document, list):
            raise InvalidPatch("A JSON Patch must be an array of operations.")
        return await call.write(data.json_patch_values, target, call.document)
    if call.media_type not in (MERGE_PATCH, "application/json", EXACT_JSON):
        raise UnsupportedMediaType(f"A patch is sent as {MERGE_PATCH} or {JSON_PATCH}.")
    if not isinstance(call.document, dict):
        raise InvalidBody("A merge patch of values must be a JSON object.")
    check_key_count(len(call.document))
    patch = {KEY.parse(key): value for key, value in call.document.items()}
    return await call.write(data.merge_patch_values, target, patch)


MERGE_PATCH = "application/merge-patch+json"
# JSON that a proxy lets through byte for byte because it does not know the type.
EXACT_JSON = "application/vnd.valuetracker+json"
JSON_PATCH = "application/json-patch+json"
PATCHES: dict[str, dict[str, Any]] = {
    MERGE_PATCH: {"type": "object"},
    "application/json": {"type": "object"},
    EXACT_JSON: {"type": "object"},
    JSON_PATCH: {"type": "array", "items": {"type": "object"}, "maxItems": PATCH_OPERATIONS},
}

VALUE_REFUSALS = (
    InvalidBody,
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    TooDeep,
    InstanceNotFound,
    RevisionConflict,
    ValueTooLarge,
)

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/instances/{instance}/data",
        list_values,
        returns=Values,
        query=(AT_FIELD,),
        raises=(InvalidId, *PAST),
    ),
    Endpoint(
        ("GET",),
        "/instances/{instance}/data/{key}",
        find_value,
        returns=Values,
        query=(AT_FIELD,),
        raises=(InvalidId, InvalidKey, *PAST),
    ),
    Endpoint(
        ("POST", "PUT"),
        "/instances/{instance}/data",
        set_value,
        returns=ValueSet,
        body=(Field("key", KEY, "The key."), Field("value", VALUE, "Any JSON value.")),
        raises=VALUE_REFUSALS,
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}/data/{key}",
        remove_value,
        returns=Success,
        raises=(InvalidId, InvalidKey, DataKeyNotFound, RevisionConflict),
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}/data",
        clear_values,
        returns=Success,
        raises=(InvalidId, InstanceNotFound, RevisionConflict),
    ),
    Endpoint(
        ("PUT",),
        "/instances/{instance}/data/override",
        override_values,
        returns=SuccessMessage,
        body=AnyKeys("The keys the instance is to have, and their values."),
        raises=(*VALUE_REFUSALS, TooManyKeys),
    ),
    Endpoint(
        ("PUT",),
        "/instances/{instance}/data/merge",
        merge_values,
        returns=SuccessMessage,
        body=AnyKeys("The keys to set, and their values."),
        raises=(*VALUE_REFUSALS, TooManyKeys),
    ),
    Endpoint(
        ("PATCH",),
        "/instances/{instance}/data",
        patch_values,
        returns=Values,
        body=AnyDocument("A merge patch or a JSON Patch.", PATCHES),
        raises=(*VALUE_REFUSALS, TooManyKeys, InvalidPatch, PatchFailed, PatchTestFailed),
    ),
    Endpoint(
        ("PUT",),
        "/instances/{instance}/data/remove",
        remove_values,
        returns=Removed,
        body=(Field("keys", KEYS, "The keys to remove."),),
        raises=(
            InvalidBody,
            InvalidId,
            InvalidKey,
            TooManyKeys,
            InstanceNotFound,
            RevisionConflict,
        ),
    ),
]

# The same for a chat's own data. One that is not there yet comes into being with a write.
CHAT_ENDPOINTS = [
    replace(
        endpoint,
        path=endpoint.path.replace("/instances/{instance}", "/chats/{chat}"),
        raises=tuple(each for each in endpoint.raises if each is not InstanceNotFound),
    )
    for endpoint in ENDPOINTS
]
