"""
Errors of extensions and of the databases they own.
"""

from __future__ import annotations

from valuetracker.errors.base import (
    BadRequest,
    Conflict,
    NotFound,
    Unavailable,
    ValueTrackerError,
)


class ExtensionIdRequired(BadRequest):
    """The x-extension-id header is required."""

    code = "extension_id_required"
    hint = "Name your extension in the `x-extension-id` header."


class InvalidExtensionId(BadRequest):
    """The extension id is not valid."""

    code = "invalid_extension_id"
    hint = "Use 1 to 128 of the characters A-Z, a-z, 0-9, `_` and `-`."


class ExtensionNotRegistered(NotFound):
    """Database not found for extension."""

    code = "extension_not_registered"
    hint = "Register the extension first with `POST /register`; ids are case-sensitive."

    def __init__(self, extension_id: str) -> None:
        super().__init__(f"Database not found for extension: {extension_id}")


class ExtensionExists(Conflict):
    """An extension whose id differs only in case exists already."""

    code = "extension_exists"
    hint = "Ids are unique regardless of case: use the spelling that was registered first."


class PathNotAllowed(BadRequest):
    """The database path is outside the directories this server may use."""

    code = "path_not_allowed"
    hint = "Use a path relative to the data directory, or allow the directory with `--allow-root`."


class PathInUse(Conflict):
    """This file is in use for something else."""

    code = "path_in_use"
    hint = "Choose another dbPath, or omit it."


class PathDiffers(Conflict):
    """The extension is registered with another path."""

    code = "path_differs"
    hint = "Deregister the extension first, or omit dbPath."


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached at the moment."""

    hint = "Try again; the server's log says more."


class DatabaseDamaged(Unavailable):
    """The database of this extension is damaged, missing or replaced by another one."""

    code = "database_damaged"
    hint = (
        "The server does not change the file. Put a good copy in its place, or give the "
        "database up with `DELETE /register` and `purge: true`, which moves the file to the "
        "trash folder."
    )


class DatabaseTooNew(Unavailable):
    """The database was written by a newer version of Value Tracker."""

    code = "database_too_new"
    hint = "Upgrade Value Tracker."


class DatabaseTooOld(Unavailable):
    """The database has a layout from before the first release of Value Tracker."""

    code = "database_too_old"
    hint = (
        "The server does not change it. Read it with the version that wrote it, or give it up "
        "with `DELETE /register` and `purge: true`."
    )


class StorageFull(ValueTrackerError):
    """There is no space left to store this."""

    status = 507
    code = "storage_full"
    hint = "Nothing was changed. Free some space and try again."


class QuotaExceeded(ValueTrackerError):
    """The databases have grown beyond what they may take."""

    status = 507
    code = "quota_exceeded"
    hint = (
        "Nothing was changed. Values can still be read and removed, and `valuetracker compact` "
        "folds the log; soon after that there is room again."
    )


class ExtensionNotEmpty(Conflict):
    """The extension has been used, and an import with history needs an unused one."""

    code = "extension_not_empty"
    hint = (
        "Say what to do with what is there: `mode=merge` or `mode=skip` add the present values, "
        "`mode=replace` puts the file in the place of everything. Or register another extension."
    )


class IdsClash(Conflict):
    """Some ids of the file are something else here."""

    code = "ids_clash"
    hint = "Nothing was changed. `dryRun=true` lists them; `as` gives a chat another id."


class JobNotFound(NotFound):
    """There is no such job, or it ended long ago."""

    code = "job_not_found"


class BackupNotFound(NotFound):
    """There is no such backup."""

    code = "backup_not_found"


class BackupRunning(Conflict):
    """A backup is being made."""

    code = "backup_running"
    hint = "Wait until it has ended."


class NotInBackup(NotFound):
    """The backup does not have this extension."""

    code = "not_in_backup"
    hint = "`GET /backup` lists the extensions that each backup has."


class RestoreOverwrites(Conflict):
    """There are extensions that a restore would replace."""

    code = "restore_overwrites"
    hint = (
        "Nothing was changed. Repeat it with `force`: what is replaced is kept in the trash folder."
    )


class BackupUnusable(Conflict):
    """The backup cannot be restored."""

    code = "backup_unusable"
    hint = "Nothing was changed. `details.findings` says what is wrong. Choose another backup."


class ImportInvalid(BadRequest):
    """The file cannot be imported."""

    code = "import_invalid"
    hint = "Nothing was changed. Export it again, and send all of it, as it is."


class ImportTooNew(BadRequest):
    """The file has a newer format than this version of Value Tracker knows."""

    code = "import_too_new"
    hint = "Upgrade Value Tracker."
