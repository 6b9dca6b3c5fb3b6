"""
Checkpoints: a name for a chat at a revision, or as of a message there.

A checkpoint copies nothing: the log has the state, and the checkpoint says which. It records
a digest, counts and the series, to check the state by before somebody returns to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import (
    CheckpointExists,
    CheckpointInvalid,
    CheckpointNotFound,
    MessageNotFound,
    OperationsPending,
)
from valuetracker.records import (
    Checkpoint,
    CheckpointListed,
    CheckpointRestored,
    Difference,
    Success,
    Validation,
)
from valuetracker.store.checkpoint_making import contents_of_checkpoint, make_checkpoint, measure
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
    DELETE_CHECKPOINT,
    DELETED,
    INSERT_CHECKPOINT,
    SELECT_LAST_CHECKPOINT,
    WAITING,
    CheckpointRow,
)
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.contents import Contents, contents_now
from valuetracker.store.story.point import point_of
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
    # The record of a lorebook that was copied with it, as JSON: its names, and warnings.
    lorebook: str | None = None


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
    row = CheckpointRow(
        chat.number, name, number, WAITING, 0, request.message_id, "", request.expect,
        request.meta, "[]", "{}", tx.now,
    )  # fmt: skip
    try:
        await check_no_operations(tx, chat, "create checkpoint")
    except OperationsPending:
        if not request.when_ready:
            raise
        row.seal()
        await tx.execute_many(INSERT_CHECKPOINT, [row])
        return Answer(202, {"name": name, "status": WAITING})
    await make_checkpoint(tx, chat, row, request.lorebook)
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


async def delete_checkpoint(tx: Ledger, chat_id: str, name: str) -> Success:
    chat = await find_writable_chat(tx, chat_id)
    row = await get_checkpoint_row(tx, chat, name)
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


async def validate_checkpoint(
    tx: Ledger, chat_id: str, name: str, actual: dict[str, Any] | None
) -> Validation:
    # It changes nothing, so the chat may be archived.
    chat = await get_writable_chat(tx, chat_id, archived=True)
    return await _validate(tx, chat, await get_ready_checkpoint(tx, chat, name), actual)


async def _validate(
    tx: Ledger, chat: ChatRow, row: CheckpointRow, actual: dict[str, Any] | None
) -> Validation:
    """Compute the state again from the log, and compare it with the record."""
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    warnings = _differences(expect, actual or {})
    if not row.digest:
        return {"success": True, "validated": False, "errors": [], "warnings": warnings}
    contents = await contents_of_checkpoint(tx, chat, row)
    series, rows, digest = await measure(tx, chat, contents)
    state = orjson.loads(row.state)
    errors = _series_errors(state["series"], series)
    if rows != state["rows"]:
        errors.append("The numbers of rows differ from the record.")
    if digest != row.digest:
        errors.append("The digest of the values differs from the record.")
    return {"success": not errors, "validated": True, "errors": errors, "warnings": warnings}


def _series_errors(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    errors: list[str] = []
    for name, then in recorded.items():
        now = found.get(name)
        if now is None:
            errors.append(f"Series {name} is missing.")
            continue
        errors += [
            f"Version {version} of series {name} is missing."
            for version in then["versions"]
            if version not in now["versions"]
        ]
        if then["currentVersion"] != now["currentVersion"]:
            errors.append(
                f"Series {name} is at version {now['currentVersion']}"
                f" and was recorded at {then['currentVersion']}."
            )
    return errors


def _differences(expect: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return a warning for each thing that differs from what was expected."""
    warnings: list[str] = []
    for name, value in actual.items():
        if name == "messageCount" and not (value and expect.get(name)):
            # One side has not counted.
            continue
        if name in expect and expect[name] != value:
            warnings.append(f"{name} was expected to be {expect[name]} and is {value}.")
    return warnings


async def restore_checkpoint(
    tx: Ledger, chat_id: str, name: str, dry_run: bool
) -> CheckpointRestored:
    chat = await get_writable_chat(tx, chat_id)
    row = await get_ready_checkpoint(tx, chat, name)
    await check_chat_if_match(tx, chat_id)
    await check_no_operations(tx, chat, "restore")
    report = await _validate(tx, chat, row, None)
    if report["errors"] and not dry_run:
        raise CheckpointInvalid(errors=report["errors"])
    if row.message_id is None:
        moment = await find_moment(tx, row.revision)
        restored = await restore_chat_to(tx, chat, moment, dry_run)
    else:
        point = await point_of(tx, chat, row.revision, row.message_id)
        restored = await restore_point(tx, point, dry_run)
    return {
        "success": report["success"],
        "errors": report["errors"],
        "warnings": [*report["warnings"], *restored["warnings"]],
        "revision": restored["revision"],
        "changed": restored["changed"],
    }
