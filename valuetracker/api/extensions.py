"""Registering extensions and telling about them."""

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
    Register an extension, once; again does nothing.

    Every other route needs this first, and it survives restarts. The database is
    `<extensionId>.db` in the data directory; `dbPath` puts it elsewhere, relative to the
    data directory or inside a root the server allows.

    A file of the original SillyTavern plugin found there is adopted: its values read as
    before, and a copy of the file is kept beside it as `<file>.original`.
    """
    extension_id = call.body["extensionId"]
    await call.extensions.register(extension_id, call.body.get("dbPath"))
    return {"success": True, "message": f"Extension {extension_id} registered successfully"}


async def deregister(call: Call) -> SuccessMessage:
    """
    Deregister an extension, also one that never was registered.

    Its file stays, and registering it again finds the data. With `purge` the file is moved
    to the `trash` folder of the data directory, which is also the way out of a damaged or
    missing one. Revisions go on above the old ones even then.
    """
    extension_id = call.body["extensionId"]
    await call.extensions.deregister(extension_id, call.body.get("purge", False))
    return {"success": True, "message": f"Extension {extension_id} deregistered successfully"}


async def list_extensions(call: Call) -> list[ExtensionSummary]:
    """
    List the registered extensions with what they hold.

    `status` is `ok`, or the code of the error its routes answer with.
    """
    return await call.extensions.list_extensions()


async def get_extension(call: Call) -> ExtensionSummary:
    """Tell what one extension holds."""
    return await call.extensions.get_extension(call.path["extension"])


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
                "Where its database file is to lie.",
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
            Field("purge", FLAG, "Also move its file to the trash.", required=False),
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
