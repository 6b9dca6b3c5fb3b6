"""
All that a chat holds: now, at a moment, or at a point of its story.

One shape for all three, read with a few statements however many instances there are. A checkpoint
measures it: the digest is over the holders of the chat, each with the number of its values and the
exclusive or of their checksums, which every write keeps up to date. So measuring the present costs
the same for ten values as for a million.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.errors import MessageNotFound
from valuetracker.records import FullInstance, RowCounts
from valuetracker.store.log.replay import Replay
from valuetracker.store.log.state_at import (
    AsOf,
    ChatAt,
    FormerInstance,
    chat_instances_at,
    check_not_purged,
    find_moment,
    former_values_record,
    full_former,
    shown_instance,
    values_at,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.entries import LoggedChange, Source
from valuetracker.store.rows.holders import (
    SELECT_VALUES_OF_CHAT,
    HolderRow,
    content_sum,
    values_record,
)
from valuetracker.store.rows.numbers import Moment
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import SPACES, Address
from valuetracker.store.story.point import Point, point_of
from valuetracker.store.story.series import parse_series

# A version with more fields than this beside its content is recorded without them.
META_BYTES = 64 * 1024


@dataclass(slots=True)
class Contents:
    """The values of a chat's spaces, and its instances."""

    spaces: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {space: {} for space in SPACES}
    )
    instances: list[FullInstance] = field(default_factory=list)
    # The holder of each instance's values.
    holders: list[HolderRow] = field(default_factory=list)


async def contents_now(tx: RowReader, chat: ChatRow, answers: bool = False) -> Contents:
    """Return what a chat holds; `answers` if its values are the answer as they are."""
    holders = await tx.list_holders_of_chat(chat)
    values = await tx.list_values_of(holders, SELECT_VALUES_OF_CHAT, chat.number)
    contents = Contents()
    for holder in holders:
        if answers and holder.space in ("instance", "chat"):
            data = tx.values_record(values[holder.number])
        else:
            data = values_record(values[holder.number])
        if holder.space == "instance":
            record = await shown_instance(tx, holder.shape())
            contents.instances.append({"instance": record, "data": data})
            contents.holders.append(holder)
        else:
            contents.spaces[holder.space] = data
    return contents


async def contents_at(tx: RowReader, chat: ChatRow, moment: Moment) -> Contents:
    contents = Contents()
    for space in SPACES:
        holder = await tx.find_space(chat, space)
        if holder is not None:
            contents.spaces[space] = former_values_record(await values_at(tx, holder, moment))
    former = await chat_instances_at(tx, chat, moment)
    contents.instances = [full_former(each) for each in former]
    contents.holders = [each.holder for each in former]
    return contents


async def contents_of(tx: RowReader, point: Point) -> Contents:
    """Return what the source changes that are live at a point make."""
    replay = Replay(tx)
    contents = Contents()
    for space in SPACES:
        holder = await tx.find_space(point.chat, space)
        if holder is not None:
            values = await replayed_values(tx, replay, holder, point)
            contents.spaces[space] = former_values_record(values)
    for former in await instances_of(tx, replay, point):
        values = await replayed_values(tx, replay, former.holder, point)
        data = former_values_record(values)
        contents.instances.append({"instance": former.record, "data": data})
        contents.holders.append(former.holder)
    return contents


async def values_of_space(tx: Snapshot, address: Address, at: ChatAt) -> list[LoggedChange]:
    """Return the values that a space of a chat had at a moment, or has as of a message."""
    chat = await tx.find_any_chat(address.id)
    if isinstance(at, AsOf):
        if chat is None or chat.deleted:
            raise MessageNotFound()
        point = await point_of(tx, chat, None, at.message_id)
        holder = await tx.find_space(chat, address.space)
        if holder is None:
            return []
        return await replayed_values(tx, Replay(tx), holder, point)
    moment = await find_moment(tx, at)
    tx.etag = moment.revision
    if chat is None:
        return []
    check_not_purged(chat, moment)
    holder = await tx.find_space(chat, address.space)
    return await values_at(tx, holder, moment) if holder is not None else []


async def replayed_values(
    tx: RowReader, replay: Replay, holder: HolderRow, point: Point
) -> list[LoggedChange]:
    """Return the values of a holder at a point, in the order of their keys."""
    found: list[LoggedChange] = []
    order = point.order(holder.space)
    for row in await tx.list_rows(holder):
        replayed = await replay.replay(holder.number, row.key, row.last_change, point.counts, order)
        if replayed.value is not None:
            ordinal = replayed.sources[0].change.ordinal or row.ordinal
            found.append(LoggedChange(row.key, "", 0, ordinal, replayed.value, None))
    return sorted(found, key=lambda change: (change.ordinal, change.key))


# Instances


async def instances_of(tx: RowReader, replay: Replay, point: Point) -> list[FormerInstance]:
    """
    Return the instances of a chat at a point.

    As of a message, that is those that were created at or before it, or have a live change there,
    and were not deleted by then. One that came to the chat later counts from the beginning.
    """
    if point.message_id is None:
        return await chat_instances_at(tx, point.chat, Moment(point.revision))
    found: list[FormerInstance] = []
    for holder in await tx.list_members(point.chat):
        shape = await _shape_of(tx, replay, point, holder)
        if shape is not None and shape.after is not None:
            stored = orjson.loads(shape.after)
            record = await shown_instance(tx, stored)
            found.append(FormerInstance(holder, shape.ordinal, record, stored["chat"], []))
    return sorted(found, key=lambda former: former.ordinal)


async def _shape_of(
    tx: RowReader, replay: Replay, point: Point, holder: HolderRow
) -> LoggedChange | None:
    """Return the last change of an instance itself at a point; None if it was not there yet."""
    here: list[Source] = []
    is_logged = False
    async for source in replay.walk(holder.number, "", holder.shape_entry):
        is_logged = True
        if source.entry.revision > max(point.revision, point.oldest):
            continue
        shape = orjson.loads(source.change.after or source.change.operand or "null")
        if shape is None or shape["chat"] != point.chat.number:
            break
        here.append(source)
    if not is_logged:
        # Nothing but its deletion is known of it, not even the chat that it was in last.
        point.check_deletion(holder.revision)
    before = sorted(filter(point.takes, here), key=point.order("instance").key)
    if before:
        return before[-1].change
    if here and await _has_live_change(tx, replay, point, holder):
        return here[-1].change
    return None


async def _has_live_change(tx: RowReader, replay: Replay, point: Point, holder: HolderRow) -> bool:
    """Return True if a live change of an instance stands at a message before the end of a point."""
    for row in await tx.list_rows(holder):
        async for source in replay.walk(holder.number, row.key, row.last_change):
            if point.counts(source) and point.position(source):
                return True
    return False


async def last_shape_of(replay: Replay, point: Point, holder: HolderRow) -> int:
    """Return the entry of the last change of an instance itself that belongs to a point."""
    async for source in replay.walk(holder.number, "", holder.shape_entry):
        if point.takes(source):
            return source.entry.entry
    return 0


# Measuring

Measure = tuple[dict[str, Any], RowCounts, str]


async def measure_now(tx: RowReader, chat: ChatRow) -> Measure:
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
    """Return of each series its current version, and of every version all but the content."""
    return {
        name: {
            "currentVersion": series.current,
            "versions": [_version(series.versions[number]) for number in sorted(series.versions)],
        }
        for name, series in parse_series(values).items()
    }


def _version(value: Any) -> dict[str, Any]:
    text = orjson.dumps(value)
    meta = orjson.loads(text)
    content = orjson.dumps(meta.pop("content"))
    record = {"version": meta.pop("version"), "createdAt": meta.pop("createdAt")}
    record["digest"] = digest_of(content)
    if len(text) - len(content) > META_BYTES:
        return record
    # A field of the version that is called `digest`, too, gives way.
    return {**record, **{name: each for name, each in meta.items() if name not in record}}


async def contents_of_checkpoint(tx: RowReader, chat: ChatRow, row: CheckpointRow) -> Contents:
    """Return the state of a checkpoint, computed from the log."""
    if row.message_id is not None:
        return await contents_of(tx, await point_of(tx, chat, row.revision, row.message_id))
    return await contents_at(tx, chat, Moment(row.revision))


# One value


def digest_of(text: str | bytes) -> str:
    """Return the digest of one value, from its canonical JSON."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def text_in(contents: Contents, instance_id: str | None, key: str) -> str | None:
    """Return a value as JSON; in a branch, an instance is also found by the id it had before."""
    values: dict[str, Any] | None = contents.spaces["chat"]
    if instance_id is not None:
        instances = [(each["instance"], each["data"]) for each in contents.instances]
        own = [data for instance, data in instances if instance["id"] == instance_id]
        taken = [data for instance, data in instances if instance.get("origin") == instance_id]
        values = next(iter([*own, *taken]), None)
    if values is None or key not in values:
        return None
    return orjson.dumps(values[key]).decode()
