"""
What chats make of changes, in plain Python: a list of what callers wrote, read anew each time.

`ChatModel` is the reference the server is compared with. Nothing is clever: every past state
is kept, and every row that a flip concerns is recomputed from the whole log.
It knows no HTTP, no leases, no sessions, one character, and chats that are never archived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.chat_log import (
    Change,
    ChatLog,
    Conflict,
    Missing,
    Owner,
    Place,
    Report,
    Row,
    Source,
    State,
    Step,
    Values,
    differ,
)
from tests.model import merged


class ChatModel(ChatLog):
    """The verbs: what requests do to the log, and what they answer."""

    # Writing

    def write(self, *steps: Step) -> list[dict[str, Any]]:
        """One request: first its places are seen, then its steps are done in their order."""
        results = []
        with self.request():
            before = self._live_numbers()
            for step in steps:
                self._see(self._place(step))
            self._settle(before)
            for index, step in enumerate(steps):
                try:
                    results.append(self._apply(step))
                except TypeError:
                    raise Conflict(index) from None
        return results

    def _owner(self, step: Step) -> Owner:
        if step.instance is not None:
            if step.instance not in self.now.instances:
                raise Missing
            return step.instance
        assert step.chat is not None
        return self._chat(step.chat)

    def _place(self, step: Step) -> Place | None:
        if step.anchor is None:
            return None
        owner = self._owner(step)
        chat = owner if isinstance(owner, int) else self.now.instances[owner]
        if chat is None and step.chat is not None:
            chat = self._chat(step.chat)
        return Place(chat, *step.anchor)

    def _chat(self, name: str) -> int:
        """The chat of that name, which comes into being if the request touches anything."""
        if name not in self.now.names:
            chat = self.now.names[name] = len(self.now.titles)
            self.now.titles[chat] = name
            self.now.chains[chat] = {}
        return self.now.names[name]

    def _apply(self, step: Step) -> dict[str, Any]:
        owner, place = self._owner(step), self._place(step)
        row = Row(step.space, owner, step.key)
        if step.op == "require":
            if row not in self.now.values:
                raise Missing
            return {}
        if step.op == "claim":
            if row in self.now.values:
                return {"new": False}
            self._record(row, "set", True, place)
            return {"new": True}
        if step.op in ("clear", "override"):
            kept = step.operand if step.op == "override" else {}
            gone = [each for each in self._removable(step.space, owner) if each.key not in kept]
            count = sum(self._remove(each, place) for each in gone)
            for key, value in kept.items():
                self._record(Row(step.space, owner, key), "set", value, place)
            return {"removedCount": count}
        if step.op == "remove" or (step.op == "patch" and step.operand is None):
            return {"removed": self._remove(row, place)}
        if step.op == "patch":
            current = self.now.values.get(row, {})
            if isinstance(step.operand, dict) and isinstance(current, dict):
                return self._record(row, "merge", step.operand, place)
            return self._record(row, "set", merged(None, step.operand), place)
        return self._record(row, step.op, step.operand, place)

    def _removable(self, space: str, owner: Owner) -> list[Row]:
        """What a removal is logged for: rows with a value or a dormant change."""
        dormant = [change.row for change in self.log if self._is_dormant(change)]
        rows = dict.fromkeys([*self.now.values, *dormant])
        return [row for row in rows if (row.space, row.owner) == (space, owner)]

    def _remove(self, row: Row, place: Place | None = None) -> bool:
        """Whether a value went away."""
        had = row in self.now.values
        if row in self._removable(row.space, row.owner):
            self._record(row, "remove", None, place)
        return had and row not in self.now.values

    # The chain

    def _live_numbers(self) -> set[int]:
        return {change.number for change in self.log if self.is_live(change)}

    def _see(self, place: Place | None) -> None:
        """A place never seen before becomes visible; any other stays what it is."""
        if place is None or place.chat is None or place in self.now.seen:
            return
        self.now.seen.add(place)
        self.now.first_seen.setdefault((place.chat, place.message), self.revision)
        self.now.chains[place.chat][place.message] = place.swipe

    def _settle(self, before: set[int]) -> Report:
        """Flip what the chain now shows or hides, and recompute the rows that concerns."""
        now = self._live_numbers()
        self.now.clock += 1
        report = Report(len(before - now), len(now - before), [], [], [])
        for row in dict.fromkeys(self.log[number].row for number in sorted(before ^ now)):
            old = self.now.values.get(row, ...)
            new, conflicts = self.recomputed(row)
            self._put(row, new)
            report.conflicts += conflicts
            if differ(old, new):
                self.now.reworked[row] = self.revision
                report.changed.append((row, old, new))
        return report

    def reconcile(
        self,
        name: str,
        chain: dict[str, str],
        hashes: dict[str, str] | None = None,
        dry_run: bool = False,
    ) -> Report:
        hashes = hashes or {}
        if name not in self.now.names:
            raise Missing
        chat = self.now.names[name]
        with self.request():
            before = self._live_numbers()
            old = self.now.chains[chat]
            self.now.chains[chat] = dict(chain)
            for message, swipe in chain.items():
                self._see(Place(chat, message, swipe))
            report = self._settle(before)
            self.touched = not dry_run and list(old.items()) != list(chain.items())
        for message, text in hashes.items():
            place = Place(chat, message, chain[message])
            if self.now.hashes.get(place, text) != text:
                report.stale.append(message)
            elif not dry_run:
                self.now.hashes[place] = text
        return report

    def rename(self, name: str, new: str) -> bool:
        """Whether it could be: another chat may have that id, or have had it."""
        if name not in self.now.names:
            raise Missing
        chat = self.now.names[name]
        if self.now.names.get(new, chat) != chat:
            return False
        with self.request():
            self.touched = self.now.titles[chat] != new
            self.now.names[new] = chat
            self.now.titles[chat] = new
        return True

    # Instances

    def put_instance(self, id: str, **chat: str | None) -> None:
        """`chat` names one, which may be new, or is None; without it the chat is kept."""
        with self.request():
            old = self.now.instances.get(id, ...)
            name = chat.get("chat")
            new = None if old is ... else old
            if "chat" in chat:
                new = None if name is None else self._chat(name)
            if old is not ... and old != new:
                own = [change for change in self.log if change.row.owner == id]
                dormant = {change.number for change in own if self._is_dormant(change)}
                self.now.dropped |= dormant
                self.now.freed |= {change.number for change in own} - self.now.dropped
            self.now.instances[id] = new
            self.touched = old is ... or old != new

    def delete_instance(self, id: str) -> None:
        if id not in self.now.instances:
            raise Missing
        with self.request():
            self._delete(id)

    def _delete(self, id: str) -> int:
        """How many values it had."""
        count = sum(self._remove(row) for row in self._removable("data", id))
        del self.now.instances[id]
        self.touched = True
        return count

    # The past

    def restore_instance(self, id: str, revision: int) -> tuple[int, int]:
        """How many rows differ now, and how many warnings that gave."""
        then = self.past[revision]
        if id not in then.instances:
            raise Missing
        with self.request():
            stays = self.now.instances.get(id, then.instances[id]) != then.instances[id]
            changed = self._restore_member(id, then)
        return changed, int(stays)

    def restore_chat(self, name: str, revision: int) -> tuple[int, int]:
        then = self.past[revision]
        chat = self.now.names.get(name, -1)
        if chat not in then.titles:
            raise Missing
        warnings = 0
        with self.request():
            changed = self._restore_rows(chat, then)
            for id in dict.fromkeys([*then.members(chat), *self.now.members(chat)]):
                if self.now.instances.get(id, chat) != chat:
                    # It is somewhere else now, and not this chat's to change.
                    warnings += 1
                elif id not in then.instances:
                    changed += self._delete(id)
                elif then.instances[id] != chat:
                    warnings += 1
                else:
                    changed += self._restore_member(id, then)
        return changed, warnings

    def _restore_member(self, id: str, then: State) -> int:
        if id not in self.now.instances:
            self.now.instances[id] = then.instances[id]
            self.touched = True
        return self._restore_rows(id, then)

    def _restore_rows(self, owner: Owner, then: State) -> int:
        """Restore every row that was written to or flipped since; how many differ."""
        self.now.clock += 1
        chat = self.now.instances[owner] if isinstance(owner, str) else owner
        rows = dict.fromkeys(
            change.row
            for change in self.log
            if change.row.owner == owner
            and max(change.revision, self.now.reworked.get(change.row, 0)) > then.revision
        )
        changed = 0
        for row in rows:
            before = self.now.values.get(row, ...)
            made = self.standing(row, then.length, lambda change: self.is_live(change, then))
            sources = tuple(Source(n, pin or self._is_elsewhere(n, chat)) for n, pin in made)
            self._record(row, "restore", sources=sources)
            assert not differ(self.now.values.get(row, ...), then.values.get(row, ...))
            changed += differ(before, then.values.get(row, ...))
        return changed

    def _is_elsewhere(self, number: int, chat: int | None) -> bool:
        """Whether a change cannot follow the story from here: hidden, or of another chat."""
        change = self.log[number]
        foreign = change.place is not None and chat not in (None, change.place.chat)
        return foreign or not self.is_live(change)

    def as_of(self, name: str, message: str) -> tuple[list[str], Values]:
        """The instances of a chat and all its values as of a message."""
        chat = self.now.names[name]
        chain = list(self.now.chains[chat])
        if message not in chain:
            raise Missing
        index = chain.index(message)
        first = {each: self.now.first_seen[chat, each] for each in chain}
        later = [first[each] for each in chain[index + 1 :] if first[each] >= first[message]]
        limit = min(later, default=self.revision + 1)
        members = self.past[limit - 1].members(chat)

        def counts(change: Change) -> bool:
            if not self.is_live(change):
                return False
            place = change.place
            if place is None or place.chat is None or change.number in self.now.freed:
                return change.revision < limit
            return place.chat == chat and place.message in chain[: index + 1]

        values: Values = {}
        for row in dict.fromkeys(change.row for change in self.log):
            if row.owner == chat or row.owner in members:
                value, _ = self.replay(self.standing(row, len(self.log), counts))
                if value is not ...:
                    values[row] = value
        return members, values

    # Series and processed ids

    def add_version(self, step: Step) -> int:
        """The content is the step's operand, its key the name; numbers are never reused."""
        version = 1 + len(self.versions(step))
        self.write(
            replace(step, key=f"{step.key}/{version}"),
            replace(step, key=f"{step.key}/current", operand=version),
        )
        return version

    def versions(self, step: Step) -> list[str]:
        """The keys of all versions a series ever had."""
        chat = self.now.names.get(step.chat or "")
        rows = [each.row for each in self.log if each.row[:2] == ("series", chat)]
        keys = dict.fromkeys(row.key for row in rows if row.key.startswith(f"{step.key}/"))
        return [key for key in keys if not key.endswith("/current")]
