"""
The records the API answers with, as they stand on the wire.

Field names are camelCase because they are JSON's, not Python's. OpenAPI's schemas are
made from these classes, so an answer and its documentation have one source.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict

# The values of one instance, by key, each spliced in as the text it is stored as.
Values = dict[str, Any]


class Character(TypedDict):
    """Whom values belong to."""

    id: str
    name: str | None
    createdAt: str
    updatedAt: str


class Instance(TypedDict):
    """One tracked occurrence of a character: a run, a chat, a timeline."""

    id: str
    characterId: str
    name: str | None
    chatId: str | None
    createdAt: str
    updatedAt: str
    origin: NotRequired[str]


class FullInstance(TypedDict):
    """An instance with its values."""

    instance: Instance
    data: Values


class FullCharacter(TypedDict):
    """A character with all its instances and their values."""

    character: Character
    instances: list[FullInstance]


class Success(TypedDict):
    """It was done."""

    success: bool


class SuccessMessage(TypedDict):
    """It was done, in words."""

    success: bool
    message: str


class Deleted(TypedDict):
    """How many instances were deleted."""

    success: bool
    deletedCount: int


class Removed(TypedDict):
    """How many keys were removed."""

    success: bool
    removedCount: int


class ValueSet(TypedDict):
    """The key and the value it now has."""

    success: bool
    key: str
    value: Any


class Anchor(TypedDict):
    """The place in a chat a change was made at."""

    messageId: str
    swipe: str


class HistoryItem(TypedDict):
    """One change: `before` and `after` are absent where the key did not exist."""

    revision: int
    at: str
    actor: str
    instanceId: str | None
    key: str | None
    op: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    value: NotRequired[Any]
    anchor: Anchor | None
    live: bool
    space: NotRequired[str]
    characterId: NotRequired[str | None]
    chatId: NotRequired[str | None]


class History(TypedDict):
    """A page of changes; `next` is passed back as `cursor`, null on the last page."""

    items: list[HistoryItem]
    next: str | None


class Difference(TypedDict):
    """One key that differs; `before` or `after` is absent where the key did not exist."""

    key: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    # Over a chat: whose key it is; null is the chat's own.
    instanceId: NotRequired[str | None]
    space: NotRequired[str]


class Restored(TypedDict):
    """The revision that led back, and how many values it changed."""

    revision: int
    changed: int
    warnings: list[str]


class BatchAnswer(TypedDict):
    """The revision the batch made, and what came of each operation, in order."""

    revision: int
    results: list[dict[str, Any]]


class Compaction(TypedDict):
    """The oldest revision that can be read now, and how many changes were folded."""

    oldest: int
    removed: int


class FeedChange(TypedDict):
    """One change of a revision; `after` is absent for removals and large values."""

    instanceId: str | None
    key: str | None
    op: str
    after: NotRequired[Any]
    value: NotRequired[Any]
    live: bool
    chatId: str | None
    anchor: Anchor | None
    space: NotRequired[str]
    characterId: NotRequired[str | None]


class FeedEvent(TypedDict):
    """One revision: everything that one request changed."""

    revision: int
    at: str
    actor: str
    chatId: str | None
    anchor: Anchor | None
    changes: list[FeedChange]


class FeedPage(TypedDict):
    """Revisions in order; `next` is passed back as `since`."""

    items: list[FeedEvent]
    next: int


class Chat(TypedDict):
    """A chat; `revision` is that of its latest change, with all that it holds."""

    chatId: str
    parent: str | None
    origin: Any
    archived: bool
    createdAt: str
    updatedAt: str
    revision: int


class SeriesSummary(TypedDict):
    """The version of a series that is current, and how many there are."""

    currentVersion: int | None
    count: int


class OperationCounts(TypedDict):
    """How many operations of a chat are under way."""

    pending: int
    inProgress: int
    retrying: int


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


class Pong(TypedDict):
    """The echo of a ping."""

    message: str


class Health(TypedDict):
    """What is running, and on what."""

    status: str
    version: str
    engine: str
    engineVersion: str
    extensions: int
    openDatabases: int


class PluginHealth(TypedDict):
    """That the plugin is there, for a bridge to ask."""

    ok: bool
    plugin: str
    version: str


class Limits(TypedDict):
    """What one request may hold. Sizes are in bytes, lengths in characters."""

    bodyBytes: int
    valueBytes: int
    valueDepth: int
    keysPerRequest: int
    batchOperations: int
    batchResultBytes: int
    patchOperations: int
    patchCopiedBytes: int
    chainMessages: int
    processedIds: int
    leaseMs: int
    pageItems: int
    pageBytes: int
    waitSeconds: int
    extensionIdLength: int
    characterIdLength: int
    instanceIdLength: int
    chatIdLength: int
    messageIdLength: int
    swipeLength: int
    processedIdLength: int
    clientLength: int
    seriesNameLength: int
    setNameLength: int
    operationIdLength: int
    checkpointNameLength: int
    keyLength: int
    nameLength: int
    hashLength: int
    headerTextLength: int
    integerMinimum: int
    integerMaximum: int
    headerBytes: int
    headerCount: int
    connections: int
    feedReaders: int
    allFeedReaders: int


class ExtensionSummary(TypedDict):
    """One extension's database in numbers; a damaged one has a status and no numbers."""

    id: str
    status: str
    characters: NotRequired[int]
    instances: NotRequired[int]
    keys: NotRequired[int]
    bytes: NotRequired[int]
    revision: int
    path: str
    registeredAt: str


class Error(TypedDict):
    """What every refusal and failure looks like."""

    error: str
    code: str
    hint: str | None
    details: dict[str, Any]


def now() -> str:
    """This moment as the API writes moments: ISO 8601, UTC, milliseconds, `Z`."""
    # A fifth of the cost of going through `moment`, and paid by every write.
    return datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
