"""
Checkpoints: a name for a chat at a revision, or as of a message there.

A checkpoint copies nothing: the log has the state, and the checkpoint says which. It records
a digest, counts and the series, to check the state by before somebody returns to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from valuetracker.errors import (
    CheckpointExists,
    CheckpointNotFound,
    MessageNotFound,
    OperationsPending,
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
from valuetracker.store.checkpoint_making import make_checkpoint, tell_checkpoint
from valuetracker.store.history import ChatTexts, chat_differences
from valuetracker.store.log.state_at import find_moment
from valuetracker.store.restore import restore_chat_to, restore_point
from valuetracker.store.rows.chat_rows import (
    check_no_operations,
    find_checkpoint_row,
    get_checkpoint_row,
    get_ready_checkpoint,
    list_checkpoint_rows,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import (
    BEGINNING,
    BEGINNING_NAME,
    DELETE_CHECKPOINT,
    DELETED,
    INSERT_CHECKPOINT,
    READY,
    SELECT_LAST_CHECKPOINT,
    WAITING,
    CheckpointRow,
)
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.contents import Contents, contents_now, contents_of_checkpoint
from valuetracker.store.story.point import point_of
from valuetracker.store.story.series import parse_series, processed_sets
from valuetracker.store.story.validation import Check, compare, refuse_invalid
from valuetracker.store.tx.jobs import Answer
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import (
    check_chat_if_match,
    find_writable_chat,
    get_writable_chat,
)


@dataclass(slots=True, frozen=True)
class CheckpointRequest:
    """A checkpoint as a request asks for it."""

    name: str | None = None
    message_id: str | None = None
    expect: str | None = None
    meta: str | None = None
    when_ready: bool = False
    capture: Sequence[dict[str, Any]] = ()
    # The record of a lorebook that was copied with it: names, entries, warnings, and what is
    # needed to copy it again.
    lorebook: dict[str, Any] | None = None


# Making


async def create_checkpoint(
    tx: Ledger, chat_id: str, request: CheckpointRequest
) -> Checkpoint | Answer:
    chat = await get_writable_chat(tx, chat_id)
    # Deleted ones count, too: the number gives the next one its name.
    last = await tx.fetch_one(SELECT_LAST_CHECKPOINT, chat=chat.number)
    number = (last[0] if last is not None else 0) + 1
    name = request.name if request.name is not None else await _free_name(tx, chat, number)
    if await find_checkpoint_row(tx, chat, name) is not None:
        raise CheckpointExists()
    chain = await tx.load_chain(chat.number)
    if request.message_id is not None and request.message_id not in chain.visible:
        raise MessageNotFound()
    wanted = {"capture": list(request.capture), "lorebook": request.lorebook}
    row = CheckpointRow(
        chat.number, name, number, READY, 0, request.message_id, "", request.expect,
        request.meta, "[]", orjson.dumps(wanted).decode(), tx.now,
    )  # fmt: skip
    try:
        await check_no_operations(tx, chat, "create checkpoint")
    except OperationsPending:
        if not request.when_ready:
            raise
        row.status = WAITING
        row.seal()
        await tx.execute_many(INSERT_CHECKPOINT, [row])
        tell_checkpoint(tx, chat, "add", row.summary())
        return Answer(202, {"name": name, "status": WAITING})
    await make_checkpoint(tx, chat, row)
    tell_checkpoint(tx, chat, "add", row.summary())
    return row.record()


async def _free_name(tx: Ledger, chat: ChatRow, number: int) -> str:
    while await find_checkpoint_row(tx, chat, f"checkpoint-{number}") is not None:
        number += 1
    return f"checkpoint-{number}"


# Reading


async def list_checkpoints(tx: Snapshot, chat_id: str) -> list[CheckpointListed]:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    rows = await list_checkpoint_rows(tx, chat) if chat is not None else []
    return [row.listed() for row in rows]


async def get_checkpoint(tx: Snapshot, chat_id: str, name: str) -> Checkpoint:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    return (await get_checkpoint_row(tx, chat, name)).record()


async def get_checkpoint_state(tx: Snapshot, chat_id: str, name: str) -> CheckpointState:
    """Return everything that the chat held there, with contents."""
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    if chat is None:
        raise CheckpointNotFound()
    row = await get_ready_checkpoint(tx, chat, name)
    contents = await contents_of_checkpoint(tx, chat, row)
    return {
        "data": contents.spaces["chat"],
        "instances": contents.instances,
        "series": {
            name: each.record() for name, each in parse_series(contents.spaces["series"]).items()
        },
        "processed": processed_sets(contents.spaces["processed"]),
    }


async def delete_checkpoint(tx: Ledger, chat_id: str, name: str) -> Success:
    chat = await find_writable_chat(tx, chat_id)
    if chat is None:
        raise CheckpointNotFound()
    row = await get_checkpoint_row(tx, chat, name)
    tell_checkpoint(tx, chat, "remove", row.summary())
    await tx.execute(DELETE_CHECKPOINT, chat=row.chat, name=name)
    # No request can name it.
    row.name, row.status, row.state, row.digest = f"\x7f{row.number}", DELETED, "{}", ""
    row.expect = row.meta = None
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])
    return {"success": True}


async def diff_checkpoint(tx: Snapshot, chat_id: str, name: str) -> list[Difference]:
    """List what differs between the checkpoint and now."""
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    if chat is None:
        raise CheckpointNotFound()
    row = await get_ready_checkpoint(tx, chat, name)
    return chat_differences(
        _flat(await contents_of_checkpoint(tx, chat, row)), _flat(await contents_now(tx, chat))
    )


def _flat(contents: Contents) -> ChatTexts:
    texts: ChatTexts = {}
    for space, values in contents.spaces.items():
        for key, value in values.items():
            texts[space, None, key] = orjson.dumps(value).decode()
    for instance in contents.instances:
        for key, value in instance["data"].items():
            id = instance["instance"]["id"]
            texts["instance", id, key] = orjson.dumps(value).decode()
    return texts


# Using


async def validate_checkpoint(tx: Ledger, chat_id: str, name: str, check: Check) -> Validation:
    # It changes nothing, so the chat may be archived.
    chat = await get_writable_chat(tx, chat_id, archived=True)
    return await compare(tx, chat, await get_ready_checkpoint(tx, chat, name), check)


async def validate_branch(tx: Ledger, chat_id: str, check: Check) -> Validation:
    """Compare the beginning of a branch with the record it was made from."""
    chat = await get_writable_chat(tx, chat_id, archived=True)
    row = await find_checkpoint_row(tx, chat, BEGINNING_NAME)
    if row is None:
        return {"success": True, "validated": False, "errors": [], "warnings": []}
    oldest = (await tx.load_head()).oldest
    if row.revision < oldest:
        # A branch does not keep its beginning from being folded: what the caller says is
        # compared with the record alone.
        row.digest = ""
        folded = f"The beginning of the branch was folded: the log begins with revision {oldest}."
        check = replace(check, warnings=(folded, *check.warnings))
    return await compare(tx, chat, row, check)


async def find_lorebook(tx: Snapshot, chat_id: str, name: str | None) -> str | None:
    """Return the copy of a lorebook that a checkpoint, or the beginning of a branch, names."""
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return None
    row = await find_checkpoint_row(tx, chat, BEGINNING_NAME if name is None else name)
    if row is None or row.status not in (READY, BEGINNING):
        return None
    copy = orjson.loads(row.state).get("lorebook")
    return str(copy["name"]) if copy is not None else None


async def restore_checkpoint(
    tx: Ledger, chat_id: str, name: str, check: Check, dry_run: bool
) -> CheckpointRestored:
    chat = await get_writable_chat(tx, chat_id)
    row = await get_ready_checkpoint(tx, chat, name)
    await check_chat_if_match(tx, chat_id)
    if not dry_run:
        await check_no_operations(tx, chat, "restore")
    report = await compare(tx, chat, row, check)
    if not dry_run:
        refuse_invalid(report, check)
    if row.message_id is None:
        moment = await find_moment(tx, row.revision)
        restored = await restore_chat_to(tx, chat, moment, dry_run)
    else:
        point = await point_of(tx, chat, row.revision, row.message_id)
        restored = await restore_point(tx, point, dry_run)
    return {
        **restored,
        "success": report["success"],
        "errors": report["errors"],
        "warnings": [*report["warnings"], *restored["warnings"]],
    }
