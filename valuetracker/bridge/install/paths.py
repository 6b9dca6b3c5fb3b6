"""
The folder the extension is copied from and the folder it is copied to.

Several settings may name the second one; the first of them that is set is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from os.path import exists, isfile
from pathlib import Path

from valuetracker.bridge.configuration import (
    EXTENSION_NAME,
    EXTENSIONS,
    PLUGIN,
    Configuration,
    is_sillytavern,
    sillytavern_of,
)
from valuetracker.bridge.install.bundle import bundle_directory
from valuetracker.bridge.records import BridgeConfig, Resolution
from valuetracker.errors import OutsideRoots

DEFAULT = "default"


@dataclass(frozen=True)
class Candidate:
    """One folder that the extension may be copied to, and the setting that names it."""

    source: str
    candidate: Path | None
    resolved: Path | None

    def record(self) -> Resolution:
        return {
            "source": self.source,
            "candidate": str(self.candidate) if self.candidate else None,
            "resolved": str(self.resolved) if self.resolved else None,
            "exists": exists(self.resolved) if self.resolved else None,
        }


@dataclass(frozen=True)
class Paths:
    """The folders that were chosen."""

    configuration: Configuration
    chain: tuple[Candidate, ...]
    chosen: Candidate
    candidate: Path
    source_dir: Path
    destination_dir: Path
    # True if the source is the extension of the bundle.
    bundled: bool

    @property
    def sillytavern(self) -> Path | None:
        """The SillyTavern that the destination belongs to; None if it is not known."""
        return sillytavern_of(self.destination_dir)

    @property
    def plugin_dir(self) -> Path | None:
        root = self.sillytavern
        return root / PLUGIN if root is not None else None


def resolve_paths(
    configuration: Configuration, source: Path | None = None, destination: Path | None = None
) -> Paths:
    """Choose the folders; those a caller names must be inside the configured roots."""
    bundled = bundle_directory() / "extension"
    if source is not None and not is_inside(source, [bundle_directory()]):
        check_inside(source, configuration)
    if destination is not None:
        check_inside(destination, configuration)
    from_settings = configuration.extensions_dir
    if from_settings is None and configuration.st_roots:
        from_settings = configuration.st_roots[0] / EXTENSIONS
    from_root = configuration.env_root / EXTENSIONS if configuration.env_root else None
    chain = (
        _candidate("argument", destination),
        _candidate("settings", from_settings),
        _candidate("env", configuration.env_extensions_dir),
        _candidate("env_root", from_root),
        _candidate(DEFAULT, configuration.default_root / EXTENSIONS),
    )
    chosen = next(each for each in chain if each.candidate is not None)
    assert chosen.candidate is not None
    assert chosen.resolved is not None
    return Paths(
        configuration,
        chain,
        chosen,
        chosen.candidate,
        source or bundled,
        chosen.resolved,
        source is None or source == bundled,
    )


def _candidate(source: str, path: Path | None) -> Candidate:
    return Candidate(source, path, _extension_folder(path) if path is not None else None)


def _extension_folder(path: Path) -> Path:
    """Return the extension's own folder; people name it, its parent, or SillyTavern's folder."""
    if is_sillytavern(path):
        return path / EXTENSIONS / EXTENSION_NAME
    if path.name == EXTENSION_NAME or isfile(path / "manifest.json"):
        return path
    return path / EXTENSION_NAME


def check_inside(path: Path, configuration: Configuration) -> None:
    if not is_inside(path, configuration.roots()):
        raise OutsideRoots(f"{path} is outside the configured folders.")


def is_inside(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(each) for root in roots for each in spellings(root))


def spellings(root: Path) -> tuple[Path, Path]:
    """Return the path of a root as it was configured, and with its symbolic links resolved."""
    return root, Path(os.path.realpath(root))


def below(path: Path, roots: list[Path]) -> tuple[Path, tuple[str, ...]]:
    """Return the outermost root that contains a path, and the names from the root to the path."""
    found = [each for root in roots for each in spellings(root) if path.is_relative_to(each)]
    if not found:
        raise OutsideRoots(f"{path} is outside the configured folders.")
    root = min(found, key=lambda each: len(each.parts))
    return root, path.relative_to(root).parts


def config_record(configuration: Configuration) -> BridgeConfig:
    directory = configuration.extensions_dir or configuration.env_extensions_dir
    return {
        "enabled": configuration.enabled,
        "base_url": configuration.base_url,
        "plugin_base": configuration.plugin_base,
        "extensions_dir": str(directory) if directory else None,
        "data_root": str(configuration.data_root) if configuration.data_root else None,
        "roots": [str(root) for root in configuration.roots()],
        "allowed_origins": list(configuration.allowed_origins),
        "token_present": bool(configuration.token),
    }
