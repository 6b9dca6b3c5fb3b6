"""
What comes with this package beside what is installed: versions, and whether bytes differ.
"""

from __future__ import annotations

import hashlib
import json
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import EXTENSION_NAME
from valuetracker.bridge.install.bundle import bundle_directory, bundled_files
from valuetracker.bridge.install.paths import Paths, config_record
from valuetracker.bridge.records import (
    BridgePaths,
    ExtensionStatus,
    ManifestInfo,
    PluginStatus,
    WatchPath,
)
from valuetracker.errors import ValueTrackerError

MANIFEST = "manifest.json"
PACKAGE = "package.json"
RECORD = "installed.json"
LARGEST_MANIFEST = 1024 * 1024


def paths_record(paths: Paths, sync: bool = False) -> BridgePaths:
    status = extension_status(paths)
    record: BridgePaths = {
        "extension_name": EXTENSION_NAME,
        "source_dir": str(paths.source_dir),
        "source_exists": isdir(paths.source_dir),
        "destination_dir": str(paths.destination_dir),
        "destination_exists": isdir(paths.destination_dir),
        "resolved_from": paths.chosen.source,
        "resolved_candidate": str(paths.candidate),
        "resolved_candidate_exists": exists(paths.candidate),
        "resolution_chain": [each.record() for each in paths.chain],
        "config": config_record(paths.configuration),
        "enabled": paths.configuration.enabled,
        # The settings are flags and variables; there is no file of them.
        "settings_path": None,
        "watch_paths": status["watch_paths"],
    }
    if sync:
        record["sync"] = status
    return record


def extension_status(paths: Paths) -> ExtensionStatus:
    source = read_manifest(paths.source_dir / MANIFEST)
    installed = read_manifest(paths.destination_dir / MANIFEST)
    version_status = compare(source, installed)
    files = _bundled("extension", None if paths.bundled else paths.source_dir)
    needs_sync = version_status != "match" or not holds(paths.destination_dir, files)
    plugin = plugin_status(paths)
    return {
        "needs_sync": needs_sync,
        "extension_needs_sync": needs_sync,
        "plugin_needs_sync": plugin["needs_sync"],
        "overall_needs_sync": needs_sync or plugin["needs_sync"],
        "version_status": version_status,
        "plugin_version_status": plugin["version_status"],
        "source_manifest": source,
        "dest_manifest": installed,
        "plugin": plugin,
        "watch_paths": watch_paths(paths),
    }


def plugin_status(paths: Paths) -> PluginStatus:
    bundle = bundle_directory() / "plugin"
    package = read_manifest(bundle / PACKAGE)
    folder = paths.plugin_dir
    installed = read_manifest(folder / PACKAGE) if folder is not None else None
    record = read_record(folder) if folder is not None else {}
    python = record.get("python")
    python = python if isinstance(python, str) else None
    # Whose SillyTavern it is cannot be told, so nothing can be said of its plugins.
    version_status = compare(package, installed) if installed is not None else "unresolved"
    return {
        "source": {
            "plugin_dir": str(bundle_directory()),
            "bundle_dir": str(bundle),
            "package": package,
        },
        "destination": str(folder) if folder is not None else None,
        "destination_exists": folder is not None and isdir(folder),
        "destination_package": installed,
        "version_status": version_status,
        "needs_sync": folder is not None
        and (version_status != "match" or not holds(folder, _bundled("plugin"))),
        "python": python,
        "python_exists": python is not None and isfile(python),
    }


def _bundled(part: str, source: Path | None = None) -> dict[str, bytes]:
    try:
        return bundled_files(part, source)
    except (ValueTrackerError, FileNotFoundError):
        return {}


def compare(source: ManifestInfo, installed: ManifestInfo) -> str:
    if not installed["exists"]:
        return "missing"
    if source["version"] is None or installed["version"] is None:
        return "unknown"
    return "match" if source["version"] == installed["version"] else "mismatch"


def holds(folder: Path, files: dict[str, bytes]) -> bool:
    """Whether each of these files lies in the folder with the same bytes."""
    try:
        return all((folder / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def read_manifest(path: Path) -> ManifestInfo:
    """A file such as package.json: whether it is there, and its version."""
    info: ManifestInfo = {"path": str(path), "exists": False, "version": None, "error": None}
    document = read_object(path)
    if isinstance(document, str):
        return {**info, "exists": exists(path), "error": document}
    version = document.get("version")
    return {**info, "exists": True, "version": version if isinstance(version, str) else None}


def read_object(path: Path) -> dict[str, Any] | str:
    """A file that is a JSON object, or what is wrong with it."""
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            return "too large"
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError, RecursionError) as error:
        return f"unreadable: {type(error).__name__}"
    return document if isinstance(document, dict) else "not an object"


def read_record(plugin_dir: Path) -> dict[str, Any]:
    """What the installer wrote down; nothing if it never did."""
    record = read_object(plugin_dir / RECORD)
    return record if isinstance(record, dict) else {}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def watch_paths(paths: Paths) -> list[WatchPath]:
    """What to watch to hear of a change on either side."""
    bundle = bundle_directory()
    named = [
        (paths.source_dir, "extension_source"),
        (paths.source_dir / MANIFEST, "extension_source_manifest"),
        (paths.destination_dir, "extension_destination"),
        (paths.destination_dir / MANIFEST, "extension_destination_manifest"),
        (paths.destination_dir.parent, "extensions_root"),
        (paths.candidate, "candidate_base"),
        (bundle, "plugin_source"),
        (bundle / "plugin", "plugin_bundle_dir"),
        (bundle / "plugin" / PACKAGE, "plugin_bundle_package"),
    ]
    if paths.plugin_dir is not None:
        named.append((paths.plugin_dir, "plugin_destination"))
        named.append((paths.plugin_dir / PACKAGE, "plugin_destination_package"))
    first: dict[str, WatchPath] = {}
    for path, purpose in named:
        record: WatchPath = {"path": str(path), "purpose": purpose, "exists": exists(path)}
        first.setdefault(str(path), record)
    return list(first.values())
