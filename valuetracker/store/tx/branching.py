"""
How a branch takes over the changes of its parent.

A branch takes over the source changes of its parent up to a point, live and dormant, with
their anchors, as its own: below the branch point its story can be swiped and shortened like
that of its parent. The taken changes keep their old numbers for their order, in a table beside
the log; the log of the branch itself begins with one `branch` per value.
"""

from __future__ import annotations

import hashlib
import itertools

import orjson

from valuetracker.names import ID_LENGTH
from valuetracker.store.log.lists import find_anchors, subject_list, taken_list
from valuetracker.store.log.order import order_of
from valuetracker.store.log.replay import Replay, is_live
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    DERIVED,
    INSERT_TAKEN,
    EntryRow,
    LoggedChange,
    Source,
    encode_change,
)
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.spaces import SPACES
from valuetracker.store.story.contents import instances_of, last_shape_of
from valuetracker.store.story.point import Point
from valuetracker.store.tx.changes import (
    AddPlace,
    Change,
    ChangeValue,
    InheritKey,
    PutCharacter,
    PutInstance,
    StandKey,
    UpdateQuietly,
)
from valuetracker.store.tx.ledger import Ledger


async def begin_branch(
    tx: Ledger, chat: ChatRow, point: Point, checkpoint: str | None = None
) -> dict[str, str]:
    """Make a new chat a branch at a point; return the new instance ids by the old."""
    chat.parent = point.chat.number
    origin = {"checkpoint": checkpoint, "messageId": point.message_id, "createdAt": tx.now}
    chat.origin = orjson.dumps(origin).decode()
    chat.reordered = point.chat.reordered
    await tx.apply([UpdateQuietly(chat)])
    return await _take_over(tx, chat, point)


async def _take_over(tx: Ledger, chat: ChatRow, point: Point) -> dict[str, str]:
    """Give a new chat all that belongs to a point; return the new instance ids by the old."""
    parent = point.chat
    places = await _take_places(tx, chat, point)
    takings: list[_Taking] = []
    for space in SPACES:
        old = await tx.find_space(parent, space)
        if old is not None:
            new = await tx.get_or_create_space(chat, space)
            takings.append(_Taking(tx, old, new, chat, point, places))
    ids: dict[str, str] = {}
    replay = Replay(tx)
    for former in await instances_of(tx, replay, point):
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
                former=await last_shape_of(replay, point, former.holder),
            )
        )
        await tx.apply(changes)
        instance = await tx.find_instance(ids[record["id"]])
        assert instance is not None
        takings.append(_Taking(tx, former.holder, instance, chat, point, places))
    for taking in takings:
        await taking.take()
    for taking in takings:
        await taking.make_values(replay)
    return ids


async def _take_places(tx: Ledger, chat: ChatRow, point: Point) -> dict[int, PlaceRow]:
    """Copy the places of the parent; return the copies by the numbers of the originals."""
    head = await tx.load_head()
    found: dict[int, PlaceRow] = {}
    present = await tx.load_chain(point.chat.number)
    for old in point.places():
        found[old.place] = PlaceRow(
            head.next_number(), chat.number, old.message_id, old.swipe, old.first_seen,
            old.position, old.visible, old.first_written, hash=present.numbered[old.place].hash,
        )  # fmt: skip
    await tx.apply([AddPlace(place) for place in found.values()])
    return found


async def _new_id(tx: Ledger, old: str) -> str:
    """Return the id of an instance of a branch: the same history gives the same ids."""
    # No revision is ever given out twice, so neither is such an id, also not after a purge.
    revision = (await tx.load_head()).revision
    for attempt in itertools.count():
        digest = hashlib.sha256(f"{revision} {attempt} {old}".encode()).hexdigest()
        new = f"{old[: ID_LENGTH - 9]}~{digest[:8]}"
        if await tx.find_any_instance(new) is None:
            return new
    raise AssertionError("the count does not end")


class _Taking:
    """Takes the changes of one holder of the parent over to one of the branch."""

    def __init__(
        self,
        tx: Ledger,
        old: HolderRow,
        new: HolderRow,
        chat: ChatRow,
        point: Point,
        places: dict[int, PlaceRow],
    ) -> None:
        self._tx = tx
        self._old = old
        self._new = new
        self._chat = chat
        self._point = point
        self._places = places
        # The entry of the last change of each key, in the order of the first.
        self._last: dict[str, int] = {}
        # The index of a change in its new entry, by its old entry and index.
        self._indexes: dict[tuple[int, int], int] = {}
        # Entries with changes that do not belong to the point; a restore that does may name one.
        self._left: dict[int, EntryRow] = {}
        self._last_shape = 0
        self._taken: list[EntryRow] = []

    async def take(self) -> None:
        for log in (await taken_list(self._tx, self._old), subject_list(self._old)):
            async for chunk in log.oldest_first(self._tx):
                await find_anchors(self._tx, chunk)
                for entry in chunk:
                    self._copy(entry)
        await self._write()
        await self._tx.apply([InheritKey(self._new, key, last) for key, last in self._last.items()])

    async def _write(self) -> None:
        """Write the taken entries."""
        for copy in self._taken:
            copy.seal()
        if self._taken:
            await self._tx.execute_many(INSERT_TAKEN, self._taken)
            self._tx.forget_entries()

    def _copy(self, entry: EntryRow) -> None:
        """Take over the changes of an entry that belong to the point."""
        encoded: list[str] = []
        for index, change in enumerate(entry.logged):
            if change.op in DERIVED:
                continue
            if not self._point.takes(Source(entry, index, change)):
                self._left[entry.entry] = entry
            elif not change.key:
                encoded.append(self._encode_shape(entry, change))
            else:
                self._indexes[entry.entry, index] = len(encoded)
                encoded.append(self._encode(entry, change))
                self._last[change.key] = entry.entry
        if encoded:
            place = entry.place
            # An anchor in another chat, perhaps a purged one, counts as none; in no chat it stays.
            if entry.anchor_chat != 0:
                place = self._own_place(entry, place)
            self._take(entry, place, self._own_place(entry, entry.stands), encoded)

    def _own_place(self, entry: EntryRow, place: int | None) -> int | None:
        """Return the copy of a place; None if the entry did not follow this story."""
        has_left = entry.left_at and entry.left_at <= self._point.revision
        own = self._places.get(place) if place is not None and not has_left else None
        return own.place if own is not None else None

    def _take(
        self,
        entry: EntryRow,
        place: int | None,
        stands: int | None,
        encoded: list[str],
        counts: bool = True,
    ) -> None:
        # One that never counts by itself has left the chat at its very beginning.
        copy = EntryRow(
            entry.entry, self._new.number, entry.at, entry.actor, self._chat.number, place, stands,
            entry.effect, left_at=int(not counts), dropped=int(not counts), back=0,
            changes=BETWEEN_CHANGES.join(encoded),
        )  # fmt: skip
        self._taken.append(copy)

    def _take_named(self, number: int) -> None:
        """Take over a change that a restore names although it does not belong to the point."""
        entry = self._left.pop(number, None)
        if entry is not None:
            encoded: list[str] = []
            for index, change in enumerate(entry.logged):
                if change.key and change.op not in DERIVED:
                    self._indexes[number, index] = len(encoded)
                    encoded.append(
                        encode_change(
                            number,
                            change.key,
                            change.op,
                            0,
                            change.ordinal,
                            change.held,
                            change.operand,
                        )
                    )
            self._take(entry, None, None, encoded, counts=False)

    def _encode_shape(self, entry: EntryRow, change: LoggedChange) -> str:
        """Encode a change of the instance itself, as if it were the instance of the branch."""
        after = self._own_shape(change.after)
        previous, self._last_shape = self._last_shape, entry.entry
        operand = self._own_shape(change.operand) if change.after is None else None
        return encode_change(entry.entry, "", change.op, previous, change.ordinal, after, operand)

    def _own_shape(self, text: str | None) -> str | None:
        if text is None:
            return None
        stored = orjson.loads(text)
        if stored["chat"] == self._point.chat.number:
            stored["chat"] = self._chat.number
        stored["id"], stored["origin"] = self._new.id, self._new.origin
        return orjson.dumps(stored).decode()

    def _encode(self, entry: EntryRow, change: LoggedChange) -> str:
        # A value that the parent leaves out stays out: only the operand is replayed.
        operand = change.operand
        if change.op == "base" and operand is not None:
            place = self._own_place(entry, int(operand))
            operand = str(place) if place is not None else None
        if change.op == "restore" and operand is not None:
            for number, _, always in orjson.loads(operand or "[]"):
                if always:
                    self._take_named(number)
            operand = orjson.dumps(
                [
                    [number, self._indexes[number, index], always]
                    for number, index, always in orjson.loads(operand or "[]")
                    if (number, index) in self._indexes
                ]
            ).decode()
        previous = self._last.get(change.key, 0)
        return encode_change(
            entry.entry, change.key, change.op, previous, change.ordinal, change.held, operand
        )

    async def make_values(self, replay: Replay) -> None:
        """Set the values the branch begins with, in the order they had in the parent."""
        found: list[tuple[int, Change]] = []
        standings: list[Change] = []
        order = await order_of(self._tx, self._new)
        for key, last in self._last.items():
            replayed = await replay.replay(self._new.number, key, last, is_live, order)
            if replayed.value is not None:
                ordinal = max(source.change.ordinal for source in replayed.sources)
                found.append((ordinal, ChangeValue(self._new, key, replayed.value, "branch")))
            standing = await replay.survey(self._new.number, key, last, order)
            standings.append(StandKey(self._new, key, *standing))
        found.sort(key=_ordinal)
        await self._tx.apply([*(change for _, change in found), *standings])


def _ordinal(item: tuple[int, Change]) -> int:
    return item[0]
