"""
JSON files of an extension or a plugin: `manifest.json`, `package.json`.
"""

from __future__ import annotations

import json
from os.path import exists
from pathlib import Path
from typing import Any

from valuetracker.bridge.records import ManifestInfo

MANIFEST = "manifest.json"
PACKAGE = "package.json"
LARGEST_MANIFEST = 1024 * 1024


def read_manifest(path: Path) -> ManifestInfo:
    """Return the version that a manifest names, and what is wrong if it cannot be read."""
    info: ManifestInfo = {"path": str(path), "exists": False, "version": None, "error": None}
    document = read_object(path)
    if isinstance(document, str):
        return {**info, "exists": exists(path), "error": document}
    version = document.get("version")
    return {**info, "exists": True, "version": version if isinstance(version, str) else None}


def read_object(path: Path) -> dict[str, Any] | str:
    """Return the JSON object in a file, or a text that says what is wrong with the file."""
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            return "too large"
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError, RecursionError) as error:
        return f"unreadable: {type(error).__name__}"
    return document if isinstance(document, dict) else "not an object"
