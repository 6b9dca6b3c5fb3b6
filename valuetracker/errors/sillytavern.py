"""
Errors of the bridge: installing into a SillyTavern, talking to it, its lorebooks.
"""

from __future__ import annotations

from valuetracker.errors.base import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ValueTrackerError,
)


class NoDestination(BadRequest):
    """There is no SillyTavern to copy to."""

    code = "no_destination"
    hint = "Name its folder in SILLYTAVERN_PATH, or with `--st-root`."


class NotSillyTavern(BadRequest):
    """This is not the folder of a SillyTavern."""

    code = "not_sillytavern"
    hint = "Name the folder that contains SillyTavern's `server.js` and `public`."


class OutsideRoots(Forbidden):
    """The folder is outside the folders that the bridge may use."""

    code = "outside_roots"
    hint = "Allow a SillyTavern folder with `--st-root`."


class SymlinkRefused(Forbidden):
    """The path contains a symbolic link."""

    code = "symlink_refused"
    hint = "Replace the link with the folder itself, or make the change by hand."


class SourceNotFound(NotFound):
    """The folder to copy from does not exist."""

    code = "source_not_found"


class NotInstalled(NotFound):
    """Value Tracker is not installed there."""

    code = "not_installed"
    hint = "`valuetracker sillytavern install` installs it."


class PluginConflict(Conflict):
    """Another plugin or extension is in the way."""

    code = "plugin_conflict"
    hint = "Move it out of SillyTavern's folder first; nothing was changed."


class NewerInstalled(Conflict):
    """A newer version is installed."""

    code = "newer_installed"
    hint = "Upgrade Value Tracker, or install the older version over it with `--force`."


class PythonUnusable(Conflict):
    """This Python cannot run the server from another folder."""

    code = "python_unusable"
    hint = (
        "Run `valuetracker sillytavern install <SillyTavern>` with a Python that has the package."
    )


class NotWritable(Conflict):
    """The file or folder cannot be used."""

    code = "not_writable"
    hint = "Check the owner of the file or folder and its permissions."


class LorebookNotFound(NotFound):
    """Lorebook not found"""

    code = "lorebook_not_found"


class LorebookExists(Conflict):
    """A lorebook with this name exists already."""

    code = "lorebook_exists"


class LorebookDamaged(Conflict):
    """The file is not a valid lorebook."""

    code = "lorebook_damaged"
    hint = "Nothing was changed. Open the lorebook in SillyTavern and save it again."


class PromptNotFound(NotFound):
    """This prompt no longer waits for a reply."""

    code = "prompt_not_found"


class UpstreamFailed(ValueTrackerError):
    """SillyTavern could not be reached, or its answer could not be used."""

    status = 502
    code = "upstream_failed"
    hint = "`GET /st/health` says what can be reached."
