"""The history of an instance or a chat, and the differences between two moments of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import IncarnationEnded
from valuetracker.records import Difference, History, HistoryItem
from valuetracker.store.log.lists import (
    EntryList,
    chat_list,
    find_anchors,
    find_state,
    subject_list,
)
from valuetracker.store.log.replay import Replay, resolve_value
from valuetracker.store.log.resolve_names import resolve_names
from valuetracker.store.log.state_at import (
    At,
    chat_instances_at,
    find_moment,
    shown_instance,
    state_until,
    values_at,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    KEPT,
    EntryRow,
    LoggedChange,
    anchor_record,
    encode_name,
)
from valuetracker.store.rows.head import marked
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.numbers import Moment, last_of
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import SPACES, shown_key

# A page whose values have come to this many bytes ends there, however many were asked for.
PAGE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class Cursor:
    """The last change of a page: its entry, and where in it."""

    entry: int
    index: int
    incarnation: int = 0


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
    """List the changes made in a chat: of its own data, and of instances that are or were in it."""
    first, last = await _bounds(tx, page)
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return {"items": [], "next": None}
    changes = _changes(tx, await chat_list(tx, chat), page, first, last)
    return await _page(tx, changes, page, in_chat=True)


Changes = AsyncIterator[tuple[EntryRow, int, LoggedChange]]


async def _page(tx: Snapshot, changes: Changes, page: Page, in_chat: bool = False) -> History:
    items: list[HistoryItem] = []
    cursor: Cursor | None = None
    size = 0
    async for entry, index, change in changes:
        # One more than asked for, to know whether there is a next page.
        if len(items) == page.limit or size > PAGE_BYTES:
            assert cursor is not None
            ended = marked(cursor.index, tx.head.incarnation)
            return {"items": items, "next": f"{cursor.entry}-{ended}"}
        item = await _item(tx, entry, index, change)
        if in_chat:
            item["chatId"] = entry.chat_id
        items.append(item)
        # The value before is about as large as the value after.
        size += 2 * len(change.held or change.operand or "")
        cursor = Cursor(entry.entry, index)
    return {"items": items, "next": None}


async def _changes(tx: Snapshot, log: EntryList, page: Page, first: int, last: int) -> Changes:
    """Yield the changes of a page and after it, in its order."""
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
        await find_anchors(tx, wanted)
        await resolve_names(tx, wanted)
        for entry in wanted:
            numbered = list(enumerate(entry.logged))
            for index, change in reversed(numbered) if page.descending else numbered:
                if _is_wanted(page, entry, index, change):
                    yield entry, index, change


async def _changes_of_key(
    tx: Snapshot, holder: HolderRow, page: Page, first: int, last: int
) -> Changes:
    """Yield the changes of one key, newest first: each names the one before it."""
    assert page.key is not None
    replay = Replay(tx)
    row = await tx.find_value(holder, page.key)
    number = row.last_change if row is not None else 0
    if page.cursor is not None:
        last = min(last, page.cursor.entry)
        # Begin where the last page ended.
        ended = await replay.find_own_entry(holder.number, page.cursor.entry)
        if ended is not None and ended.indexes(page.key):
            number = min(number, ended.entry)
    while number > last_of(tx.head.oldest) and number >= first:
        entry = await replay.find_own_entry(holder.number, number)
        if entry is None:
            # The history of a branch begins with its first own entry.
            return
        await resolve_names(tx, [entry])
        number = 0
        for index in entry.indexes(page.key):
            change = entry.logged[index]
            number = change.prev_of_key
            if entry.entry <= last and _is_wanted(page, entry, index, change):
                yield entry, index, change


def _is_wanted(page: Page, entry: EntryRow, index: int, change: LoggedChange) -> bool:
    # A value that was kept is not something that happened.
    if change.op in KEPT or (page.key is not None and change.key != page.key):
        return False
    if page.cursor is None or entry.entry != page.cursor.entry:
        return True
    return index < page.cursor.index if page.descending else index > page.cursor.index


async def _bounds(tx: Snapshot, page: Page) -> tuple[int, int]:
    head = await tx.load_head()
    if page.cursor is not None and page.cursor.incarnation != head.incarnation:
        raise IncarnationEnded()
    first, last = 1, last_of(head.revision)
    if page.after is not None:
        first = (await find_moment(tx, page.after)).entry + 1
    if page.before is not None:
        # The revision that a time stands for is left out, too.
        before = page.before
        revision = (await find_moment(tx, before)).revision if isinstance(before, str) else before
        last = (await find_moment(tx, max(revision - 1, 0))).entry
    return first, last


async def _item(tx: RowReader, entry: EntryRow, index: int, change: LoggedChange) -> HistoryItem:
    item: HistoryItem = {
        "revision": entry.revision,
        "at": entry.time,
        "actor": entry.shown_actor,
        "instanceId": entry.id if entry.space == "instance" else None,
        "key": shown_key(entry.space, change.key),
        "op": change.op,
        "anchor": anchor_record(entry),
        "live": entry.is_live,
    }
    if entry.space in ("series", "processed"):
        item["space"] = entry.space
    if not change.key and entry.space == "instance":
        shape = orjson.loads(change.after or change.operand or "null")
        item["characterId"] = shape["characterId"]
        item["chatId"] = await tx.chat_id(shape["chat"])
    if entry.is_superseded:
        item["superseded"] = True
    if not entry.took_effect:
        item["value"] = orjson.Fragment(change.operand or "null")
        return item
    await resolve_value(tx, entry, index)
    before = await _before(tx, entry, index, change)
    if before is not None:
        item["before"] = await shown_value(tx, entry, change.key, before)
    if change.after is not None:
        item["after"] = await shown_value(tx, entry, change.key, change.after)
    return item


async def _before(tx: RowReader, entry: EntryRow, index: int, change: LoggedChange) -> str | None:
    """Return the value of a key before a change of it; None if it was absent."""
    if change.op == "branch":
        # The changes a branch took over were made elsewhere.
        return None
    for earlier in range(index - 1, -1, -1):
        if entry.logged[earlier].key == change.key:
            return (await resolve_value(tx, entry, earlier)).after
    if not change.key:
        state = await state_until(tx, entry.subject, entry.prev_of_subject)
        return state[""].after if "" in state else None
    number = change.prev_of_key
    while number:
        other = await find_state(tx, entry.subject, number, change.key)
        if other is None:
            # It was folded, and the key was absent; or the branch began without the key.
            return None
        indexes = other.indexes(change.key)
        if other.took_effect:
            return (await resolve_value(tx, other, indexes[0])).after
        number = other.logged[indexes[-1]].prev_of_key
    return None


async def shown_value(tx: RowReader, entry: EntryRow, key: str, text: str) -> Any:
    """Return a value of the log as the API answers it."""
    if key or entry.space != "instance":
        return orjson.Fragment(text)
    return await shown_instance(tx, orjson.loads(text))


# Differences


async def diff_instance(
    tx: Snapshot, instance_id: str, start: At, end: At | None
) -> list[Difference]:
    """List what differs: the keys of `start` in their order, then new ones."""
    moments = await _moments(tx, start, end)
    holder = await tx.find_any_instance(instance_id)
    if holder is None:
        return []
    before, after = [await _texts(tx, holder, moment) for moment in moments]
    return differences(before, after)


async def diff_chat(tx: Snapshot, chat_id: str, start: At, end: At | None) -> list[Difference]:
    """List what differs in a chat: its spaces, then the instances it had at either moment."""
    moments = await _moments(tx, start, end)
    chat = await tx.find_any_chat(chat_id)
    if chat is None:
        return []
    before, after = [await _chat_texts(tx, chat, moment) for moment in moments]
    return chat_differences(before, after)


# Values by space (or `instance`), the instance's id, and the key.
ChatTexts = dict[tuple[str, str | None, str], str]


def chat_differences(before: ChatTexts, after: ChatTexts) -> list[Difference]:
    """List what differs: the keys of before in their order, then new ones."""
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
    """Return all values of a chat at a moment: those of its spaces, then of its instances."""
    texts: ChatTexts = {}
    for space in SPACES:
        holder = await tx.find_space(chat, space)
        if holder is not None:
            for key, text in (await _texts(tx, holder, moment)).items():
                texts[space, None, key] = text
    for each in await chat_instances_at(tx, chat, moment):
        for change in each.values:
            texts["instance", each.record["id"], change.key] = change.after or ""
    return texts


async def _moments(tx: Snapshot, start: At, end: At | None) -> list[Moment]:
    head = await tx.load_head()
    last = head.revision if end is None else end
    return [await find_moment(tx, start), await find_moment(tx, last)]


async def _texts(tx: Snapshot, holder: HolderRow, moment: Moment) -> dict[str, str]:
    return {change.key: change.after or "" for change in await values_at(tx, holder, moment)}


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
