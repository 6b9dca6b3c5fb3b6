"""
The log of the chat model: rows, places, source changes, and the values they make.

A source change is live while its place is in the visible chain of its chat. It stands at a
message: at that of its place, or at the one that was last when it was made. A value is the result
of the live changes of its row in the order of the story. `chat_model.py` does the rest.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.model.values_model import operate
from tests.support.answers import same

# The number of a chat (a renamed chat keeps it), or the id of an instance.
Owner = int | str
Values = dict["Row", Any]


class Row(NamedTuple):
    space: str
    owner: Owner
    key: str


class Place(NamedTuple):
    """A message and a swipe; without a chat, a place is recorded and never flips."""

    chat: int | None
    message: str
    swipe: str


class Source(NamedTuple):
    """A change named by a restore; if it is pinned, it counts as unanchored there."""

    number: int
    pinned: bool


@dataclass(frozen=True)
class Change:
    """A source change: what a caller asked for."""

    number: int
    revision: int
    row: Row
    op: str
    operand: Any = None
    place: Place | None = None
    # A chat and its message at which an unanchored change stands; None: at the beginning.
    stands: tuple[int, str] | None = None
    # The changes a restore names; None if it is a plain set of its operand.
    sources: tuple[Source, ...] | None = None
    # A branch took it over from its parent: its revision is that of the parent's change.
    taken: bool = False
    # It counts only in the restore that names it.
    named_only: bool = False
    # It keeps the value that an instance had when it left its chat; history does not show it.
    kept: bool = False


@dataclass(frozen=True)
class Step:
    """
    One thing a request asks for: a batch operation, `override`, `merge_patch` of one key, `insert`
    (a JSON Patch that adds a member to an object), `claim` (set unless the key exists) or `require`
    (refuse unless the key exists).

    Without an instance, it writes to the chat's own data; with one, `chat` is `x-chat-id`.
    """

    op: str
    key: str = ""
    operand: Any = None
    chat: str | None = None
    instance: str | None = None
    anchor: tuple[str, str] | None = None
    space: str = "data"


class Event(NamedTuple):
    """An instance came into a chat or was deleted there, at a message (None: at the beginning)."""

    id: str
    op: str
    chat: int | None
    stands: str | None


@dataclass
class State:
    """The state of an extension at one revision."""

    revision: int = 0
    # The number of changes in the log.
    length: int = 0
    # The chat of every present and former id; and the present id of each chat.
    names: dict[str, int] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    # The visible swipe of each visible message, in the order of the story.
    chains: dict[int, dict[str, str]] = field(default_factory=dict)
    # All messages ever seen, in the order of the story.
    stories: dict[int, list[str]] = field(default_factory=dict)
    registered: set[Place] = field(default_factory=set)
    hashes: dict[Place, str] = field(default_factory=dict)
    # The chat of each instance, and of each deleted one when it was deleted.
    instances: dict[str, int | None] = field(default_factory=dict)
    deleted: dict[str, int | None] = field(default_factory=dict)
    # What happened to instances themselves.
    events: list[Event] = field(default_factory=list)
    # Changes of instances that left a chat: the live ones count as unanchored from then on.
    freed: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    # The revision at which a flip last changed a row.
    reworked: dict[Row, int] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    # When each key was created; keys that one flip or restore creates share a number.
    created: dict[Row, int] = field(default_factory=dict)
    clock: int = 0

    def members(self, chat: int) -> list[str]:
        return [id for id, each in self.instances.items() if each == chat]


@dataclass(frozen=True)
class Point:
    """A chat at a moment, and there perhaps as of a message: all before `end` in its story."""

    chat: int
    then: State
    message: str | None
    end: int


@dataclass
class Report:
    """The answer to a reconcile; `changed` has (row, before, after), `...` for no value."""

    dormant: int
    revived: int
    changed: list[tuple[Row, Any, Any]]
    conflicts: list[Change]
    stale: list[str]


Counts = Callable[[Change], bool]


class Missing(Exception):
    """404: the chat, instance or key of the request does not exist."""


class Conflict(Exception):
    """409 `type_conflict`, at this step."""

    def __init__(self, index: int) -> None:
        self.index = index


class ChatLog:
    """The source changes, and the values that the live ones make."""

    def __init__(self) -> None:
        self.log: list[Change] = []
        self.now = State()
        self.past = [self.now]
        # Of the last request: True if it made a revision; True if `x-live` is false; True if
        # `x-superseded` is true; and the later changes that it made fail.
        self.touched = False
        self.dormant = False
        self.superseded = False
        self.conflicts: list[Change] = []

    @property
    def revision(self) -> int:
        return self.now.revision

    @contextmanager
    def request(self) -> Iterator[None]:
        """Do all of a request or nothing; make one revision if it touches anything."""
        before = self.now
        self.now = copy.deepcopy(before)
        self.now.revision += 1
        self._forget_request()
        done = False
        try:
            yield
            done = self.touched
        finally:
            if done:
                self.past.append(self.now)
            else:
                self.now = before
                self._forget_request()
                del self.log[before.length :]

    def _forget_request(self) -> None:
        self.touched = self.dormant = self.superseded = False
        self.conflicts = []

    def is_live(self, change: Change, state: State | None = None) -> bool:
        state = state or self.now
        if change.number in state.dropped:
            return False
        return change.number in state.freed or self._is_visible(change.place, state)

    def _is_visible(self, place: Place | None, state: State) -> bool:
        if place is None or place.chat is None:
            return True
        return state.chains[place.chat].get(place.message) == place.swipe

    def _is_dormant(self, change: Change) -> bool:
        return change.number not in self.now.dropped and not self.is_live(change)

    def is_flippable(self, change: Change) -> bool:
        """True if the chain of a chat decides over a change."""
        if change.number in self.now.freed or change.number in self.now.dropped:
            return False
        return change.place is not None and change.place.chat is not None

    # The order of the story

    def home(self, owner: Owner) -> int | None:
        """Return the chat whose story the rows of an owner follow."""
        return owner if isinstance(owner, int) else self.now.instances.get(owner)

    def standing(self, change: Change, chat: int | None, state: State | None = None) -> int:
        """Return where a change stands in the story of a chat; -1 is the beginning."""
        state = state or self.now
        if chat is None or change.number in state.freed or change.number in state.dropped:
            return -1
        at = change.stands if change.place is None else change.place[:2]
        return state.stories[chat].index(at[1]) if at is not None and at[0] == chat else -1

    def in_order(self, changes: list[Change], chat: int | None, state: State) -> list[Change]:
        def key(change: Change) -> tuple[int, int]:
            by_story = follows_story(change.row)
            return self.standing(change, chat, state) if by_story else -1, change.number

        return sorted(changes, key=key)

    def of_row(self, row: Row) -> list[Change]:
        return [change for change in self.log if change.row == row and not change.named_only]

    def sources_of(
        self, row: Row, counts: Counts, chat: int | None, state: State | None = None
    ) -> tuple[Source, ...]:
        """Return the changes that count for a row; a restore is replaced by those it names."""
        state = state or self.now
        found: list[Source] = []
        for change in self.in_order(list(filter(counts, self.of_row(row))), chat, state):
            if change.sources is None:
                found.append(Source(change.number, False))
            else:
                found = self.named_by(change.sources, counts, chat, state)
        return tuple(found)

    def named_by(
        self, sources: tuple[Source, ...], counts: Counts, chat: int | None, state: State
    ) -> list[Source]:
        """Return the changes that a restore names, as far as they count."""
        pinned = {each.number: each.pinned for each in sources}
        named = [self.log[number] for number in pinned]
        named = [each for each in named if pinned[each.number] or counts(each)]
        return [
            Source(each.number, pinned[each.number]) for each in self.in_order(named, chat, state)
        ]

    def replay(self, sources: tuple[Source, ...]) -> tuple[Any, list[Change]]:
        """Return the value (`...`: none), and the changes since the last base that fail."""
        return self._fold(..., [self.log[source.number] for source in sources])

    def _fold(self, value: Any, changes: list[Change]) -> tuple[Any, list[Change]]:
        values: dict[str, Any] = {} if value is ... else {"": copy.deepcopy(value)}
        conflicts: list[Change] = []
        for change in changes:
            if change.op in BASES:
                conflicts = []
            try:
                do(values, change.op, change.operand)
            except TypeError:
                conflicts.append(change)
        return values.get("", ...), conflicts

    def recompute(self, row: Row) -> tuple[Any, list[Change]]:
        return self.replay(self.sources_of(row, self.is_live, self.home(row.owner)))

    def value_where(self, row: Row, place: Place | None) -> Any:
        """Return the value at a place, as if that were visible; without one, the present value."""
        if place is None:
            return self.now.values.get(row, ...)
        chat = self.home(row.owner)
        probe = Change(len(self.log), self.revision, row, "probe", place=place)
        position = self.standing(probe, chat)

        def counts(change: Change) -> bool:
            if follows_story(row) and self.standing(change, chat) > position:
                return False
            return self.is_live(change) or (self._is_dormant(change) and change.place == place)

        return self.replay(self.sources_of(row, counts, chat))[0]

    def can_be_reached(self, row: Row) -> bool:
        """True if a flip can reach a change of a row: nothing that always counts covers it."""
        changes = [each for each in self.of_row(row) if each.number not in self.now.dropped]
        for change in reversed(self.in_order(changes, self.home(row.owner), self.now)):
            if self.is_flippable(change):
                return True
            if change.op in BASES:
                named = change.sources or ()
                return any(
                    self.is_flippable(self.log[each.number]) for each in named if not each.pinned
                )
        return False

    def _put(self, row: Row, value: Any) -> None:
        if value is ...:
            self.now.values.pop(row, None)
            return
        if row not in self.now.values:
            self.now.created[row] = self.now.clock
        self.now.values[row] = value

    def _stands(self, row: Row) -> tuple[int, str] | None:
        """Return where an unanchored change of a row stands: at the last message, or further on."""
        chat = self.home(row.owner)
        if chat is None:
            return None
        story, chain = self.now.stories[chat], list(self.now.chains[chat])
        last = story.index(chain[-1]) if chain else -1
        if follows_story(row):
            last = max([last, *(self.standing(each, chat) for each in self.of_row(row))])
        return (chat, story[last]) if last >= 0 else None

    def _record(
        self,
        row: Row,
        op: str,
        operand: Any = None,
        place: Place | None = None,
        sources: tuple[Source, ...] | None = None,
    ) -> dict[str, Any]:
        """Log a source change, recompute its row unless its place is hidden; return the answer."""
        stands = self._stands(row) if place is None else None
        before = self.now.values.get(row, ...)
        there = self.value_where(row, place)
        change = Change(len(self.log), self.revision, row, op, operand, place, stands, sources)
        self.log.append(change)
        self.now.length += 1
        self.touched = True
        if place is not None:
            self.now.hashes.pop(place, None)
        if not self.is_live(change):
            self.dormant = True
            return answer_without_effect(op, before)
        values = {} if there is ... else {"": copy.deepcopy(there)}
        result = do(values, op, operand)
        live = list(filter(self.is_live, self.of_row(row)))
        ordered = self.in_order(live, self.home(row.owner), self.now)
        later = ordered[ordered.index(change) + 1 :]
        if any(each.op in BASES for each in later):
            self.superseded = True
            return answer_without_effect(op, before) | with_value(before) | {"superseded": True}
        # Keys that one restore creates share a number.
        self.now.clock += op != "restore"
        after, conflicts = self._fold(values.get("", ...), later)
        assert not differ(after, self.recompute(row)[0])
        self.conflicts += conflicts
        self._put(row, after)
        if op == "remove":
            result = {"removed": before is not ... and after is ...}
        if op in ("addToSet", "remove"):
            # Changes that stand after it may have made something else of it.
            return result | (with_value(after) if differ(after, values.get("", ...)) else {})
        return with_value(after)


# Changes that start a row anew.
BASES = ("set", "remove", "restore")


def do(values: dict[str, Any], op: str, operand: Any) -> dict[str, Any]:
    """Do one change to the value under the empty key."""
    if op == "restore":
        op = "remove" if operand is ... else "set"
    if op == "insert":
        if not isinstance(values.get(""), dict):
            raise TypeError("there is no object to insert into")
        name, value = operand
        values[""] = values[""] | {name: copy.deepcopy(value)}
        return {"value": values[""]}
    return operate(values, "", op, copy.deepcopy(operand))


def follows_story(row: Row) -> bool:
    """False for processed ids and versions of a series: those go by revision."""
    return row.space == "data" or (row.space == "series" and row.key.endswith("/current"))


def with_value(value: Any) -> dict[str, Any]:
    return {} if value is ... else {"value": copy.deepcopy(value)}


def answer_without_effect(op: str, value: Any) -> dict[str, Any]:
    """Return the answer to a change that is dormant or superseded."""
    if op in ("addToSet", "remove"):
        return {"added" if op == "addToSet" else "removed": False}
    return with_value(value)


def differ(one: Any, other: Any) -> bool:
    """True if two values differ as JSON text; `...` is no value."""
    if one is ... or other is ...:
        return one is not other
    return not same(one, other)


def data_of(values: Values, owner: Owner, space: str = "data") -> dict[str, Any]:
    return {row.key: each for row, each in values.items() if row[:2] == (space, owner)}


def series_of(values: Values, chat: int) -> dict[str, tuple[int, dict[int, Any]]]:
    """Return each series that has versions: the current one, and the content of each."""
    found: dict[str, dict[int, Any]] = {}
    rows = data_of(values, chat, "series")
    for key, content in rows.items():
        name, _, version = key.partition("/")
        if version != "current":
            found.setdefault(name, {})[int(version)] = content
    current: dict[str, Any] = {name: rows.get(f"{name}/current") for name in found}
    return {
        name: (current[name] if current[name] in versions else max(versions), versions)
        for name, versions in found.items()
    }


def processed_of(values: Values, chat: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in data_of(values, chat, "processed"):
        name, _, id = key.partition("/")
        found.setdefault(name, []).append(id)
    return found
