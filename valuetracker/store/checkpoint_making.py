"""
How a checkpoint is made: the chat is measured, and the record to check it by is stored.

Its digest is over the holders of the chat, each with the number of its values and the exclusive
or of their checksums, which every write keeps up to date. So making a checkpoint costs the same
for ten values as for a million.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from valuetracker.errors import Compacted, MessageNotFound
from valuetracker.records import RowCounts
from valuetracker.store.log.state_at import Moment
from valuetracker.store.rows.chat_rows import list_checkpoint_rows
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import (
    DELETE_CHECKPOINT,
    FAILED,
    INSERT_CHECKPOINT,
    READY,
    WAITING,
    CheckpointRow,
)
from valuetracker.store.rows.holders import HolderRow, content_sum, values_record
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.spaces import SPACES
from valuetracker.store.story.contents import Contents, contents_at, contents_of
from valuetracker.store.story.point import point_of
from valuetracker.store.story.series import parse_series
from valuetracker.store.tx.ledger import Ledger


async def make_waiting_checkpoints(tx: Ledger, chat: ChatRow) -> None:
    """Make the checkpoints that waited for the last operation to end."""
    for row in await list_checkpoint_rows(tx, chat):
        if row.status == WAITING:
            await tx.execute(DELETE_CHECKPOINT, chat=chat.number, name=row.name)
            try:
                await make_checkpoint(tx, chat, row)
            except (MessageNotFound, Compacted) as refusal:
                row.status = FAILED
                warning = f"Message {row.message_id} was no longer visible."
                if isinstance(refusal, Compacted):
                    warning = refusal.message
                row.warnings = orjson.dumps([warning]).decode()
                row.seal()
                await tx.execute_many(INSERT_CHECKPOINT, [row])


async def make_checkpoint(
    tx: Ledger, chat: ChatRow, row: CheckpointRow, lorebook: str | None = None
) -> None:
    """Record the state of a chat in a row, and store it as ready."""
    row.revision = (await tx.load_head()).revision
    if row.message_id is None:
        series, rows, digest = await measure_now(tx, chat)
    else:
        point = await point_of(tx, chat, None, row.message_id)
        series, rows, digest = await measure(tx, chat, await contents_of(tx, point))
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    state: dict[str, Any] = {"series": series, "rows": rows, "expect": expect}
    copied: list[str] = []
    if lorebook is not None:
        state["lorebook"] = orjson.loads(lorebook)
        copied = state["lorebook"].pop("warnings", [])
    row.state = orjson.dumps(state).decode()
    row.digest, row.status = digest, READY
    missing = await _missing(tx, chat, row, series, expect)
    row.warnings = orjson.dumps([*missing, *copied]).decode()
    row.seal()
    await tx.execute_many(INSERT_CHECKPOINT, [row])


async def _missing(
    tx: Ledger, chat: ChatRow, row: CheckpointRow, series: dict[str, Any], expect: dict[str, Any]
) -> list[str]:
    """Return a warning for each expected series and key that is missing."""
    warnings = [
        f"There is no series {name}." for name in _names(expect, "series") if name not in series
    ]
    keys = _names(expect, "keys")
    if keys:
        contents = await contents_of_checkpoint(tx, chat, row)
        data = contents.spaces["chat"]
        warnings += [f"There is no key {key}." for key in keys if key not in data]
    return warnings


def _names(expect: dict[str, Any], what: str) -> list[str]:
    names = expect.get(what)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


# Measuring

Measure = tuple[dict[str, Any], RowCounts, str]


async def measure_now(tx: Ledger, chat: ChatRow) -> Measure:
    """Return the same as `measure` for the present, without reading every value."""
    holders = await tx.list_holders_of_chat(chat)
    keys = {holder.space: holder.keys for holder in holders if holder.space in SPACES}
    instances = [holder for holder in holders if holder.space == "instance"]
    space = await tx.find_space(chat, "series")
    series = _series(values_record(await tx.list_values(space)) if space is not None else {})
    counts: RowCounts = {
        "data": keys.get("chat", 0),
        "instances": len(instances),
        "values": sum(holder.keys for holder in instances),
        "series": sum(len(each["versions"]) for each in series.values()),
        "processed": keys.get("processed", 0),
    }
    lines = [(holder.space, holder.id, holder.keys, holder.digest) for holder in holders]
    return series, counts, _digest(lines)


async def measure(tx: RowReader, chat: ChatRow, contents: Contents) -> Measure:
    """Return the series, counts and digest of what a chat holds or held."""
    series = _series(contents.spaces["series"])
    counts: RowCounts = {
        "data": len(contents.spaces["chat"]),
        "instances": len(contents.instances),
        "values": sum(len(each["data"]) for each in contents.instances),
        "series": sum(len(each["versions"]) for each in series.values()),
        "processed": len(contents.spaces["processed"]),
    }
    lines: list[tuple[str, str, int, int]] = []
    for space in SPACES:
        holder = await tx.find_space(chat, space)
        if holder is not None:
            lines.append(_line(holder, contents.spaces[space]))
    for owner, instance in zip(contents.holders, contents.instances, strict=True):
        lines.append(_line(owner, instance["data"]))
    return series, counts, _digest(lines)


def _line(holder: HolderRow, values: dict[str, Any]) -> tuple[str, str, int, int]:
    digest = 0
    for key, value in values.items():
        digest ^= content_sum(holder.number, key, orjson.dumps(value).decode())
    return holder.space, holder.id, len(values), digest


def _digest(lines: list[tuple[str, str, int, int]]) -> str:
    # A space that holds nothing is as good as none.
    counted = sorted(line for line in lines if line[0] == "instance" or line[2])
    return hashlib.sha256(orjson.dumps(counted)).hexdigest()


def _series(values: dict[str, Any]) -> dict[str, Any]:
    """Return of each series its current version, the numbers, and the meta of the current."""
    found: dict[str, Any] = {}
    for name, series in parse_series(values).items():
        current = series.current
        assert current is not None
        meta = orjson.loads(orjson.dumps(series.versions[current]))
        meta.pop("content", None)
        versions = sorted(series.versions)
        found[name] = {"currentVersion": current, "versions": versions, "meta": meta}
    return found


async def contents_of_checkpoint(tx: RowReader, chat: ChatRow, row: CheckpointRow) -> Contents:
    """Return the state of a checkpoint, computed from the log."""
    if row.message_id is not None:
        return await contents_of(tx, await point_of(tx, chat, row.revision, row.message_id))
    return await contents_at(tx, chat, Moment(row.revision))
