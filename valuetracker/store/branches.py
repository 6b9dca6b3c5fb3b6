"""Branches: a chat that begins as another one was, and goes on alone."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.errors import ChatExists, ChatNotFound
from valuetracker.records import Branch, Lineage, Relative, Validation
from valuetracker.store.checkpoint_making import record_beginning
from valuetracker.store.log.state_at import find_moment, shape_at
from valuetracker.store.rows.chat_rows import check_no_operations, get_ready_checkpoint
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.point import Point, point_of
from valuetracker.store.story.validation import Check, compare, refuse_invalid
from valuetracker.store.tx.branching import begin_branch
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import get_writable_chat


@dataclass(slots=True, frozen=True)
class Start:
    """Where a branch leaves its parent: one of these, or the present."""

    checkpoint: str | None = None
    revision: int | None = None
    message_id: str | None = None


async def branch_chat(
    tx: Ledger, parent_id: str, chat_id: str, start: Start, check: Check
) -> Branch:
    parent = await get_writable_chat(tx, parent_id)
    if await tx.find_chat(chat_id) is not None:
        raise ChatExists()
    await check_no_operations(tx, parent, "create branch")
    report: Validation | None = None
    checkpoint: CheckpointRow | None = None
    if start.checkpoint is not None:
        checkpoint = await get_ready_checkpoint(tx, parent, start.checkpoint)
        report = await compare(tx, parent, checkpoint, check)
        refuse_invalid(report, check)
        point = await point_of(tx, parent, checkpoint.revision, checkpoint.message_id)
    else:
        point = await _point(tx, parent, start)
    chat = await tx.get_or_create_chat(chat_id)
    ids = await begin_branch(tx, chat, point, start.checkpoint)
    rows = await record_beginning(tx, chat, checkpoint)
    branch: Branch = {
        "chatId": chat.id,
        "parent": parent.id,
        "parentRevision": point.revision,
        "rows": rows,
        "instances": ids,
    }
    if report is not None:
        branch["errors"], branch["warnings"] = report["errors"], report["warnings"]
    return branch


async def _point(tx: Ledger, parent: ChatRow, start: Start) -> Point:
    if start.revision is not None:
        moment = await find_moment(tx, start.revision)
        shape = await shape_at(tx, parent, moment)
        if shape is None or shape.after is None:
            raise ChatNotFound("The chat did not exist at that revision.")
        return await point_of(tx, parent, moment.revision)
    return await point_of(tx, parent, None, start.message_id)


async def get_lineage(tx: Snapshot, chat_id: str) -> Lineage | None:
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return None
    tx.etag = None
    ancestors: list[Relative] = []
    child = chat
    while child.parent is not None:
        parent = await tx.get_chat(child.parent)
        ancestors.append(_relative(parent.id, child))
        child = parent
    branches = [each for each in await tx.list_chats() if each.parent == chat.number]
    return {
        "chatId": chat.id,
        "ancestors": ancestors,
        "branches": [_relative(branch.id, branch) for branch in branches],
    }


def _relative(chat_id: str, branch: ChatRow) -> Relative:
    """Return a chat of the lineage, and where the branch between the two begins."""
    origin = orjson.loads(branch.origin or "{}")
    return {
        "chatId": chat_id,
        "messageId": origin.get("messageId"),
        "checkpoint": origin.get("checkpoint"),
        "createdAt": origin.get("createdAt", branch.created_at),
    }
