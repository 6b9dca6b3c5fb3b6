"""
The values of chats in plain Python: a list of changes, replayed each time.

The server is compared with `ChatModel`. The model is simple: it keeps every past state, and
recomputes every row that a flip concerns from the whole log. It has no HTTP, no leases, no
sessions, one character, and chats that are never archived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.model.chat_log import (
    Change,
    ChatLog,
    Conflict,
    Counts,
    Missing,
    Owner,
    Place,
    Point,
    Report,
    Row,
    Source,
    Step,
    Values,
    differ,
)
from tests.model.values_model import merged


class ChatModel(ChatLog):
    """The verbs: they apply requests to the log and return the answers."""

    # Writing

    def write(self, *steps: Step) -> list[dict[str, Any]]:
        """Do one request: register its places first, then do its steps in their order."""
        results = []
        with self.request():
            before = self._live_numbers()
            for step in steps:
                self._register_place(self._place(step))
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
        """Return the chat of that name; it is created if the request touches anything."""
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
            rows = [each for each in self._removable(step.space, owner) if each.key not in kept]
            count = sum(self._remove(each, place) for each in rows)
            for key, value in kept.items():
                self._record(Row(step.space, owner, key), "set", value, place)
            return {"removedCount": count}
        if step.op == "remove" or (step.op == "merge_patch" and step.operand is None):
            return {"removed": self._remove(row, place)}
        if step.op == "merge_patch":
            current = self.now.values.get(row, {})
            if isinstance(step.operand, dict) and isinstance(current, dict):
                return self._record(row, "merge", step.operand, place)
            return self._record(row, "set", merged(None, step.operand), place)
        return self._record(row, step.op, step.operand, place)

    def _removable(self, space: str, owner: Owner) -> list[Row]:
        """Return the rows that a removal is logged for: with a value or a dormant change."""
        dormant = [change.row for change in self.log if self._is_dormant(change)]
        rows = dict.fromkeys([*self.now.values, *dormant])
        return [row for row in rows if (row.space, row.owner) == (space, owner)]

    def _remove(self, row: Row, place: Place | None = None) -> bool:
        """Remove a value; return False if there was none or it is still there."""
        had = row in self.now.values
        if row in self._removable(row.space, row.owner):
            self._record(row, "remove", None, place)
        return had and row not in self.now.values

    # The chain

    def _live_numbers(self) -> set[int]:
        return {change.number for change in self.log if self.is_live(change)}

    def _register_place(self, place: Place | None) -> None:
        """Show a place that is not registered yet; leave any other visible or hidden."""
        if place is None or place.chat is None or place in self.now.registered:
            return
        self.now.registered.add(place)
        self.now.first_registered.setdefault((place.chat, place.message), self.revision)
        self.now.chains[place.chat][place.message] = place.swipe

    def _settle(self, before: set[int]) -> Report:
        """Flip the changes that the chain now shows or hides, and recompute their rows."""
        now = self._live_numbers()
        self.now.clock += 1
        report = Report(len(before - now), len(now - before), [], [], [])
        for row in dict.fromkeys(self.log[number].row for number in sorted(before ^ now)):
            old = self.now.values.get(row, ...)
            new, conflicts = self.recompute(row)
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
                self._register_place(Place(chat, message, swipe))
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
        """Rename a chat; return False if another chat has or had that id."""
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
        """Make an instance or move it to `chat`, or out of its chat if None; else keep its chat."""
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
        """Delete an instance; return how many values it had."""
        # Also remove keys that were removed at a place: when that place is hidden, they must
        # not be back.
        anchored = [
            each.row for each in self.log if each.place is not None and each.place.chat is not None
        ]
        rows = dict.fromkeys([*self._removable("data", id), *anchored])
        count = 0
        for row in [row for row in rows if row[:2] == ("data", id)]:
            count += row in self.now.values
            self._record(row, "remove")
        del self.now.instances[id]
        self.touched = True
        return count

    # The past

    def point(self, name: str, revision: int | None = None, message: str | None = None) -> Point:
        """Return a chat at a revision (default: now), and there as of a message if one is named."""
        then = self.past[self.revision if revision is None else revision]
        chat = self.now.names.get(name, -1)
        if chat not in then.titles:
            raise Missing
        own = frozenset(place for place in then.registered if place.chat == chat)
        if message is None:
            return Point(chat, then, None, then.revision + 1, own)
        chain = list(then.chains[chat])
        if message not in chain:
            raise Missing
        end = chain.index(message) + 1
        first = {each: then.first_registered[chat, each] for _, each, _ in own}
        later = [first[each] for each in chain[end:] if first[each] >= first[message]]
        limit = min(later, default=then.revision + 1)

        def is_before(place: Place) -> bool:
            if place.message in chain:
                return place.message in chain[:end]
            return first[place.message] < limit

        return Point(chat, then, message, limit, frozenset(filter(is_before, own)))

    def belongs(self, point: Point, change: Change) -> bool:
        """True if a change was made up to a point, live or dormant there."""
        then, place = point.then, change.place
        if change.number >= then.length or change.number in then.dropped:
            return False
        if place is None or place.chat is None or change.number in then.freed:
            return change.revision < point.limit
        return place in point.places

    def counts_at(self, point: Point) -> Counts:
        return lambda each: self.belongs(point, each) and self.is_live(each, point.then)

    def members_at(self, chat: int, revision: int) -> list[str]:
        return self.past[revision].members(chat)

    def existed(self, id: str, revision: int) -> bool:
        return id in self.past[revision].instances

    def members(self, point: Point) -> list[str]:
        """Return the instances of a chat at a point, just before the next message."""
        return self.members_at(point.chat, point.limit - 1)

    def values_at(self, point: Point) -> Values:
        values: Values = {}
        owners = [point.chat, *self.members(point)]
        for row in dict.fromkeys(change.row for change in self.log if change.row.owner in owners):
            value, _ = self.replay(self.sources_of(row, self.counts_at(point)))
            if value is not ...:
                values[row] = value
        return values

    def as_of(self, name: str, message: str) -> tuple[list[str], Values]:
        """Return the instances of a chat and all its values as of a message."""
        point = self.point(name, message=message)
        return self.members(point), self.values_at(point)

    def restore_instance(self, id: str, revision: int) -> tuple[int, int]:
        """Restore an instance; return how many rows changed, and the number of warnings."""
        then = self.past[revision]
        if id not in then.instances:
            raise Missing

        def counts(change: Change) -> bool:
            return change.number < then.length and self.is_live(change, then)

        with self.request():
            stays = self.now.instances.get(id, then.instances[id]) != then.instances[id]
            self._bring_back(id, then.instances[id])
            changed = self._restore_rows(id, revision, counts)
        return changed, int(stays)

    def restore_key(self, owner: Owner, key: str, revision: int) -> int:
        """Restore one key of a chat or an instance that exists; return how many rows changed."""
        then = self.past[revision]
        if not any(change.row == Row("data", owner, key) for change in self.log):
            raise Missing
        existed = owner in (then.instances if isinstance(owner, str) else then.titles)

        def counts(change: Change) -> bool:
            return existed and change.number < then.length and self.is_live(change, then)

        with self.request():
            return self._restore_rows(owner, revision, counts, key)

    def restore_chat(self, name: str, revision: int) -> tuple[int, int]:
        return self.restore(self.point(name, revision))

    def restore(self, point: Point) -> tuple[int, int]:
        """Restore a chat to a point; its chain stays as it is."""
        chat, moment, counts = point.chat, point.limit - 1, self.counts_at(point)
        members = self.members(point)
        warnings = 0
        with self.request():
            changed = self._restore_rows(chat, moment, counts)
            for id in dict.fromkeys([*members, *self.now.members(chat)]):
                if self.now.instances.get(id, chat) != chat:
                    # The instance belongs to another chat now, so this chat must not change it.
                    warnings += 1
                elif id in members:
                    self._bring_back(id, chat)
                    changed += self._restore_rows(id, moment, counts)
                elif self.existed(id, moment):
                    warnings += 1
                else:
                    changed += self._delete(id)
        return changed, warnings

    def _bring_back(self, id: str, chat: int | None) -> None:
        if id not in self.now.instances:
            self.now.instances[id] = chat
            self.touched = True

    def _restore_rows(
        self, owner: Owner, moment: int, counts: Counts, key: str | None = None
    ) -> int:
        """Restore rows that were written or flipped since, or differ; return how many differ."""
        self.now.clock += 1
        chat = self.now.instances[owner] if isinstance(owner, str) else owner
        changed = 0
        rows = dict.fromkeys(change.row for change in self.log if change.row.owner == owner)
        for row in [Row("data", owner, key)] if key is not None else rows:
            made = self.sources_of(row, counts)
            differs = differ(self.now.values.get(row, ...), self.replay(made)[0])
            revisions = [change.revision for change in self.log if change.row == row]
            if differs or max([*revisions, self.now.reworked.get(row, 0)]) > moment:
                sources = tuple(Source(n, pin or self._is_elsewhere(n, chat)) for n, pin in made)
                self._record(row, "restore", sources=sources)
            changed += differs
        return changed

    def _is_elsewhere(self, number: int, chat: int | None) -> bool:
        """True if a change cannot follow this story: its place is hidden, or in another chat."""
        change = self.log[number]
        foreign = change.place is not None and chat not in (None, change.place.chat)
        return foreign or not self.is_live(change)

    # Series and processed ids

    def add_version(self, step: Step) -> int:
        """Add a version: the operand is its content, the key the series; numbers are not reused."""
        version = 1 + max((int(key.split("/")[1]) for key in self.versions(step)), default=0)
        self.write(
            replace(step, key=f"{step.key}/{version}"),
            replace(step, key=f"{step.key}/current", operand=version),
        )
        return version

    def versions(self, step: Step) -> list[str]:
        """Return the keys of all versions a series ever had."""
        chat = self.now.names.get(step.chat or "")
        rows = [each.row for each in self.log if each.row[:2] == ("series", chat)]
        keys = dict.fromkeys(row.key for row in rows if row.key.startswith(f"{step.key}/"))
        return [key for key in keys if not key.endswith("/current")]
