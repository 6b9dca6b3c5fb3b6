"""Routes of the values of instances and of chats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from valuetracker.api.history import RESTORE_BODY
from valuetracker.errors import (
    ChatNotFound,
    Compacted,
    DataKeyNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidKey,
    InvalidPatch,
    MessageNotFound,
    NumberOutOfRange,
    PatchFailed,
    PatchTestFailed,
    RevisionConflict,
    RevisionUnknown,
    TooDeep,
    TooManyKeys,
    UnsupportedMediaType,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import (
    AT_FIELD,
    CHAT_AT_FIELD,
    PAST,
    AnyDocument,
    AnyKeys,
    Endpoint,
    Field,
)
from valuetracker.http.kinds import KEY, KEYS, VALUE, check_key_count
from valuetracker.records import Changed, ChangedMessage, Removed, Restored, Values, ValueSet
from valuetracker.runtime.extension import Read
from valuetracker.store import data, restore
from valuetracker.store.log.json_patch import PATCH_OPERATIONS
from valuetracker.store.rows.spaces import Address, chat, instance
from valuetracker.store.tx.jobs import Written


def _target(call: Call) -> Address:
    """Return the instance or the chat that the path names."""
    instance_id = call.path.get("instance")
    return instance(instance_id) if instance_id is not None else chat(call.path["chat"])


async def list_values(call: Call) -> Read[Any]:
    """
    Read all values of an instance, or of a chat.

    Keys are in order of creation: an update keeps the position of a key, and a key that was
    removed and set again comes last. The answer is empty for an unknown instance or chat. `at`
    reads an earlier state, also of something that has been deleted since; of a chat also the
    state as of a message.
    """
    return await call.read(data.list_values, _target(call), call.query.get("at"))


async def find_value(call: Call) -> Read[Any]:
    """
    Read one key, as an object with that key; the object is empty if the key is absent.

    `at` reads an earlier value.
    """
    return await call.read(data.find_value, _target(call), call.path["key"], call.query.get("at"))


async def set_value(call: Call) -> Written:
    """Set one key."""
    return await call.write(data.set_value, _target(call), call.body["key"], call.body["value"])


async def remove_value(call: Call) -> Written:
    """Remove one key."""
    return await call.write(data.remove_value, _target(call), call.path["key"])


async def clear_values(call: Call) -> Written:
    """Remove all keys of an instance, or of a chat."""
    return await call.write(data.clear_values, _target(call))


async def override_values(call: Call) -> Written:
    """
    Replace all values of an instance, or of a chat, with those in the body.

    Keys that remain keep their positions. The request succeeds completely or changes nothing.
    """
    return await call.write(data.override_values, _target(call), call.values)


async def merge_values(call: Call) -> Written:
    """
    Set each key of the body, and keep all other keys.

    A new value replaces the whole old value. The request succeeds completely or changes
    nothing.
    """
    return await call.write(data.merge_values, _target(call), call.values)


async def remove_values(call: Call) -> Written:
    """Remove the named keys, and count those that existed."""
    return await call.write(data.remove_values, _target(call), call.body["keys"])


async def restore_value(call: Call) -> Written:
    """
    Restore one key to its value at a revision; where it was absent then, it is removed.

    The restore is a new revision and can itself be undone. The restored value follows the
    messages that had made it. Active operations do not matter. With `dryRun` nothing changes,
    and `changes` lists what would.
    """
    return await call.write(
        restore.restore_value,
        _target(call),
        call.path["key"],
        call.body["revision"],
        call.body.get("dryRun", False),
    )


async def patch_values(call: Call) -> Written:
    """
    Change values with a patch, completely or not at all.

    The content type chooses the kind of patch. `application/merge-patch+json` (RFC 7396; also
    `application/json` and `application/vnd.valuetracker+json`) merges objects deeply: null
    removes a field, and any other value replaces the old one. `application/json-patch+json`
    (RFC 6902) is a list of operations. Their paths begin with the key, as in `/outfit/top`. A
    `test` that fails answers `409`. With `Prefer: return=representation` the answer has all
    values as they are afterwards.
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
        quick=True,
    ),
    Endpoint(
        ("GET",),
        "/instances/{instance}/data/{key}",
        find_value,
        returns=Values,
        query=(AT_FIELD,),
        raises=(InvalidId, InvalidKey, *PAST),
        quick=True,
    ),
    Endpoint(
        ("POST", "PUT"),
        "/instances/{instance}/data",
        set_value,
        returns=ValueSet,
        body=(Field("key", KEY, "The key."), Field("value", VALUE, "Any JSON value.")),
        raises=VALUE_REFUSALS,
        quick=True,
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}/data/{key}",
        remove_value,
        returns=Changed,
        raises=(InvalidId, InvalidKey, DataKeyNotFound, RevisionConflict),
        quick=True,
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}/data",
        clear_values,
        returns=Changed,
        raises=(InvalidId, InstanceNotFound, RevisionConflict),
        quick=True,
    ),
    Endpoint(
        ("PUT",),
        "/instances/{instance}/data/override",
        override_values,
        returns=ChangedMessage,
        body=AnyKeys("All keys, with their values."),
        raises=(*VALUE_REFUSALS, TooManyKeys),
        quick=True,
    ),
    Endpoint(
        ("PUT",),
        "/instances/{instance}/data/merge",
        merge_values,
        returns=ChangedMessage,
        body=AnyKeys("The keys to set, with their values."),
        raises=(*VALUE_REFUSALS, TooManyKeys),
        quick=True,
    ),
    Endpoint(
        ("PATCH",),
        "/instances/{instance}/data",
        patch_values,
        returns=Changed | Values,
        body=AnyDocument("A merge patch or a JSON Patch.", PATCHES),
        raises=(*VALUE_REFUSALS, TooManyKeys, InvalidPatch, PatchFailed, PatchTestFailed),
        quick=True,
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
        quick=True,
        beyond_quota=True,
    ),
    Endpoint(
        ("POST",),
        "/instances/{instance}/data/{key}/restore",
        restore_value,
        returns=Restored,
        body=RESTORE_BODY,
        raises=(
            InvalidBody,
            InvalidId,
            InvalidKey,
            RevisionUnknown,
            InstanceNotFound,
            DataKeyNotFound,
            Compacted,
            RevisionConflict,
        ),
    ),
]


def _of_chat(endpoint: Endpoint) -> Endpoint:
    """Return the row of the same route for a chat's own data."""
    raises = tuple(each for each in endpoint.raises if each is not InstanceNotFound)
    if endpoint.handler is restore_value:
        raises = (*raises, ChatNotFound)
    reads_past = AT_FIELD in endpoint.query
    return replace(
        endpoint,
        path=endpoint.path.replace("/instances/{instance}", "/chats/{chat}"),
        query=(CHAT_AT_FIELD,) if reads_past else endpoint.query,
        raises=(*raises, MessageNotFound) if reads_past else raises,
    )


# The same routes for a chat's own data. The first write creates the chat.
CHAT_ENDPOINTS = [_of_chat(endpoint) for endpoint in ENDPOINTS]
