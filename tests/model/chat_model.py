"""
The values of chats in plain Python: a list of changes, replayed each time.

The server is compared with `ChatModel`. The model is simple: it keeps every past state, and
recomputes every row that a flip concerns from the whole log. It has no HTTP, no leases, no
sessions, one character, and chats that are never archived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.model.chat_log import (
    BASES,
    Change,
    ChatLog,
    Conflict,
    Counts,
    Event,
    Missing,
    Owner,
    Place,
    Point,
    Report,
    Row,
    Source,
    State,
    Step,
    Values,
    differ,
    follows_story,
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
            self.now.stories[chat] = []
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
            rows = [
                each
                for each in self._rows_of(step.space, owner)
                if each.key not in kept and self._is_removable(each, place)
            ]
            results = [self._remove(each, place) for each in rows]
            for key, value in kept.items():
                self._record(Row(step.space, owner, key), "set", value, place)
            answer: dict[str, Any] = {"removedCount": sum(each["removed"] for each in results)}
            if any("superseded" in each for each in results):
                answer["superseded"] = True
            return answer
        if step.op == "remove" or (step.op == "merge_patch" and step.operand is None):
            return self._remove(row, place)
        if step.op == "merge_patch":
            current = self.value_where(row, place)
            if isinstance(step.operand, dict) and (current is ... or isinstance(current, dict)):
                return self._record(row, "merge", step.operand, place)
            return self._record(row, "set", merged(None, step.operand), place)
        return self._record(row, step.op, step.operand, place)

    def _rows_of(self, space: str, owner: Owner) -> list[Row]:
        rows = dict.fromkeys(each.row for each in self.log if not each.named_only)
        return [row for row in rows if (row.space, row.owner) == (space, owner)]

    def _is_removable(self, row: Row, place: Place | None = None) -> bool:
        """True if a removal is logged: it has a value, now or there, or a flip can reach it."""
        if row in self.now.values or self.can_be_reached(row):
            return True
        return self.value_where(row, place) is not ...

    def _remove(self, row: Row, place: Place | None = None) -> dict[str, Any]:
        if self._is_removable(row, place):
            return self._record(row, "remove", None, place)
        return {"removed": False}

    # The chain

    def _live_numbers(self) -> set[int]:
        return {change.number for change in self.log if self.is_live(change)}

    def _register_place(self, place: Place | None) -> None:
        """Show a place that is not registered yet; leave any other visible or hidden."""
        if place is None or place.chat is None or place in self.now.registered:
            return
        self.now.registered.add(place)
        self._show(place.chat, self.now.chains[place.chat] | {place.message: place.swipe})

    def _show(self, chat: int, chain: dict[str, str]) -> None:
        """Order the visible messages; each hidden one stays behind the one it followed."""
        followers: dict[str | None, list[str]] = {None: []} | {each: [] for each in chain}
        leader = None
        for message in self.now.stories[chat]:
            if message in chain:
                leader = message
            else:
                followers[leader].append(message)
        story = list(followers[None])
        for message in chain:
            story += [message, *followers[message]]
        self.now.chains[chat] = dict(chain)
        self.now.stories[chat] = story

    def _moved(self, chat: int, before: list[str]) -> set[str]:
        """Return the messages that stand elsewhere among those there were before."""
        now = [message for message in self.now.stories[chat] if message in before]
        same = [one == other for one, other in zip(before, now, strict=True)]
        return set(now[same.index(False) :]) if False in same else set()

    def _settle(self, before: set[int]) -> Report:
        """Flip the changes that the chain now shows or hides, and recompute their rows."""
        now = self._live_numbers()
        self.now.clock += 1
        report = Report(len(before - now), len(now - before), [], [], [])
        rows = [self.log[number].row for number in sorted(before ^ now)]
        for chat, story in self.past[-1].stories.items():
            moved = self._moved(chat, story)
            rows += [change.row for change in self.log if self._stands_at(change, chat, moved)]
        # The values of a deleted instance were removed with it.
        present = [row for row in rows if row.owner in [*self.now.titles, *self.now.instances]]
        for row in dict.fromkeys(present):
            old = self.now.values.get(row, ...)
            new, conflicts = self.recompute(row)
            self._put(row, new)
            report.conflicts += conflicts
            if differ(old, new):
                self.now.reworked[row] = self.revision
                report.changed.append((row, old, new))
        return report

    def _stands_at(self, change: Change, chat: int, messages: set[str]) -> bool:
        """True if a row follows the story of a chat, and this change stands at such a message."""
        is_here = self.home(change.row.owner) == chat and not change.named_only
        at = self.standing(change, chat) if is_here and follows_story(change.row) else -1
        return at >= 0 and self.now.stories[chat][at] in messages

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
            self._show(chat, chain)
            self.now.registered |= {Place(chat, *each) for each in chain.items()}
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
            self._bind(id, new)
            self.touched = old is ... or old != new

    def _bind(self, id: str, chat: int | None) -> None:
        """Make an instance, or move it to another chat: it keeps the values it has."""
        old = self.now.instances.get(id, ...)
        if old == chat:
            return
        if old is not ... or self.now.deleted.get(id, chat) != chat:
            self._leave(id)
        self.now.instances[id] = chat
        self._note(id, "create" if old is ... else "bind", chat)

    def _leave(self, id: str) -> None:
        """Make the live changes of an instance unanchored, as bases, and drop the dormant ones."""
        former = self.now.instances.get(id, self.now.deleted.get(id))
        own = [change for change in self.log if change.row.owner == id]
        rows = dict.fromkeys(each.row for each in own if self.standing(each, former) >= 0)
        self.now.dropped |= {change.number for change in own if self._is_dormant(change)}
        self.now.freed |= {change.number for change in own} - self.now.dropped
        for row in rows:
            value = self.now.values.get(row, ...)
            op = "remove" if value is ... else "set"
            kept = Change(len(self.log), self.revision, row, op, value, kept=True)
            self.log.append(kept)
            self.now.length += 1

    def _note(self, id: str, op: str, chat: int | None) -> None:
        last = None
        if chat is not None and op != "bind" and self.now.chains[chat]:
            last = list(self.now.chains[chat])[-1]
        self.now.events.append(Event(id, op, chat, last))

    def delete_instance(self, id: str) -> None:
        if id not in self.now.instances:
            raise Missing
        with self.request():
            self._delete(id)

    def _delete(self, id: str) -> int:
        """Delete an instance; return how many values it had."""
        count = 0
        for row in self._rows_of("data", id):
            count += row in self.now.values
            self._remove(row)
        chat = self.now.deleted[id] = self.now.instances.pop(id)
        self._note(id, "delete", chat)
        self.touched = True
        return count

    # The past

    def point(self, name: str, revision: int | None = None, message: str | None = None) -> Point:
        """Return a chat at a revision (default: now), and there as of a message if one is named."""
        then = self.past[self.revision if revision is None else revision]
        chat = self.now.names.get(name, -1)
        if chat not in then.titles:
            raise Missing
        story, chain = then.stories[chat], list(then.chains[chat])
        if message is None:
            return Point(chat, then, None, len(story))
        if message not in chain:
            raise Missing
        following = chain[chain.index(message) + 1 :]
        end = story.index(following[0]) if following else len(story)
        return Point(chat, then, message, end)

    def belongs(self, point: Point, change: Change) -> bool:
        """True if a change stands before the end of a point, live or dormant there."""
        then = point.then
        if change.number >= then.length or change.number in then.dropped or change.named_only:
            return False
        return self.standing(change, point.chat, then) < point.end

    def counts_at(self, point: Point) -> Counts:
        return lambda each: self.belongs(point, each) and self.is_live(each, point.then)

    def members(self, point: Point) -> list[str]:
        """Return the instances of a chat at a point."""
        then = point.then
        if point.message is None:
            return then.members(point.chat)
        story = then.stories[point.chat]
        found = []
        for id in dict.fromkeys(event.id for event in then.events):
            events = [event for event in then.events if event.id == id]
            if events[-1].chat != point.chat:
                continue
            elsewhere = [n for n, event in enumerate(events) if event.chat != point.chat]
            events = events[max(elsewhere, default=-1) + 1 :]
            placed = [
                (-1 if event.stands is None else story.index(event.stands), number, event.op)
                for number, event in enumerate(events)
            ]
            before = [each for each in sorted(placed) if each[0] < point.end]
            if before[-1][2] != "delete" if before else self._has_live_change(id, point):
                found.append(id)
        return found

    def _has_live_change(self, id: str, point: Point) -> bool:
        counts = self.counts_at(point)
        return any(
            counts(change) and self.standing(change, point.chat, point.then) >= 0
            for change in self.log
            if change.row.owner == id
        )

    def values_at(self, point: Point) -> Values:
        values: Values = {}
        owners = [point.chat, *self.members(point)]
        for row in dict.fromkeys(change.row for change in self.log if change.row.owner in owners):
            value, _ = self.replay(self._sources_at(row, point))
            if value is not ...:
                values[row] = value
        return values

    def _sources_at(self, row: Row, point: Point) -> tuple[Source, ...]:
        return self.sources_of(row, self.counts_at(point), point.chat, point.then)

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
            chat = then.instances[id]
            stays = self.now.instances.get(id, chat) != chat
            self._bring_back(id, chat)
            changed = self._restore_rows(
                id, then, lambda row: self.sources_of(row, counts, chat, then), lambda each: True
            )
        return changed, int(stays)

    def restore_key(self, owner: Owner, key: str, revision: int) -> int:
        """Restore one key of a chat or an instance that exists; return how many rows changed."""
        then = self.past[revision]
        if not any(change.row == Row("data", owner, key) for change in self.log):
            raise Missing
        existed = owner in (then.instances if isinstance(owner, str) else then.titles)

        def counts(change: Change) -> bool:
            return existed and change.number < then.length and self.is_live(change, then)

        chat = then.instances.get(owner) if isinstance(owner, str) else owner

        def made(row: Row) -> tuple[Source, ...]:
            return self.sources_of(row, counts, chat, then) if existed else ()

        with self.request():
            return self._restore_rows(owner, then, made, lambda each: True, key)

    def restore_chat(self, name: str, revision: int) -> tuple[int, int]:
        return self.restore(self.point(name, revision))

    def restore(self, point: Point) -> tuple[int, int]:
        """Restore a chat to a point; its chain stays as it is."""
        chat, then = point.chat, point.then
        members = self.members(point)
        warnings = 0

        def restore_rows(owner: Owner) -> int:
            return self._restore_rows(
                owner,
                then,
                lambda row: self._sources_at(row, point),
                lambda each: point.message is None or self.belongs(point, each),
            )

        with self.request():
            changed = restore_rows(chat)
            for id in dict.fromkeys([*members, *self.now.members(chat)]):
                if self.now.instances.get(id, chat) != chat:
                    # The instance belongs to another chat now, so this chat must not change it.
                    warnings += 1
                elif id in members:
                    self._bring_back(id, chat)
                    changed += restore_rows(id)
                elif then.instances.get(id, chat) != chat:
                    # It came from elsewhere later.
                    warnings += 1
                else:
                    changed += self._delete(id)
        return changed, warnings

    def _bring_back(self, id: str, chat: int | None) -> None:
        if id not in self.now.instances:
            self._bind(id, chat)
            self.touched = True

    def _restore_rows(
        self,
        owner: Owner,
        then: State,
        sources_of: Callable[[Row], tuple[Source, ...]],
        belongs: Counts,
        key: str | None = None,
    ) -> int:
        """Restore rows that changed since, or differ; return how many differ."""
        self.now.clock += 1
        changed = 0
        rows = [change.row for change in self.log[: self.now.length] if change.row.owner == owner]
        for row in dict.fromkeys(rows) if key is None else [Row("data", owner, key)]:
            made = sources_of(row)
            value = self.replay(made)[0]
            differs = differ(self.now.values.get(row, ...), value)
            since = [
                change
                for change in self.of_row(row)
                if change.number >= then.length or not belongs(change)
            ]
            if differs or since or self.now.reworked.get(row, 0) > then.revision:
                self._restore_row(row, value, made)
            changed += differs
        return changed

    def _restore_row(self, row: Row, value: Any, made: tuple[Source, ...]) -> None:
        """Set a row to its old value, and name the changes that made it."""
        chat = self.home(row.owner)
        sources = [Source(n, pin or self._is_elsewhere(n, chat)) for n, pin in made]
        bases = [
            index
            for index, each in enumerate(sources)
            if self.log[each.number].op in BASES
            and (each.pinned or not self.is_flippable(self.log[each.number]))
        ]
        named = tuple(sources[bases[-1] :] if bases else sources)
        now = self.named_by(named, self.is_live, chat, self.now)
        # If messages were moved since, the same changes make another value.
        follows = not differ(self.replay(tuple(now))[0], value)
        self._record(row, "restore", value, sources=named if follows else None)

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
