"""
Installing into a SillyTavern, and taking it out again.

`installed.json` in the plugin's folder says what was put where, with the digest of each
file, and which Python is to run the server. It is written first: an installation that was
cut short is known for what it is. Uninstalling removes what still is as it was put there.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from valuetracker import __version__
from valuetracker.bridge.configuration import EXTENSION_NAME, EXTENSIONS, PLUGIN, Configuration
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
from valuetracker.bridge.install.paths import Paths, resolve_paths
from valuetracker.bridge.install.status import (
    MANIFEST,
    RECORD,
    digest,
    extension_status,
    holds,
    paths_record,
    read_manifest,
    read_record,
)
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

# The only folders a record may speak of, whatever it says: ours, and those above them.
OURS = re.compile(
    rf"({PLUGIN.as_posix()}|({EXTENSIONS.as_posix()}|data/[^/]+/extensions)/{EXTENSION_NAME})/"
)
ABOVE = frozenset(
    parent.as_posix()
    for folder in (PLUGIN, EXTENSIONS / EXTENSION_NAME)
    for parent in (folder, *folder.parents)
) - {"."}


def sync_extension(
    paths: Paths, dry_run: bool, config: dict[str, Any] | None = None
) -> ExtensionSync:
    """Copy the plugin and the extension to where they belong."""
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
        record = _record(paths, root, {paths.plugin_dir: plugin, paths.destination_dir: extension})
        record["config"] = config or record["config"]
        record["folders"] = sorted({*record["folders"], *_missing_folders(root, record)})
        copying.put(paths.plugin_dir / RECORD, _text(record))
        copying.copy(paths.plugin_dir, plugin)
    copying.copy(paths.destination_dir, extension)
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


def _record(paths: Paths, root: Path, parts: dict[Path, dict[str, bytes]]) -> dict[str, Any]:
    """What `installed.json` is to say: what was put there before is still ours."""
    assert paths.plugin_dir is not None
    before = read_record(paths.plugin_dir)
    files = {each["path"]: each["sha256"] for each in recorded_files(before)}
    for folder, contents in parts.items():
        for name, content in contents.items():
            path = folder / name
            # What somebody else had put there just so is not ours.
            if path.is_relative_to(root) and not _holds(path, content):
                files[path.relative_to(root).as_posix()] = digest(content)
    return {
        "python": sys.executable,
        "version": __version__,
        "files": [{"path": path, "sha256": files[path]} for path in sorted(files)],
        "folders": recorded_folders(before),
        "config": before.get("config"),
    }


def _holds(path: Path, content: bytes) -> bool:
    return holds(path.parent, {path.name: content})


def _missing_folders(root: Path, record: dict[str, Any]) -> set[str]:
    """The folders that have to be made for the files of a record."""
    above = {
        parent.as_posix()
        for each in (*record["files"], {"path": (PLUGIN / RECORD).as_posix()})
        for parent in Path(each["path"]).parents
    } - {"."}
    return {each for each in above if not exists(root / each) and _may_be_ours(each)}


def recorded_files(record: dict[str, Any]) -> list[dict[str, str]]:
    """The files a record names, as far as they can be ours: it is only a file on a disk."""
    files = record.get("files")
    return [
        {"path": each["path"], "sha256": each["sha256"]}
        for each in (files if isinstance(files, list) else [])
        if isinstance(each, dict)
        and isinstance(each.get("path"), str)
        and isinstance(each.get("sha256"), str)
        and _may_be_ours(each["path"])
        and each["path"] not in ABOVE
    ]


def recorded_folders(record: dict[str, Any]) -> list[str]:
    folders = record.get("folders")
    return [
        each
        for each in (folders if isinstance(folders, list) else [])
        if isinstance(each, str) and _may_be_ours(each)
    ]


def _may_be_ours(path: str) -> bool:
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and "\\" not in part for part in parts)
    return plain and "\0" not in path and (path in ABOVE or bool(OURS.match(path + "/")))


def _text(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


# The commands


@dataclass(frozen=True)
class Installed:
    """What an installation led to, and what the person is to be told."""

    sillytavern: str
    sync: ExtensionSync
    before: str | None
    plugins_enabled: bool


@dataclass(frozen=True)
class Uninstalled:
    """What was removed, and what was left because somebody changed it."""

    removed: list[str]
    left: list[str]
    config: str | None


def paths_of(root: Path) -> Paths:
    """Everything for one SillyTavern that a person names; it is the only root."""
    nothing = Configuration(
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
    return resolve_paths(nothing, destination=root)


def install(root: Path, enable_plugins: bool = False, force: bool = False) -> Installed:
    sillytavern = check_sillytavern(root)
    paths = paths_of(root)
    assert paths.plugin_dir is not None
    check_conflicts(root)
    check_python(root)
    before = read_manifest(paths.plugin_dir / "package.json")["version"]
    if before is not None and version_key(before) > version_key(__version__) and not force:
        raise NewerInstalled(f"Version {before} is installed there; this is {__version__}.")
    # What a look can tell is refused before anything is written.
    sync_extension(paths, dry_run=True)
    sync = sync_extension(paths, dry_run=False)
    enabled = plugins_enabled(root)
    if enable_plugins and not enabled:
        with Folder.enter(root) as folder:
            change = config_file.enable_plugins(folder)
        sync_extension(paths, dry_run=False, config=change)
        enabled = True
    return Installed(sillytavern, sync, before, enabled)


def check_python(root: Path) -> None:
    """Refuse if this Python finds the package only because of where it was started."""
    # As the plugin runs it, but for what it is to do.
    command = [sys.executable, "-P", "-c", "import valuetracker"]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonUnusable(f"{sys.executable} cannot be run in {root}: {error}.") from error
    if done.returncode != 0:
        raise PythonUnusable(f"{sys.executable} does not find the package from elsewhere.")


def plugins_enabled(root: Path) -> bool:
    with Folder.enter(root) as folder:
        return bool(config_file.plugins_enabled(folder))


def uninstall(root: Path) -> Uninstalled:
    check_sillytavern(root)
    record = read_record(root / PLUGIN)
    if not record:
        raise NotInstalled(f"Nothing of it is installed in {root}.")
    removed: list[str] = []
    left: list[dict[str, str]] = []
    for each in recorded_files(record):
        if _remove(root, each):
            removed.append(each["path"])
        else:
            left.append(each)
    config = _undo_config(root, record)
    _forget(root, record, left)
    folders = {*recorded_folders(record), *(parent for path in removed for parent in _inner(path))}
    for path in sorted(folders, key=lambda each: -each.count("/")):
        _remove_folder(root, path)
    return Uninstalled(removed, [each["path"] for each in left], config)


def _inner(path: str) -> list[str]:
    """The folders inside ours that a file lies in; they are ours as well."""
    return [parent.as_posix() for parent in Path(path).parents if OURS.match(parent.as_posix())]


def _remove(root: Path, each: dict[str, str]) -> bool:
    """Remove a file that is still as it was put there; one that is gone is as good."""
    *above, name = each["path"].split("/")
    try:
        with Folder.enter(root, tuple(above)) as folder:
            found = folder.read(name)
            if found is not None and digest(found) != each["sha256"]:
                return False
            folder.remove(name)
    except FileNotFoundError:
        return True
    logger.debug("file removed", extra={"path": str(root / each["path"])})
    return True


def _undo_config(root: Path, record: dict[str, Any]) -> str | None:
    """Switch plugins off again if installing switched them on and nobody else needs them."""
    change = record.get("config")
    if not isinstance(change, dict):
        return None
    if other_plugins(root):
        return "`enableServerPlugins` stays on: there are other plugins."
    with Folder.enter(root) as folder:
        if config_file.undo_enabling(folder, change):
            return "`enableServerPlugins` is as it was before."
    return "`enableServerPlugins` stays as it is: config.yaml was changed since."


def _forget(root: Path, record: dict[str, Any], left: list[dict[str, str]]) -> None:
    """The record goes last; what was left because it was changed is still known to be ours."""
    with Folder.enter(root, PLUGIN.parts) as folder:
        if left:
            folder.write(RECORD, _text({**record, "files": left, "config": None}))
        else:
            folder.remove(RECORD)


def _remove_folder(root: Path, path: str) -> None:
    *above, name = path.split("/")
    try:
        with Folder.enter(root, tuple(above)) as folder:
            folder.remove_folder(name)
    except (FileNotFoundError, ValueTrackerError):
        return


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:4])
