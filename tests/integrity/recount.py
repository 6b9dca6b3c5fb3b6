"""Compute again, from the tables and the log of a database, every number that its rows keep."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

from tests.integrity.contents import Contents, Rows, statements
from tests.integrity.log_replay import LogReplay
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import BASES, EntryRow, LoggedChange
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.numbers import last_of
from valuetracker.store.rows.spaces import follows_order

# Characters, instances and values by id, each in its order.
State = dict[str, Any]
Subject = CharacterRow | HolderRow | ChatRow


def recount(path: Path, from_revision: int = 1) -> State:
    """Check every count, link and revision of a file, and return its state."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {
            name: connection.execute(text).fetchall() for name, text in statements("main").items()
        }
    return recount_tables(found, from_revision)


def recount_tables(found: dict[str, Rows], from_revision: int = 1) -> State:
    """Check tables that were read already, by name, and return their state."""
    contents = Contents.of(found)
    _check_counts(contents)
    _check_numbers(contents)
    _check_holders(contents)
    _check_revisions(contents, from_revision)
    _check_links(contents)
    replay = LogReplay(contents)
    _check_subjects(contents, replay)
    _check_keys(contents, replay)
    _check_standings(contents, replay)
    _check_places(contents, replay)
    state = _state_of(contents)
    replayed = _replayed_state(contents, replay)
    assert replayed == state
    # Dictionaries are equal whatever their order, but the order is promised, too.
    assert order_of(replayed) == order_of(state)
    return state


def _present(table: Sequence[Any]) -> list[Any]:
    return [row for row in table if not row.deleted]


def _check_counts(contents: Contents) -> None:
    """Check that there are as many rows as the head counts."""
    head = contents.head
    assert (head.characters, head.instances, head.keys) == (
        len(_present(contents.characters)),
        len(contents.instances),
        len([row for row in contents.data if row.value is not None]),
    )
    for character in contents.characters:
        own = [row for row in contents.instances if row.character_id == character.id]
        assert not (character.deleted and own)
    assert {row.character_id for row in contents.instances} <= {
        row.id for row in _present(contents.characters)
    }


def _check_numbers(contents: Contents) -> None:
    """Check that no two rows share a number, and no two an ordinal."""
    head = contents.head
    subjects: list[Subject] = [*contents.characters, *contents.holders, *contents.chats]
    numbers = [row.number for row in subjects] + [row.place for row in contents.places]
    assert sorted(numbers) == list(range(1, head.number + 1))
    values = [row for row in contents.data if row.value is not None]
    ordinals = [row.ordinal for row in subjects] + [row.ordinal for row in values]
    assert len(set(ordinals)) == len(ordinals)
    assert all(0 < ordinal <= head.ordinal for ordinal in ordinals)


def _check_holders(contents: Contents) -> None:
    """Check that each holder has the values it counts, and belongs to a chat that exists."""
    chats = {row.number: row for row in contents.chats}
    for holder in contents.holders:
        values = contents.values_of(holder)
        assert holder.keys == len(values)
        assert holder.digest == reduce(xor, (row.content for row in values), 0)
        assert not (holder.deleted and (holder.keys or holder.chat is not None))
        assert holder.chat is None or holder.chat in chats
        if holder.space != "instance":
            assert holder.space in ("chat", "series", "processed")
            assert (holder.id, holder.character_id, holder.shape_entry) == (
                str(holder.chat),
                None,
                0,
            )
    assert {row.holder for row in contents.data} <= {row.number for row in contents.holders}
    assert {row.subject for row in contents.taken} <= {row.number for row in contents.holders}
    assert {row.chat for row in contents.aliases} <= set(chats)
    assert all(row.ordinal == 0 for row in contents.data if row.value is None)


def _check_links(contents: Contents) -> None:
    """Check that every entry names the one before it of its subject, and the subject the last."""
    last: dict[int, int] = defaultdict(int)
    for entry in contents.entries:
        assert entry.prev_of_subject == last[entry.subject]
        last[entry.subject] = entry.entry
    subjects: list[Subject] = [*contents.characters, *contents.holders, *contents.chats]
    for row in subjects:
        assert row.last_entry == last[row.number]


def _check_revisions(contents: Contents, from_revision: int) -> None:
    """Check that every revision after the oldest has an entry, and no row a later revision."""
    head = contents.head
    first = max(from_revision, head.oldest + 1)
    found = {entry.revision for entry in contents.entries}
    assert sorted(number for number in found if number > head.oldest) == list(
        range(first, head.revision + 1)
    )
    assert all(row.revision <= head.revision for row in contents.requests)


def _check_subjects(contents: Contents, replay: LogReplay) -> None:
    """Check the rows of characters, holders and chats, and their revisions, against the log."""
    subjects: list[Subject] = [
        *contents.characters,
        *(row for row in contents.holders if row.space == "instance"),
        *contents.chats,
    ]
    oldest = contents.head.oldest
    present = replay.subjects()
    assert set(present) == {row.number for row in subjects if not row.deleted}
    for row in subjects:
        if not row.deleted:
            assert (present[row.number].after, present[row.number].ordinal) == (
                row.text(),
                row.ordinal,
            )
    flipped = {row.place: row.revision for row in contents.flips}
    for place in contents.places:
        if place.chat and place.place in flipped:
            latest = max(replay.touched.get(place.chat, 0), flipped[place.place])
            replay.touched[place.chat] = latest
    spaces = [row for row in contents.holders if row.space != "instance"]
    for each in [*subjects, *spaces]:
        touched = replay.touched.get(each.number, 0)
        assert each.revision == touched if touched > oldest else each.revision <= oldest
    for holder in contents.holders:
        shape = replay.keys.get(holder.number, {}).get("")
        assert replay.agree(holder.shape_entry, shape.entry if shape is not None else 0)
        assert (
            holder.changes_since_keyframe == replay.unframed.get(holder.number, 0)
            or contents.head.oldest
        )
    members = {(row.parent, row.holder) for row in contents.members}
    assert replay.members == members if not contents.head.oldest else replay.members <= members


def _check_keys(contents: Contents, replay: LogReplay) -> None:
    """Check that every key in the log has a row, and that the row agrees with the log."""
    rows = {(row.holder, row.key): row for row in contents.data}
    replayed = {
        (number, key): each for number, keys in replay.keys.items() for key, each in keys.items()
    }
    for (number, key), each in replayed.items():
        if key:
            row = rows.pop((number, key))
            assert (row.value, row.ordinal) == (each.after, each.ordinal)
            assert replay.agree(row.entry, each.entry)
            assert replay.agree(row.last_change, each.last_change)
    # Compaction has folded every entry of the others.
    for row in rows.values():
        assert row.value is None
        assert 0 < row.last_change <= last_of(contents.head.oldest)


def _check_standings(contents: Contents, replay: LogReplay) -> None:
    """Check where the last change of each key stands, and whether a flip can reach one."""
    holders = {row.number: row for row in contents.holders}
    places = {row.place: row for row in contents.places}

    def position(entry: EntryRow, change: LoggedChange) -> int:
        holder = holders[entry.subject]
        number = entry.stands if entry.place is None else entry.place
        if change.op == "base" and change.operand is not None:
            number = int(change.operand)
        place = places.get(number or 0)
        if place is None or holder.chat is None or entry.left_at or place.chat != holder.chat:
            return 0
        return place.position if follows_order(holder.space, change.key) else 0

    for row in contents.data:
        if not row.key or holders[row.holder].deleted:
            continue
        sources = replay.sources.get((row.holder, row.key), [])
        # A stable sort: within a message the order is that of the log.
        ordered = sorted(sources, key=lambda source: position(*source))
        furthest = places[row.furthest].position if row.furthest is not None else 0
        if contents.head.oldest:
            # Dormant changes were dropped when the log was folded.
            assert furthest >= max((position(*source) for source in sources), default=0)
            continue
        assert furthest == max((position(*source) for source in sources), default=0)
        flippable = [
            entry.place is not None and not entry.left_at and places[entry.place].chat != 0
            for entry, _ in ordered
        ]
        always = [
            index
            for index, (_, change) in enumerate(ordered)
            if change.op in BASES and not flippable[index]
        ]
        last = always[-1] if always else -1
        if last < 0 or ordered[last][1].op != "restore":
            assert row.anchored == int(any(flippable[last + 1 :]))


def _check_places(contents: Contents, replay: LogReplay) -> None:
    """Check that places have the position of their last flip, and one of each message is shown."""
    oldest, head = contents.head.oldest, contents.head.revision
    flips = {row.place: (row.position, row.visible) for row in contents.flips}
    branches = {row.number for row in contents.chats if row.parent is not None}
    for place in contents.places:
        if place.chat:
            assert (place.position, place.visible) == flips.get(place.place)
        if place.chat not in branches:
            # A branch takes its places over from its parent as they are.
            assert place.place in flips or not place.chat
            written = replay.written.get(place.place, 0)
            assert place.first_written == written or 0 < place.first_written <= oldest
        assert 0 < place.first_seen <= head
    assert set(flips) <= {place.place for place in contents.places if place.chat}
    assert all(0 < row.revision <= head for row in contents.flips)
    placed = {(row.chat, row.message_id, row.position) for row in contents.places if row.chat}
    assert len({(chat, message) for chat, message, _ in placed}) == len(placed)
    assert len({(chat, position) for chat, _, position in placed}) == len(placed)
    visible = [row for row in contents.places if row.chat and row.visible]
    assert len({(row.chat, row.message_id) for row in visible}) == len(visible)


def _state_of(contents: Contents) -> State:
    chats = {row.number: row.id for row in contents.chats}
    return {
        "characters": {row.id: row.name for row in _present(contents.characters)},
        "instances": {
            row.id: [row.character_id, chats[row.chat] if row.chat is not None else None, row.name]
            for row in contents.instances
        },
        "data": {
            row.id: {each.key: each.value for each in contents.values_of(row)}
            for row in contents.instances
        },
    }


def _replayed_state(contents: Contents, replay: LogReplay) -> State:
    """Return the state that the log alone describes."""
    characters = {row.number for row in contents.characters}
    instances = {row.number for row in contents.holders}
    shapes = {
        number: json.loads(subject.after or "") for number, subject in replay.subjects().items()
    }
    found = {number: shape for number, shape in shapes.items() if number in instances}
    return {
        "characters": {
            shape["id"]: shape["name"] for number, shape in shapes.items() if number in characters
        },
        "instances": {
            shape["id"]: [
                shape["characterId"],
                shapes[shape["chat"]]["id"] if shape["chat"] is not None else None,
                shape["name"],
            ]
            for shape in found.values()
        },
        "data": {shape["id"]: replay.values(number) for number, shape in found.items()},
    }


def order_of(state: State) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Return the order of characters, instances and keys."""
    return (
        list(state["characters"]),
        list(state["instances"]),
        {id: list(values) for id, values in state["data"].items()},
    )
