"""
Whether a SillyTavern has something else where the plugin would go, or of the same id.
"""

from __future__ import annotations

import json
import os
import re
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import EXTENSION_NAME, PLUGIN, is_sillytavern
from valuetracker.bridge.folders import reported
from valuetracker.bridge.install.status import RECORD, read_object, read_record
from valuetracker.errors import NotSillyTavern, PluginConflict, SourceNotFound

ENTRANCES = ("index.js", "index.cjs", "index.mjs")
LARGEST_SOURCE = 8 * 1024 * 1024
# How a plugin says its id, also after a bundler has been at it.
DECLARES_ID = re.compile(rf"""\bid["']?\s*[:=]\s*["'`]{EXTENSION_NAME}["'`]""".encode())


def check_sillytavern(root: Path) -> str:
    """The version of the SillyTavern in a folder; refused if it is none."""
    package = read_object(root / "package.json")
    if not is_sillytavern(root) or isinstance(package, str):
        raise NotSillyTavern(f"{root} is not the folder of a SillyTavern.")
    if package.get("name") != "sillytavern":
        raise NotSillyTavern(f"{root} holds another program than SillyTavern.")
    version = package.get("version")
    return version if isinstance(version, str) else "unknown"


def check_conflicts(root: Path) -> None:
    """Refuse where another plugin is in the way; ours is the one with our record in it."""
    ours = root / PLUGIN
    is_ours = isfile(ours / RECORD)
    if not is_ours and any(exists(ours / name) for name in ("package.json", *ENTRANCES)):
        raise PluginConflict(f"{ours} is there already, and this did not install it.")
    if is_ours and "files" not in read_record(ours):
        raise PluginConflict(f"{ours / RECORD} cannot be read.")
    for path in other_plugins(root):
        if _declares_our_id(path):
            raise PluginConflict(
                f"{path} is a plugin of the same id, `{EXTENSION_NAME}`; SillyTavern takes one."
            )


def other_plugins(root: Path) -> list[Path]:
    """What SillyTavern may load beside ours."""
    folder = (root / PLUGIN).parent
    if not isdir(folder):
        return []
    with reported(folder):
        names = sorted(os.listdir(folder))
    return [
        folder / name
        for name in names
        if name not in (PLUGIN.name, "package.json") and not name.startswith(".")
    ]


def _declares_our_id(path: Path) -> bool:
    if isfile(path):
        return path.suffix in (".js", ".cjs", ".mjs") and _says_it(path)
    package = read_object(path / "package.json")
    entrances = [path / name for name in ENTRANCES]
    if isinstance(package, dict):
        if package.get("name") == EXTENSION_NAME:
            return True
        if isinstance(main := package.get("main"), str) and "\0" not in main:
            entrances.insert(0, path / main)
    return any(_says_it(each) for each in entrances)


def _says_it(source: Path) -> bool:
    try:
        if not isfile(source) or source.stat().st_size > LARGEST_SOURCE:
            return False
        return bool(DECLARES_ID.search(source.read_bytes()))
    except OSError:
        return False


def check_extension(folder: Path, manifest: bytes) -> None:
    """Refuse a folder that holds another extension than the one of this manifest."""
    found = read_object(folder / "manifest.json")
    if isinstance(found, dict) and found.get("display_name") != _display_name(manifest):
        raise PluginConflict(f"{folder} holds another extension.")


def _display_name(manifest: bytes) -> Any:
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SourceNotFound("The manifest of the extension cannot be read.")
    return document.get("display_name")
