"""
Backups: a folder for each, with one file per extension and a manifest.

A backup is made under another name, synced, opened again and verified, and only then renamed into
place: what has its name is whole. On SQLite the files are copies of the databases, on PostgreSQL
exports. Tokens are not in it. An extension that cannot be read does not keep the others from being
backed up; the manifest says so, and an older backup that has it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from valuetracker import __version__, durable
from valuetracker.clock import Clock
from valuetracker.engine.data_directory import MANIFEST
from valuetracker.errors import (
    BackupNotFound,
    BackupRunning,
    DatabaseDamaged,
    ExtensionNotRegistered,
    StorageFull,
    ValueTrackerError,
)
from valuetracker.names import DEFAULT_USER, EXTENSION_ID, USER
from valuetracker.records import BackedUp, Backup, BackupHealth, NotBackedUp, time_text
from valuetracker.runtime.backup_files import check_export, export_to, meaning, measure, sync
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.jobs import Job
from valuetracker.runtime.registry import Record
from valuetracker.runtime.users import Users
from valuetracker.store.rows.head import load_head

logger = logging.getLogger(__name__)

FORMAT = 1
HOOK = "hook.json"
MANUAL, NIGHTLY = "manual", "nightly"
UNFINISHED = ".new-"
# Where numbers in a manifest end: above what a server gives out, below what a database can hold.
LARGEST_NUMBER = 2**53
NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}-[0-9]{3}Z-[a-z]+\Z")


class Backups:
    """The backups of one server."""

    def __init__(self, users: Users, folder: Path, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self.folder = folder
        self._making = asyncio.Lock()
        # Why the last try failed; None if it did not.
        self._error: str | None = None
        # Those that are there, the newest first: they are asked for often.
        self._known: list[Backup] = []

    def start(self) -> None:
        """Remove what a server that was killed has left unfinished."""
        for left in self.folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        self._look()

    def _look(self) -> None:
        self._known = self.list_backups()

    # Making

    @property
    def is_making(self) -> bool:
        return self._making.locked()

    async def create(self, kind: str, job: Job | None = None) -> Backup:
        """Back up all extensions of all users."""
        if self._making.locked():
            raise BackupRunning()
        async with self._making:
            try:
                backup = await self._create(kind, job or Job("backup", ""))
            except BaseException as error:
                cause = meaning(error)
                is_known = isinstance(cause, ValueTrackerError)
                self._error = str(cause) if is_known else "It was interrupted."
                raise cause from error
            self._error = None
            return backup

    async def _create(self, kind: str, job: Job) -> Backup:
        at = time_text(self._clock.time_of_day())
        name = f"{re.sub('[:.]', '-', at)}-{kind}"
        unfinished = self.folder / f"{UNFINISHED}{name}"
        await asyncio.to_thread(durable.make_folders, unfinished)
        try:
            made, failed = await self._copy_all(unfinished, job)
            engine = self._users.default.engine
            backup: Backup = {
                "name": name,
                "kind": kind,
                "createdAt": at,
                "engine": engine.name,
                "version": __version__,
                "format": FORMAT,
                "bytes": sum(each["bytes"] for each in made),
                "extensions": made,
                "failed": failed,
                "hook": None,
            }
            if failed and not made:
                raise DatabaseDamaged("No extension could be backed up.")
            await asyncio.to_thread(self._put_in_place, unfinished, backup)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        for each in failed:
            logger.error("an extension was not backed up", extra=dict(each))
        return backup

    def _put_in_place(self, unfinished: Path, backup: Backup) -> None:
        content = orjson.dumps(backup, option=orjson.OPT_INDENT_2)
        durable.write_file(unfinished / MANIFEST, content + b"\n")
        durable.rename(unfinished, self.folder / backup["name"])
        self._look()

    async def _copy_all(self, folder: Path, job: Job) -> tuple[list[BackedUp], list[NotBackedUp]]:
        made: list[BackedUp] = []
        failed: list[NotBackedUp] = []
        handles = [DEFAULT_USER, *await self._users.handles()]
        for number, handle in enumerate(handles):
            try:
                async with self._users.of(handle) as extensions:
                    records = extensions.registry.list_registered()
                    job.report(len(made), len(made) + len(records) + len(handles) - number - 1)
                    for record in records:
                        with contextlib.suppress(ExtensionNotRegistered):
                            await self._copy_one(folder, handle, extensions, record, made, failed)
                        job.report(len(made), max(job.total, len(made)))
            except ValueTrackerError as error:
                if isinstance(error, StorageFull):
                    raise
                failed.append(_failure("", handle, error))
        return made, failed

    async def _copy_one(
        self,
        folder: Path,
        handle: str,
        extensions: Extensions,
        record: Record,
        made: list[BackedUp],
        failed: list[NotBackedUp],
    ) -> None:
        try:
            made.append(await self._copy(folder, handle, extensions, record))
        except (ExtensionNotRegistered, StorageFull):
            raise
        except ValueTrackerError as error:
            failed.append(_failure(record.id, handle, error))
        except OSError as error:
            raise meaning(error) from error

    async def _copy(
        self, folder: Path, handle: str, extensions: Extensions, record: Record
    ) -> BackedUp:
        engine = extensions.engine
        suffix = "db" if engine.copies_files else "jsonl"
        path = folder / handle / f"{record.id}.{suffix}"
        await asyncio.to_thread(durable.make_folders, path.parent)
        extension = await extensions.acquire(record.id)
        try:
            await extension.database.verified()
            before, incarnation = extension.revision, extension.incarnation
            if engine.copies_files:
                await extension.database.copy_to(path)
                head = await engine.verify_copy(path, load_head)
                revision, incarnation = head.revision, head.incarnation
            else:
                revision = (await extension.read(export_to, record.id, path)).result
                await asyncio.to_thread(sync, path)
                await asyncio.to_thread(check_export, path)
            if not before <= revision:
                raise DatabaseDamaged("The copy is older than the database.")
        finally:
            extensions.release(extension)
        size, digest = await asyncio.to_thread(measure, path)
        return {
            "id": record.id,
            "user": handle,
            "file": f"{handle}/{path.name}",
            "location": record.location or "",
            "incarnation": incarnation,
            "revision": revision,
            "bytes": size,
            "sha256": digest,
        }

    # Those that are there

    def list_backups(self) -> list[Backup]:
        """Return the backups, the newest first."""
        found = [self._read(path) for path in self.folder.glob(f"*/{MANIFEST}")]
        known = [each for each in found if each is not None]
        return sorted(known, key=lambda each: each["createdAt"], reverse=True)

    def _read(self, manifest: Path) -> Backup | None:
        if not NAME.match(manifest.parent.name):
            return None
        backup = read_manifest(manifest)
        return backup if backup is not None and backup["name"] == manifest.parent.name else None

    def find(self, name: str) -> Backup:
        backup = self._read(self.folder / name / MANIFEST) if NAME.match(name) else None
        if backup is None:
            raise BackupNotFound()
        return backup

    def find_folder(self, name_or_path: str) -> tuple[Path, Backup]:
        """Return the folder of a backup, by its name or by a path to somewhere else."""
        if NAME.match(name_or_path):
            return self.folder / name_or_path, self.find(name_or_path)
        folder = Path(name_or_path)
        backup = read_manifest(folder / MANIFEST)
        if backup is None:
            raise BackupNotFound(f"{folder} is not the folder of a backup.")
        return folder, backup

    def delete(self, name: str) -> None:
        """Delete a backup: it loses its name first, so that none is ever half there."""
        self.find(name)
        gone = self.folder / f"{UNFINISHED}{name}"
        durable.rename(self.folder / name, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._look()

    async def verify(self, name: str, job: Job) -> dict[str, Any]:
        """Compare the files of a backup with its manifest, and verify each of them."""
        backup = self.find(name)
        findings: list[str] = []
        engine = self._users.default.engine
        for number, each in enumerate(backup["extensions"]):
            job.report(number, len(backup["extensions"]))
            path = self.folder / name / each["file"]
            try:
                size, digest = await asyncio.to_thread(measure, path)
                if (size, digest) != (each["bytes"], each["sha256"]):
                    findings.append(f"{each['file']}: It is not the file that was backed up.")
                elif path.suffix == ".db" and engine.copies_files:
                    await engine.verify_copy(path, load_head)
                elif path.suffix != ".db":
                    await asyncio.to_thread(check_export, path)
            except OSError:
                findings.append(f"{each['file']}: It cannot be read.")
            except ValueTrackerError as error:
                findings.append(f"{each['file']}: {error.message}")
        job.report(len(backup["extensions"]), len(backup["extensions"]))
        return {"name": name, "sound": not findings, "findings": findings}

    def write_hook_code(self, name: str, code: int) -> None:
        durable.write_file(self.folder / name / HOOK, orjson.dumps({"code": code}))
        self._look()

    def prune(self, keep: int, weeks: int) -> list[str]:
        """Delete the nightly backups that need not be kept; return their names."""
        found = self.list_backups()
        nightly = [each for each in found if each["kind"] == NIGHTLY]
        kept = {each["name"] for each in found if each["kind"] != NIGHTLY}
        kept |= {each["name"] for each in nightly[: max(1, keep)]}
        seen: set[tuple[int, int]] = set()
        for each in nightly[max(1, keep) :]:
            week = _week(each["createdAt"])
            if week not in seen and len(seen) < weeks:
                seen.add(week)
                kept.add(each["name"])
        # The newest that has an extension stays, however old it is.
        held: set[tuple[str, str]] = set()
        for each in found:
            own = {(entry["user"], entry["id"]) for entry in each["extensions"]}
            if each["name"] in kept or own - held:
                kept.add(each["name"])
                held |= own
        gone = [each["name"] for each in nightly if each["name"] not in kept]
        for name in gone:
            self.delete(name)
        return gone

    def failures(self, user: str) -> dict[str, str]:
        """Return why extensions of a user are not in the newest backup, by their ids."""
        failed = self._known[0]["failed"] if self._known else []
        return {each["id"]: each["error"] for each in failed if each["user"] == user}

    def newest_with(self, user: str, extension_id: str) -> str | None:
        """Return the name of the newest backup that has an extension."""
        for backup in self._known:
            for each in backup["extensions"]:
                if (each["user"], each["id"]) == (user, extension_id):
                    return backup["name"]
        return None

    def health(self) -> BackupHealth:
        last = self._known[0] if self._known else None
        return {
            "lastAt": last["createdAt"] if last is not None else None,
            "failed": len(last["failed"]) if last is not None else 0,
            "hook": last["hook"] if last is not None else None,
            "error": self._error,
        }


def read_manifest(path: Path) -> Backup | None:
    """Return what a manifest says; None if it is damaged, or somebody else's."""
    try:
        backup: Backup = orjson.loads(path.read_bytes())
        hook = path.with_name(HOOK)
        backup["hook"] = orjson.loads(hook.read_bytes())["code"] if hook.exists() else None
        return backup if _is_backup(backup) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _is_backup(backup: Backup) -> bool:
    """Return true if a manifest has all that is read of it; raise if something is missing."""
    _week(backup["createdAt"])
    texts = (backup["name"], backup["kind"], backup["engine"], backup["version"])
    failures = [
        each[field] for each in backup["failed"] for field in ("id", "user", "code", "error")
    ]
    return (
        all(isinstance(each, str) for each in (*texts, *failures))
        and _are_numbers(backup["format"], backup["bytes"])
        and (backup["hook"] is None or type(backup["hook"]) is int)
        and isinstance(backup["extensions"], list)
        and isinstance(backup["failed"], list)
        and all(map(_is_entry, backup["extensions"]))
    )


def _is_entry(entry: BackedUp) -> bool:
    """Return true if an entry names a file where a file of a backup lies."""
    named = EXTENSION_ID.match(entry["id"]) and USER.match(entry["user"])
    files = (f"{entry['user']}/{entry['id']}.{suffix}" for suffix in ("db", "jsonl"))
    return (
        bool(named)
        and entry["file"] in files
        and isinstance(entry["location"], str)
        and isinstance(entry["sha256"], str)
        and _are_numbers(entry["revision"], entry["incarnation"], entry["bytes"])
    )


def _are_numbers(*given: int) -> bool:
    return all(type(each) is int and 0 <= each < LARGEST_NUMBER for each in given)


def _week(at: str) -> tuple[int, int]:
    year, week, _ = datetime.fromisoformat(at).isocalendar()
    return year, week


def _failure(id: str, handle: str, error: ValueTrackerError) -> NotBackedUp:
    return {"id": id, "user": handle, "code": error.code, "error": error.message}
