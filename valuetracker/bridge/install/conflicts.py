"""
Checks before an installation: the folder is a SillyTavern, and no other plugin is in the way.
"""

from __future__ import annotations

import json
import os
import re
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import EXTENSION_NAME, PLUGIN, is_sillytavern
from valuetracker.bridge.folders import translating_errors
from valuetracker.bridge.install.bundle import bundled_files
from valuetracker.bridge.install.manifests import MANIFEST, PACKAGE, read_object
from valuetracker.bridge.install.record import RECORD, contains_files, read_record
from valuetracker.errors import NotSillyTavern, PluginConflict, SourceNotFound

ENTRY_FILES = ("index.js", "index.cjs", "index.mjs")
LARGEST_SOURCE = 8 * 1024 * 1024
# How a plugin declares its id, also in a bundled file.
DECLARES_ID = re.compile(rf"""\bid["']?\s*[:=]\s*["'`]{EXTENSION_NAME}["'`]""".encode())


def check_sillytavern(root: Path) -> str:
    """Return the version of the SillyTavern in a folder; refuse any other folder."""
    package = read_object(root / PACKAGE)
    if not is_sillytavern(root) or isinstance(package, str):
        raise NotSillyTavern(f"{root} is not the folder of a SillyTavern.")
    if package.get("name") != "sillytavern":
        raise NotSillyTavern(f"{root} contains another program than SillyTavern.")
    version = package.get("version")
    return version if isinstance(version, str) else "unknown"


def check_conflicts(root: Path) -> None:
    """
    Refuse if another plugin is in the way.

    A folder is ours if our record is in it. A folder to which somebody copied our plugin has no
    record, and its plugin cannot start until it is installed: so it is not in the way.
    """
    ours = root / PLUGIN
    is_ours = isfile(ours / RECORD)
    if not is_ours and not _is_copied(ours):
        raise PluginConflict(f"{ours} exists already, and Value Tracker did not install it.")
    if is_ours and "files" not in read_record(ours):
        raise PluginConflict(f"{ours / RECORD} cannot be read.")
    for path in other_plugins(root):
        if _declares_our_id(path):
            raise PluginConflict(
                f"{path} has the same id, `{EXTENSION_NAME}`; SillyTavern loads only one of them."
            )


def _is_copied(folder: Path) -> bool:
    """Return true if the folder contains no plugin, or only a copy of ours."""
    plugin = bundled_files("plugin")
    found = [name for name in (PACKAGE, *ENTRY_FILES) if exists(folder / name)]
    return all(name in plugin and contains_files(folder, {name: plugin[name]}) for name in found)


def other_plugins(root: Path) -> list[Path]:
    """Return the other plugins that SillyTavern may load."""
    folder = (root / PLUGIN).parent
    if not isdir(folder):
        return []
    with translating_errors(folder):
        names = sorted(os.listdir(folder))
    return [
        folder / name
        for name in names
        if name not in (PLUGIN.name, PACKAGE) and not name.startswith(".")
    ]


def _declares_our_id(path: Path) -> bool:
    if isfile(path):
        return path.suffix in (".js", ".cjs", ".mjs") and _contains_our_id(path)
    package = read_object(path / PACKAGE)
    entry_files = [path / name for name in ENTRY_FILES]
    if isinstance(package, dict):
        if package.get("name") == EXTENSION_NAME:
            return True
        if isinstance(main := package.get("main"), str) and "\0" not in main:
            entry_files.insert(0, path / main)
    return any(_contains_our_id(each) for each in entry_files)


def _contains_our_id(source: Path) -> bool:
    try:
        if not isfile(source) or source.stat().st_size > LARGEST_SOURCE:
            return False
        return bool(DECLARES_ID.search(source.read_bytes()))
    except OSError:
        return False


def check_extension(folder: Path, manifest: bytes) -> None:
    """Refuse a folder that contains another extension than the one of this manifest."""
    found = read_object(folder / MANIFEST)
    if isinstance(found, dict) and found.get("display_name") != _display_name(manifest):
        raise PluginConflict(f"{folder} contains another extension.")


def _display_name(manifest: bytes) -> Any:
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SourceNotFound("The manifest of the extension cannot be read.")
    return document.get("display_name")
