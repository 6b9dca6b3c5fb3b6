"""How a checkpoint is made: the chat is measured, and the record to check it by is stored."""

from __future__ import annotations

from typing import Any

import orjson

from valuetracker.errors import Compacted, MessageNotFound, ValueTooLarge
from valuetracker.records import CheckpointEvent, CheckpointSummary, RowCounts
from valuetracker.store.rows.chat_rows import list_checkpoint_rows
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import (
    BEGINNING,
    BEGINNING_NAME,
    DELETE_CHECKPOINT,
    FAILED,
    INSERT_CHECKPOINT,
    READY,
    WAITING,
    CheckpointRow,
)
from valuetracker.store.story.contents import (
    Contents,
    contents_of,
    digest_of,
    measure,
    measure_now,
    text_in,
)
from valuetracker.store.story.point import point_of
from valuetracker.store.tx.changes import UpdateQuietly
from valuetracker.store.tx.jobs import Notice
from valuetracker.store.tx.ledger import Ledger
from valuetracker.values import VALUE_BYTES, load_text


async def make_waiting_checkpoints(tx: Ledger, chat: ChatRow) -> None:
    """Make the checkpoints that waited for the last operation to end."""
    for row in await list_checkpoint_rows(tx, chat):
        if row.status == WAITING:
            await tx.execute(DELETE_CHECKPOINT, chat=chat.number, name=row.name)
            try:
                await make_checkpoint(tx, chat, row)
            except MessageNotFound:
                await _fail(tx, row, f"Message {row.message_id} was no longer visible.")
            except (Compacted, ValueTooLarge) as refusal:
                await _fail(tx, row, refusal.message)
            tell_checkpoint(tx, chat, "update", row.summary())


def tell_checkpoint(tx: Ledger, chat: ChatRow, op: str, checkpoint: CheckpointSummary) -> None:
    """Tell the readers of the feed of a change of the checkpoints."""
    event: CheckpointEvent = {
        "at": tx.now,
        "actor": tx.context.actor,
        "chatId": chat.id,
        "op": op,
        "checkpoint": checkpoint,
    }
    tx.tell(Notice("checkpoint", chat.number, chat.id, event))


async def _fail(tx: Ledger, row: CheckpointRow, why: str) -> None:
    row.status, row.warnings = FAILED, orjson.dumps([why]).decode()
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])


async def make_checkpoint(tx: Ledger, chat: ChatRow, row: CheckpointRow) -> None:
    """Record the state of a chat in a row, and store it as ready."""
    wanted = orjson.loads(row.state)
    row.revision = (await tx.load_head()).revision
    warnings: list[str] = []
    contents: Contents | None = None
    if row.message_id is None:
        series, rows, digest = await measure_now(tx, chat)
    else:
        point = await point_of(tx, chat, None, row.message_id)
        contents = await contents_of(tx, point)
        series, rows, digest = await measure(tx, chat, contents)
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    warnings += [
        f"There is no series {name}." for name in _names(expect, "series") if name not in series
    ]
    for key in _names(expect, "keys"):
        if await _find_text(tx, chat, contents, None, key) is None:
            warnings.append(f"There is no key {key}.")
    captured, missed = await _capture(tx, chat, contents, wanted["capture"])
    warnings += missed
    state: dict[str, Any] = {"series": series, "rows": rows, "expect": expect, "capture": captured}
    if wanted["lorebook"] is not None:
        copy = wanted["lorebook"]
        if row.status == WAITING and tx.renew_lorebook is not None:
            # The operations have changed the lorebook since it was copied.
            copy = await tx.renew_lorebook(copy)
        state["lorebook"] = {name: copy[name] for name in ("source", "name", "entries")}
        warnings += copy["warnings"]
    row.state = orjson.dumps(state).decode()
    row.digest, row.status = digest, READY
    row.warnings = orjson.dumps(warnings).decode()
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])


def _names(expect: dict[str, Any], what: str) -> list[str]:
    names = expect.get(what)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


async def record_beginning(
    tx: Ledger, chat: ChatRow, checkpoint: CheckpointRow | None = None
) -> RowCounts:
    """
    Record what a branch begins with, as a checkpoint of its own that no request can name.

    The record is that of the checkpoint the branch is made from, if it is made from one. Only
    the digest is the branch's: it is over holders, and those of the branch are others.
    """
    series, rows, digest = await measure_now(tx, chat)
    state: dict[str, Any] = {"series": series, "rows": rows, "expect": {}, "capture": []}
    name, created_at = None, tx.now
    if checkpoint is not None:
        name = checkpoint.name
        if checkpoint.digest:
            state, created_at = orjson.loads(checkpoint.state), checkpoint.created_at
    row = CheckpointRow(
        chat.number, BEGINNING_NAME, 0, BEGINNING, (await tx.load_head()).revision, None, digest,
        orjson.dumps(state["expect"]).decode(), None, "[]", orjson.dumps(state).decode(),
        created_at,
    )  # fmt: skip
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])
    origin = orjson.loads(chat.origin or "{}")
    origin["record"] = {
        "name": name,
        "createdAt": created_at,
        "versions": {name: each["currentVersion"] for name, each in state["series"].items()},
        "rows": state["rows"],
    }
    chat.origin = orjson.dumps(origin).decode()
    await tx.apply([UpdateQuietly(chat)])
    return rows


# Capturing


async def _capture(
    tx: Ledger, chat: ChatRow, contents: Contents | None, wanted: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the record of each key that is to be captured, and warnings."""
    found: list[dict[str, Any]] = []
    warnings: list[str] = []
    size = 0
    for each in wanted:
        key, instance_id = each["key"], each["instanceId"]
        text = await _find_text(tx, chat, contents, instance_id, key)
        if text is None:
            of = "" if instance_id is None else f" of instance {instance_id}"
            warnings.append(f"There is no key {key}{of} to capture.")
            continue
        value = load_text(text) if each["fields"] else None
        fields: dict[str, Any] = {}
        for name in each["fields"]:
            if isinstance(value, dict) and name in value:
                fields[name] = value[name]
            else:
                warnings.append(f"Key {key} has no field {name}.")
        size += len(orjson.dumps(fields))
        if size > VALUE_BYTES:
            raise ValueTooLarge(f"The captured fields take more than {VALUE_BYTES} bytes.")
        found.append(
            {
                "key": key,
                "instanceId": instance_id,
                "size": len(text.encode()),
                "digest": digest_of(text),
                "fields": fields,
            }
        )
    return found, warnings


async def _find_text(
    tx: Ledger, chat: ChatRow, contents: Contents | None, instance_id: str | None, key: str
) -> str | None:
    """Return a value as JSON, out of these contents or else of the present."""
    if contents is not None:
        return text_in(contents, instance_id, key)
    if instance_id is None:
        holder = await tx.find_space(chat, "chat")
    else:
        holder = await tx.find_instance(instance_id)
    if holder is None or holder.chat != chat.number:
        return None
    row = await tx.find_value(holder, key)
    return row.value if row is not None else None
