"""Replay the log from its first entry, to know what every row must say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson

from tests.integrity.contents import Contents
from valuetracker.store.log.operators import apply_operator
from valuetracker.store.rows.entries import (
    DERIVED,
    DORMANT,
    IN_ORDER,
    KEPT,
    LATE,
    SUPERSEDED,
    EntryRow,
    LoggedChange,
)
from valuetracker.store.rows.numbers import first_of, last_of
from valuetracker.values import canonical


@dataclass
class Replayed:
    """The state of a key, or of a subject itself, after the entries replayed so far."""

    after: str | None = None
    ordinal: int = 0
    # The entry of the last change that took effect, and of the last that was asked for.
    entry: int = 0
    last_change: int = 0

    @property
    def chat(self) -> int | None:
        """The chat an instance is bound to."""
        chat: int | None = json.loads(self.after)["chat"] if self.after is not None else None
        return chat


class LogReplay:
    """The state that the log describes; each entry is checked against those before it."""

    def __init__(self, contents: Contents) -> None:
        self._oldest = contents.head.oldest
        self._folds = self._oldest > 0
        self._characters = {row.id: row.number for row in contents.characters}
        self._holders = {row.number: row for row in contents.holders}
        self._chats = {row.number for row in contents.chats}
        self._places = {row.place: row for row in contents.places}
        self._frames = {(row.holder, row.entry): row.entries() for row in contents.keyframes}
        # By subject and key; the empty key is the subject itself.
        self.keys: dict[int, dict[str, Replayed]] = {}
        # By number, the revision of the latest change to a subject; for a chat or a character
        # also of the latest change to an instance of it.
        self.touched: dict[int, int] = {}
        self.members: set[tuple[int, int]] = set()
        # By holder, how many changes there have been since its last keyframe.
        self.unframed: dict[int, int | None] = {}
        # By place, the revision of the first entry there.
        self.written: dict[int, int] = {}
        self._highest = 0
        self._adopted = {(row.holder, row.key): row.value for row in contents.adopted}
        self._unchanged = {(row.holder, row.key): row for row in contents.data}
        # By subject and key, its source changes, those that were taken over included.
        self.sources: dict[tuple[int, str], list[tuple[EntryRow, LoggedChange]]] = {}
        for entry in sorted(contents.taken, key=lambda entry: entry.entry):
            # An entry that a branch took over has no effect yet, but its keys have rows.
            for record in entry.logged:
                if record.op in DERIVED:
                    continue
                self._note_source(entry, record)
                keys = self.keys.setdefault(entry.subject, {})
                if not entry.dropped:
                    keys[record.key] = Replayed(last_change=entry.entry)
        for revision, entries in groupby(contents.entries, lambda entry: entry.revision):
            self._replay_revision(revision, list(entries))
        assert not {holder for holder, _ in self._frames if holder in self._holders}, (
            "a keyframe belongs to no entry of its holder"
        )

    def agree(self, stored: int, replayed: int) -> bool:
        """Compare two entries; a folded one is only known to be at most the last of them."""
        oldest = last_of(self._oldest)
        return stored == replayed if replayed > oldest else stored <= oldest

    def subjects(self) -> dict[int, Replayed]:
        """Return the subjects that exist, by number, in the order of their creation."""
        present = {
            number: keys[""]
            for number, keys in self.keys.items()
            if "" in keys and keys[""].after is not None
        }
        return dict(sorted(present.items(), key=lambda item: item[1].ordinal))

    def values(self, holder: int) -> dict[str, str]:
        """Return the values of a holder, in the order in which the keys were created."""
        present = [
            (state.ordinal, key, state.after)
            for key, state in self.keys.get(holder, {}).items()
            if key and state.after is not None
        ]
        return {key: after for _, key, after in sorted(present)}

    def _replay_revision(self, revision: int, entries: list[EntryRow]) -> None:
        if revision > self._oldest:
            numbers = [entry.entry - first_of(revision) for entry in entries]
            assert numbers == list(range(len(entries)))
            assert len({(entry.at, entry.actor) for entry in entries}) == 1
        for entry in entries:
            assert entry.effect in (DORMANT, IN_ORDER, SUPERSEDED, LATE)
            assert entry.chat is None or entry.chat in self._chats
            self._replay_entry(entry)

    def _replay_entry(self, entry: EntryRow) -> None:
        subject, holder = entry.subject, self._holders.get(entry.subject)
        assert holder is not None or subject in {*self._chats, *self._characters.values()}
        keys = self.keys.setdefault(subject, {})
        before = Replayed(**vars(keys[""])) if "" in keys else Replayed()
        for record in entry.logged:
            if entry.revision <= self._oldest:
                assert (record.op in KEPT, entry.effect, entry.place) == (True, IN_ORDER, None)
            assert not record.key or holder is not None
            self._replay_change(entry, keys, record)
        if entry.place is not None:
            self.written.setdefault(entry.place, entry.revision)
        if entry.effect == DORMANT:
            self._check_frame(entry, keys, len(entry.logged))
            return
        self.touched[subject] = entry.revision
        if any(record.op == "rename_chat" for record in entry.logged):
            # The records of its instances name the chat by its new id from now on.
            for number in self.keys:
                if number in self._holders and self._chat_of(number) == subject:
                    self.touched[number] = entry.revision
        if holder is not None:
            now = keys.get("", before)
            # The entry that deletes an instance still belongs to the chat it was in.
            deleted = holder.space == "instance" and now.after is None
            chat = before.chat if deleted else self._chat_of(subject)
            assert chat is None or entry.chat == chat
            self._touch(entry, chat)
            if any(not record.key for record in entry.logged):
                self._update_members(entry, before, now)
            self._check_frame(entry, keys, len(entry.logged))

    def _chat_of(self, number: int) -> int | None:
        """Return the chat a holder is in now; a space of a chat never leaves it."""
        row = self._holders[number]
        return self.keys[number][""].chat if row.space == "instance" else row.chat

    def _replay_change(
        self, entry: EntryRow, keys: dict[str, Replayed], record: LoggedChange
    ) -> None:
        state = keys.setdefault(record.key, Replayed())
        self._note_source(entry, record)
        if record.key or record.op.endswith("_instance"):
            assert self.agree(record.prev_of_key, state.last_change)
        else:
            assert record.prev_of_key == 0
        assert record.key or (entry.effect, entry.place) == (IN_ORDER, None)
        if record.op == "adopt":
            record.held = self._adopted_value(entry, record.key)
        if record.is_left_out:
            record.held = self._left_out_value(record, state)
        place = self._places[entry.place] if entry.place is not None else None
        state.last_change = entry.entry
        if not entry.took_effect:
            # The place is hidden, or a later one decides: the entry has the operand and no result.
            assert place is not None
            assert place.chat
            assert (record.after, record.ordinal) == (None, 0)
            return
        if record.op == "base" and entry.revision > self._oldest:
            # The instance left its chat: it keeps the value it has.
            assert (record.after, record.ordinal) == (state.after, state.ordinal)
            return
        if record.after is None:
            assert record.ordinal == 0 or not record.key
        elif state.after is not None:
            assert record.ordinal == state.ordinal
        elif entry.revision > self._oldest:
            # A key or subject that is created comes after all others.
            assert record.ordinal > self._highest
        self._highest = max(self._highest, record.ordinal)
        state.after, state.ordinal, state.entry = record.after, record.ordinal, entry.entry

    def _left_out_value(self, record: LoggedChange, state: Replayed) -> str:
        """Return a value that the log leaves out, made of the one before."""
        assert state.after is not None
        assert state.entry == state.last_change, "a change without effect stands in between"
        operand = orjson.loads(record.operand or "")
        value = canonical(apply_operator(record.op, orjson.loads(state.after), operand))
        assert len(value) == record.size
        return value

    def _note_source(self, entry: EntryRow, record: LoggedChange) -> None:
        if record.key and record.op not in DERIVED and not entry.dropped:
            self.sources.setdefault((entry.subject, record.key), []).append((entry, record))

    def _adopted_value(self, entry: EntryRow, key: str) -> str:
        """Return an adopted value: from its own table once it was replaced."""
        row = self._unchanged[entry.subject, key]
        if row.entry != entry.entry:
            return self._adopted[entry.subject, key]
        assert (entry.subject, key) not in self._adopted
        assert row.value is not None
        return row.value

    def _touch(self, entry: EntryRow, number: int | None) -> None:
        if number is not None:
            self.touched[number] = entry.revision

    def _update_members(self, entry: EntryRow, before: Replayed, now: Replayed) -> None:
        """Touch the character and the chat of an instance created, changed or deleted."""
        for shape in (before.after, now.after):
            if shape is not None:
                self._touch(entry, self._characters[json.loads(shape)["characterId"]])
        if before.chat != now.chat:
            self._touch(entry, before.chat)
        if now.after is not None:
            shape_now: dict[str, Any] = json.loads(now.after)
            self.members.add((self._characters[shape_now["characterId"]], entry.subject))
            if now.chat is not None:
                self.members.add((now.chat, entry.subject))

    def _check_frame(self, entry: EntryRow, keys: dict[str, Replayed], changes: int) -> None:
        """Check that a keyframe, if there is one, has the entry of every key."""
        unframed = self.unframed.get(entry.subject, None if self._folds else 0)
        self.unframed[entry.subject] = None if unframed is None else unframed + changes
        frame = self._frames.pop((entry.subject, entry.entry), None)
        if frame is None:
            return
        self.unframed[entry.subject] = 0
        present = {key: state for key, state in keys.items() if not key or state.after is not None}
        # A space of a chat is created without an entry, so it has no empty key.
        assert frame.keys() == present.keys()
        assert all(self.agree(frame[key], state.entry) for key, state in present.items())
