"""
Restoring: putting the state of a backup in the place of the present one.

Each extension is restored by itself: it has the old state or the new one, whenever the process is
killed. All files that are wanted are checked before the first extension is replaced. What is
replaced is kept in the trash. Afterwards the database is a new incarnation, so that nothing that a
client still knows of the former state is taken for the new one.

A copy of a file is put in the place of the file (`engine/sqlite_restore.py`). An export is imported
in one transaction; so it is on PostgreSQL, whose backups are exports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from valuetracker import durable
from valuetracker.engine import Job as EngineJob
from valuetracker.engine import Transaction
from valuetracker.errors import (
    BackupUnusable,
    DatabaseDamaged,
    ImportInvalid,
    InvalidBody,
    NotInBackup,
    PathDiffers,
    PathInUse,
    PathNotAllowed,
    RestoreOverwrites,
    StorageFull,
    ValueTrackerError,
)
from valuetracker.names import DEFAULT_USER
from valuetracker.records import (
    BackedUp,
    Backup,
    Imported,
    RestoredBackup,
    RestoredExtension,
    now,
)
from valuetracker.runtime.backup_files import (
    FileContent,
    check_export,
    export_to,
    meaning,
    measure,
    sync,
)
from valuetracker.runtime.backups import FORMAT, Backups
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.jobs import Job
from valuetracker.runtime.provisioning import Provisioning
from valuetracker.runtime.registry import Record
from valuetracker.runtime.users import Users
from valuetracker.store.chats import rename_chat
from valuetracker.store.rows.head import UPDATE_HEAD, Head, load_head
from valuetracker.store.transfer.importing import Import, import_with_history
from valuetracker.store.transfer.lines import Lines
from valuetracker.store.tx.jobs import Written
from valuetracker.store.tx.ledger import Ledger

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restore:
    """Which extensions of which backup are to be restored."""

    folder: Path
    backup: Backup
    chosen: Sequence[BackedUp]

    def file(self, entry: BackedUp) -> Path:
        return self.folder / entry["file"]


class Restoring:
    """Restores extensions of one server, or of a data directory that no server uses."""

    def __init__(self, users: Users, backups: Backups, trash: Path) -> None:
        self._users = users
        self._backups = backups
        # Where exports of what was replaced are kept.
        self._trash = trash

    async def plan(
        self, backup: str, extension_id: str | None, user: str | None, force: bool
    ) -> Restore:
        """Return what is to be restored; refuse what cannot be, or must not be without `force`."""
        folder, found = await asyncio.to_thread(self._backups.find_folder, backup)
        if found["format"] > FORMAT:
            raise BackupUnusable("The backup was made by a newer version of Value Tracker.")
        if extension_id is not None and user is None:
            user = DEFAULT_USER
        chosen = [
            each
            for each in found["extensions"]
            if extension_id in (None, each["id"]) and user in (None, each["user"])
        ]
        if not chosen:
            raise NotInBackup()
        restore = Restore(folder, found, chosen)
        if not force:
            await self._refuse_overwriting(restore)
        return restore

    async def _refuse_overwriting(self, restore: Restore) -> None:
        existing: list[dict[str, str]] = []
        for entry in restore.chosen:
            async with self._users.of(entry["user"]) as extensions:
                if await _exists(extensions, entry["id"]):
                    existing.append({"id": entry["id"], "user": entry["user"]})
        if existing:
            raise RestoreOverwrites(extensions=existing)

    async def restore(self, restore: Restore, job: Job | None = None) -> RestoredBackup:
        """Check all that is to be restored, and then restore it."""
        job = job or Job("restore", "")
        steps = 2 * len(restore.chosen)
        findings: list[str] = []
        for number, entry in enumerate(restore.chosen):
            job.report(number, steps)
            finding = await self._check(restore, entry)
            if finding is not None:
                findings.append(f"{entry['file']}: {finding}")
        if findings:
            raise BackupUnusable(findings=findings)
        restored: list[RestoredExtension] = []
        for entry in restore.chosen:
            job.report(len(restore.chosen) + len(restored), steps)
            async with self._users.of(entry["user"]) as extensions:
                restored.append(await self._restore(restore, entry, extensions))
        job.report(steps, steps)
        return {"name": restore.backup["name"], "extensions": restored}

    async def _check(self, restore: Restore, entry: BackedUp) -> str | None:
        """Return what is wrong with a file; None if it is the one that was backed up."""
        path = restore.file(entry)
        engine = self._users.default.engine
        try:
            if await asyncio.to_thread(measure, path) != (entry["bytes"], entry["sha256"]):
                return "It is not the file that was backed up."
            if path.suffix != ".db":
                await asyncio.to_thread(check_export, path)
            elif not engine.copies_files:
                return "It is a file of SQLite. Export it from a server with SQLite, and import it."
            else:
                await engine.verify_copy(path, load_head)
        except OSError:
            return "It cannot be read."
        except ValueTrackerError as error:
            return error.message
        return None

    async def _restore(
        self, restore: Restore, entry: BackedUp, extensions: Extensions
    ) -> RestoredExtension:
        replaced = await _exists(extensions, entry["id"])
        if restore.file(entry).suffix == ".db":
            revision, incarnation = await _replace_file(restore, entry, extensions)
        else:
            revision, incarnation = await self._import(restore, entry, extensions, replaced)
        logger.warning(
            "an extension was restored",
            extra={"extension": entry["id"], "user": entry["user"], "incarnation": incarnation},
        )
        return {
            "id": entry["id"],
            "user": entry["user"],
            "revision": revision,
            "incarnation": incarnation,
            "replaced": replaced,
        }

    # An export is imported

    async def _import(
        self, restore: Restore, entry: BackedUp, extensions: Extensions, replaced: bool
    ) -> tuple[int, int]:
        id = entry["id"]
        was_registered = extensions.registry.find_registered(id) is not None
        try:
            await extensions.register(id, None)
            extension = await extensions.acquire(id)
        except DatabaseDamaged:
            # A database that cannot be opened goes to the trash as it is.
            await extensions.deregister(id, purge=True)
            await extensions.register(id, None)
            extension, replaced = await extensions.acquire(id), False
        try:
            known = extensions.registry.find(id)
            first = 1 + max(entry["incarnation"], known.incarnation if known is not None else 0)
            written = await self._import_into(extension, restore, entry, first, replaced)
        except BaseException:
            extensions.release(extension)
            if not was_registered:
                with contextlib.suppress(ValueTrackerError):
                    await extensions.deregister(id, purge=not replaced)
            raise
        extensions.release(extension)
        return written.revision, written.incarnation

    async def _import_into(
        self, extension: Extension, restore: Restore, entry: BackedUp, first: int, replaced: bool
    ) -> Written:
        kept = None
        try:
            if replaced:
                kept = await asyncio.to_thread(self._take_name, entry)
            with restore.file(entry).open("rb") as file:
                lines = Lines(FileContent(file, entry["bytes"]))
                await asyncio.to_thread(lines.check)
                asked = Import(lines, "replace", incarnation=first)
                return await extension.write(_keep_and_import, entry["id"], kept, asked)
        except (ImportInvalid, StorageFull):
            # For certain nothing was changed. After other errors the file stays: it may be needed.
            if kept is not None:
                kept.unlink(missing_ok=True)
            raise
        except OSError as error:
            raise meaning(error) from error

    def _take_name(self, entry: BackedUp) -> Path:
        """Return an empty file of our own in the trash, for what is about to be replaced."""
        folder = self._trash if entry["user"] == DEFAULT_USER else self._trash / entry["user"]
        durable.make_folders(folder)
        number = 1
        while True:
            path = folder / f"{entry['id']}.{number}.jsonl"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return path
            except FileExistsError:
                number += 1


async def _keep_and_import(
    tx: Ledger, extension_id: str, kept: Path | None, asked: Import
) -> Imported:
    """Write the present state to a file and import another, with no write in between."""
    if kept is not None:
        try:
            await export_to(await tx.snapshot(), extension_id, kept)
            sync(kept)
        except OSError as error:
            # An engine would take it for a failure of its own.
            if error.errno in durable.FULL:
                raise StorageFull() from error
            raise
    return await import_with_history(tx, asked, rename_chat)


async def _exists(extensions: Extensions, extension_id: str) -> bool:
    """Return true if there is a state that a restore would replace."""
    record = extensions.registry.find(extension_id)
    location = record.location if record is not None else None
    if record is not None and record.registered:
        return True
    return await extensions.engine.exists(location or extensions.engine.locate(extension_id, None))


# A copy is put in the place of a file


async def _replace_file(
    restore: Restore, entry: BackedUp, extensions: Extensions
) -> tuple[int, int]:
    engine, id = extensions.engine, entry["id"]
    provisioning = Provisioning(engine, extensions.registry)
    location = _location(provisioning, extensions, entry)
    copy, digest = await engine.copy_file(restore.file(entry), location)
    try:
        if digest != entry["sha256"]:
            raise BackupUnusable(findings=[f"{entry['file']}: It has changed meanwhile."])
        head = await engine.verify_copy(copy, load_head)
        async with extensions.kept_closed(id, "restored") as known:
            if known is not None and known.location not in (None, location):
                raise PathInUse("The extension was registered with another path meanwhile.")
            before = known or Record(id, None, None, 0, 0, now())
            if before.location is not None:
                before = await provisioning.highest_known(before)
            record = replace(
                before.settled(head.revision, max(head.incarnation, before.incarnation) + 1),
                location=location,
                identity=before.identity or secrets.token_hex(16),
                registered=1,
            )
            assert record.identity is not None
            await engine.adapt_copy(copy, record.identity, _continuing(head, record))
            await engine.replace_file(location, copy)
            await extensions.registry.save(record)
            extensions.damaged.discard(id)
        return record.revision, record.incarnation
    finally:
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)


def _location(provisioning: Provisioning, extensions: Extensions, entry: BackedUp) -> str:
    """Return where the database is, or else where it was, if that is allowed here."""
    known = extensions.registry.find(entry["id"])
    if known is None or known.location is None:
        with contextlib.suppress(InvalidBody, PathNotAllowed, PathInUse, PathDiffers):
            return provisioning.location(entry["id"], entry["location"] or None, known)
    return provisioning.location(entry["id"], None, known)


def _continuing(head: Head, record: Record) -> EngineJob[None]:
    """Return the job by which a copy goes on above what the registry knows."""

    async def job(transaction: Transaction) -> None:
        assert record.identity is not None
        head.revision, head.incarnation = record.revision, record.incarnation
        head.identity = record.identity
        head.seal()
        await transaction.execute_many(UPDATE_HEAD, [head])

    return job
