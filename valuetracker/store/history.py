"""What happened to an instance or a chat, and what differs between two moments of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.records import Difference, History, HistoryItem
from valuetracker.store.log.links import EntryList, chat_list, put_in_place, subject_list
from valuetracker.store.log.replay import Replay
from valuetracker.store.log.resolve_names import put_names
from valuetracker.store.log.state_at import (
    At,
    Moment,
    chat_instances_at,
    find_moment,
    instance_record,
    state_until,
    values_at,
)
from valuetracker.store.rows.entries import EntryRow, Record, encode_name, last_of
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import ChatRow, HolderRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import ROOMS, shown_key

# A page whose values have come to this many bytes ends there, however many were asked for.
PAGE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class Cursor:
    """The last change of a page: its entry, and where in it."""

    entry: int
    index: int


@dataclass(slots=True, frozen=True)
class Page:
    """Which part of a history is asked for."""

    key: str | None = None
    after: At | None = None
    before: At | None = None
    limit: int = 100
    descending: bool = True
    cursor: Cursor | None = None


async def list_history(tx: Snapshot, instance_id: str, page: Page) -> History:
    first, last = await _bounds(tx, page)
    holder = await tx.find_any_instance(instance_id)
    if holder is None:
        return {"items": [], "next": None}
    if page.key is not None and page.descending:
        return await _page(tx, _changes_of_key(tx, holder, page, first, last), page)
    return await _page(tx, _changes(tx, subject_list(holder), page, first, last), page)


async def list_chat_history(tx: Snapshot, chat_id: str, page: Page) -> History:
    """What happened in a chat: to its own data, and to the instances it has or had."""
    first, last = await _bounds(tx, page)
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return {"items": [], "next": None}
    changes = _changes(tx, await chat_list(tx, chat), page, first, last)
    return await _page(tx, changes, page, in_chat=True)


Changes = AsyncIterator[tuple[EntryRow, int, Record]]


async def _page(tx: Snapshot, changes: Changes, page: Page, in_chat: bool = False) -> History:
    replay = Replay(tx)
    items: list[HistoryItem] = []
    cursor: Cursor | None = None
    size = 0
    async for entry, index, record in changes:
        # One more than asked for, to know whether there is a next page.
        if len(items) == page.limit or size > PAGE_BYTES:
            assert cursor is not None
            return {"items": items, "next": f"{cursor.entry}-{cursor.index}"}
        item = await _item(tx, replay, entry, index, record)
        if in_chat:
            item["chatId"] = entry.chat_id
        items.append(item)
        # What it was before is about as large as what it became.
        size += 2 * len(record.after or record.operand or "")
        cursor = Cursor(entry.entry, index)
    return {"items": items, "next": None}


async def _changes(tx: Snapshot, log: EntryList, page: Page, first: int, last: int) -> Changes:
    """The changes of a page and after it, in its order."""
    needle = encode_name(page.key) if page.key is not None else ""
    if page.cursor is not None:
        first, last = (
            (first, min(last, page.cursor.entry))
            if page.descending
            else (max(first, page.cursor.entry), last)
        )
    chunks = log.newest_first if page.descending else log.oldest_first
    async for chunk in chunks(tx, first, last):
        wanted = [entry for entry in chunk if needle in entry.changes]
        await put_in_place(tx, wanted)
        await put_names(tx, wanted)
        for entry in wanted:
            numbered = list(enumerate(entry.records))
            for index, record in reversed(numbered) if page.descending else numbered:
                if _is_wanted(page, entry, index, record):
                    yield entry, index, record


async def _changes_of_key(
    tx: Snapshot, holder: HolderRow, page: Page, first: int, last: int
) -> Changes:
    """The same of one key, newest first: each change names the one before it."""
    assert page.key is not None
    replay = Replay(tx)
    row = await tx.find_value(holder, page.key)
    revision = row.last if row is not None else 0
    if page.cursor is not None:
        last = min(last, page.cursor.entry)
        # Where the last page ended: what comes after it need not be passed again.
        at_cursor = EntryRow.revision_of(page.cursor.entry)
        ended = await replay.own_entries(holder.number, at_cursor)
        if any(entry.indexes(page.key) for entry in ended):
            revision = min(revision, at_cursor)
    while revision > tx.head.oldest and last_of(revision) >= first:
        entries = await replay.own_entries(holder.number, revision)
        await put_names(tx, entries)
        previous: int | None = None
        for entry in entries:
            for index in entry.indexes(page.key):
                record = entry.records[index]
                previous = record.previous
                if first <= entry.entry <= last and _is_wanted(page, entry, index, record):
                    yield entry, index, record
        if previous is None and (entries or not holder.taken):
            raise DatabaseDamaged()
        # A branch begins where it has no entries of its own any more.
        revision = previous or 0


def _is_wanted(page: Page, entry: EntryRow, index: int, record: Record) -> bool:
    # `base` is what was folded: a state, not something that happened.
    if record.op == "base" or (page.key is not None and record.key != page.key):
        return False
    if page.cursor is None or entry.entry != page.cursor.entry:
        return True
    return index < page.cursor.index if page.descending else index > page.cursor.index


async def _bounds(tx: Snapshot, page: Page) -> tuple[int, int]:
    first, last = 1, last_of((await tx.load_head()).revision)
    if page.after is not None:
        first = (await find_moment(tx, page.after)).entry + 1
    if page.before is not None:
        # A time stands for a revision, and that is left out, too.
        before = page.before
        revision = (await find_moment(tx, before)).revision if isinstance(before, str) else before
        last = (await find_moment(tx, max(revision - 1, 0))).entry
    return first, last


async def _item(
    tx: Reader, replay: Replay, entry: EntryRow, index: int, record: Record
) -> HistoryItem:
    item: HistoryItem = {
        "revision": entry.revision,
        "at": entry.at,
        "actor": entry.actor,
        "instanceId": entry.id if entry.space == "instance" else None,
        "key": shown_key(entry.space, record.key),
        "op": record.op,
        "anchor": anchor_record(entry),
        "live": entry.is_live,
    }
    if entry.space in ("series", "processed"):
        item["space"] = entry.space
    if not record.key and entry.space == "instance":
        shape = orjson.loads(record.after or record.operand or "null")
        item["characterId"] = shape["characterId"]
        item["chatId"] = await tx.chat_id(shape["chat"])
    if not entry.effect:
        item["value"] = orjson.Fragment(record.operand or "null")
        return item
    before = await _before(tx, replay, entry, index, record)
    if before is not None:
        item["before"] = await shown_value(tx, entry, record.key, before)
    if record.after is not None:
        item["after"] = await shown_value(tx, entry, record.key, record.after)
    return item


async def _before(
    tx: Reader, replay: Replay, entry: EntryRow, index: int, record: Record
) -> str | None:
    """What a key was before a change of it."""
    if record.op == "branch":
        # What it took over happened elsewhere.
        return None
    for earlier in reversed(entry.records[:index]):
        if earlier.key == record.key:
            return earlier.after
    if not record.key:
        state = await state_until(tx, entry.subject, entry.before)
        return state[""].after if "" in state else None
    oldest = (await tx.load_head()).oldest
    revision = entry.revision
    while revision:
        previous: int | None = None
        for other in await replay.entries(entry.subject, revision):
            for each in reversed(other.records):
                if each.key == record.key:
                    previous = each.previous
                    if other.entry < entry.entry and other.effect:
                        return each.after
        if previous is None and revision > oldest:
            raise DatabaseDamaged()
        revision = previous or 0 if revision > oldest else 0
    return None


async def shown_value(tx: Reader, entry: EntryRow, key: str, text: str) -> Any:
    """A value of the log as it is answered."""
    if key or entry.space != "instance":
        return orjson.Fragment(text)
    return await instance_record(tx, orjson.loads(text))


def anchor_record(entry: EntryRow) -> Any:
    if entry.anchor is None:
        return None
    return {"messageId": entry.anchor.message_id, "swipe": entry.anchor.swipe}


# Differences


async def diff_instance(
    tx: Snapshot, instance_id: str, start: At, end: At | None
) -> list[Difference]:
    """What differs: the keys of `start` in their order, then those that came."""
    moments = await _moments(tx, start, end)
    holder = await tx.find_any_instance(instance_id)
    if holder is None:
        return []
    before, after = [await _texts(tx, holder, moment) for moment in moments]
    return differences(before, after)


async def diff_chat(tx: Snapshot, chat_id: str, start: At, end: At | None) -> list[Difference]:
    """The same over a chat: its rooms, then the instances it had at either moment."""
    moments = await _moments(tx, start, end)
    chat = await tx.find_any_chat(chat_id)
    if chat is None:
        return []
    before, after = [await _chat_texts(tx, chat, moment) for moment in moments]
    return chat_differences(before, after)


# By room (or `instance`), the instance's id, and the key.
ChatTexts = dict[tuple[str, str | None, str], str]


def chat_differences(before: ChatTexts, after: ChatTexts) -> list[Difference]:
    """What differs: what was there before in its order, then what came."""
    found: list[Difference] = []
    for name in dict.fromkeys([*before, *after]):
        space, instance_id, key = name
        if before.get(name) != after.get(name):
            each = difference(shown_key(space, key) or "", before.get(name), after.get(name))
            each["instanceId"] = instance_id
            if space in ("series", "processed"):
                each["space"] = space
            found.append(each)
    return found


async def _chat_texts(tx: Snapshot, chat: ChatRow, moment: Moment) -> ChatTexts:
    """All values of a chat then: those of its rooms, then those of its instances."""
    texts: ChatTexts = {}
    for space in ROOMS:
        room = await tx.find_room(chat, space)
        if room is not None:
            for key, text in (await _texts(tx, room, moment)).items():
                texts[space, None, key] = text
    for each in await chat_instances_at(tx, chat, moment):
        for record in each.values:
            texts["instance", each.record["id"], record.key] = record.after or ""
    return texts


async def _moments(tx: Snapshot, start: At, end: At | None) -> list[Moment]:
    head = await tx.load_head()
    last = head.revision if end is None else end
    return [await find_moment(tx, start), await find_moment(tx, last)]


async def _texts(tx: Snapshot, holder: HolderRow, moment: Moment) -> dict[str, str]:
    return {record.key: record.after or "" for record in await values_at(tx, holder, moment)}


def differences(old: dict[str, str], new: dict[str, str]) -> list[Difference]:
    return [
        difference(key, old.get(key), new.get(key))
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def difference(key: str, before: str | None, after: str | None) -> Difference:
    found: Difference = {"key": key}
    if before is not None:
        found["before"] = orjson.Fragment(before)
    if after is not None:
        found["after"] = orjson.Fragment(after)
    return found
