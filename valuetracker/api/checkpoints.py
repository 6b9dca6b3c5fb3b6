"""Routes of checkpoints."""

from __future__ import annotations

from typing import Any

from valuetracker.api.lorebooks import (
    LOREBOOK,
    LOREBOOK_REFUSALS,
    create_with_lorebook,
    find_warnings,
)
from valuetracker.errors import (
    AdminRequired,
    ChatNotFound,
    CheckpointExists,
    CheckpointFailed,
    CheckpointInvalid,
    CheckpointNotFound,
    CheckpointWaiting,
    Compacted,
    InvalidBody,
    InvalidId,
    InvalidKey,
    MessageNotFound,
    NumberOutOfRange,
    OperationsPending,
    RevisionConflict,
    TooDeep,
    TooManyKeys,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import DRY_RUN_FIELD, Endpoint, Field
from valuetracker.http.kinds import (
    CHAT_ID,
    CHECKPOINT_NAME,
    FLAG,
    INSTANCE_ID,
    KEY,
    OBJECT,
    Kind,
    check_key_count,
)
from valuetracker.records import (
    Checkpoint,
    CheckpointListed,
    CheckpointRestored,
    CheckpointState,
    Difference,
    Success,
    Validation,
)
from valuetracker.records import CheckpointWaiting as WaitingRecord
from valuetracker.runtime.extension import Read
from valuetracker.store import checkpoints
from valuetracker.store.story.validation import Check
from valuetracker.store.tx.jobs import Written
from valuetracker.values import KEYS_PER_REQUEST


async def create_checkpoint(call: Call) -> Any:
    """
    Create a checkpoint: a name for the state of a chat, now or as of a message.

    A checkpoint covers everything the chat holds and copies nothing: it points into the log,
    with a digest and counts that prove it later. While operations of the chat are active, the
    request is refused; with `whenReady` the checkpoint is created as soon as the last operation
    has ended. `expect` names the `series` and `keys` that should exist; missing ones become
    warnings. Other fields of `expect` are for validation: `messageCount`, and anything else that
    the caller can compare later.

    `state` is the record: the numbers of rows, and of each series the current version and every
    version with its fields and a digest of its content. `capture` names keys whose size and digest
    are recorded as well, with chosen `fields` of the value. A digest is the SHA-256 of the JSON as
    the API answers it.

    `lorebook` names a lorebook of SillyTavern to copy in the same step, in the way of
    `POST /st/lorebooks/{lorebook}/clone`. `state.lorebook` has both names, and validation
    expects the name of the copy. With `whenReady` it is copied at once, and again over that copy
    when the checkpoint is created.
    """
    body = call.body
    wanted = checkpoints.CheckpointRequest(
        body.get("name"),
        body.get("messageId"),
        body.get("expect"),
        body.get("meta"),
        body.get("whenReady", False),
        body.get("capture", ()),
    )
    if body.get("lorebook") is not None:
        return await create_with_lorebook(call, wanted, body["lorebook"])
    return await call.write(checkpoints.create_checkpoint, call.path["chat"], wanted)


async def list_checkpoints(call: Call) -> Read[Any]:
    """List the checkpoints of a chat, oldest first."""
    return await call.read(checkpoints.list_checkpoints, call.path["chat"])


async def get_checkpoint(call: Call) -> Read[Any]:
    """Read a checkpoint with the state it records."""
    return await call.read(checkpoints.get_checkpoint, call.path["chat"], call.path["checkpoint"])


async def get_checkpoint_state(call: Call) -> Read[Any]:
    """Read everything that a chat held at a checkpoint, with all versions and processed ids."""
    return await call.read(
        checkpoints.get_checkpoint_state, call.path["chat"], call.path["checkpoint"]
    )


async def delete_checkpoint(call: Call) -> Written:
    """Delete a checkpoint; its state stays in the log, and a lorebook copied with it stays, too."""
    return await call.write(
        checkpoints.delete_checkpoint, call.path["chat"], call.path["checkpoint"]
    )


async def diff_checkpoint(call: Call) -> Read[Any]:
    """List the differences between a checkpoint and the current state."""
    return await call.read(checkpoints.diff_checkpoint, call.path["chat"], call.path["checkpoint"])


async def validate_checkpoint(call: Call) -> Written:
    """
    Compute the state of a checkpoint from the log again, and compare it with the record.

    A difference is an error. `actual` tells what the caller finds. In `actual.series` a version
    other than the recorded one, null, or a series without a record is an error. Every other
    difference from `expect` is a warning: `lorebook`, `messageCount` (if more than 0 were
    expected), or anything else. A copied lorebook that is missing is a warning, too, if the server
    knows SillyTavern's folder.
    """
    chat, name = call.path["chat"], call.path["checkpoint"]
    check = await check_of(call, chat, name)
    return await call.write(checkpoints.validate_checkpoint, chat, name, check)


async def check_of(call: Call, chat_id: str, name: str | None) -> Check:
    """Return what the request, and SillyTavern's folder, say about a checkpoint."""
    warnings = await find_warnings(call, chat_id, name)
    return Check(call.body.get("actual"), call.body.get("force", False), warnings)


async def restore_checkpoint(call: Call) -> Written:
    """
    Restore a chat to the state of a checkpoint.

    The restore is one new revision and can itself be undone. Instances that were deleted since
    are created again, and instances that were created since are deleted. The checkpoint is
    validated first, with `actual`, and refused with `checkpoint_invalid` if there are errors;
    `force` restores it nevertheless. `success` and `errors` are those of the validation. With
    `dryRun` nothing changes, `changes` lists what would, and operations may be active.
    """
    chat, name = call.path["chat"], call.path["checkpoint"]
    check = await check_of(call, chat, name)
    dry_run = call.body.get("dryRun", False)
    return await call.write(checkpoints.restore_checkpoint, chat, name, check, dry_run)


def _parse_actual(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidBody("`actual` must be an object.")
    series = value.get("series", {})
    if not isinstance(series, dict) or not all(map(_is_version, series.values())):
        raise InvalidBody("`actual.series` must have a number, or null, for each series.")
    return value


def _is_version(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _parse_capture(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise InvalidBody("`capture` must be an array of objects.")
    check_key_count(len(value))
    return [_parse_captured(each) for each in value]


def _parse_captured(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not set(value) <= {"key", "instanceId", "fields"}:
        raise InvalidBody("What to capture is a `key`, perhaps with `instanceId` and `fields`.")
    instance_id, fields = value.get("instanceId"), value.get("fields")
    if fields is None:
        fields = []
    if not isinstance(fields, list) or not all(isinstance(name, str) for name in fields):
        raise InvalidBody("`fields` must be an array of names.")
    check_key_count(len(fields))
    return {
        "key": KEY.parse(value.get("key")),
        "instanceId": INSTANCE_ID.parse(instance_id) if instance_id is not None else None,
        "fields": list(dict.fromkeys(fields)),
    }


ACTUAL = Kind(
    {
        "type": "object",
        "properties": {
            "series": {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
        },
    },
    _parse_actual,
)
CAPTURE = Kind(
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "key": KEY.schema,
                "instanceId": {"type": ["string", "null"]},
                "fields": {"type": ["array", "null"], "items": {"type": "string"}},
            },
            "required": ["key"],
            "additionalProperties": False,
        },
        "maxItems": KEYS_PER_REQUEST,
    },
    _parse_capture,
)
ACTUAL_FIELD = Field(
    "actual",
    ACTUAL,
    "What the caller finds: `series` with the version of each, and what `expect` names.",
    required=False,
    nullable=True,
)
FORCE_FIELD = Field(
    "force", FLAG, "Use the checkpoint even if it does not validate.", required=False
)

ALL = "/chats/{chat}/checkpoints"
ONE = ALL + "/{checkpoint}"
USE = (InvalidId, CheckpointNotFound, CheckpointWaiting, CheckpointFailed)

ENDPOINTS = [
    Endpoint(
        ("POST",),
        ALL,
        create_checkpoint,
        returns=Checkpoint,
        body=(
            Field(
                "name", CHECKPOINT_NAME, "The name; defaults to a generated one.", required=False
            ),
            Field(
                "messageId",
                CHAT_ID,
                "The message whose state is named; defaults to now.",
                required=False,
                nullable=True,
            ),
            Field("expect", OBJECT, "The `series` and `keys` that should exist.", required=False),
            Field(
                "capture",
                CAPTURE,
                "The keys to record with size, digest and chosen fields:"
                " `{key, instanceId?, fields?}`.",
                required=False,
            ),
            Field("meta", OBJECT, "Any data to keep with the checkpoint.", required=False),
            Field(
                "whenReady",
                FLAG,
                "Create the checkpoint when all operations have ended.",
                required=False,
            ),
            Field(
                "lorebook",
                LOREBOOK,
                "The lorebook to copy: its name, or `{name, as?, uids?}`.",
                required=False,
                nullable=True,
            ),
        ),
        raises=(
            InvalidBody,
            AdminRequired,
            *LOREBOOK_REFUSALS,
            InvalidId,
            InvalidKey,
            TooManyKeys,
            NumberOutOfRange,
            TooDeep,
            ValueTooLarge,
            ChatNotFound,
            MessageNotFound,
            Compacted,
            CheckpointExists,
            OperationsPending,
        ),
        status=201,
        also={202: WaitingRecord},
        conditional=False,
    ),
    Endpoint(("GET",), ALL, list_checkpoints, returns=list[CheckpointListed], raises=(InvalidId,)),
    Endpoint(
        ("GET",), ONE, get_checkpoint, returns=Checkpoint, raises=(InvalidId, CheckpointNotFound)
    ),
    Endpoint(
        ("DELETE",),
        ONE,
        delete_checkpoint,
        returns=Success,
        raises=(InvalidId, CheckpointNotFound),
        conditional=False,
    ),
    Endpoint(
        ("GET",),
        ONE + "/state",
        get_checkpoint_state,
        returns=CheckpointState,
        raises=(*USE, MessageNotFound),
    ),
    Endpoint(
        ("GET",),
        ONE + "/diff",
        diff_checkpoint,
        returns=list[Difference],
        raises=(*USE, MessageNotFound),
    ),
    Endpoint(
        ("POST",),
        ONE + "/validate",
        validate_checkpoint,
        returns=Validation,
        body=(ACTUAL_FIELD,),
        body_optional=True,
        raises=(InvalidBody, ChatNotFound, *USE, MessageNotFound),
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        ONE + "/restore",
        restore_checkpoint,
        returns=CheckpointRestored,
        body=(DRY_RUN_FIELD, ACTUAL_FIELD, FORCE_FIELD),
        body_optional=True,
        raises=(
            InvalidBody,
            ChatNotFound,
            *USE,
            MessageNotFound,
            OperationsPending,
            CheckpointInvalid,
            RevisionConflict,
        ),
    ),
]
