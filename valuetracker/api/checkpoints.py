"""Checkpoints and branches over HTTP."""

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
from valuetracker.store import branches, checkpoints


async def create_checkpoint(call: Call) -> Any:
    """
    Name the state of a chat, as it is or as of a message.

    Nothing is copied and nothing left out: the checkpoint points into the log, with a digest
    and counts to check it by. While operations of the chat are under way it is refused; with
    `whenReady` it is made when the last of them has ended. `expect` says what should be
    there: `series` and `keys` that are missing are warnings.

    `lorebook` names a lorebook of SillyTavern that is copied in the same step, as
    `POST /st/lorebooks/:name/clone` does; both names are in `state.lorebook`, and the copy's
    is what validation expects. It cannot wait for operations.
    """
    body = call.body
    wish = checkpoints.Wish(
        body.get("name"),
        body.get("messageId"),
        body.get("expect"),
        body.get("meta"),
        body.get("whenReady", False),
    )
    if body.get("lorebook") is not None:
        return await create_with_lorebook(call, wish, body["lorebook"])
    return await call.write(checkpoints.create_checkpoint, call.path["chat"], wish)


async def list_checkpoints(call: Call) -> Any:
    """List the checkpoints of a chat, oldest first."""
    return await call.read(checkpoints.list_checkpoints, call.path["chat"])


async def get_checkpoint(call: Call) -> Any:
    """Read a checkpoint with the state it records."""
    return await call.read(checkpoints.get_checkpoint, call.path["chat"], call.path["checkpoint"])


async def delete_checkpoint(call: Call) -> Any:
    """Delete a checkpoint; the state it names stays in the log."""
    return await call.write(
        checkpoints.delete_checkpoint, call.path["chat"], call.path["checkpoint"]
    )


async def diff_checkpoint(call: Call) -> Any:
    """List what differs between a checkpoint and now."""
    return await call.read(checkpoints.diff_checkpoint, call.path["chat"], call.path["checkpoint"])


async def validate_checkpoint(call: Call) -> Any:
    """
    Compute the state of a checkpoint again from the log, and compare it with its record.

    What differs there is an error. What is `actual` and other than was expected is a warning.
    """
    return await call.write(
        checkpoints.validate_checkpoint,
        call.path["chat"],
        call.path["checkpoint"],
        call.body.get("actual"),
    )


async def restore_checkpoint(call: Call) -> Any:
    """
    Set a chat to what a checkpoint names, as one new revision, which can itself be undone.

    What the state needs comes back, instances made later go. With `dryRun` nothing is done.
    """
    return await call.write(
        checkpoints.restore_checkpoint,
        call.path["chat"],
        call.path["checkpoint"],
        call.body.get("dryRun", False),
    )


async def branch_chat(call: Call) -> Any:
    """
    Make a chat that begins as this one is, or was at a checkpoint, a revision or a message.

    It owns what it takes over: below the branch point it can be swiped and shortened by
    itself, and neither chat needs the other. Instances get new ids, and `instances` says which;
    operations are not taken over.
    """
    start = call.body.get("from") or branches.Start()
    return await call.write(branches.branch_chat, call.path["chat"], call.body["chatId"], start)


async def get_lineage(call: Call) -> Any:
    """Tell what a chat is a branch of, nearest first, and which branches it has."""
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
            Field("name", CHECKPOINT_NAME, "Its name; made up if not said.", required=False),
            Field("messageId", CHAT_ID, "As of this message.", required=False, nullable=True),
            Field("expect", OBJECT, "What should be there.", required=False),
            Field("meta", OBJECT, "Whatever is to be kept with it.", required=False),
            Field("whenReady", FLAG, "Wait for operations to end.", required=False),
            Field(
                "lorebook",
                LOREBOOK,
                "A lorebook to copy: its name, or `{name, as?, uids?}`.",
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
        body=(Field("actual", ACTUAL, "What is there, beside the log.", required=False),),
        body_optional=True,
        raises=(InvalidBody, ChatNotFound, *USE, MessageNotFound),
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        ONE + "/restore",
        restore_checkpoint,
        returns=CheckpointRestored,
        body=(Field("dryRun", FLAG, "Only say what would come of it.", required=False),),
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
                "Where it leaves this one; now, if not said.",
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
