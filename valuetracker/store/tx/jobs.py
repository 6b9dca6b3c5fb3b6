"""The jobs of a group of writes, and their results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from valuetracker.records import CheckpointEvent, JobEvent, OperationEvent
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.row_cache import HolderId
from valuetracker.store.rows.spaces import Address
from valuetracker.store.rows.tags import Tag
from valuetracker.store.tx.context import NO_CONTEXT, Context
from valuetracker.store.tx.touched import TouchedHolder


@dataclass(slots=True)
class WriteJob:
    """A writing verb on its way to the group that will run it."""

    verb: Callable[..., Coroutine[Any, Any, Any]]
    arguments: tuple[Any, ...] = ()
    context: Context = NO_CONTEXT
    status: int = 200

    @property
    def quick(self) -> bool:
        """True if the event loop may run it: it writes little, and follows no story."""
        weigh = getattr(self.verb, "weigh", None)
        return (
            weigh is not None
            and self.context.is_plain
            and weigh(*self.arguments) <= LIGHT_CHARACTERS
        )


@dataclass(slots=True)
class Answer:
    """An answer with another status than the usual one; a body of None is left out."""

    status: int
    body: Any


@dataclass(slots=True)
class Written:
    """The answer of a writing verb, and the revision its extension is at after it."""

    status: int
    body: bytes
    revision: int
    replayed: bool = False
    # False if any change of it was stored dormant.
    live: bool = True
    # True if any change of it was superseded.
    superseded: bool = False
    incarnation: int = 0


class NothingChanged(Exception):
    """The request registered a new message but changed no value, so it is rolled back."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.answer = body


@dataclass(slots=True)
class Notice:
    """A change of an operation, a checkpoint or a job, for readers of the feed: no revision."""

    name: str
    # A job is of no chat: its number is 0, and its id is empty.
    chat: int
    chat_id: str
    record: OperationEvent | CheckpointEvent | JobEvent


@dataclass(slots=True)
class Commit:
    """
    The result of a group: the revision it reached, what it touched, and its log.

    `tags` is None where it is not known what was touched. `holders` are those whose values
    changed. `ordinal` is the last one given out before the group. `tag` is the ETag of lists after
    it; `revisions` is how many numbers the group has taken.
    """

    revision: int
    tags: set[Tag] | None
    holders: dict[HolderId, TouchedHolder] = field(default_factory=dict)
    ordinal: int = 0
    tag: int | str = 0
    incarnation: int = 0
    revisions: int = 0
    entries: list[EntryRow] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


# The event loop writes no more than this at once.
LIGHT_CHARACTERS = 64 * 1024

Verb = TypeVar("Verb", bound=Callable[..., Any])


def preloading(loads: Callable[..., tuple[Address, list[str]]]) -> Callable[[Verb], Verb]:
    """Say which holder and keys a verb loads, so that a group loads them all at once."""

    def mark(verb: Verb) -> Verb:
        verb.loads = loads  # type: ignore[attr-defined]
        return verb

    return mark


def light(weigh: Callable[..., int]) -> Callable[[Verb], Verb]:
    """Say how much a verb writes, in characters, and that it reads little besides."""

    def mark(verb: Verb) -> Verb:
        verb.weigh = weigh  # type: ignore[attr-defined]
        return verb

    return mark


def answering_unchanged(answers: Callable[..., Any]) -> Callable[[Verb], Verb]:
    """Say which verb answers instead if this one answers a state and is rolled back."""

    def mark(verb: Verb) -> Verb:
        verb.answers_unchanged = answers  # type: ignore[attr-defined]
        return verb

    return mark


def job_after_rollback(job: WriteJob, rolled_back: NothingChanged) -> WriteJob:
    """
    Return the job that answers for one that was rolled back.

    Its own answer stands, unless that was a state: the one it read is not the one that is left.
    """
    answers = getattr(job.verb, "answers_unchanged", None)
    if answers is not None:
        return WriteJob(answers, job.arguments, job.context, job.status)
    return WriteJob(_repeat, (rolled_back.answer,), job.context, job.status)


async def _repeat(tx: object, body: bytes) -> Any:
    return orjson.Fragment(body)
