"""
Branches: a chat that begins as another one was, and goes on alone.

A branch takes over the source changes of its parent up to a point, live and dormant, with
their anchors, as its own: below the branch point its story can be swiped and shortened as
that of its parent. What it takes over keeps its old numbers for order, in a table beside
the log; the log of the branch itself begins with one `branch` per value.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import orjson

from valuetracker.names import ID_LENGTH
from valuetracker.store import statements as sql
from valuetracker.store.chain import Chain, limit_of
from valuetracker.store.changes import Change, PutCharacter, PutInstance, SetValue
from valuetracker.store.entries import (
    BETWEEN_CHANGES,
    DERIVED,
    DROPPED,
    FLIPPABLE,
    EntryRow,
    Record,
    encode_record,
)
from valuetracker.store.holding import make_room
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import Moment, chat_instances_at
from valuetracker.store.replay import Replay, is_live
from valuetracker.store.rooms import ROOMS
from valuetracker.store.rows import ChatRow, DataRow, HolderRow, PlaceRow

SELECT_SOURCES = sql.entries("WHERE entries.subject = :subject ORDER BY entry")
SELECT_TAKEN_SOURCES = sql.taken("WHERE entries.subject = :subject ORDER BY entry")


@dataclass(slots=True)
class Point:
    """
    Where a branch leaves its parent.

    `positions` are the places it knows, by their numbers in the parent, each with its
    position in the chain or None if it is hidden. Unanchored changes are taken if they were
    made before `limit`, anchored ones up to `revision`.
    """

    limit: int
    revision: int
    positions: dict[int, int | None] = field(default_factory=dict)

    def takes(self, entry: EntryRow, parent: ChatRow, oldest: int) -> bool:
        if entry.standing == DROPPED:
            return False
        if not entry.is_flippable:
            # What was folded has lost its number; it was before whatever is known.
            return entry.revision < self.limit or entry.revision <= oldest
        return (
            entry.anchor_chat == parent.number
            and entry.place in self.positions
            and entry.revision <= self.revision
        )


def point_now(chain: Chain, revision: int) -> Point:
    """The parent as it is."""
    positions = {place.place: place.position for place in chain.places.values()}
    return Point(revision + 1, revision, positions)


def point_of_message(chain: Chain, message_id: str, revision: int) -> Point:
    """The parent as of a message of its visible chain."""
    order = chain.order()
    limit = limit_of(order, message_id)
    point = Point(revision + 1 if limit is None else limit, revision)
    last = chain.visible[message_id].position or 0
    for place in chain.places.values():
        shown = chain.visible.get(place.message_id)
        if shown is None:
            # A message that is hidden comes before the point if it was seen before.
            if place.seen < point.limit:
                point.positions[place.place] = None
        elif (shown.position or 0) <= last:
            point.positions[place.place] = place.position
    return point


async def take_over(tx: Ledger, chat: ChatRow, parent: ChatRow, point: Point) -> dict[str, str]:
    """Make a new chat a branch of another; the new ids of its instances, by the old."""
    places = await _take_places(tx, chat, parent, point)
    takings: list[_Taking] = []
    for space in ROOMS:
        room = await tx.find_holder(space, str(parent.number))
        if room is not None:
            target = await make_room(tx, chat, space)
            takings.append(_Taking(tx, room, target, chat, parent, point, places))
    oldest = (await tx.load_head()).oldest
    moment = Moment(max(min(point.limit, point.revision + 1) - 1, oldest))
    ids: dict[str, str] = {}
    for former in await chat_instances_at(tx, parent.number, moment):
        record = former.record
        ids[record["id"]] = await _new_id(tx, record["id"])
        changes: list[Change] = []
        if await tx.find_character(record["characterId"]) is None:
            changes.append(PutCharacter(record["characterId"], None, tx.now, tx.now))
        changes.append(
            PutInstance(
                ids[record["id"]],
                record["characterId"],
                chat.number,
                record["name"],
                created_at=tx.now,
                updated_at=tx.now,
                origin=record["id"],
            )
        )
        await tx.apply(changes)
        instance = await tx.find_instance(ids[record["id"]])
        assert instance is not None
        takings.append(_Taking(tx, former.holder, instance, chat, parent, point, places))
    for taking in takings:
        await taking.take(oldest)
    replay = Replay(tx)
    for taking in takings:
        await taking.make_values(replay)
    return ids


async def _take_places(
    tx: Ledger, chat: ChatRow, parent: ChatRow, point: Point
) -> dict[int, PlaceRow]:
    """The branch's own places, by the numbers of those they were."""
    head = await tx.load_head()
    await tx.load_chain(chat.number)
    revision = await tx.change_chain(chat)
    found: dict[int, PlaceRow] = {}
    for old in (await tx.load_chain(parent.number)).places.values():
        if old.place in point.positions:
            position = point.positions[old.place]
            place = PlaceRow(
                head.next_number(), chat.number, old.message_id, old.swipe, old.seen, position,
                old.written, old.hash,
            )  # fmt: skip
            tx.rows.add_place(place)
            if position is not None:
                tx.rows.flip(place, revision)
            found[old.place] = place
    return found


async def _new_id(tx: Ledger, old: str) -> str:
    while True:
        ending = f"~{secrets.token_hex(4)}"
        new = old[: ID_LENGTH - len(ending)] + ending
        if await tx.find_any_holder("instance", new) is None:
            return new


class _Taking:
    """What one holder of a branch takes over from one of its parent."""

    def __init__(
        self,
        tx: Ledger,
        old: HolderRow,
        new: HolderRow,
        chat: ChatRow,
        parent: ChatRow,
        point: Point,
        places: dict[int, PlaceRow],
    ) -> None:
        self._tx = tx
        self._old = old
        self._new = new
        self._chat = chat
        self._parent = parent
        self._point = point
        self._places = places
        # The revision that spoke of each key last, in the order in which keys came.
        self._last: dict[str, int] = {}
        # Where in its new entry a change stands that stood elsewhere in the old one.
        self._indexes: dict[tuple[int, int], int] = {}

    async def take(self, oldest: int) -> None:
        taken: list[EntryRow] = []
        for statement in (SELECT_TAKEN_SOURCES, SELECT_SOURCES):
            for row in await self._tx.fetch_all(statement, subject=self._old.number):
                entry = EntryRow(*row).verify()
                if self._point.takes(entry, self._parent, oldest):
                    copy = self._copy(entry)
                    if copy is not None:
                        taken.append(copy)
        await self._tx.execute_many(sql.INSERT_TAKEN, taken)
        table = self._tx.rows.table(self._new.number)
        for key, last in self._last.items():
            gone = DataRow(self._new.number, key, None, 0, 0, last, 1)
            gone.seal()
            table.put(key, gone)
        if self._last:
            self._tx.rows.values_touched(self._new.number)
            self._tx.put_holder(self._new)

    def _copy(self, entry: EntryRow) -> EntryRow | None:
        records: list[str] = []
        for index, record in enumerate(entry.records):
            if record.key and record.op not in DERIVED:
                self._indexes[entry.entry, index] = len(records)
                records.append(self._encode(record))
                self._last[record.key] = entry.revision
        if not records:
            return None
        place = entry.place
        if entry.is_flippable and place is not None:
            place = self._places[place].place
        elif entry.anchor_chat:
            # It counts as unanchored, and the place is another chat's.
            place = None
        copy = EntryRow(
            entry.entry, self._new.number, entry.at, entry.actor, self._chat.number, place,
            entry.effect, FLIPPABLE, BETWEEN_CHANGES.join(records),
        )  # fmt: skip
        copy.seal()
        return copy

    def _encode(self, record: Record) -> str:
        operand = record.operand
        if record.op == "restore":
            operand = orjson.dumps(
                [
                    [number, self._indexes[number, index], always]
                    for number, index, always in orjson.loads(operand or "[]")
                    if (number, index) in self._indexes
                ]
            ).decode()
        previous = self._last.get(record.key, 0)
        return encode_record(record.key, record.op, previous, record.place, record.after, operand)

    async def make_values(self, replay: Replay) -> None:
        """The values the branch begins with, each where it stood in the parent."""
        found: list[tuple[int, Change]] = []
        for key, last in self._last.items():
            replayed = await replay.replay(self._new.number, key, last, is_live)
            if replayed.value is not None:
                place = max(source.record.place for source in replayed.sources)
                found.append((place, SetValue(self._new, key, replayed.value, "branch")))
        found.sort(key=_place)
        await self._tx.apply([change for _, change in found])


def _place(item: tuple[int, Change]) -> int:
    return item[0]
