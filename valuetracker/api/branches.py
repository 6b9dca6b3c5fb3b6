"""Routes of branches."""

from __future__ import annotations

from typing import Any

from valuetracker.api.checkpoints import ACTUAL_FIELD, FORCE_FIELD, USE, check_of
from valuetracker.errors import (
    ChatExists,
    ChatNotFound,
    CheckpointInvalid,
    Compacted,
    InvalidBody,
    InvalidId,
    MessageNotFound,
    OperationsPending,
    RevisionUnknown,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import CHAT_ID, CHECKPOINT_NAME, REVISION, Kind
from valuetracker.records import Branch, Lineage, Validation
from valuetracker.runtime.extension import Read
from valuetracker.store import branches, checkpoints
from valuetracker.store.story.validation import Check
from valuetracker.store.tx.jobs import Written


async def branch_chat(call: Call) -> Written:
    """
    Create a branch: a chat that begins with the state of this chat.

    The state is the current one, or that of a checkpoint, a revision or a message. The branch
    has copies of its own: messages from before the branch point can be swiped and deleted in one
    chat without effect on the other. Instances get new ids, which `instances` lists by the old
    ids. Operations are not copied.

    A checkpoint is validated first, with `actual`, and refused with `checkpoint_invalid` if there
    are errors; `force` uses it nevertheless. The branch keeps the record: `origin` shows it, and
    `POST /chats/{chat}/validate` compares the branch with it.
    """
    chat = call.path["chat"]
    start = call.body.get("from") or branches.Start()
    if start.checkpoint is None:
        if call.body.get("actual") is not None:
            raise InvalidBody("`actual` is compared with a checkpoint: name one in `from`.")
        check = Check()
    else:
        check = await check_of(call, chat, start.checkpoint)
    return await call.write(branches.branch_chat, chat, call.body["chatId"], start, check)


async def get_lineage(call: Call) -> Read[Any]:
    """List the ancestors of a chat, nearest first, and its branches."""
    return await call.read(branches.get_lineage, call.path["chat"])


async def validate_branch(call: Call) -> Written:
    """
    Compare the beginning of a branch with the record of the checkpoint it was made from.

    A branch that was made from a message or a revision is compared with the record of its own
    beginning. `actual` is that of a checkpoint's validation. A chat that is no branch answers
    `validated: false`, and so does a branch whose beginning was folded.
    """
    check = await check_of(call, call.path["chat"], None)
    return await call.write(checkpoints.validate_branch, call.path["chat"], check)


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


ENDPOINTS = [
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
            ACTUAL_FIELD,
            FORCE_FIELD,
        ),
        raises=(
            InvalidBody,
            *USE,
            CheckpointInvalid,
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
    Endpoint(
        ("POST",),
        "/chats/{chat}/validate",
        validate_branch,
        returns=Validation,
        body=(ACTUAL_FIELD,),
        body_optional=True,
        raises=(InvalidBody, InvalidId, ChatNotFound),
        conditional=False,
    ),
]
