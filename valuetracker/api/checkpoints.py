"""Routes of checkpoints and branches."""

from __future__ import annotations

from typing import Any

from valuetracker.api.lorebooks import LOREBOOK, LOREBOOK_REFUSALS, create_with_lorebook
from valuetracker.errors import (
    AdminRequired,
    ChatExists,
    ChatNotFound,
    CheckpointExists,
    CheckpointFailed,
    CheckpointInvalid,
    CheckpointNotFound,
    CheckpointWaiting,
    Compacted,
    InvalidBody,
    InvalidId,
    MessageNotFound,
    NumberOutOfRange,
    OperationsPending,
    RevisionConflict,
    RevisionUnknown,
    TooDeep,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import CHAT_ID, CHECKPOINT_NAME, FLAG, OBJECT, REVISION, Kind
from valuetracker.records import (
    Branch,
    Checkpoint,
    CheckpointListed,
    CheckpointRestored,
    Difference,
    Lineage,
    Success,
    Validation,
)
from valuetracker.records import CheckpointWaiting as WaitingRecord
from valuetracker.runtime.extension import Read
from valuetracker.store import branches, checkpoints
from valuetracker.store.tx.jobs import Written


async def create_checkpoint(call: Call) -> Any:
    """
    Create a checkpoint: a name for the state of a chat, now or as of a message.

    A checkpoint covers everything the chat holds and copies nothing: it points into the log,
    with a digest and counts that prove it later. While operations of the chat are active, the
    request is refused; with `whenReady` the checkpoint is created as soon as the last operation
    has ended. `expect` names the `series` and `keys` that should exist; missing ones become
    warnings.

    `lorebook` names a lorebook of SillyTavern to copy in the same step, in the way of
    `POST /st/lorebooks/{lorebook}/clone`. `state.lorebook` has both names, and validation
    expects the name of the copy. `lorebook` and `whenReady` cannot be combined.
    """
    body = call.body
    wanted = checkpoints.CheckpointRequest(
        body.get("name"),
        body.get("messageId"),
        body.get("expect"),
        body.get("meta"),
        body.get("whenReady", False),
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


async def delete_checkpoint(call: Call) -> Written:
    """Delete a checkpoint; the state that it names stays in the log."""
    return await call.write(
        checkpoints.delete_checkpoint, call.path["chat"], call.path["checkpoint"]
    )


async def diff_checkpoint(call: Call) -> Read[Any]:
    """List the differences between a checkpoint and the current state."""
    return await call.read(checkpoints.diff_checkpoint, call.path["chat"], call.path["checkpoint"])


async def validate_checkpoint(call: Call) -> Written:
    """
    Compute the state of a checkpoint from the log again, and compare it with the record.

    A difference is an error. `actual` tells what the caller finds outside the log, and each
    difference from `expect` is a warning.
    """
    return await call.write(
        checkpoints.validate_checkpoint,
        call.path["chat"],
        call.path["checkpoint"],
        call.body.get("actual"),
    )


async def restore_checkpoint(call: Call) -> Written:
    """
    Restore a chat to the state of a checkpoint.

    The restore is one new revision and can itself be undone. Instances that were deleted since
    are created again, and instances that were created since are deleted. With `dryRun` nothing
    changes, and the answer says what would change.
    """
    return await call.write(
        checkpoints.restore_checkpoint,
        call.path["chat"],
        call.path["checkpoint"],
        call.body.get("dryRun", False),
    )


async def branch_chat(call: Call) -> Written:
    """
    Create a branch: a chat that begins with the state of this chat.

    The state is the current one, or that of a checkpoint, a revision or a message. The branch
    has copies of its own: messages from before the branch point can be swiped and deleted in one
    chat without effect on the other. Instances get new ids, which `instances` lists by the old
    ids. Operations are not copied.
    """
    start = call.body.get("from") or branches.Start()
    return await call.write(branches.branch_chat, call.path["chat"], call.body["chatId"], start)


async def get_lineage(call: Call) -> Read[Any]:
    """List the ancestors of a chat, nearest first, and its branches."""
    return await call.read(branches.get_lineage, call.path["chat"])


def _parse_start(value: Any) -> branches.Start:
    if not isinstance(value, dict):
        raise InvalidBody("`from` must be an object.")
    given = {name: each for name, each in value.items() if each is not None}
    if len(given) > 1 or not set(given) <= {"checkpoint", "revision", "messageId"}:
        raise InvalidBody("`from` names a `checkpoint`, a `revision` or a `messageId`.")
    if "checkpoint" in given:
        return branches.Start(checkpoint=CHECKPOINT_NAME.parse(given["checkpoint"]))
    if "revision" in given:
        return branches.Start(revision=REVISION.parse(given["revision"]))
    if "messageId" in given:
        return branches.Start(message_id=CHAT_ID.parse(given["messageId"]))
    return branches.Start()


def _parse_actual(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidBody("`actual` must be an object.")
    return value


ACTUAL = Kind({"type": "object"}, _parse_actual)
START = Kind(
    {
        "type": "object",
        "properties": {
            "checkpoint": {"type": "string"},
            "revision": {"type": "integer"},
            "messageId": {"type": "string"},
        },
        "maxProperties": 1,
    },
    _parse_start,
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
        body=(Field("actual", ACTUAL, "What the caller finds outside the log.", required=False),),
        body_optional=True,
        raises=(InvalidBody, ChatNotFound, *USE, MessageNotFound),
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        ONE + "/restore",
        restore_checkpoint,
        returns=CheckpointRestored,
        body=(
            Field("dryRun", FLAG, "Change nothing, and answer what would change.", required=False),
        ),
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
    Endpoint(
        ("POST",),
        "/chats/{chat}/branches",
        branch_chat,
        returns=Branch,
        body=(
            Field("chatId", CHAT_ID, "The id of the new chat."),
            Field(
                "from",
                START,
                "The `checkpoint`, `revision` or `messageId` to begin with; defaults to now.",
                required=False,
                nullable=True,
            ),
        ),
        raises=(
            InvalidBody,
            *USE,
            RevisionUnknown,
            ChatNotFound,
            MessageNotFound,
            ChatExists,
            OperationsPending,
            Compacted,
        ),
        status=201,
        conditional=False,
    ),
    Endpoint(
        ("GET",),
        "/chats/{chat}/lineage",
        get_lineage,
        returns=Lineage | None,
        raises=(InvalidId,),
    ),
]
