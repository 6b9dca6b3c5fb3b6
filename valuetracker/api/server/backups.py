"""Routes of backups: making, listing, verifying and deleting them."""

from __future__ import annotations

import asyncio
from typing import Any

from valuetracker.api.server.jobs import begin
from valuetracker.errors import (
    BackupNotFound,
    BackupRunning,
    BackupUnusable,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    NotInBackup,
    RestoreOverwrites,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import EXTENSION_ID, FLAG, TEXT
from valuetracker.records import Backup, Begun, Success
from valuetracker.runtime.backups import MANUAL
from valuetracker.runtime.jobs import Job


async def create_backup(call: Call) -> Begun:
    """
    Back up all extensions of all users, while they are in use.

    The result of the job is the backup. Each extension is copied in one consistent state, synced,
    opened again and verified; only then the backup gets its name. An extension that cannot be read
    is listed in `failed`, and the others are backed up. Backups that somebody asks for are kept
    until somebody deletes them. The server makes one every night, too (`--backup-at`).
    """
    service = call.service
    if service.backups.is_making:
        raise BackupRunning()

    async def work(job: Job) -> Any:
        return await service.nightly.make(MANUAL, job)

    return begin(call, "backup", work, "")


async def list_backups(call: Call) -> list[Backup]:
    """
    List the backups, the newest first.

    `kind` is `manual` or `nightly`; `hook` is the exit code of `--backup-hook`, if that was run.
    """
    return await asyncio.to_thread(call.service.backups.list_backups)


async def verify_backup(call: Call) -> Begun:
    """
    Verify a backup: each file against its size and SHA-256, and then as when it is opened.

    The result of the job has `sound` and `findings`.
    """
    backups, name = call.service.backups, call.path["backup"]
    backups.find(name)

    async def work(job: Job) -> Any:
        return await backups.verify(name, job)

    return begin(call, "verify_backup", work, name)


async def restore_backup(call: Call) -> Begun:
    """
    Restore a backup: all of it, those of one user, or one extension.

    With `extensionId` and without `user`, it is that extension of the default user. Files are
    checked first; if one is not as it was backed up, nothing is changed. Extensions that are there
    are refused without `force`; with it they are replaced one after the other, each at once, and
    what they replace is kept in the trash folder. Extensions that are not in the backup stay as
    they are. Writes to an extension wait while it is replaced.

    An extension that was restored goes on with revisions above all that it ever had, and is a new
    incarnation: ETags and cursors are `"<revision>.<incarnation>"` from then on, and answers have
    the header `x-incarnation`. ETags from before are refused with 412, cursors with 410. Readers of
    its feed get `event: overflow`, those of several extensions `event: compacted`.
    """
    restoring, body = call.service.restoring, call.body
    name, id, user = call.path["backup"], body.get("extensionId"), body.get("user")
    call.service.backups.find(name)
    plan = await restoring.plan(name, id, user, body.get("force", False))

    async def work(job: Job) -> Any:
        return await restoring.restore(plan, job)

    return begin(call, "restore", work, f"{name}/{user or ''}/{id or ''}")


async def delete_backup(call: Call) -> Success:
    """Delete a backup."""
    await asyncio.to_thread(call.service.backups.delete, call.path["backup"])
    return {"success": True}


ADMIN: dict[str, Any] = {"extension": "none", "access": "admin"}
NAMED = (InvalidId, BackupNotFound)

ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/backup",
        create_backup,
        returns=Begun,
        status=202,
        raises=(BackupRunning,),
        **ADMIN,
    ),
    Endpoint(("GET",), "/backup", list_backups, returns=list[Backup], **ADMIN),
    Endpoint(
        ("POST",),
        "/backup/{backup}/verify",
        verify_backup,
        returns=Begun,
        status=202,
        raises=NAMED,
        **ADMIN,
    ),
    Endpoint(
        ("POST",),
        "/backup/{backup}/restore",
        restore_backup,
        returns=Begun,
        status=202,
        body=(
            Field("extensionId", EXTENSION_ID, "Only this extension.", required=False),
            Field("user", TEXT, "Only the extensions of this user.", required=False),
            Field("force", FLAG, "Replace extensions that are there.", required=False),
        ),
        body_optional=True,
        raises=(
            *NAMED,
            InvalidBody,
            InvalidExtensionId,
            NotInBackup,
            RestoreOverwrites,
            BackupUnusable,
        ),
        **ADMIN,
    ),
    Endpoint(
        ("DELETE",), "/backup/{backup}", delete_backup, returns=Success, raises=NAMED, **ADMIN
    ),
]
