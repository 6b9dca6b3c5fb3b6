"""
Records of chats and of the things that belong to one: series, processed ids, operations,
checkpoints, branches.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from valuetracker.records.data import FullInstance, Values


class Chat(TypedDict):
    """A chat; `revision` is that of the latest change to the chat or its contents."""

    chatId: str
    parent: str | None
    origin: Origin | None
    archived: bool
    createdAt: str
    updatedAt: str
    revision: int


class ChatPage(TypedDict):
    """A page of chats; `next` is passed back as `cursor`, null on the last page."""

    items: list[Chat]
    next: str | None


class ChatState(TypedDict):
    """The whole contents of a chat."""

    chatId: str
    revision: int
    parent: str | None
    origin: Origin | None
    data: Values
    instances: list[FullInstance]
    series: dict[str, SeriesSummary]
    processed: dict[str, int]
    checkpoints: list[CheckpointSummary]
    operations: OperationCounts
    warnings: list[str]


class OpenedChat(ChatState):
    """The contents of an opened chat, and the session to write with."""

    session: str
    created: bool


class SeriesSummary(TypedDict):
    """The current version of a series, and the number of versions."""

    currentVersion: int | None
    count: int


class OperationCounts(TypedDict):
    """The number of active operations of a chat, by status; paused ones cannot be claimed."""

    pending: int
    inProgress: int
    retrying: int
    paused: bool


class ChangedValue(TypedDict):
    """A value that becomes another one; `before` or `after` is absent where there is none."""

    instanceId: str | None
    key: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    space: NotRequired[str]


class Reconciled(TypedDict):
    """The result of a reconcile; `dormant` and `revived` count changes that became so."""

    revision: int
    dormant: int
    revived: int
    changed: list[ChangedValue]
    conflicts: list[Any]
    stale: list[str]
    warnings: list[str]


class Version(TypedDict):
    """One version of a series, with the additional fields it was sent with."""

    version: int
    content: Any
    createdAt: str


class Series(TypedDict):
    """All versions of a series, oldest first."""

    currentVersion: int | None
    versions: list[Any]


class NewVersion(TypedDict):
    """The number of the new version."""

    version: int


class CurrentVersion(TypedDict):
    """The current version."""

    currentVersion: int | None


class VersionRemoved(TypedDict):
    """Confirmation of the removal, and the version that is current now."""

    success: bool
    currentVersion: int | None


class Cleared(TypedDict):
    """The number of removed versions."""

    clearedCount: int


class Claimed(TypedDict):
    """The ids that the caller may process, and those that were claimed or processed before."""

    new: list[str]
    seen: list[str]


class Processed(TypedDict):
    """The id is marked as processed; `already` says that it was before."""

    processed: bool
    already: bool


class IsProcessed(TypedDict):
    """`processed` is true if the id is marked as processed."""

    processed: bool


class ProcessedIds(TypedDict):
    """The ids that have been processed, oldest first."""

    ids: list[str]


class Operation(TypedDict):
    """
    A piece of work that waits or is in progress.

    `leaseUntil` is the time of day at which the lease ends, if nobody sets the clock.
    """

    id: str
    type: str
    status: str
    stage: str | None
    data: Any
    priority: int
    claim: str | None
    leaseUntil: str | None
    attempts: int
    maxAttempts: int
    retryAfterMs: int | None
    dependsOn: list[str]
    anchor: OperationAnchor | None
    createdAt: str
    updatedAt: str


class OperationAnchor(TypedDict):
    """The message and the swipe that an operation works on."""

    messageId: str
    swipe: str


class AddedOperation(Operation):
    """An operation that was asked for; `created` is false if it was there already."""

    created: bool


class OperationEvent(TypedDict):
    """
    A change of the queue of a chat: `op` is add, update, remove, pause or resume.

    `operation` is the operation after it, or the one that was removed; it has no `claim`, and no
    `data` above 8 KiB.
    """

    at: str
    actor: str
    chatId: str
    op: str
    operation: Any


class Paused(TypedDict):
    """`paused` is true while no operation of the chat can be claimed."""

    paused: bool


class Cleanup(TypedDict):
    """The active operations that were removed because they were not updated for too long."""

    removedCount: int
    ids: list[str]


class RowCounts(TypedDict):
    """The number of rows of a chat: its keys, instances, their keys, versions, processed ids."""

    data: int
    instances: int
    values: int
    series: int
    processed: int


class CheckpointSummary(TypedDict):
    """A summary of a checkpoint."""

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
    """A named revision of a chat, and the state it is checked against."""

    state: Any


class CheckpointWaiting(TypedDict):
    """A checkpoint that is made when the last operation has ended."""

    name: str
    status: str


class CheckpointEvent(TypedDict):
    """
    A change of the checkpoints of a chat: `op` is add, update or remove.

    An update is that of one that waited: `checkpoint` is ready or failed now.
    """

    at: str
    actor: str
    chatId: str
    op: str
    checkpoint: CheckpointSummary


class Validation(TypedDict):
    """The result of comparing a checkpoint with the log; tolerable differences are warnings."""

    success: bool
    validated: bool
    errors: list[str]
    warnings: list[str]


class CheckpointState(TypedDict):
    """Everything that a chat held at a checkpoint: each version, and the ids of each set."""

    data: Values
    instances: list[FullInstance]
    series: dict[str, Series]
    processed: dict[str, list[str]]


class CheckpointRestored(TypedDict):
    """
    The report of the validation, the revision of the restore, and the values it changed.

    A dry run lists them.
    """

    success: bool
    errors: list[str]
    warnings: list[str]
    revision: int
    changed: int
    changes: NotRequired[list[ChangedValue]]


class Branch(TypedDict):
    """
    A new chat, its origin, and the new ids of its instances by the old ids.

    If it is made from a checkpoint: also the errors and warnings of the validation.
    """

    chatId: str
    parent: str
    parentRevision: int
    rows: RowCounts
    instances: dict[str, str]
    errors: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class OriginRecord(TypedDict):
    """
    The record of what a branch began with: the name of the checkpoint, or null.

    `versions` has the current version of each series.
    """

    name: str | None
    createdAt: str
    versions: dict[str, int]
    rows: RowCounts


class Origin(TypedDict):
    """Where a branch left its parent, and the record of what it began with."""

    chatId: str
    checkpoint: str | None
    messageId: str | None
    createdAt: str
    record: OriginRecord


class Relative(TypedDict):
    """A chat in a lineage, and the message or checkpoint at which it branched off."""

    chatId: str
    messageId: str | None
    checkpoint: str | None
    createdAt: str


class Lineage(TypedDict):
    """The chats that a chat branched off from, nearest first, and its own branches."""

    chatId: str
    ancestors: list[Relative]
    branches: list[Relative]
