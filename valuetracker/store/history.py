"""What happened to an instance, and what differs between two moments of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.model import Difference, History, HistoryItem
from valuetracker.store.log import At, Reader, find_change, find_moment, values_at
from valuetracker.store.rows import ChangeRow
from valuetracker.store.snapshot import Snapshot

# Each key's own page, from the index, and of those the page of the whole. `base` rows are
# what was folded: a state, not something that happened.
SELECT_HISTORY_UP = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key, at, actor
    FROM {schema}.cells
    CROSS JOIN {schema}.changes
    JOIN {schema}.revisions ON revisions.revision = changes.revision
    WHERE owner = :owner AND space IN ('data', 'instance')
        AND changes.change IN (
            SELECT own.change FROM {schema}.changes AS own
            WHERE own.cell = cells.cell AND own.op <> 'base'
                AND own.change BETWEEN :first_change AND :last_change
            ORDER BY own.change LIMIT :count
        )
    ORDER BY changes.change LIMIT :count
    """
)

SELECT_HISTORY_DOWN = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key, at, actor
    FROM {schema}.cells
    CROSS JOIN {schema}.changes
    JOIN {schema}.revisions ON revisions.revision = changes.revision
    WHERE owner = :owner AND space IN ('data', 'instance')
        AND changes.change IN (
            SELECT own.change FROM {schema}.changes AS own
            WHERE own.cell = cells.cell AND own.op <> 'base'
                AND own.change BETWEEN :first_change AND :last_change
            ORDER BY own.change DESC LIMIT :count
        )
    ORDER BY changes.change DESC LIMIT :count
    """
)

SELECT_HISTORY_OF_KEY_UP = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key, at, actor
    FROM {schema}.changes
    JOIN {schema}.cells ON cells.cell = changes.cell
    JOIN {schema}.revisions ON revisions.revision = changes.revision
    WHERE changes.cell = (
        SELECT cell FROM {schema}.cells
        WHERE owner = :owner AND key = :key AND space = 'data'
    ) AND change BETWEEN :first_change AND :last_change AND op <> 'base'
    ORDER BY change LIMIT :count
    """
)

SELECT_HISTORY_OF_KEY_DOWN = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key, at, actor
    FROM {schema}.changes
    JOIN {schema}.cells ON cells.cell = changes.cell
    JOIN {schema}.revisions ON revisions.revision = changes.revision
    WHERE changes.cell = (
        SELECT cell FROM {schema}.cells
        WHERE owner = :owner AND key = :key AND space = 'data'
    ) AND change BETWEEN :first_change AND :last_change AND op <> 'base'
    ORDER BY change DESC LIMIT :count
    """
)


@dataclass(slots=True, frozen=True)
class Page:
    """Which part of a history is asked for."""

    key: str | None = None
    after: At | None = None
    before: At | None = None
    limit: int = 100
    descending: bool = True
    # The last change of the page before.
    cursor: int | None = None


async def list_history(tx: Snapshot, instance_id: str, page: Page) -> History:
    first, last = await _bounds(tx, page)
    if page.key is None:
        statement = SELECT_HISTORY_DOWN if page.descending else SELECT_HISTORY_UP
        named: dict[str, Any] = {}
    else:
        statement = SELECT_HISTORY_OF_KEY_DOWN if page.descending else SELECT_HISTORY_OF_KEY_UP
        named = {"key": page.key}
    # One more than asked for, to know whether there is a next page.
    rows = await tx.fetch_all(
        statement,
        owner=instance_id,
        first_change=first,
        last_change=last,
        count=page.limit + 1,
        **named,
    )
    items = [
        await _item(tx, ChangeRow(*row[:-2]).verify(), *row[-2:]) for row in rows[: page.limit]
    ]
    more = len(rows) > page.limit
    return {"items": items, "next": str(rows[page.limit - 1][0]) if more else None}


async def _bounds(tx: Snapshot, page: Page) -> tuple[int, int]:
    first, last = 1, (await tx.load_head()).change
    if page.after is not None:
        first = (await find_moment(tx, page.after)).change + 1
    if page.before is not None:
        before = page.before if isinstance(page.before, str) else max(page.before - 1, 0)
        last = (await find_moment(tx, before)).change
    if page.cursor is not None:
        if page.descending:
            last = min(last, page.cursor - 1)
        else:
            first = max(first, page.cursor + 1)
    return first, last


async def _item(tx: Reader, change: ChangeRow, at: str, actor: str) -> HistoryItem:
    item: HistoryItem = {
        "revision": change.revision,
        "at": at,
        "actor": actor,
        "instanceId": change.owner,
        "key": change.key or None,
        "op": change.op,
        "anchor": anchor_record(change),
        "live": bool(change.live),
    }
    if change.space == "instance":
        item["characterId"] = change.parent
        item["chatId"] = change.chat_id
    if not change.effect:
        item["value"] = orjson.Fragment(change.operand or "null")
        return item
    before = await find_change(tx, change.space, change.owner, change.key, change.change - 1)
    if before is not None and before.after is not None:
        item["before"] = orjson.Fragment(before.after)
    if change.after is not None:
        item["after"] = orjson.Fragment(change.after)
    return item


def anchor_record(change: ChangeRow) -> Any:
    if change.message_id is None:
        return None
    return {"messageId": change.message_id, "swipe": change.swipe}


async def diff_instance(
    tx: Snapshot, instance_id: str, start: At, end: At | None
) -> list[Difference]:
    """What differs: the keys of `start` in their order, then those that came."""
    head = await tx.load_head()
    before = await values_at(tx, instance_id, await find_moment(tx, start))
    after = await values_at(
        tx, instance_id, await find_moment(tx, head.revision if end is None else end)
    )
    old = {row.key: row.after for row in before}
    new = {row.key: row.after for row in after}
    differences: list[Difference] = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            difference: Difference = {"key": key}
            if key in old:
                difference["before"] = orjson.Fragment(old[key] or "null")
            if key in new:
                difference["after"] = orjson.Fragment(new[key] or "null")
            differences.append(difference)
    return differences
