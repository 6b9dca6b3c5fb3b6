"""
Records of the server itself, of registered extensions, and of errors.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from valuetracker.records.jobs import BackupHealth


class Pong(TypedDict):
    """The answer to a ping."""

    message: str


class ServerBackupHealth(BackupHealth):
    """How the backups are, and if the next one is overdue."""

    overdue: bool


class Health(TypedDict):
    """The version of the server, its engine, and how many databases it has."""

    status: str
    version: str
    engine: str
    engineVersion: str
    extensions: int
    openDatabases: int
    # How many databases of the calling user are larger than `--warn-mb`, and beyond a quota.
    large: int
    full: int
    backup: ServerBackupHealth


class CallerInfo(TypedDict):
    """Who asks, and what they may do."""

    user: str
    admin: bool
    bridge: bool
    tokenNeeded: bool
    readOthers: bool
    extensions: list[str]


class PluginHealth(TypedDict):
    """Confirmation that the plugin is running."""

    ok: bool
    plugin: str
    version: str


class Limits(TypedDict):
    """The limits of requests and connections. Sizes are in bytes, lengths in characters."""

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
    feedExtensions: int
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
    # Why it is not in the newest backup.
    backupError: NotRequired[str]
    # Says that it is large, and what to do.
    warning: NotRequired[str]


class TokenRecord(TypedDict):
    """A token: whom it is for and what it may do, but not the text that clients send."""

    id: str
    name: str
    extensions: list[str]
    readOthers: bool
    admin: bool
    createdAt: str


class NewToken(TokenRecord):
    """A token that was just made, with the text that clients send: it is shown only here."""

    token: str


class SettingRecord(TypedDict):
    """A setting: its value in force, its default, and how it is given."""

    name: str
    # None for a setting that may hold a secret.
    value: Any
    default: Any
    # True if it may hold a secret: then only `isSet` says something of its value.
    secret: bool
    isSet: bool
    # None if it is read from the environment only.
    flag: str | None
    variable: str
    help: str


class Error(TypedDict):
    """The body of every error."""

    error: str
    code: str
    hint: str | None
    details: dict[str, Any]
