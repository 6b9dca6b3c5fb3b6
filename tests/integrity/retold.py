"""The log told again from its first entry: what everything must have come to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tests.integrity.contents import Contents
from valuetracker.store.rows.entries import EntryRow, LoggedChange, first_of


@dataclass
class Told:
    """A key, or a subject itself, as far as the log has been told."""

    after: str | None = None
    place: int = 0
    # Of the last change that took effect, and of the last that was asked for.
    revision: int = 0
    last: int = 0
    # None where folding has taken away what would tell.
    anchored: int | None = 0

    @property
    def chat(self) -> int | None:
        """The chat an instance is bound to."""
        chat: int | None = json.loads(self.after)["chat"] if self.after is not None else None
        return chat


class Retold:
    """Everything the log says, each entry checked against those before it."""

    def __init__(self, contents: Contents) -> None:
        self._oldest = contents.head.oldest
        self._folds = self._oldest > 0
        self._characters = {row.id: row.number for row in contents.characters}
        self._holders = {row.number: row for row in contents.holders}
        self._chats = {row.number for row in contents.chats}
        self._places = {row.place: row for row in contents.places}
        self._frames = {(row.holder, row.entry): row.revisions() for row in contents.keyframes}
        # By subject and key; the empty key is the subject itself.
        self.keys: dict[int, dict[str, Told]] = {}
        # By number, the revision of the latest change; of a chat or character also that of
        # what it holds.
        self.touched: dict[int, int] = {}
        self.members: set[tuple[int, int]] = set()
        # By holder, how many changes there have been since its last keyframe.
        self.unframed: dict[int, int | None] = {}
        # By place, the revision of the first entry there.
        self.written: dict[int, int] = {}
        self._highest = 0
        for entry in sorted(contents.taken, key=lambda entry: entry.entry):
            # What a branch took over: it is spoken of, and has no effect yet.
            for record in entry.logged:
                keys = self.keys.setdefault(entry.subject, {})
                keys[record.key] = Told(last=entry.revision, anchored=1)
        for revision, entries in groupby(contents.entries, lambda entry: entry.revision):
            self._tell_revision(revision, list(entries))
        assert not self._frames, "each belongs to an entry of its holder"

    def agree(self, kept: int, told: int) -> bool:
        """Whether a revision is the one told; of what was folded, only that it was is known."""
        return kept == told if told > self._oldest else kept <= self._oldest

    def themselves(self) -> dict[int, Told]:
        """The subjects that are there, by number, in the order in which they came."""
        present = {
            number: keys[""]
            for number, keys in self.keys.items()
            if "" in keys and keys[""].after is not None
        }
        return dict(sorted(present.items(), key=lambda item: item[1].place))

    def values(self, holder: int) -> dict[str, str]:
        """What a holder holds, in the order in which the keys came."""
        present = [
            (told.place, key, told.after)
            for key, told in self.keys.get(holder, {}).items()
            if key and told.after is not None
        ]
        return {key: after for _, key, after in sorted(present)}

    def _tell_revision(self, revision: int, entries: list[EntryRow]) -> None:
        if revision > self._oldest:
            numbers = [entry.entry - first_of(revision) for entry in entries]
            assert numbers == list(range(len(entries)))
            assert len({(entry.at, entry.actor) for entry in entries}) == 1
        for entry in entries:
            assert entry.effect in (0, 1)
            assert entry.chat is None or entry.chat in self._chats
            self._tell(entry)

    def _tell(self, entry: EntryRow) -> None:
        subject, holder = entry.subject, self._holders.get(entry.subject)
        assert holder is not None or subject in {*self._chats, *self._characters.values()}
        keys = self.keys.setdefault(subject, {})
        before = Told(**vars(keys[""])) if "" in keys else Told()
        for record in entry.logged:
            if entry.revision <= self._oldest:
                assert (record.op, entry.effect, entry.place) == ("base", 1, None)
            assert not record.key or holder is not None
            self._tell_record(entry, keys, record)
        if entry.place is not None:
            self.written.setdefault(entry.place, entry.revision)
        if not entry.effect:
            return
        self.touched[subject] = entry.revision
        if any(record.op == "rename_chat" for record in entry.logged):
            # Whatever names the chat is read differently now.
            for number in self.keys:
                if number in self._holders and self._chat_of(number) == subject:
                    self.touched[number] = entry.revision
        if holder is not None:
            now = keys.get("", before)
            # One that goes is still where it was.
            gone = holder.space == "instance" and now.after is None
            chat = before.chat if gone else self._chat_of(subject)
            assert chat is None or entry.chat == chat
            self._touch(entry, chat)
            if any(not record.key for record in entry.logged):
                self._belong(entry, before, now)
            self._check_frame(entry, keys, len(entry.logged))

    def _chat_of(self, number: int) -> int | None:
        """Where a holder is now; rooms never leave."""
        row = self._holders[number]
        return self.keys[number][""].chat if row.space == "instance" else row.chat

    def _tell_record(self, entry: EntryRow, keys: dict[str, Told], record: LoggedChange) -> None:
        told = keys.setdefault(record.key, Told(anchored=None if self._folds else 0))
        if record.key:
            assert self.agree(record.prev_of_key, told.last)
        else:
            assert record.prev_of_key == 0
            assert entry.effect
            assert entry.place is None
        place = self._places[entry.place] if entry.place is not None else None
        told.last = entry.revision
        if not entry.effect:
            # At a hidden place of a chat: it says what was asked for and nothing else.
            assert place is not None
            assert place.chat
            assert (record.after, record.ordinal) == (None, 0)
            told.anchored = 1
            return
        if place is not None and place.chat:
            # It stays so: what was asked for at a place can come back.
            told.anchored = 1
        if record.after is None:
            assert record.ordinal == 0 or not record.key
        elif told.after is not None:
            assert record.ordinal == told.place
        elif entry.revision > self._oldest:
            # What comes into being stands behind all that is there.
            assert record.ordinal > self._highest
        self._highest = max(self._highest, record.ordinal)
        told.after, told.place, told.revision = record.after, record.ordinal, entry.revision

    def _touch(self, entry: EntryRow, number: int | None) -> None:
        if number is not None:
            self.touched[number] = entry.revision

    def _belong(self, entry: EntryRow, before: Told, now: Told) -> None:
        """An instance has come, changed or gone: so have the lists it stands in."""
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

    def _check_frame(self, entry: EntryRow, keys: dict[str, Told], changes: int) -> None:
        """That a keyframe says of every key that is there of which revision it is."""
        unframed = self.unframed.get(entry.subject, None if self._folds else 0)
        self.unframed[entry.subject] = None if unframed is None else unframed + changes
        frame = self._frames.pop((entry.subject, entry.entry), None)
        if frame is None:
            return
        self.unframed[entry.subject] = 0
        present = {key: told for key, told in keys.items() if not key or told.after is not None}
        # Of one that came without being mentioned, nothing is told.
        assert frame.keys() == present.keys()
        assert all(self.agree(frame[key], told.revision) for key, told in present.items())
