"""
Checkpoints: a name for a chat at a revision, or as of a message there.

A checkpoint copies nothing: the log has the state, and the checkpoint says which. What it
records (a digest, counts, the series) is there to check it by, before it is gone back to.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import (
    ChatNotFound,
    CheckpointExists,
    CheckpointFailed,
    CheckpointInvalid,
    CheckpointNotFound,
    CheckpointWaiting,
    MessageNotFound,
    OperationsPending,
)
from valuetracker.records import (
    Checkpoint,
    CheckpointListed,
    CheckpointRestored,
    Difference,
    RowCounts,
    Success,
    Validation,
)
from valuetracker.store.chat_state import Contents, contents_at, contents_now, contents_of
from valuetracker.store.history import ChatTexts, chat_differences
from valuetracker.store.log.state_at import Moment, find_moment
from valuetracker.store.operation_guard import guard
from valuetracker.store.restore import restore_chat_to, restore_view
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.checkpoint_rows import (
    DELETE_CHECKPOINT,
    DELETED,
    FAILED,
    INSERT_CHECKPOINT,
    READY,
    WAITING,
    CheckpointRow,
    find_checkpoint_row,
    list_checkpoint_rows,
)
from valuetracker.store.rows.listing import holders_of_chat
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import (
    ChatRow,
    DataRow,
    HolderRow,
    content_sum,
    values_record,
)
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import ROOMS, split_key
from valuetracker.store.series import CURRENT, current_version
from valuetracker.store.story.point import view_of
from valuetracker.store.tx.ledger import Answer, Ledger
from valuetracker.store.tx.write_target import enter_chat, expect_chat


@dataclass(slots=True, frozen=True)
class Wish:
    """What a checkpoint is to be."""

    name: str | None = None
    message_id: str | None = None
    expect: str | None = None
    meta: str | None = None
    when_ready: bool = False
    # What is recorded of a copy that was made beside it, as JSON: its names, and warnings.
    lorebook: str | None = None


# Making


async def create_checkpoint(tx: Ledger, chat_id: str, wish: Wish) -> Checkpoint | Answer:
    chat = await _enter(tx, chat_id)
    number = chat.checkpoints + 1
    name = wish.name if wish.name is not None else await _free_name(tx, chat, number)
    if await find_checkpoint_row(tx, chat, name) is not None:
        raise CheckpointExists()
    chain = await tx.load_chain(chat.number)
    if wish.message_id is not None and wish.message_id not in chain.visible:
        raise MessageNotFound()
    row = CheckpointRow(
        chat.number, name, number, WAITING, 0, wish.message_id, "", wish.expect, wish.meta, "[]",
        "{}", tx.now,
    )  # fmt: skip
    try:
        await guard(tx, chat, "create checkpoint")
    except OperationsPending:
        if not wish.when_ready:
            raise
        await _count(tx, chat)
        row.seal()
        await tx.execute_many(INSERT_CHECKPOINT, [row])
        return Answer(202, {"name": name, "status": WAITING})
    await _make(tx, chat, row, wish.lorebook)
    await _count(tx, chat)
    return row.record()


async def _count(tx: Ledger, chat: ChatRow) -> None:
    """One more than there have ever been."""
    chat.checkpoints += 1
    await tx.put_chat_quietly(chat)


async def _free_name(tx: Ledger, chat: ChatRow, number: int) -> str:
    while await find_checkpoint_row(tx, chat, f"checkpoint-{number}") is not None:
        number += 1
    return f"checkpoint-{number}"


async def make_waiting(tx: Ledger, chat: ChatRow) -> None:
    """Make what has waited for the queue to be empty."""
    for row in await list_checkpoint_rows(tx, chat):
        if row.status == WAITING:
            await tx.execute(DELETE_CHECKPOINT, chat=chat.number, name=row.name)
            try:
                await _make(tx, chat, row)
            except MessageNotFound:
                row.status = FAILED
                row.warnings = orjson.dumps(
                    [f"Message {row.message_id} was no longer visible."]
                ).decode()
                row.seal()
                await tx.execute_many(INSERT_CHECKPOINT, [row])


async def _make(tx: Ledger, chat: ChatRow, row: CheckpointRow, lorebook: str | None = None) -> None:
    row.revision = (await tx.load_head()).revision
    folded: list[str] = []
    if row.message_id is None:
        series, rows, digest = await measure_now(tx, chat)
    else:
        view = await view_of(tx, chat, None, row.message_id)
        folded = view.warnings
        series, rows, digest = await _measure(tx, chat, await contents_of(tx, view))
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    state: dict[str, Any] = {"series": series, "rows": rows, "expect": expect}
    copied: list[str] = []
    if lorebook is not None:
        state["lorebook"] = orjson.loads(lorebook)
        copied = state["lorebook"].pop("warnings", [])
    row.state = orjson.dumps(state).decode()
    row.digest, row.status = digest, READY
    missing = await _missing(tx, chat, row, series, expect)
    row.warnings = orjson.dumps([*folded, *missing, *copied]).decode()
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])


async def _missing(
    tx: Ledger, chat: ChatRow, row: CheckpointRow, series: dict[str, Any], expect: dict[str, Any]
) -> list[str]:
    """What was expected and is not there: told, never a reason to refuse."""
    warnings = [
        f"There is no series {name}." for name in _names(expect, "series") if name not in series
    ]
    keys = _names(expect, "keys")
    if keys:
        contents = await _contents(tx, chat, row)
        data = contents.rooms["chat"]
        warnings += [f"There is no key {key}." for key in keys if key not in data]
    return warnings


def _names(expect: dict[str, Any], what: str) -> list[str]:
    names = expect.get(what)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


# Measuring

Measure = tuple[dict[str, Any], RowCounts, str]


async def measure_now(tx: Ledger, chat: ChatRow) -> Measure:
    """The same as `_measure` of what is there now, without looking at every value."""
    holders = await holders_of_chat(tx, chat)
    keys = {holder.space: holder.keys for holder in holders if holder.space in ROOMS}
    instances = [holder for holder in holders if holder.space == "instance"]
    room = next((holder for holder in holders if holder.space == "series"), None)
    values = {}
    if room is not None:
        rows = await tx.fetch_all(sql.SELECT_VALUES, holder=room.number)
        stored = [DataRow(*row).verify() for row in rows]
        room.verify_values(stored)
        values = values_record(stored)
    series = _series(values)
    counts: RowCounts = {
        "data": keys.get("chat", 0),
        "instances": len(instances),
        "values": sum(holder.keys for holder in instances),
        "series": sum(len(each["versions"]) for each in series.values()),
        "processed": keys.get("processed", 0),
    }
    lines = [(holder.space, holder.id, holder.keys, holder.digest) for holder in holders]
    return series, counts, _digest(lines)


async def _measure(tx: Reader, chat: ChatRow, contents: Contents) -> Measure:
    series = _series(contents.rooms["series"])
    counts: RowCounts = {
        "data": len(contents.rooms["chat"]),
        "instances": len(contents.instances),
        "values": sum(len(each["data"]) for each in contents.instances),
        "series": sum(len(each["versions"]) for each in series.values()),
        "processed": len(contents.rooms["processed"]),
    }
    lines: list[tuple[str, str, int, int]] = []
    for space in ROOMS:
        room = await tx.find_room(chat, space)
        if room is not None:
            lines.append(_line(room, contents.rooms[space]))
    for holder, instance in zip(contents.holders, contents.instances, strict=True):
        lines.append(_line(holder, instance["data"]))
    return series, counts, _digest(lines)


def _line(holder: HolderRow, values: dict[str, Any]) -> tuple[str, str, int, int]:
    digest = 0
    for key, value in values.items():
        digest ^= content_sum(holder.number, key, orjson.dumps(value).decode())
    return holder.space, holder.id, len(values), digest


def _digest(lines: list[tuple[str, str, int, int]]) -> str:
    # A room that holds nothing is as good as none.
    told = sorted(line for line in lines if line[0] == "instance" or line[2])
    return hashlib.sha256(orjson.dumps(told)).hexdigest()


def _series(room: dict[str, Any]) -> dict[str, Any]:
    """Of each series: which version is current, which there are, and what is said of it."""
    versions: dict[str, dict[int, Any]] = {}
    pointers: dict[str, int] = {}
    for key, value in room.items():
        name, item = split_key(key)
        if item == CURRENT:
            pointers[name] = int(orjson.dumps(value))
        else:
            versions.setdefault(name, {})[int(item)] = value
    found: dict[str, Any] = {}
    for name, records in versions.items():
        current = current_version(list(records), pointers.get(name))
        meta = orjson.loads(orjson.dumps(records[current])) if current is not None else {}
        meta.pop("content", None)
        found[name] = {"currentVersion": current, "versions": sorted(records), "meta": meta}
    return found


async def _contents(tx: Reader, chat: ChatRow, row: CheckpointRow) -> Contents:
    """What the log says the checkpoint is."""
    if row.message_id is not None:
        return await contents_of(tx, await view_of(tx, chat, row.revision, row.message_id))
    return await contents_at(tx, chat, Moment(row.revision))


# Reading


async def list_checkpoints(tx: Snapshot, chat_id: str) -> list[CheckpointListed]:
    tx.etag, tx.keepable = None, False
    chat = await tx.find_chat(chat_id)
    rows = await list_checkpoint_rows(tx, chat) if chat is not None else []
    return [row.listed() for row in rows]


async def get_checkpoint(tx: Snapshot, chat_id: str, name: str) -> Checkpoint:
    tx.etag, tx.keepable = None, False
    chat = await tx.find_chat(chat_id)
    return (await find_row(tx, chat, name)).record()


async def find_row(tx: Reader, chat: ChatRow | None, name: str) -> CheckpointRow:
    row = await find_checkpoint_row(tx, chat, name) if chat is not None else None
    if row is None:
        raise CheckpointNotFound()
    return row


async def find_ready(tx: Reader, chat: ChatRow, name: str) -> CheckpointRow:
    row = await find_row(tx, chat, name)
    if row.status == WAITING:
        raise CheckpointWaiting()
    if row.status == FAILED:
        raise CheckpointFailed()
    return row


async def delete_checkpoint(tx: Ledger, chat_id: str, name: str) -> Success:
    chat = await enter_chat(tx, chat_id)
    row = await find_row(tx, chat, name)
    await tx.execute(DELETE_CHECKPOINT, chat=row.chat, name=name)
    # No name that can be asked for is like this.
    row.name, row.status, row.state, row.digest = f"\x7f{row.number}", DELETED, "{}", ""
    row.expect = row.meta = None
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])
    return {"success": True}


async def diff_checkpoint(tx: Snapshot, chat_id: str, name: str) -> list[Difference]:
    """What differs between the checkpoint and now."""
    tx.etag, tx.keepable = None, False
    chat = await tx.find_chat(chat_id)
    if chat is None:
        raise CheckpointNotFound()
    row = await find_ready(tx, chat, name)
    return chat_differences(
        _flat(await _contents(tx, chat, row)), _flat(await contents_now(tx, chat))
    )


def _flat(contents: Contents) -> ChatTexts:
    texts: ChatTexts = {}
    for space, values in contents.rooms.items():
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
    # It changes nothing, so a chat that was put away may be meant.
    chat = await _enter(tx, chat_id, archived=True)
    return await _validate(tx, chat, await find_ready(tx, chat, name), actual)


async def _validate(
    tx: Ledger, chat: ChatRow, row: CheckpointRow, actual: dict[str, Any] | None
) -> Validation:
    """Compute the state again from the log, and compare it with the record."""
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    warnings = _differences(expect, actual or {})
    if not row.digest:
        return {"success": True, "validated": False, "errors": [], "warnings": warnings}
    series, rows, digest = await _measure(tx, chat, await _contents(tx, chat, row))
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
    """What is there but otherwise than was expected; it never blocks."""
    warnings: list[str] = []
    for name, value in actual.items():
        if name == "messageCount" and not (value and expect.get(name)):
            # Nobody had counted.
            continue
        if name in expect and expect[name] != value:
            warnings.append(f"{name} was expected to be {expect[name]} and is {value}.")
    return warnings


async def restore_checkpoint(
    tx: Ledger, chat_id: str, name: str, dry_run: bool
) -> CheckpointRestored:
    chat = await _enter(tx, chat_id)
    row = await find_ready(tx, chat, name)
    await expect_chat(tx, chat_id)
    await guard(tx, chat, "restore")
    report = await _validate(tx, chat, row, None)
    if report["errors"] and not dry_run:
        raise CheckpointInvalid(errors=report["errors"])
    if row.message_id is None:
        moment = await find_moment(tx, row.revision)
        restored = await restore_chat_to(tx, chat, moment, dry_run)
    else:
        view = await view_of(tx, chat, row.revision, row.message_id)
        restored = await restore_view(tx, view, dry_run)
    return {
        "success": report["success"],
        "errors": report["errors"],
        "warnings": [*report["warnings"], *restored["warnings"]],
        "revision": restored["revision"],
        "changed": restored["changed"],
    }


async def _enter(tx: Ledger, chat_id: str, archived: bool = False) -> ChatRow:
    chat = await enter_chat(tx, chat_id, archived)
    if chat is None:
        raise ChatNotFound()
    return chat
