"""
Routes about the SillyTavern beside this server: its folders and its health.

Field names are in snake_case, as existing callers expect. The routes are also served without the
prefix.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import Configuration, configuration, folder
from valuetracker.bridge.health import probe_health
from valuetracker.bridge.install.installation import sync_extension as sync_folders
from valuetracker.bridge.install.paths import resolve_paths
from valuetracker.bridge.install.status import paths_record
from valuetracker.bridge.origins import allowed_origin, parse_origin
from valuetracker.bridge.records import BridgeHealth, BridgePaths, ExtensionSync, without_paths
from valuetracker.errors import (
    AdminRequired,
    InvalidBody,
    InvalidQuery,
    NoDestination,
    NotWritable,
    OriginNotAllowed,
    OutsideRoots,
    PluginConflict,
    PythonUnusable,
    SourceNotFound,
    StorageFull,
    SymlinkRefused,
    ValueTrackerError,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import FLAG, TEXT, Kind
from valuetracker.names import CONTROL

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 30.0
LONGEST_PATH = 4_096
# Segments of a path, none of them with a meaning of its own.
SEGMENT = r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]{1,64}){0,16}"


def configured(call: Call) -> Configuration:
    return configuration(call.service.settings)


def user_of(call: Call) -> str:
    """Return the user whose SillyTavern data the request uses."""
    return call.caller.user


def is_elsewhere(config: Configuration, asked: Mapping[str, Any]) -> bool:
    """Tell if the request names another address than the configured one."""
    base_url, plugin_base = asked.get("base_url"), asked.get("plugin_base")
    return plugin_base not in (None, config.plugin_base) or (
        base_url is not None and parse_origin(base_url) != parse_origin(config.base_url)
    )


def check_place(call: Call, config: Configuration, asked: Mapping[str, Any]) -> None:
    """Refuse an address that is not the configured one, unless an admin asks."""
    if is_elsewhere(config, asked):
        if asked.get("base_url") is not None:
            allowed_origin(asked["base_url"], config)
        if not call.caller.admin:
            raise AdminRequired("Only an admin may choose what is asked.")


async def get_paths(call: Call) -> BridgePaths:
    """
    Read the folder that the extension is copied from, and its folder in SillyTavern.

    The first of these that is set decides: `argument`, `settings` (`--st-extensions-dir`,
    `--st-root`), `env` (`VALUETRACKER_ST_EXTENSIONS_DIR` or `COMFYVN_ST_EXTENSIONS_DIR`),
    `env_root` (`SILLYTAVERN_PATH`), `default` (`~/SillyTavern`). `resolution_chain` lists all
    of them. `sync` compares the bundled version with the installed one.

    Only an admin is shown paths. For others they are null, and lists of them are empty.
    """

    def look() -> BridgePaths:
        return paths_record(resolve_paths(configured(call)), sync=True)

    found = await asyncio.to_thread(look)
    return found if call.caller.admin else without_paths(found)


async def get_health(call: Call) -> BridgeHealth:
    """
    Ask SillyTavern and the plugin in it if they are there, and compare versions.

    The answer is always `200`. `status` is `ok` if both answer as expected; `degraded` if one
    of them does not, or if there are `alerts`; `offline` if nothing answers; `disabled` if the
    bridge is switched off, and then the server asks nobody. The server asks loopback and
    configured origins only. Only an admin may name another origin than the configured one, and
    only an admin is shown paths of files and folders.

    `alerts` about the installed files: `extension_mismatch`, `extension_missing`,
    `plugin_mismatch`, `plugin_missing`. About the running plugin: `plugin_health_error`,
    `plugin_remote_mismatch`. About the settings: `feature_disabled`.
    """
    extensions = call.extensions
    config = configured(call)
    check_place(call, config, call.query)
    health = await probe_health(
        config,
        {
            "engine": extensions.engine.name,
            "registered": len(extensions.registry.list_registered()),
            "open": extensions.open_count,
        },
        call.query.get("base_url"),
        call.query.get("plugin_base"),
        call.query.get("timeout", 3.0),
        call.caller.is_bridge and not is_elsewhere(config, call.query),
    )
    return health if call.caller.admin else without_paths(health)


async def sync_extension(call: Call) -> ExtensionSync:
    """
    Copy the plugin and the extension into SillyTavern, or list what would be copied.

    The server writes only if `dry_run` is false. Files with equal bytes are skipped, and
    different ones are updated. Hidden files are not copied, and nothing is deleted. The server
    writes to configured folders only, follows no symbolic link, and writes each file completely
    or not at all.

    The copied plugin starts the server with the Python that runs this one. If that Python could
    not start it from SillyTavern's folder, the request is refused, a dry run too, and the hint
    names the command to run.
    """
    source, destination = call.body.get("source"), call.body.get("destination")
    dry_run = call.body.get("dry_run", True)

    def copy() -> ExtensionSync:
        return sync_folders(resolve_paths(configured(call), source, destination), dry_run)

    return await asyncio.to_thread(copy)


# The fields of these routes


def text_kind(pattern: str, length: int, refusal: type[ValueTrackerError], noun: str) -> Kind:
    compiled = re.compile(rf"(?:{pattern})\Z")

    def parse(value: Any) -> str:
        if not isinstance(value, str) or len(value) > length or not compiled.match(value):
            raise refusal(f"This is not {noun}.")
        return value

    return Kind({"type": "string", "maxLength": length}, parse)


def seconds_kind(refusal: type[ValueTrackerError]) -> Kind:
    """Return the kind of a waiting time: text in a query, a number in a body."""

    def parse(value: Any) -> float:
        try:
            seconds = float(value) if refusal is InvalidQuery else value
        except ValueError:
            raise refusal("`timeout` must be a number of seconds.") from None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise refusal("`timeout` must be a number of seconds.")
        if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            raise refusal(
                f"`timeout` must be from {SHORTEST_SECONDS} to {LONGEST_SECONDS:g} seconds."
            )
        return float(seconds)

    return Kind({"type": "number", "minimum": SHORTEST_SECONDS, "maximum": LONGEST_SECONDS}, parse)


def _parse_folder(value: Any) -> Path:
    if not isinstance(value, str) or len(value) > LONGEST_PATH or CONTROL.search(value):
        raise InvalidBody("This is not a path.")
    try:
        value.encode()
        path = folder(value)
    except (ValueError, RuntimeError):
        path = None
    if path is None:
        raise InvalidBody("This is not a path.")
    # The caller does not know in which folder the server was started.
    if not os.path.isabs(os.path.expanduser(value)):
        raise InvalidBody("A path must be absolute.")
    return path


FOLDER = Kind({"type": "string", "minLength": 1, "maxLength": LONGEST_PATH}, _parse_folder)


def place_fields(refusal: type[ValueTrackerError]) -> tuple[Field, ...]:
    """Return the fields that say which address to ask, and how long to wait."""
    return (
        Field(
            "base_url",
            TEXT,
            "The origin of SillyTavern: loopback or configured.",
            required=False,
            nullable=True,
        ),
        Field(
            "plugin_base",
            text_kind(SEGMENT, 512, refusal, "a path of plain segments"),
            "The path of the plugin in SillyTavern.",
            required=False,
            nullable=True,
        ),
        Field("timeout", seconds_kind(refusal), "How many seconds to wait.", required=False),
    )


ENDPOINTS = [
    Endpoint(("GET",), "/st/paths", get_paths, returns=BridgePaths, extension="none", at_root=True),
    Endpoint(
        ("GET",),
        "/st/health",
        get_health,
        returns=BridgeHealth,
        query=place_fields(InvalidQuery),
        raises=(InvalidQuery, OriginNotAllowed, AdminRequired),
        extension="none",
        at_root=True,
    ),
    Endpoint(
        ("POST",),
        "/st/extension/sync",
        sync_extension,
        returns=ExtensionSync,
        body=(
            Field(
                "dry_run",
                FLAG,
                "Write nothing, and list what would be copied; defaults to true.",
                False,
            ),
            Field("source", FOLDER, "Another extension folder to copy from.", False, nullable=True),
            Field("destination", FOLDER, "The folder to copy to.", False, nullable=True),
        ),
        body_optional=True,
        raises=(
            InvalidBody,
            NoDestination,
            OutsideRoots,
            SymlinkRefused,
            SourceNotFound,
            PluginConflict,
            PythonUnusable,
            NotWritable,
            StorageFull,
        ),
        extension="none",
        at_root=True,
        access="admin",
    ),
]
