"""Values over HTTP."""

from __future__ import annotations

from typing import Any

from valuetracker.endpoints import KEY, KEYS, VALUE, AnyKeys, Call, Endpoint, Field
from valuetracker.errors import (
    DataKeyNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    TooDeep,
    TooManyKeys,
    ValueTooLarge,
)
from valuetracker.model import Removed, Success, SuccessMessage, Values, ValueSet
from valuetracker.store import data


async def list_values(call: Call) -> Any:
    """
    Read all values of an instance.

    Each key stands where it last came into being; an update keeps its place. An unknown
    instance has none.
    """
    return await call.read(data.list_values, call.path["instance"])


async def find_value(call: Call) -> Any:
    """Read one key, as an object of that key; an absent one gives an empty object."""
    return await call.read(data.find_value, call.path["instance"], call.path["key"])


async def set_value(call: Call) -> Any:
    """Set one key."""
    return await call.write(
        data.set_value, call.path["instance"], call.body["key"], call.body["value"]
    )


async def remove_value(call: Call) -> Any:
    """Remove one key."""
    return await call.write(data.remove_value, call.path["instance"], call.path["key"])


async def clear_values(call: Call) -> Any:
    """Remove all keys of an instance."""
    return await call.write(data.clear_values, call.path["instance"])


async def override_values(call: Call) -> Any:
    """
    Replace all values of an instance with those in the body.

    Keys that stay keep their places. All of it happens, or nothing.
    """
    return await call.write(data.override_values, call.path["instance"], call.values)


async def merge_values(call: Call) -> Any:
    """
    Set each key in the body and leave the others alone.

    A value replaces the old one whole. All of it happens, or nothing.
    """
    return await call.write(data.merge_values, call.path["instance"], call.values)


async def remove_values(call: Call) -> Any:
    """Remove the named keys; those that are not there are not counted."""
    return await call.write(data.remove_values, call.path["instance"], call.body["keys"])


VALUE_REFUSALS = (
    InvalidBody,
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    TooDeep,
    InstanceNotFound,
    ValueTooLarge,
)

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/instances/{instance}/data",
        list_values,
        returns=Values,
        raises=(InvalidId,),
    ),
    Endpoint(
        ("GET",),
        "/instances/{instance}/data/{key}",
        find_value,
        returns=Values,
        raises=(InvalidId, InvalidKey),
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
        raises=(InvalidId, InvalidKey, DataKeyNotFound),
    ),
    Endpoint(
        ("DELETE",),
        "/instances/{instance}/data",
        clear_values,
        returns=Success,
        raises=(InvalidId, InstanceNotFound),
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
        ("PUT",),
        "/instances/{instance}/data/remove",
        remove_values,
        returns=Removed,
        body=(Field("keys", KEYS, "The keys to remove."),),
        raises=(InvalidBody, InvalidId, InvalidKey, TooManyKeys, InstanceNotFound),
    ),
]
