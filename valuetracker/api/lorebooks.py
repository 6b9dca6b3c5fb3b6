"""
Lorebooks of SillyTavern, copied by themselves or with a checkpoint.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from valuetracker.api.sillytavern import configured, user_of
from valuetracker.bridge.lorebooks import KEEP, REGENERATE, CloneRequest, remove_lorebook
from valuetracker.bridge.lorebooks import clone_lorebook as clone_world
from valuetracker.bridge.records import LorebookClone
from valuetracker.errors import (
    AdminRequired,
    InvalidBody,
    InvalidName,
    LorebookDamaged,
    LorebookExists,
    LorebookNotFound,
    NotWritable,
    StorageFull,
    SymlinkRefused,
    ValueTrackerError,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import LOREBOOK_NAME, Kind
from valuetracker.store import checkpoints
from valuetracker.store.tx.idempotency import was_answered
from valuetracker.store.tx.jobs import Written
from valuetracker.values import canonical


async def clone_lorebook(call: Call) -> LorebookClone:
    """
    Copy a lorebook of SillyTavern, all entries and all else that is in its file.

    Entries get new uids, and `_registry_*` entries name the new ones; one that cannot be
    read is copied as it is, with a warning. `uids: "keep"` leaves the old ones. Order and
    `displayIndex` stay; an entry without one gets its old uid, which is where SillyTavern
    showed it. `as` is the name of the copy.
    """
    clone = CloneRequest(
        call.path["lorebook"], call.body.get("as"), call.body.get("uids", REGENERATE)
    )
    return await asyncio.to_thread(clone_world, configured(call), user_of(call), clone)


async def create_with_lorebook(call: Call, wish: checkpoints.Wish, clone: CloneRequest) -> Written:
    """
    Make a checkpoint, and the copy before it: there is never one without its copy.

    Whoever sends the request again gets the first answer, and no second copy.
    """
    if wish.when_ready:
        raise InvalidBody("`lorebook` cannot be copied later: leave `whenReady` out.")
    if not (call.caller.admin or call.caller.is_bridge):
        raise AdminRequired("Only an admin, or a user of SillyTavern, may have lorebooks copied.")
    config, user = configured(call), user_of(call)
    answered = await call.read(was_answered, call.context.idempotency_key)
    call.reading = None
    if answered:
        return await call.write(checkpoints.create_checkpoint, call.path["chat"], wish)
    copy = await asyncio.to_thread(clone_world, config, user, clone)
    expect = orjson.loads(wish.expect) if wish.expect is not None else {}
    expect.setdefault("lorebook", copy["name"])
    record = {name: copy[name] for name in ("source", "name", "entries", "warnings")}
    wish = replace(wish, expect=canonical(expect), lorebook=orjson.dumps(record).decode())
    try:
        written = await call.write(checkpoints.create_checkpoint, call.path["chat"], wish)
    except ValueTrackerError as error:
        # After a failure of the database it is not known whether it was made.
        if error.status < 500:
            await asyncio.to_thread(remove_lorebook, config, user, copy["name"])
        raise
    if written.replayed:
        await asyncio.to_thread(remove_lorebook, config, user, copy["name"])
    return written


# What these routes take


def _parse_uids(value: Any) -> str:
    if value not in (REGENERATE, KEEP):
        raise InvalidBody(f"`uids` must be `{REGENERATE}` or `{KEEP}`.")
    return str(value)


def _parse_lorebook(value: Any) -> CloneRequest:
    if isinstance(value, str):
        return CloneRequest(LOREBOOK_NAME.parse(value))
    if not isinstance(value, dict) or "name" not in value:
        raise InvalidBody("`lorebook` must be a name, or an object with a `name`.")
    name, as_name = value["name"], value.get("as")
    return CloneRequest(
        LOREBOOK_NAME.parse(name),
        LOREBOOK_NAME.parse(as_name) if as_name is not None else None,
        UIDS.parse(value.get("uids", REGENERATE)),
    )


UIDS = Kind({"type": "string", "enum": [REGENERATE, KEEP]}, _parse_uids)
LOREBOOK = Kind(
    {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "as": {"type": "string"},
                    "uids": UIDS.schema,
                },
                "required": ["name"],
            },
        ]
    },
    _parse_lorebook,
)
LOREBOOK_REFUSALS = (
    InvalidName,
    SymlinkRefused,
    LorebookNotFound,
    LorebookExists,
    LorebookDamaged,
    NotWritable,
    StorageFull,
)

ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/st/lorebooks/{lorebook}/clone",
        clone_lorebook,
        returns=LorebookClone,
        body=(
            Field("as", LOREBOOK_NAME, "The name of the copy; made up if not said.", False, True),
            Field("uids", UIDS, "`regenerate` (the default) or `keep`.", False),
        ),
        body_optional=True,
        raises=(InvalidBody, *LOREBOOK_REFUSALS),
        extension="none",
        at_root=True,
        access="own",
    ),
]
