"""
The log of the chat model: rows, places, source changes, and the values they make.

A source change is live while its place is in the visible chain of its chat. A value is the
result of the live changes of its row, one after the other. `chat_model.py` does the rest.
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
    sources: tuple[Source, ...] = ()
    # A branch took it over from its parent: its revision is that of the parent's change.
    taken: bool = False


@dataclass(frozen=True)
class Step:
    """
    One thing a request asks for: a batch operation, `override`, `patch` of one key, `claim`
    (set unless the key exists) or `require` (refuse unless the key exists).

    Without an instance, it writes to the chat's own data; with one, `chat` is `x-chat-id`.
    """

    op: str
    key: str = ""
    operand: Any = None
    chat: str | None = None
    instance: str | None = None
    anchor: tuple[str, str] | None = None
    space: str = "data"


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
    registered: set[Place] = field(default_factory=set)
    first_registered: dict[tuple[int, str], int] = field(default_factory=dict)
    hashes: dict[Place, str] = field(default_factory=dict)
    # The chat of each instance.
    instances: dict[str, int | None] = field(default_factory=dict)
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
    """
    A chat at a moment, and there perhaps as of a message.

    An anchored change belongs to it if its place is in `places` (at or before the message,
    visible or hidden), an unanchored one if its revision is below the limit.
    """

    chat: int
    then: State
    message: str | None
    limit: int
    places: frozenset[Place]


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
        # Of the last request: True if it made a revision; True if `x-live` is false.
        self.touched = False
        self.dormant = False

    @property
    def revision(self) -> int:
        return self.now.revision

    @contextmanager
    def request(self) -> Iterator[None]:
        """Do all of a request or nothing; make one revision if it touches anything."""
        before = self.now
        self.now = copy.deepcopy(before)
        self.now.revision += 1
        self.touched = self.dormant = False
        done = False
        try:
            yield
            done = self.touched
        finally:
            if done:
                self.past.append(self.now)
            else:
                self.now = before
                self.touched = self.dormant = False
                del self.log[before.length :]

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

    def sources_of(self, row: Row, counts: Counts) -> tuple[Source, ...]:
        """Return the changes that count for a row; a restore is replaced by those it names."""
        found: list[Source] = []
        for change in self.log:
            if change.row != row or not counts(change):
                continue
            if change.op == "restore":
                named = change.sources
                found = [each for each in named if each.pinned or counts(self.log[each.number])]
            else:
                found.append(Source(change.number, False))
        return tuple(found)

    def replay(self, sources: tuple[Source, ...]) -> tuple[Any, list[Change]]:
        """Return the value (`...`: none), and the changes since the last base that fail."""
        values: dict[str, Any] = {}
        conflicts: list[Change] = []
        for source in sources:
            change = self.log[source.number]
            if change.op in ("set", "remove"):
                conflicts = []
            try:
                operate(values, "", change.op, copy.deepcopy(change.operand))
            except TypeError:
                conflicts.append(change)
        return values.get("", ...), conflicts

    def recompute(self, row: Row) -> tuple[Any, list[Change]]:
        return self.replay(self.sources_of(row, self.is_live))

    def _put(self, row: Row, value: Any) -> None:
        if value is ...:
            self.now.values.pop(row, None)
            return
        if row not in self.now.values:
            self.now.created[row] = self.now.clock
        self.now.values[row] = value

    def _record(
        self,
        row: Row,
        op: str,
        operand: Any = None,
        place: Place | None = None,
        sources: tuple[Source, ...] = (),
    ) -> dict[str, Any]:
        """Log a source change, apply it unless its place is hidden, and return the answer."""
        change = Change(len(self.log), self.revision, row, op, operand, place, sources)
        self.log.append(change)
        self.now.length += 1
        self.touched = True
        if place is not None:
            self.now.hashes.pop(place, None)
        current = self.now.values.get(row, ...)
        if not self.is_live(change):
            self.dormant = True
            unchanged = None if current is ... else current
            return {"added": False} if op == "addToSet" else {"value": unchanged}
        if op == "restore":
            self._put(row, self.replay(sources)[0])
            return {}
        self.now.clock += 1
        values = {} if current is ... else {"": copy.deepcopy(current)}
        result = operate(values, "", op, copy.deepcopy(operand))
        self._put(row, values.get("", ...))
        return copy.deepcopy(result)


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
