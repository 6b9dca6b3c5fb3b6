"""
What can be set, once, for the command line, the environment and the README.

Each field of `Settings` is one setting: `--data-dir` on the command line is
`VALUETRACKER_DATA_DIR` in the environment. The flag wins over the variable, the variable
over the default.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PREFIX = "/api/plugins/valuetracker"
DEFAULT_PORT = 8420
DEFAULT_DATA_DIR = Path("./db")


@dataclass(frozen=True)
class Setting:
    """One row of the settings table."""

    name: str
    kind: type
    default: Any
    help: str
    many: bool
    # Whether it is only read from the environment: command lines can be seen by others.
    secret: bool
    # Another variable that is read where its own is not set.
    also: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "VALUETRACKER_" + self.name.upper()


def _setting(
    default: Any,
    help: str,
    kind: type | None = None,
    many: bool = False,
    secret: bool = False,
    also: str = "",
) -> Any:
    return field(
        default=default,
        # Shown nowhere, neither in a log nor in a traceback.
        repr=not secret,
        metadata={
            "help": help,
            "kind": kind or type(default),
            "many": many,
            "secret": secret,
            "also": also,
        },
    )


@dataclass(frozen=True)
class Settings:
    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(DEFAULT_PORT, "Port to listen on; 0 picks a free one.")
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
        "info", "Least serious level to log: debug, info, warning, error.", also="COMFYVN_LOG_LEVEL"
    )
    cache_mb: int = _setting(32, "Memory for finished answers, in MiB; 0 keeps none.")
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
        0, "Fold the log of each extension to this many days, hourly; 0 keeps all."
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
        )
        for each in fields(Settings)
    ]
