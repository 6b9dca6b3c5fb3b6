"""Routes that register extensions and describe them."""

from __future__ import annotations

from valuetracker.errors import (
    DatabaseDamaged,
    ExtensionExists,
    ExtensionNotRegistered,
    InvalidBody,
    InvalidExtensionId,
    PathDiffers,
    PathInUse,
    PathNotAllowed,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import EXTENSION_ID, FLAG, TEXT
from valuetracker.records import ExtensionSummary, SuccessMessage


async def register(call: Call) -> SuccessMessage:
    """
    Register an extension. Registering it again changes nothing.

    An extension must be registered before it uses any other route. The registration survives
    restarts. The database is the file `<extensionId>.db` in the data directory. `dbPath` names
    another file, relative to the data directory or inside a folder that the server allows.

    If the file belongs to the original SillyTavern plugin, the server takes it over: its
    values stay readable, and a copy of the old file is kept beside it as `<file>.original`.
    """
    extension_id = call.body["extensionId"]
    await call.extensions.register(extension_id, call.body.get("dbPath"))
    return {"success": True, "message": f"Extension {extension_id} registered successfully"}


async def deregister(call: Call) -> SuccessMessage:
    """
    Deregister an extension. An extension that was never registered is accepted, too.

    The database file stays, and a new registration finds its data. `purge` moves the file to
    the folder `trash` of the data directory; use it also to give up a damaged or missing
    database. Even then, new revisions are higher than all old ones.
    """
    extension_id = call.body["extensionId"]
    await call.extensions.deregister(extension_id, call.body.get("purge", False))
    return {"success": True, "message": f"Extension {extension_id} deregistered successfully"}


async def list_extensions(call: Call) -> list[ExtensionSummary]:
    """
    List the registered extensions with their sizes.

    `status` is `ok`, or the error code that the routes of the extension answer. It is `verifying`
    while the rows of a large file are verified: what is there is answered, and whatever depends
    on something being absent waits. A database that is not in use is described as it was closed.
    `backupError` says why an extension is not in the newest backup; `warning` says that its
    database is larger than `--warn-mb`, and what to do.
    """
    return [_completed(call, each) for each in await call.extensions.list_extensions()]


async def get_extension(call: Call) -> ExtensionSummary:
    """Read the size and the state of one extension."""
    return _completed(call, await call.extensions.get_extension(call.path["extension"]))


def _completed(call: Call, summary: ExtensionSummary) -> ExtensionSummary:
    """Add why an extension is not in the newest backup, and that it is large, if that is so."""
    user, id = call.caller.user, summary["id"]
    failures = call.service.backups.failures(user)
    if id in failures:
        summary["backupError"] = failures[id]
    warning = call.service.growth.warning(user, id)
    if warning is not None:
        summary["warning"] = warning
    return summary


EXTENSION_FIELD = Field("extensionId", EXTENSION_ID, "The extension's id.")

ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/register",
        register,
        returns=SuccessMessage,
        body=(
            EXTENSION_FIELD,
            Field(
                "dbPath",
                TEXT,
                "The path of the database file.",
                required=False,
                nullable=True,
            ),
        ),
        raises=(
            InvalidBody,
            InvalidExtensionId,
            PathNotAllowed,
            ExtensionExists,
            PathInUse,
            PathDiffers,
            DatabaseDamaged,
        ),
        extension="none",
        access="registration",
    ),
    Endpoint(
        ("DELETE",),
        "/register",
        deregister,
        returns=SuccessMessage,
        body=(
            EXTENSION_FIELD,
            Field("purge", FLAG, "Also move the database file to the trash.", required=False),
        ),
        raises=(InvalidBody, InvalidExtensionId),
        extension="none",
        access="registration",
    ),
    Endpoint(
        ("GET",),
        "/extensions",
        list_extensions,
        returns=list[ExtensionSummary],
        extension="none",
        access="admin",
    ),
    Endpoint(
        ("GET",),
        "/extensions/{extension}",
        get_extension,
        returns=ExtensionSummary,
        raises=(InvalidExtensionId, ExtensionNotRegistered),
        extension="none",
        access="admin",
    ),
]
