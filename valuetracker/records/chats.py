"""
Records of chats and of the things that belong to one: series, processed ids, operations,
checkpoints, branches.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from valuetracker.records.data import FullInstance, Values


class Chat(TypedDict):
    """A chat; `revision` is that of its latest change, with all that it holds."""

    chatId: str
    parent: str | None
    origin: Any
    archived: bool
    createdAt: str
    updatedAt: str
    revision: int


class ChatState(TypedDict):
    """All that a chat holds."""

    chatId: str
    revision: int
    parent: str | None
    origin: Any
    data: Values
    instances: list[FullInstance]
    series: dict[str, SeriesSummary]
    processed: dict[str, int]
    checkpoints: list[CheckpointSummary]
    operations: OperationCounts
    warnings: list[str]


class OpenedChat(ChatState):
    """A chat as it is opened, and the session to write with."""

    session: str
    created: bool


class SeriesSummary(TypedDict):
    """The version of a series that is current, and how many there are."""

    currentVersion: int | None
    count: int


class OperationCounts(TypedDict):
    """How many operations of a chat are under way."""

    pending: int
    inProgress: int
    retrying: int


class ChangedValue(TypedDict):
    """A value a reconcile changed; `before` or `after` is absent where there was none."""

    instanceId: str | None
    key: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    space: NotRequired[str]


class ReplayConflict(TypedDict):
    """A change that no longer applies and was skipped."""

    instanceId: str | None
    key: str
    op: str
    revision: int
    reason: str
    space: NotRequired[str]


class Reconciled(TypedDict):
    """What came of a new chain; `dormant` and `revived` count the changes that flipped."""

    revision: int
    dormant: int
    revived: int
    changed: list[ChangedValue]
    conflicts: list[Any]
    stale: list[str]
    warnings: list[str]


class Version(TypedDict):
    """One version of a series, with whatever else it was given."""

    version: int
    content: Any
    createdAt: str


class Series(TypedDict):
    """All versions of a series, oldest first."""

    currentVersion: int | None
    versions: list[Any]


class NewVersion(TypedDict):
    """The number a version was given."""

    version: int


class CurrentVersion(TypedDict):
    """The version that is current now."""

    currentVersion: int | None


class VersionRemoved(TypedDict):
    """It was removed; this one is current now."""

    success: bool
    currentVersion: int | None


class Cleared(TypedDict):
    """How many versions were removed."""

    clearedCount: int


class Claimed(TypedDict):
    """Which ids are the caller's to process, and which were taken."""

    new: list[str]
    seen: list[str]


class Processed(TypedDict):
    """It counts as processed now; whether it did before."""

    processed: bool
    already: bool


class IsProcessed(TypedDict):
    """Whether an id has been processed."""

    processed: bool


class ProcessedIds(TypedDict):
    """The ids that have been processed, oldest first."""

    ids: list[str]


class Operation(TypedDict):
    """A piece of work in progress."""

    id: str
    type: str
    status: str
    stage: str | None
    data: Any
    priority: int
    claim: str | None
    leaseUntil: str | None
    createdAt: str
    updatedAt: str


class Cleanup(TypedDict):
    """The active operations that were removed because nobody had touched them."""

    removedCount: int
    ids: list[str]


class RowCounts(TypedDict):
    """How many rows a chat has: keys of its own, instances, their keys, versions, ids."""

    data: int
    instances: int
    values: int
    series: int
    processed: int


class CheckpointSummary(TypedDict):
    """A checkpoint in short."""

    name: str
    status: str
    revision: int | None
    messageId: str | None
    createdAt: str


class CheckpointListed(CheckpointSummary):
    """A checkpoint without the state it records."""

    digest: str | None
    rows: RowCounts | None
    expect: Any
    meta: Any
    warnings: list[str]


class Checkpoint(CheckpointListed):
    """A name for a revision of a chat, and the record it is checked by."""

    state: Any


class CheckpointWaiting(TypedDict):
    """It will be made when the last operation has ended."""

    name: str
    status: str


class Validation(TypedDict):
    """Whether a checkpoint agrees with the log; what merely differs is a warning."""

    success: bool
    validated: bool
    errors: list[str]
    warnings: list[str]


class CheckpointRestored(TypedDict):
    """The report, the revision that led back, and how many values it changed."""

    success: bool
    errors: list[str]
    warnings: list[str]
    revision: int
    changed: int


class Branch(TypedDict):
    """A new chat, what it was made of, and the new ids of its instances by the old."""

    chatId: str
    parent: str
    parentRevision: int
    rows: RowCounts
    instances: dict[str, str]


class Relative(TypedDict):
    """A chat in a lineage, and where the branch left its parent."""

    chatId: str
    messageId: str | None
    checkpoint: str | None
    createdAt: str


class Lineage(TypedDict):
    """What a chat is a branch of, nearest first, and the branches it has."""

    chatId: str
    ancestors: list[Relative]
    branches: list[Relative]
