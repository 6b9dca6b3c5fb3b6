"""
The status of an installation: compares the packaged plugin and extension with the installed ones.
"""

from __future__ import annotations

from os.path import exists, isdir, isfile
from pathlib import Path

from valuetracker.bridge.configuration import EXTENSION_NAME
from valuetracker.bridge.install.bundle import bundle_directory, bundled_files
from valuetracker.bridge.install.manifests import MANIFEST, PACKAGE, read_manifest
from valuetracker.bridge.install.paths import Paths, config_record
from valuetracker.bridge.install.record import contains_files, read_record
from valuetracker.bridge.records import (
    BridgePaths,
    ExtensionStatus,
    ManifestInfo,
    PluginStatus,
    WatchPath,
)
from valuetracker.errors import ValueTrackerError


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
        # Settings are flags and environment variables; there is no settings file.
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
    needs_sync = version_status != "match" or not contains_files(paths.destination_dir, files)
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
    # Without a known SillyTavern its plugins cannot be examined.
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
        and (version_status != "match" or not contains_files(folder, _bundled("plugin"))),
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


def watch_paths(paths: Paths) -> list[WatchPath]:
    """Return the paths to watch for changes of the packaged or the installed files."""
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
