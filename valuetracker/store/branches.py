"""
Branches: a chat that begins as another one was, and goes on alone.

A branch takes over the source changes of its parent up to a point, live and dormant, with
their anchors, as its own: below the branch point its story can be swiped and shortened as
that of its parent. What it takes over keeps its old numbers for order, in a table beside
the log; the log of the branch itself begins with one `branch` per value.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import orjson

from valuetracker.errors import ChatExists, ChatNotFound
from valuetracker.names import ID_LENGTH
from valuetracker.records import Branch, Lineage, Relative
from valuetracker.store.checkpoints import find_ready, measure_now
from valuetracker.store.log.links import put_in_place, subject_list, taken_list
from valuetracker.store.log.replay import Replay, is_live
from valuetracker.store.log.state_at import chat_instances_at, find_moment, shape_at
from valuetracker.store.operation_guard import guard
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    DERIVED,
    FLIPPABLE,
    NEVER,
    EntryRow,
    Record,
    encode_record,
)
from valuetracker.store.rows.listing import present_chats
from valuetracker.store.rows.row_types import ChatRow, DataRow, HolderRow, PlaceRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import ROOMS
from valuetracker.store.story.point import View, view_of
from valuetracker.store.story.visibility import make_chat
from valuetracker.store.tx.changes import Change, PutCharacter, PutInstance, SetValue
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import enter_chat, make_room


async def take_over(tx: Ledger, chat: ChatRow, view: View) -> dict[str, str]:
    """Make a new chat a branch of another; the new ids of its instances, by the old."""
    parent = view.chat
    places = await _take_places(tx, chat, view)
    takings: list[_Taking] = []
    for space in ROOMS:
        room = await tx.find_room(parent, space)
        if room is not None:
            target = await make_room(tx, chat, space)
            takings.append(_Taking(tx, room, target, chat, view, places))
    ids: dict[str, str] = {}
    for former in await chat_instances_at(tx, parent, view.moment, in_story=True):
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
        takings.append(_Taking(tx, former.holder, instance, chat, view, places))
    for taking in takings:
        await taking.take()
    replay = Replay(tx)
    for taking in takings:
        await taking.make_values(replay)
    return ids


async def _take_places(tx: Ledger, chat: ChatRow, view: View) -> dict[int, PlaceRow]:
    """The branch's own places, by the numbers of those they were."""
    head = await tx.load_head()
    await tx.load_chain(chat.number)
    revision = await tx.change_chain(chat)
    found: dict[int, PlaceRow] = {}
    for old in (await tx.load_chain(view.chat.number)).places.values():
        if old.place in view.positions:
            position = view.positions[old.place]
            place = PlaceRow(
                head.next_number(), chat.number, old.message_id, old.swipe, old.seen, position,
                old.written, hash=old.hash,
            )  # fmt: skip
            tx.rows.add_place(place)
            # Also of one that is hidden: it is known from here on.
            tx.rows.flip(place, revision)
            found[old.place] = place
    return found


async def _new_id(tx: Ledger, old: str) -> str:
    while True:
        ending = f"~{secrets.token_hex(4)}"
        new = old[: ID_LENGTH - len(ending)] + ending
        if await tx.find_any_instance(new) is None:
            return new


class _Taking:
    """What one holder of a branch takes over from one of its parent."""

    def __init__(
        self,
        tx: Ledger,
        old: HolderRow,
        new: HolderRow,
        chat: ChatRow,
        view: View,
        places: dict[int, PlaceRow],
    ) -> None:
        self._tx = tx
        self._old = old
        self._new = new
        self._chat = chat
        self._view = view
        self._places = places
        # The revision that spoke of each key last, in the order in which keys came.
        self._last: dict[str, int] = {}
        # Where in its new entry a change stands that stood elsewhere in the old one.
        self._indexes: dict[tuple[int, int], int] = {}
        # Entries that do not belong to the point; a restore that does may name one for good.
        self._anchored: set[str] = set()
        self._left: dict[int, EntryRow] = {}
        self._taken: list[EntryRow] = []

    async def take(self) -> None:
        for log in (taken_list(self._old), subject_list(self._old)):
            async for chunk in log.oldest_first(self._tx):
                await put_in_place(self._tx, chunk)
                for entry in chunk:
                    if self._view.takes(entry):
                        self._copy(entry)
                    else:
                        self._left[entry.entry] = entry
        await self._write()
        table = self._tx.rows.table(self._new.number)
        for key, last in self._last.items():
            anchored = int(key in self._anchored)
            gone = DataRow(self._new.number, key, None, 0, 0, last, anchored)
            gone.seal()
            table.put(key, gone)
        if self._last:
            self._new.known += len(self._last)
            self._tx.rows.values_touched(self._new.number)
            self._tx.put_holder(self._new)

    async def _write(self) -> None:
        """Write down what is taken over, each naming the one before it."""
        places = {place.place: place for place in self._places.values()}
        for copy in sorted(self._taken, key=_number):
            copy.before, self._new.taken = self._new.taken, copy.entry
            copy.seal()
            if copy.place is not None and copy.place in places:
                places[copy.place].entries += 1
                self._tx.put_place(places[copy.place])
        if self._taken:
            self._tx.put_holder(self._new)
            await self._tx.execute_many(sql.INSERT_TAKEN, self._taken)
            self._tx.forget_entries()

    def _copy(self, entry: EntryRow) -> None:
        records: list[str] = []
        for index, record in enumerate(entry.records):
            if not record.key:
                records.append(self._encode_shape(record))
            elif record.op not in DERIVED:
                self._indexes[entry.entry, index] = len(records)
                records.append(self._encode(record))
                self._last[record.key] = entry.revision
                if self._view.follows(entry):
                    self._anchored.add(record.key)
        place = entry.place
        if self._view.follows(entry) and place is not None:
            place = self._places[place].place
        elif entry.anchor_chat != 0:
            # It counts as unanchored, and the place is another chat's, perhaps of one purged.
            place = None
        if records:
            self._take(entry, place, FLIPPABLE, records)

    def _take(self, entry: EntryRow, place: int | None, standing: int, records: list[str]) -> None:
        copy = EntryRow(
            entry.entry, self._new.number, entry.at, entry.actor, self._chat.number, place,
            entry.effect, standing, prior=0, before=0, earlier=0,
            changes=BETWEEN_CHANGES.join(records),
        )  # fmt: skip
        self._taken.append(copy)

    def _take_named(self, number: int) -> None:
        """What a restore has brought back for good, although its place is left behind."""
        entry = self._left.pop(number, None)
        if entry is not None:
            records: list[str] = []
            for index, record in enumerate(entry.records):
                if record.key and record.op not in DERIVED:
                    self._indexes[number, index] = len(records)
                    records.append(
                        encode_record(
                            record.key, record.op, 0, record.place, record.after, record.operand
                        )
                    )
            self._take(entry, None, NEVER, records)

    def _encode_shape(self, record: Record) -> str:
        """When the instance came and went, as if it had been that of the branch."""
        after = record.after
        if after is not None:
            stored = orjson.loads(after)
            if stored["chat"] == self._view.chat.number:
                stored["chat"] = self._chat.number
            stored["id"], stored["origin"] = self._new.id, self._new.origin
            after = orjson.dumps(stored).decode()
        return encode_record("", record.op, 0, record.place, after, None)

    def _encode(self, record: Record) -> str:
        operand = record.operand
        if record.op == "restore":
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


def _number(entry: EntryRow) -> int:
    return entry.entry


# The verbs


@dataclass(slots=True, frozen=True)
class Start:
    """Where a branch leaves its parent: one of these, or as it is now."""

    checkpoint: str | None = None
    revision: int | None = None
    message_id: str | None = None


async def branch_chat(tx: Ledger, parent_id: str, chat_id: str, start: Start) -> Branch:
    parent = await enter_chat(tx, parent_id)
    if parent is None:
        raise ChatNotFound()
    if await tx.find_chat(chat_id) is not None:
        raise ChatExists()
    await guard(tx, parent, "create branch")
    view = await _view(tx, parent, start)
    chat = await make_chat(tx, chat_id)
    ids = await begin_branch(tx, chat, view, start.checkpoint)
    rows = (await measure_now(tx, chat))[1]
    return {
        "chatId": chat.id,
        "parent": parent.id,
        "parentRevision": view.revision,
        "rows": rows,
        "instances": ids,
    }


async def _view(tx: Ledger, parent: ChatRow, start: Start) -> View:
    if start.checkpoint is not None:
        row = await find_ready(tx, parent, start.checkpoint)
        return await view_of(tx, parent, row.revision, row.message_id)
    if start.revision is not None:
        moment = await find_moment(tx, start.revision)
        shape = await shape_at(tx, parent, moment)
        if shape is None or shape.after is None:
            raise ChatNotFound("The chat did not exist at that revision.")
        return await view_of(tx, parent, moment.revision)
    return await view_of(tx, parent, None, start.message_id)


async def begin_branch(
    tx: Ledger, chat: ChatRow, view: View, checkpoint: str | None = None
) -> dict[str, str]:
    """Make a new chat a branch; the new ids of its instances, by the old."""
    chat.parent = view.chat.number
    origin = {"checkpoint": checkpoint, "messageId": view.message_id, "createdAt": tx.now}
    chat.origin = orjson.dumps(origin).decode()
    tx.put_chat(chat)
    return await take_over(tx, chat, view)


async def get_lineage(tx: Snapshot, chat_id: str) -> Lineage | None:
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return None
    tx.etag = None
    ancestors: list[Relative] = []
    child = chat
    while child.parent is not None:
        parent = await tx.get_chat(child.parent)
        ancestors.append(_relative(parent.id, child))
        child = parent
    branches = [each for each in await present_chats(tx) if each.parent == chat.number]
    return {
        "chatId": chat.id,
        "ancestors": ancestors,
        "branches": [_relative(branch.id, branch) for branch in branches],
    }


def _relative(chat_id: str, branch: ChatRow) -> Relative:
    """A chat of the lineage, and where the branch between the two begins."""
    origin = orjson.loads(branch.origin or "{}")
    return {
        "chatId": chat_id,
        "messageId": origin.get("messageId"),
        "checkpoint": origin.get("checkpoint"),
        "createdAt": origin.get("createdAt", branch.created_at),
    }
