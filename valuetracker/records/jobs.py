"""
Records of long work: jobs, and the reports of verifying and backing up.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Begun(TypedDict):
    """The id of a job that has been begun."""

    job: str


class JobRecord(TypedDict):
    """How far a job is: `running`, `done` with a result, or `failed` with an error."""

    id: str
    kind: str
    status: str
    done: int
    total: int
    startedAt: str
    endedAt: str | None
    result: Any
    error: dict[str, Any] | None


class JobEvent(TypedDict):
    """How far a job is, as readers of a feed are told."""

    at: str
    job: str
    kind: str
    status: str
    done: int
    total: int


class BackedUp(TypedDict):
    """One extension in a backup."""

    id: str
    user: str
    file: str
    location: str
    incarnation: int
    revision: int
    bytes: int
    sha256: str


class NotBackedUp(TypedDict):
    """An extension that could not be backed up, and why."""

    id: str
    user: str
    code: str
    error: str


class Backup(TypedDict):
    """A backup: what is in it, what is missing, and the exit code of the hook, if there is one."""

    name: str
    kind: str
    createdAt: str
    engine: str
    version: str
    format: int
    bytes: int
    extensions: list[BackedUp]
    failed: list[NotBackedUp]
    hook: int | None


class RestoredExtension(TypedDict):
    """An extension that was restored; if it was there before, that state is in the trash."""

    id: str
    user: str
    revision: int
    incarnation: int
    replaced: bool


class RestoredBackup(TypedDict):
    """The extensions that were restored from a backup."""

    name: str
    extensions: list[RestoredExtension]


class BackupHealth(TypedDict):
    """When the last backup was made, and what went wrong since."""

    lastAt: str | None
    failed: int
    hook: int | None
    error: str | None


class Salvaged(TypedDict):
    """A file to import with all that is intact of a damaged database, and what is lost."""

    extension: str
    file: str
    values: int
    lost: list[str]


class Verified(TypedDict):
    """
    The outcome of verifying an extension: what is wrong, and where.

    `repaired` is true if indexes or keyframes were damaged, and have been made anew.
    """

    extension: str
    sound: bool
    findings: list[str]
    revision: int
    rows: int
    entries: int
    checkpoints: int
    repaired: bool
