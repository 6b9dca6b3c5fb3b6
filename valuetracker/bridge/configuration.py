"""
What the bridge was told: by the settings, and by the environment it runs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

# Not those of `Path`, which fail where one may not look.
from os.path import isdir, isfile
from pathlib import Path

from valuetracker.settings import Settings

# The same folder may be named in the environment under either name; ours wins.
EXTENSIONS_DIR_VARIABLES = ("VALUETRACKER_ST_EXTENSIONS_DIR", "COMFYVN_ST_EXTENSIONS_DIR")
ROOT_VARIABLE = "SILLYTAVERN_PATH"

# Where things lie in a SillyTavern.
EXTENSION_NAME = "valuetracker"
EXTENSIONS = Path("public", "scripts", "extensions", "third-party")
PLUGIN = Path("plugins", EXTENSION_NAME)


@dataclass(frozen=True)
class Configuration:
    """Settings and environment, as the bridge reads them."""

    enabled: bool
    base_url: str
    plugin_base: str
    allowed_origins: tuple[str, ...]
    token: str
    # Folders of extensions: said by a flag, or in the environment.
    extensions_dir: Path | None
    env_extensions_dir: Path | None
    # SillyTavern's own folders: said by a flag, in the environment, or where it usually is.
    st_roots: tuple[Path, ...]
    env_root: Path | None
    default_root: Path
    data_root: Path | None

    def sillytaverns(self) -> list[Path]:
        """The SillyTavern folders that are known, the likeliest first."""
        named = [self.extensions_dir, self.env_extensions_dir]
        owners = [owner for each in named if each is not None and (owner := sillytavern_of(each))]
        given = [*self.st_roots, *owners, *([self.env_root] if self.env_root else [])]
        return list(dict.fromkeys([*given, self.default_root]))

    def roots(self) -> list[Path]:
        """The folders that may be written in, and nothing outside them."""
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
        # What the flag is not given for comes from the same variable.
        extensions_dir=from_settings if from_settings != from_environment else None,
        env_extensions_dir=from_environment,
        st_roots=tuple(each for root in settings.st_root if (each := folder(str(root)))),
        env_root=folder(environment.get(ROOT_VARIABLE, "")),
        default_root=folder("~/SillyTavern") or Path("SillyTavern"),
        data_root=folder(settings.st_data_root),
    )


def folder(text: str) -> Path | None:
    """An absolute path, without looking at the disk; none for no text."""
    return Path(os.path.abspath(os.path.expanduser(text))) if text.strip() else None


def is_sillytavern(path: Path) -> bool:
    return isfile(path / "server.js") and isdir(path / "public")


def sillytavern_of(path: Path) -> Path | None:
    """The SillyTavern that a folder of extensions belongs to, if that can be told."""
    for each in (path, *path.parents):
        if is_sillytavern(each):
            return each
    return next((each.parent for each in (path, *path.parents) if each.name == "public"), None)
