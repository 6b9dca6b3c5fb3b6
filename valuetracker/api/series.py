"""Routes of series and of processed ids."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    InvalidBody,
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    ProcessedNotFound,
    RevisionConflict,
    TooDeep,
    TooManyKeys,
    ValueTooLarge,
    VersionNotFound,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import CHAT_AT_FIELD, CHAT_PAST, AnyKeys, Endpoint, Field
from valuetracker.http.kinds import Kind
from valuetracker.names import CHAT_ID_LENGTH, check_id
from valuetracker.records import (
    Claimed,
    Cleared,
    CurrentVersion,
    IsProcessed,
    NewVersion,
    Processed,
    ProcessedIds,
    Series,
    Success,
    Version,
    VersionRemoved,
)
from valuetracker.runtime.extension import Read
from valuetracker.store import processed, series
from valuetracker.store.tx.jobs import Written

IDS_PER_CLAIM = 10_000
LONGEST_LEASE_MS = 7 * 24 * 60 * 60 * 1000
# Fields of a version that the server sets.
RESERVED = ("version", "createdAt")


async def add_version(call: Call) -> Written:
    """
    Add a version to a series of a chat, and make it the current version.

    `content` is any JSON, and all other fields of the body are kept with it. A version number
    is never used twice within a chat, even after a swipe or a restore.
    """
    meta = dict(call.values)
    content = meta.pop("content", None)
    if content is None:
        raise InvalidBody("`content` is required.")
    if any(name in meta for name in RESERVED):
        raise InvalidBody(f"{' and '.join(RESERVED)} are given by the server.")
    return await call.write(
        series.add_version, call.path["chat"], call.path["series"], content, meta
    )


async def get_series(call: Call) -> Read[Any]:
    """Read all versions of a series; the list is empty for an unknown series."""
    return await call.read(
        series.get_series, call.path["chat"], call.path["series"], call.query.get("at")
    )


async def get_version(call: Call) -> Read[Any]:
    """Read one version of a series."""
    return await _read_version(call, _version(call))


async def get_current_version(call: Call) -> Read[Any]:
    """Read the current version: the last one added or chosen, or else the newest one."""
    return await _read_version(call, None)


async def _read_version(call: Call, version: int | None) -> Read[Any]:
    return await call.read(
        series.get_version, call.path["chat"], call.path["series"], version, call.query.get("at")
    )


async def choose_version(call: Call) -> Written:
    """Make a version the current one."""
    return await call.write(
        series.choose_version, call.path["chat"], call.path["series"], call.body["version"]
    )


async def remove_version(call: Call) -> Written:
    """Remove a version; if it was current, the newest remaining version becomes current."""
    version = _version(call)
    return await call.write(series.remove_version, call.path["chat"], call.path["series"], version)


async def clear_series(call: Call) -> Written:
    """Remove all versions of a series; new versions get higher numbers."""
    return await call.write(series.clear_series, call.path["chat"], call.path["series"])


async def claim(call: Call) -> Written:
    """
    Claim ids to process: the caller gets the `new` ones; the `seen` ones are taken.

    Without `leaseMs` the new ids count as processed at once. With `leaseMs` they are only
    claimed: an id that is not confirmed with `PUT` within that time can be claimed again.
    """
    return await call.write(
        processed.claim,
        call.path["chat"],
        call.path["set"],
        call.body["ids"],
        call.body.get("leaseMs"),
    )


async def list_processed(call: Call) -> Read[Any]:
    """List the processed ids of a set, without claims that are not confirmed."""
    return await call.read(
        processed.list_processed, call.path["chat"], call.path["set"], call.query.get("at")
    )


async def is_processed(call: Call) -> Read[Any]:
    """Read if an id has been processed."""
    return await call.read(
        processed.is_processed,
        call.path["chat"],
        call.path["set"],
        call.path["id"],
        call.query.get("at"),
    )


async def mark_processed(call: Call) -> Written:
    """Mark an id as processed, or confirm a claim; `already` tells if it was processed."""
    return await call.write(
        processed.mark_processed, call.path["chat"], call.path["set"], call.path["id"]
    )


async def forget_processed(call: Call) -> Written:
    """Remove an id, so that it is neither processed nor claimed."""
    return await call.write(
        processed.forget_processed, call.path["chat"], call.path["set"], call.path["id"]
    )


def _version(call: Call) -> int:
    """Return the version that the path names; text that is no number names none."""
    text = call.path["version"]
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise VersionNotFound()
    return int(text)


def _parse_version(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidBody("`version` must be a whole number.")
    return value


def _parse_ids(value: Any) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= IDS_PER_CLAIM:
        raise InvalidBody(f"`ids` must be an array of 1 to {IDS_PER_CLAIM} ids.")
    for each in value:
        if not isinstance(each, str):
            raise InvalidBody("An id must be a string.")
        check_id(each, "processed", CHAT_ID_LENGTH)
    return list(dict.fromkeys(value))


def _parse_lease(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidBody("`leaseMs` must be a whole number of milliseconds.")
    if not 1 <= value <= LONGEST_LEASE_MS:
        raise InvalidBody(f"`leaseMs` must be 1 to {LONGEST_LEASE_MS}.")
    return value


VERSION = Kind({"type": "integer", "minimum": 0}, _parse_version)
IDS = Kind(
    {
        "type": "array",
        "minItems": 1,
        "maxItems": IDS_PER_CLAIM,
        "items": {"type": "string", "minLength": 1, "maxLength": CHAT_ID_LENGTH},
    },
    _parse_ids,
)
LEASE = Kind({"type": "integer", "minimum": 1, "maximum": LONGEST_LEASE_MS}, _parse_lease)

SERIES = "/chats/{chat}/series/{series}"
SET = "/chats/{chat}/processed/{set}"

ENDPOINTS = [
    Endpoint(
        ("POST",),
        SERIES,
        add_version,
        returns=NewVersion,
        body=AnyKeys("`content`, and any other fields to keep with it."),
        raises=(
            InvalidBody,
            InvalidId,
            InvalidKey,
            NumberOutOfRange,
            TooDeep,
            TooManyKeys,
            ValueTooLarge,
            RevisionConflict,
        ),
        status=201,
    ),
    Endpoint(
        ("GET",),
        SERIES,
        get_series,
        returns=Series,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, *CHAT_PAST),
    ),
    Endpoint(
        ("DELETE",), SERIES, clear_series, returns=Cleared, raises=(InvalidId, RevisionConflict)
    ),
    Endpoint(
        ("GET",),
        f"{SERIES}/current",
        get_current_version,
        returns=Version,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, VersionNotFound, *CHAT_PAST),
    ),
    Endpoint(
        ("PUT",),
        f"{SERIES}/current",
        choose_version,
        returns=CurrentVersion,
        body=(Field("version", VERSION, "The version to make current."),),
        raises=(InvalidBody, InvalidId, VersionNotFound, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        f"{SERIES}/{{version}}",
        get_version,
        returns=Version,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, VersionNotFound, *CHAT_PAST),
    ),
    Endpoint(
        ("DELETE",),
        f"{SERIES}/{{version}}",
        remove_version,
        returns=VersionRemoved,
        raises=(InvalidId, VersionNotFound, RevisionConflict),
    ),
    Endpoint(
        ("POST",),
        SET,
        claim,
        returns=Claimed,
        body=(
            Field("ids", IDS, "The ids to claim."),
            Field("leaseMs", LEASE, "How long a claim lasts, in milliseconds.", required=False),
        ),
        raises=(InvalidBody, InvalidId, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        SET,
        list_processed,
        returns=ProcessedIds,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, *CHAT_PAST),
    ),
    Endpoint(
        ("GET",),
        f"{SET}/{{id}}",
        is_processed,
        returns=IsProcessed,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, *CHAT_PAST),
    ),
    Endpoint(
        ("PUT",),
        f"{SET}/{{id}}",
        mark_processed,
        returns=Processed,
        raises=(InvalidId, RevisionConflict),
    ),
    Endpoint(
        ("DELETE",),
        f"{SET}/{{id}}",
        forget_processed,
        returns=Success,
        raises=(InvalidId, ProcessedNotFound, RevisionConflict),
    ),
]
