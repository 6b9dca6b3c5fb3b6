"""
The configuration of the bridge, from the settings and the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

# Not those of `Path`, which fail where the permission to look is missing.
from os.path import isdir, isfile
from pathlib import Path

from valuetracker.settings import Settings

# Either variable may name the same folder; ours is used if both are set.
EXTENSIONS_DIR_VARIABLES = ("VALUETRACKER_ST_EXTENSIONS_DIR", "COMFYVN_ST_EXTENSIONS_DIR")
ROOT_VARIABLE = "SILLYTAVERN_PATH"

# Paths inside a SillyTavern.
EXTENSION_NAME = "valuetracker"
EXTENSIONS = Path("public", "scripts", "extensions", "third-party")
PLUGIN = Path("plugins", EXTENSION_NAME)


@dataclass(frozen=True)
class Configuration:
    """The settings and environment variables that the bridge uses."""

    enabled: bool
    base_url: str
    plugin_base: str
    allowed_origins: tuple[str, ...]
    token: str
    # Folders of extensions, from a flag and from the environment.
    extensions_dir: Path | None
    env_extensions_dir: Path | None
    # SillyTavern's own folders, from a flag, from the environment, and its usual location.
    st_roots: tuple[Path, ...]
    env_root: Path | None
    default_root: Path
    data_root: Path | None

    def sillytaverns(self) -> list[Path]:
        """Return the SillyTavern folders that are known, the most likely first."""
        named = [self.extensions_dir, self.env_extensions_dir]
        owners = [owner for each in named if each is not None and (owner := sillytavern_of(each))]
        given = [*self.st_roots, *owners, *([self.env_root] if self.env_root else [])]
        return list(dict.fromkeys([*given, self.default_root]))

    def roots(self) -> list[Path]:
        """Return the folders that the bridge may write in; it writes nowhere else."""
        named = [self.extensions_dir, self.env_extensions_dir]
        return list(dict.fromkeys([*self.sillytaverns(), *(each for each in named if each)]))


def configuration(settings: Settings, environment: Mapping[str, str] = os.environ) -> Configuration:
    named = (environment.get(name, "") for name in EXTENSIONS_DIR_VARIABLES)
    from_environment = folder(next((text for text in named if text), ""))
    from_settings = folder(settings.st_extensions_dir)
    return Configuration(
        enabled=bool(settings.st_enabled),
        base_url=settings.st_base_url,
        plugin_base=settings.st_plugin_base,
        allowed_origins=tuple(settings.st_allow_origin),
        token=settings.st_token,
        # Without a flag the setting has the value of the same variable.
        extensions_dir=from_settings if from_settings != from_environment else None,
        env_extensions_dir=from_environment,
        st_roots=tuple(each for root in settings.st_root if (each := folder(str(root)))),
        env_root=folder(environment.get(ROOT_VARIABLE, "")),
        default_root=folder("~/SillyTavern") or Path("SillyTavern"),
        data_root=folder(settings.st_data_root),
    )


def folder(text: str) -> Path | None:
    """Return an absolute path, without reading the disk; None for an empty text."""
    return Path(os.path.abspath(os.path.expanduser(text))) if text.strip() else None


def is_sillytavern(path: Path) -> bool:
    return isfile(path / "server.js") and isdir(path / "public")


def sillytavern_of(path: Path) -> Path | None:
    """Return the SillyTavern that a folder of extensions belongs to, if it can be found."""
    for each in (path, *path.parents):
        if is_sillytavern(each):
            return each
    return next((each.parent for each in (path, *path.parents) if each.name == "public"), None)
