"""
Reading the log: the state at a moment, row by row.

The state of a row at a moment is that of its last change up to it that took effect. A
moment is a revision, or a time: then it is the highest revision recorded at or before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from valuetracker.engine import Row
from valuetracker.engine.statement import Statement
from valuetracker.errors import Compacted, RevisionUnknown
from valuetracker.model import Character, Instance
from valuetracker.store.rows import ChangeRow, Head

# A revision, or a time as the API writes times.
At = int | str


class Reader(Protocol):
    """What both kinds of transaction can do."""

    async def load_head(self) -> Head: ...
    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]: ...
    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None: ...


@dataclass(slots=True, frozen=True)
class Moment:
    """A revision, and the last row of the log that belongs to it or to one before."""

    revision: int
    change: int


SELECT_MOMENT_OF_REVISION = Statement(
    """
    SELECT first + changes - 1 FROM {schema}.revisions
    WHERE revision <= :revision ORDER BY revision DESC LIMIT 1
    """
)

# Backwards from the newest: the clock may have been set back, the revisions never are.
SELECT_MOMENT_OF_TIME = Statement(
    """
    SELECT revision, first + changes - 1 FROM {schema}.revisions
    WHERE at <= :at ORDER BY revision DESC LIMIT 1
    """
)


async def find_moment(tx: Reader, at: At) -> Moment:
    head = await tx.load_head()
    if isinstance(at, str):
        row = await tx.fetch_one(SELECT_MOMENT_OF_TIME, at=at)
        # Below the oldest only the revision that was last then is left; it stood for all
        # up to there.
        revision, change = (max(row[0], head.oldest), row[1]) if row is not None else (0, 0)
    else:
        if at > head.revision:
            raise RevisionUnknown(f"The latest revision is {head.revision}.", current=head.revision)
        row = await tx.fetch_one(SELECT_MOMENT_OF_REVISION, revision=at)
        revision, change = at, row[0] if row is not None else 0
    check_not_compacted(head, revision)
    return Moment(revision, change)


def check_not_compacted(head: Head, revision: int) -> None:
    if revision < head.oldest:
        raise Compacted(f"The log begins with revision {head.oldest}.", oldest=head.oldest)


SELECT_LAST_CHANGE = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key
    FROM {schema}.changes JOIN {schema}.cells ON cells.cell = changes.cell
    WHERE changes.cell = (
        SELECT cell FROM {schema}.cells
        WHERE owner = :owner AND key = :key AND space = :space
    ) AND change <= :until AND effect = 1
    ORDER BY change DESC LIMIT 1
    """
)


async def find_change(tx: Reader, space: str, owner: str, key: str, until: int) -> ChangeRow | None:
    """The last change of a row that took effect up to there."""
    row = await tx.fetch_one(SELECT_LAST_CHANGE, owner=owner, key=key, space=space, until=until)
    return ChangeRow(*row).verify() if row is not None else None


SELECT_VALUES_AT = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key
    FROM {schema}.cells CROSS JOIN {schema}.changes
    WHERE owner = :owner AND space = 'data' AND changes.change = (
        SELECT last.change FROM {schema}.changes AS last
        WHERE last.cell = cells.cell AND last.change <= :until AND last.effect = 1
        ORDER BY last.change DESC LIMIT 1
    )
    """
)


async def values_at(tx: Reader, instance_id: str, moment: Moment) -> list[ChangeRow]:
    """What each key of an instance was then, in the order of the keys then."""
    rows = [
        ChangeRow(*row).verify()
        for row in await tx.fetch_all(SELECT_VALUES_AT, owner=instance_id, until=moment.change)
    ]
    present = [row for row in rows if row.after is not None]
    return sorted(present, key=lambda row: row.place or 0)


async def instance_at(tx: Reader, instance_id: str, moment: Moment) -> Instance | None:
    change = await find_change(tx, "instance", instance_id, "", moment.change)
    if change is None or change.after is None:
        return None
    record: Instance = orjson.loads(change.after)
    return record


async def character_at(tx: Reader, character_id: str, moment: Moment) -> Character | None:
    change = await find_change(tx, "character", character_id, "", moment.change)
    if change is None or change.after is None:
        return None
    record: Character = orjson.loads(change.after)
    return record


SELECT_FORMER_INSTANCES = Statement(
    """
    SELECT DISTINCT owner
    FROM {schema}.changes JOIN {schema}.cells ON cells.cell = changes.cell
    WHERE parent = :parent AND change <= :until
    """
)


async def instances_at(tx: Reader, character_id: str, moment: Moment) -> list[ChangeRow]:
    """The instances a character had then, in the order in which they came into being."""
    found: list[ChangeRow] = []
    for (owner,) in await tx.fetch_all(
        SELECT_FORMER_INSTANCES, parent=character_id, until=moment.change
    ):
        change = await find_change(tx, "instance", owner, "", moment.change)
        # It may have gone, or gone to another character, by then.
        if change is not None and change.after is not None and change.parent == character_id:
            found.append(change)
    return sorted(found, key=lambda change: change.place or 0)
