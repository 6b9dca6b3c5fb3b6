"""
Routes that copy lorebooks of SillyTavern, alone or together with a checkpoint.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from valuetracker.api.sillytavern import configured, user_of
from valuetracker.bridge.lorebooks import (
    KEEP,
    REGENERATE,
    CloneRequest,
    copy_record,
    is_missing,
    remove_lorebook,
)
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
    Copy a lorebook of SillyTavern, with all entries and everything else in its file.

    Entries get new uids, and the uids inside `_registry_*` entries are replaced as well. A
    registry entry that cannot be parsed is copied unchanged, with a warning. `uids: "keep"`
    keeps all uids. Order and `displayIndex` stay. An entry without a `displayIndex` gets its old
    uid there, because SillyTavern shows it at that position. `as` is the name of the copy.
    """
    clone = CloneRequest(
        call.path["lorebook"], call.body.get("as"), call.body.get("uids", REGENERATE)
    )
    return await asyncio.to_thread(clone_world, configured(call), user_of(call), clone)


async def create_with_lorebook(
    call: Call, wanted: checkpoints.CheckpointRequest, clone: CloneRequest
) -> Written:
    """
    Copy the lorebook, then create the checkpoint: no checkpoint exists without its copy.

    A checkpoint that waits has the copy made again when it is made. A repeated request gets the
    first answer and makes no second copy.
    """
    if not (call.caller.admin or call.caller.is_bridge):
        raise AdminRequired("Only an admin, or a user of SillyTavern, may have lorebooks copied.")
    config, user = configured(call), user_of(call)
    if (await call.read(was_answered, call.context.idempotency_key)).result:
        return await call.write(checkpoints.create_checkpoint, call.path["chat"], wanted)
    copy = await asyncio.to_thread(clone_world, config, user, clone)
    expect = orjson.loads(wanted.expect) if wanted.expect is not None else {}
    expect.setdefault("lorebook", copy["name"])
    record = copy_record(copy, user, clone.uids)
    wanted = replace(wanted, expect=canonical(expect), lorebook=record)
    try:
        written = await call.write(checkpoints.create_checkpoint, call.path["chat"], wanted)
    except ValueTrackerError as error:
        # After a failure of the database, the checkpoint may exist: keep its copy.
        if error.status < 500:
            await asyncio.to_thread(remove_lorebook, config, user, copy["name"])
        raise
    if written.replayed:
        await asyncio.to_thread(remove_lorebook, config, user, copy["name"])
    return written


async def find_warnings(call: Call, chat_id: str, checkpoint: str | None) -> tuple[str, ...]:
    """
    Return a warning if the copy of a lorebook is gone that a checkpoint was made with.

    Without a name it is the record that a branch was made from.
    """
    name = (await call.read(checkpoints.find_lorebook, chat_id, checkpoint)).result
    if name is None:
        return ()
    if not await asyncio.to_thread(is_missing, configured(call), user_of(call), name):
        return ()
    return (f"Lorebook {name} is missing: it was deleted or renamed.",)


# The fields of these routes


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
            Field(
                "as",
                LOREBOOK_NAME,
                "The name of the copy; defaults to a generated one.",
                False,
                True,
            ),
            Field("uids", UIDS, "`regenerate` (the default) or `keep`.", False),
        ),
        body_optional=True,
        raises=(InvalidBody, *LOREBOOK_REFUSALS),
        extension="none",
        at_root=True,
        access="own",
    ),
]
