"""
The record of an installation: `installed.json` in the plugin's folder.

It lists each installed file with its digest, the folders that were made, the change to
`config.yaml`, and the Python that runs the server. Anybody may have edited it, so paths in it
are used only if they are inside our own two folders.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from os.path import exists
from pathlib import Path
from typing import Any

from valuetracker import __version__
from valuetracker.bridge.configuration import EXTENSION_NAME, EXTENSIONS, PLUGIN
from valuetracker.bridge.install.manifests import read_object

RECORD = "installed.json"

# The only folders whose files a record may list: ours, and (to remove them when empty) those
# above ours.
OURS = re.compile(
    rf"({PLUGIN.as_posix()}|({EXTENSIONS.as_posix()}|data/[^/]+/extensions)/{EXTENSION_NAME})/"
)
ABOVE = frozenset(
    parent.as_posix()
    for folder in (PLUGIN, EXTENSIONS / EXTENSION_NAME)
    for parent in (folder, *folder.parents)
) - {"."}

Record = dict[str, Any]


def read_record(plugin_dir: Path) -> Record:
    """Return the record of the installation; an empty one if there is none."""
    record = read_object(plugin_dir / RECORD)
    return record if isinstance(record, dict) else {}


def make_record(
    plugin_dir: Path,
    root: Path,
    parts: dict[Path, dict[str, bytes]],
    config: dict[str, Any] | None,
) -> Record:
    """Return the record of an installation of these files. It keeps what the last one lists."""
    before = read_record(plugin_dir)
    files = {each["path"]: each["sha256"] for each in recorded_files(before)}
    for folder, contents in parts.items():
        for name, content in contents.items():
            path = folder / name
            # A file with the same bytes was put there by somebody else, and is not ours.
            if path.is_relative_to(root) and not contains_files(folder, {name: content}):
                files[path.relative_to(root).as_posix()] = digest(content)
    folders = {*recorded_folders(before), *_missing_folders(root, files)}
    return {
        "python": sys.executable,
        "version": __version__,
        "files": [{"path": path, "sha256": files[path]} for path in sorted(files)],
        "folders": sorted(folders),
        "config": config or before.get("config"),
    }


def encode_record(record: Record) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def _missing_folders(root: Path, files: dict[str, str]) -> set[str]:
    """Return the folders that have to be made for these files and the record itself."""
    above = {
        parent.as_posix()
        for path in (*files, (PLUGIN / RECORD).as_posix())
        for parent in Path(path).parents
    } - {"."}
    return {each for each in above if not exists(root / each) and _may_be_ours(each)}


def recorded_files(record: Record) -> list[dict[str, str]]:
    """Return the files that a record lists, without those that cannot be ours."""
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


def recorded_folders(record: Record) -> list[str]:
    """Return the folders that a record lists, without those that cannot be ours."""
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


def folders_inside(path: str) -> list[str]:
    """Return the folders of a file that are inside our own two folders."""
    return [parent.as_posix() for parent in Path(path).parents if OURS.match(parent.as_posix())]


def contains_files(folder: Path, files: dict[str, bytes]) -> bool:
    """Return true if the folder contains each of these files with the same bytes."""
    try:
        return all((folder / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
