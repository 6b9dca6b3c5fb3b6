"""
Installing into a SillyTavern, and uninstalling.

The record (`installed.json`) is written first, so that an interrupted installation can be
recognised. Uninstalling removes the files that are still as they were installed.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from valuetracker import __version__
from valuetracker.bridge.configuration import PLUGIN, Configuration
from valuetracker.bridge.folders import Folder
from valuetracker.bridge.install import config_file
from valuetracker.bridge.install.bundle import bundled_files
from valuetracker.bridge.install.conflicts import (
    check_conflicts,
    check_extension,
    check_sillytavern,
    other_plugins,
)
from valuetracker.bridge.install.copying import Copying
from valuetracker.bridge.install.manifests import MANIFEST, PACKAGE, read_manifest
from valuetracker.bridge.install.paths import Paths, resolve_paths
from valuetracker.bridge.install.record import (
    RECORD,
    Record,
    digest,
    encode_record,
    folders_inside,
    make_record,
    read_record,
    recorded_files,
    recorded_folders,
)
from valuetracker.bridge.install.status import extension_status, paths_record
from valuetracker.bridge.records import ExtensionSync
from valuetracker.errors import (
    NewerInstalled,
    NoDestination,
    NotInstalled,
    PythonUnusable,
    SourceNotFound,
    ValueTrackerError,
)

logger = logging.getLogger(__name__)


def sync_extension(
    paths: Paths, dry_run: bool, config: dict[str, Any] | None = None
) -> ExtensionSync:
    """Copy the plugin and the extension into SillyTavern's folders."""
    if not isfile(paths.source_dir / MANIFEST):
        raise SourceNotFound(f"There is no extension in {paths.source_dir}.")
    root = paths.sillytavern
    base = root or paths.destination_dir.parent
    if not isdir(base):
        raise NoDestination(f"There is no SillyTavern in {base}.")
    if paths.destination_dir == paths.plugin_dir:
        raise NoDestination(f"{paths.destination_dir} is for the plugin, not for an extension.")
    extension = bundled_files("extension", None if paths.bundled else paths.source_dir)
    plugin = bundled_files("plugin")
    copying = Copying(paths.configuration.roots(), dry_run, base)
    check_extension(paths.destination_dir, extension[MANIFEST])
    if paths.plugin_dir is not None and root is not None:
        check_conflicts(root)
        check_python(root)
        parts = {paths.plugin_dir: plugin, paths.destination_dir: extension}
        record = make_record(paths.plugin_dir, root, parts, config)
        copying.copy(paths.plugin_dir / RECORD, encode_record(record))
        copying.copy_all(paths.plugin_dir, plugin)
    copying.copy_all(paths.destination_dir, extension)
    return {
        "source": str(paths.source_dir),
        "destination": str(paths.destination_dir),
        "created": copying.count("create"),
        "updated": copying.count("update"),
        "skipped": copying.count("skip"),
        "dirs_created": copying.count("mkdir"),
        "files_processed": len(copying.actions) - copying.count("mkdir"),
        "actions": copying.actions,
        "dry_run": dry_run,
        "paths": paths_record(paths),
        "extension": extension_status(paths),
    }


# The commands


@dataclass(frozen=True)
class Installed:
    """The result of `install`."""

    # The version of SillyTavern.
    sillytavern: str
    sync: ExtensionSync
    # The version of the plugin that was installed before.
    before: str | None
    plugins_enabled: bool


@dataclass(frozen=True)
class Uninstalled:
    """The removed files, those that were left because somebody changed them, and a message."""

    removed: list[str]
    left: list[str]
    config: str | None


def paths_of(root: Path) -> Paths:
    """Return the paths for the SillyTavern that a person names; it is the only root."""
    only_root = Configuration(
        enabled=True,
        base_url="",
        plugin_base="",
        allowed_origins=(),
        token="",
        extensions_dir=None,
        env_extensions_dir=None,
        st_roots=(root,),
        env_root=None,
        default_root=root,
        data_root=None,
    )
    return resolve_paths(only_root, destination=root)


def install(root: Path, enable_plugins: bool = False, force: bool = False) -> Installed:
    sillytavern = check_sillytavern(root)
    paths = paths_of(root)
    assert paths.plugin_dir is not None
    check_conflicts(root)
    before = read_manifest(paths.plugin_dir / PACKAGE)["version"]
    if before is not None and version_key(before) > version_key(__version__) and not force:
        raise NewerInstalled(f"Version {before} is installed there; this is {__version__}.")
    # The dry run finds most errors before anything is written.
    sync_extension(paths, dry_run=True)
    sync = sync_extension(paths, dry_run=False)
    enabled = plugins_enabled(root)
    if enable_plugins and not enabled:
        with Folder.open(root) as folder:
            change = config_file.enable_plugins(folder)
        sync_extension(paths, dry_run=False, config=change)
        enabled = True
    return Installed(sillytavern, sync, before, enabled)


def check_python(root: Path) -> None:
    """Refuse if the plugin could not start the server with this Python."""
    # The options are those the plugin starts the server with.
    command = [sys.executable, "-P", "-c", "import valuetracker"]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonUnusable(f"{sys.executable} cannot be run in {root}: {error}.") from error
    if done.returncode != 0:
        raise PythonUnusable(
            f"{sys.executable} does not find the package from another folder.",
            hint=f"Install the package for this Python: `{sys.executable} -m pip install .` in the "
            "checkout.",
        )


def plugins_enabled(root: Path) -> bool:
    with Folder.open(root) as folder:
        return bool(config_file.plugins_enabled(folder))


def find_port(root: Path) -> int | None:
    """Return the port in the configuration of a SillyTavern."""
    with Folder.open(root) as folder:
        return config_file.find_port(folder)


def uninstall(root: Path) -> Uninstalled:
    check_sillytavern(root)
    record = read_record(root / PLUGIN)
    if not record:
        raise NotInstalled(f"Value Tracker is not installed in {root}.")
    removed: list[str] = []
    left: list[dict[str, str]] = []
    for each in recorded_files(record):
        if _remove_unchanged(root, each):
            removed.append(each["path"])
        else:
            left.append(each)
    config = _undo_config(root, record)
    _remove_record(root, record, left)
    inside = {parent for path in removed for parent in folders_inside(path)}
    for path in sorted({*recorded_folders(record), *inside}, key=lambda each: -each.count("/")):
        _remove_folder(root, path)
    return Uninstalled(removed, [each["path"] for each in left], config)


def _remove_unchanged(root: Path, each: dict[str, str]) -> bool:
    """Remove a file unless it was changed; return false if it was."""
    *above, name = each["path"].split("/")
    try:
        with Folder.open(root, tuple(above)) as folder:
            found = folder.read(name)
            if found is not None and digest(found) != each["sha256"]:
                return False
            folder.remove(name)
    except FileNotFoundError:
        return True
    logger.debug("file removed", extra={"path": str(root / each["path"])})
    return True


def _undo_config(root: Path, record: Record) -> str | None:
    """Switch plugins off again if `install` switched them on and no other plugin needs them."""
    change = record.get("config")
    if not isinstance(change, dict):
        return None
    if other_plugins(root):
        return "`enableServerPlugins` stays on: there are other plugins."
    with Folder.open(root) as folder:
        if config_file.undo_enabling(folder, change):
            return "`enableServerPlugins` is as it was before."
    return "`enableServerPlugins` stays as it is: config.yaml was changed since."


def _remove_record(root: Path, record: Record, left: list[dict[str, str]]) -> None:
    """Remove the record, after all other files; keep it for the files that are left."""
    with Folder.open(root, PLUGIN.parts) as folder:
        if left:
            folder.write(RECORD, encode_record({**record, "files": left, "config": None}))
        else:
            folder.remove(RECORD)


def _remove_folder(root: Path, path: str) -> None:
    *above, name = path.split("/")
    try:
        with Folder.open(root, tuple(above)) as folder:
            folder.remove_folder(name)
    except (FileNotFoundError, ValueTrackerError):
        return


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare it with another."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:4])
