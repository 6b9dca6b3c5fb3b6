"""
The settings, stated once for the command line, the environment and the README.

Each field of `Settings` is one setting: `--data-dir` on the command line is
`VALUETRACKER_DATA_DIR` in the environment. The flag wins over the variable, the variable
over the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from valuetracker.errors import StartupError

PREFIX = "/api/plugins/valuetracker"
DEFAULT_PORT = 8420
DEFAULT_DATA_DIR = Path("./db")
LARGEST_PORT = 65_535
# The words that turn a switch on or off in the environment, as on the command line.
ON = frozenset({"1", "true", "t", "yes", "y", "on"})
OFF = frozenset({"0", "false", "f", "no", "n", "off"})


@dataclass(frozen=True)
class Setting:
    """One row of the settings table."""

    name: str
    kind: type
    default: Any
    help: str
    many: bool
    # A secret is read from the environment only: other users of a machine see command lines.
    secret: bool
    # Another variable that is read if its own is not set.
    also: str = ""
    # The values it may have, in any case of letters; empty if any text will do.
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "VALUETRACKER_" + self.name.upper()

    @property
    def largest(self) -> int | None:
        return LARGEST_PORT if self.name == "port" else None

    def read(self, environment: Mapping[str, str]) -> Any:
        """Return the value the environment gives, or else the default."""
        text = environment.get(self.variable) or (self.also and environment.get(self.also))
        if not text:
            return self.default
        if not self.many:
            return self._parse(text)
        # Paths may contain blanks.
        return tuple(self._parse(each) for each in self._split(text) if each)

    def _split(self, text: str) -> list[str]:
        return text.split(os.pathsep) if self.kind is Path else text.split()

    def _parse(self, text: str) -> Any:
        if self.choices and text.lower() not in self.choices:
            raise StartupError(f"{self.variable} must be one of {', '.join(self.choices)}.")
        if self.choices:
            return text.lower()
        if self.kind is bool:
            if text.lower() not in ON | OFF:
                raise StartupError(f"{self.variable} must be 1 or 0.")
            return text.lower() in ON
        if self.kind is int:
            if not (text.isascii() and text.isdecimal()):
                raise StartupError(f"{self.variable} must be a whole number.")
            if self.largest is not None and int(text) > self.largest:
                raise StartupError(f"{self.variable} must be {self.largest} at the most.")
            return int(text)
        return self.kind(text)


def _setting(
    default: Any,
    help: str,
    kind: type | None = None,
    many: bool = False,
    secret: bool = False,
    also: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    return field(
        default=default,
        # A secret appears neither in a log nor in a traceback.
        repr=not secret,
        metadata={
            "help": help,
            "kind": kind or type(default),
            "many": many,
            "secret": secret,
            "also": also,
            "choices": choices,
        },
    )


@dataclass(frozen=True)
class Settings:
    """The settings of one server; each field is one setting."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(DEFAULT_PORT, "Port to listen on; 0 picks a free one.")
    http: str = _setting(
        "fast",
        "How HTTP is answered: `fast` by the built-in connection, which has deadlines and limits "
        "of its own; `asgi` by uvicorn through Starlette.",
        choices=("fast", "asgi"),
    )
    data_dir: Path = _setting(DEFAULT_DATA_DIR, "Where the databases are kept.", Path)
    database: str = _setting(
        "", "Database URL. Empty means SQLite files in the data directory.", str
    )
    allow_root: tuple[Path, ...] = _setting(
        (),
        "A directory outside the data directory in which `dbPath` may lie. Several may be "
        "given; in the environment they are separated like PATH.",
        Path,
        many=True,
    )
    log_level: str = _setting(
        "info",
        "Least serious level to log: debug, info, warning, error.",
        also="COMFYVN_LOG_LEVEL",
        choices=("debug", "info", "warning", "error"),
    )
    cache_mb: int = _setting(16, "Memory for finished answers, in MiB; 0 keeps none.")
    open_databases: int = _setting(
        64, "How many databases stay open; those in use or being followed are not closed."
    )
    readers: int = _setting(2, "Reading connections per open database.")
    pool_size: int = _setting(10, "PostgreSQL: connections that write, and as many that only read.")
    database_seconds: int = _setting(30, "PostgreSQL: how long connecting or a statement may take.")
    keep_revisions: int = _setting(
        0, "Fold the log of each extension to this many revisions, hourly; 0 keeps all."
    )
    keep_days: int = _setting(
        0,
        "Fold the log of each extension to this many days, hourly; 0 keeps all. While the clock is "
        "more than a day ahead of what the server expects, nothing is folded for a day.",
    )
    backup_at: str = _setting(
        "03:00",
        "When a backup is made every night, in local time; `off` makes none. One that was missed "
        "is made soon after the next start.",
    )
    backup_keep: int = _setting(7, "How many of the nightly backups are kept.")
    backup_weeks: int = _setting(4, "For how many weeks before that one of each week is kept.")
    backup_dir: str = _setting(
        "", "Where backups are kept; `backups` in the data directory if not said.", str
    )
    backup_hook: str = _setting(
        "",
        "A command that is run after each backup, such as `rclone copy {path} remote:vt`; `{path}` "
        "is the folder of the backup.",
        str,
    )
    warn_mb: int = _setting(
        512,
        "From which size of a database on the log, `/healthz`, `/extensions` and SillyTavern's "
        "panel say that it is large, in MiB; 0 never says so. Nothing is folded by itself.",
    )
    quota_mb: int = _setting(
        0,
        "What the database of one extension may take, in MiB; 0 sets no limit. Beyond it, values "
        "can be read and removed and the log be folded; other writes are refused (507).",
    )
    user_quota_mb: int = _setting(
        0, "What all databases of one user may take together, in MiB; 0 sets no limit."
    )
    rate_per_second: int = _setting(
        0,
        "How many requests a second one user may send: a user of SillyTavern, the holder of a "
        "token, or else an address; ten times as many at once. Others are refused (429). 0 sets "
        "no limit.",
    )
    shutdown_seconds: int = _setting(10, "How long requests in flight may take at shutdown.")
    allow_host: tuple[str, ...] = _setting(
        (),
        "A name or address, beside the loopback ones, by which the server may be addressed "
        "(the `Host` header). Several may be given; in the environment blanks separate them.",
        str,
        many=True,
    )
    allow_origin: tuple[str, ...] = _setting(
        (),
        "An origin whose pages may use the server, such as `https://example.org`. Several may "
        "be given; in the environment blanks separate them.",
        str,
        many=True,
    )
    connections: int = _setting(4_096, "How many connections there may be at a time.")
    body_memory_mb: int = _setting(
        64, "Memory for large bodies that are being received or worked on, in MiB."
    )
    feed_readers: int = _setting(50, "How many may follow the feed of one extension at a time.")
    all_feed_readers: int = _setting(2_000, "How many may follow feeds at a time, all in all.")
    watch_stdin: bool = _setting(
        False, "Stop when standard input ends: for a program that starts the server."
    )
    bridge_only: bool = _setting(
        False, "Answer nobody but the SillyTavern bridge and holders of tokens."
    )
    bridge_secret: str = _setting(
        "",
        "What the SillyTavern bridge proves itself with; only it is believed who the user is.",
        str,
        secret=True,
    )
    st_enabled: int = _setting(
        1, "Whether the bridge to SillyTavern is on; with 0 it makes no request."
    )
    st_base_url: str = _setting("http://127.0.0.1:8000", "Where SillyTavern answers.")
    st_plugin_base: str = _setting(PREFIX, "Where the plugin stands in SillyTavern.")
    st_allow_origin: tuple[str, ...] = _setting(
        (),
        "An origin the bridge may fetch, beside loopback. Several may be given; in the "
        "environment blanks separate them.",
        str,
        many=True,
    )
    st_token: str = _setting(
        "", "What to send SillyTavern as `Authorization: Bearer`.", str, secret=True
    )
    st_root: tuple[Path, ...] = _setting(
        (),
        "A SillyTavern folder (the one with server.js) the bridge may write in, beside the one "
        "`SILLYTAVERN_PATH` names. Several may be given; in the environment they are separated "
        "like PATH.",
        Path,
        many=True,
    )
    st_extensions_dir: str = _setting(
        "",
        "SillyTavern's folder of extensions. Found in the SillyTavern folder if not said.",
        str,
        also="COMFYVN_ST_EXTENSIONS_DIR",
    )
    st_data_root: str = _setting(
        "", "SillyTavern's data folder, for lorebooks; `data` in its own folder if not said.", str
    )

    @classmethod
    def from_environment(cls) -> Settings:
        """Return the settings that the variables `VALUETRACKER_…` give."""
        return cls(**{each.name: each.read(os.environ) for each in settings_table()})


def settings_table() -> list[Setting]:
    return [
        Setting(
            each.name,
            each.metadata["kind"],
            each.default,
            each.metadata["help"],
            each.metadata["many"],
            each.metadata["secret"],
            each.metadata["also"],
            each.metadata["choices"],
        )
        for each in fields(Settings)
    ]
