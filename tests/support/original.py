"""Database files as the original SillyTavern plugin made them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

SCHEMA = """
CREATE TABLE characters (
    id TEXT PRIMARY KEY,
    name TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE instances (
    id TEXT PRIMARY KEY,
    character_id TEXT NOT NULL,
    name TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (character_id) REFERENCES characters (id) ON DELETE CASCADE
);
CREATE TABLE data (
    instance_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (instance_id, key),
    FOREIGN KEY (instance_id) REFERENCES instances (id) ON DELETE CASCADE
);
CREATE INDEX idx_instances_character_id ON instances(character_id);
CREATE INDEX idx_data_instance_id ON data(instance_id);
"""

# Text in the `value` column, and the answer of the original plugin.
VALUES: dict[str, tuple[str | None, Any]] = {
    "number": ("5", 5),
    "text of a number": ('"5"', "5"),
    "float": ("1.5", 1.5),
    "true": ("true", True),
    "null": ("null", None),
    "nothing": (None, None),
    "object": ('{"b":1,"a":[1,2,{"c":null}]}', {"b": 1, "a": [1, 2, {"c": None}]}),
    "blanks": (' { "a" : 1 } ', {"a": 1}),
    "text": ('"words"', "words"),
    "bare text": ("words", "words"),
    "undefined": ("undefined", "undefined"),
    "empty": ("", ""),
    "not a number": ("NaN", "NaN"),
    "infinity": ("Infinity", "Infinity"),
    "trailing junk": ("5 apples", "5 apples"),
    "largest": ("18446744073709551615", 18446744073709551615),
    "smallest": ("-9223372036854775808", -9223372036854775808),
    "too large": ("18446744073709551616", "18446744073709551616"),
    "huge": ("9" * 400, "9" * 400),
    "huge inside": ('{"a":123456789012345678901234567890}',) * 2,
    "beyond a float": ("1e999", "1e999"),
    "lone surrogate": ('"\\ud800"', '"\\ud800"'),
    "deep": ("[" * 200 + "]" * 200,) * 2,
    "deep enough": ("[" * 100 + "]" * 100, None),
    "umlaut": ("ä€😀", "ä€😀"),
    "escaped": ('"\\u00e4\\n"', "ä\n"),
    "prototype": ('{"__proto__":{"x":1}}', {"__proto__": {"x": 1}}),
}
deep: Any = []
for _ in range(99):
    deep = [deep]
VALUES["deep enough"] = ("[" * 100 + "]" * 100, deep)


def make_original(path: Path) -> None:
    """Make a file with one character, two instances, and rows whose owners are missing."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO characters VALUES (?, ?, ?, ?)",
            [
                ("Seraphina.png", "Seraphina", "2024-01-02 03:04:05", "2024-02-03 04:05:06"),
                ("nameless", None, "2024-01-02T03:04:05.678Z", "2024-01-02T05:04:05.678+02:00"),
            ],
        )
        connection.executemany(
            "INSERT INTO instances VALUES (?, ?, ?, ?, ?)",
            [
                ("run", "Seraphina.png", "Run", "2024-01-02 03:04:05", "2024-01-02 03:04:06"),
                ("empty", "nameless", None, "2024-01-02 03:04:05", "2024-01-02 03:04:06"),
                ("stray", "missing.png", None, "2024-05-06 07:08:09", "2024-05-06 07:08:10"),
            ],
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES (?, ?, ?)",
            [
                *(("run", key, text) for key, (text, _) in VALUES.items()),
                ("stray", "k", '"kept"'),
                ("ghost", "k", "1"),
                ("ghost", "l", "2"),
            ],
        )
        connection.commit()


def add_rows(path: Path, *rows: tuple[Any, Any, Any]) -> None:
    """Add rows to `data`, which has no constraint and no index any more."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "ALTER TABLE data RENAME TO strict; "
            "CREATE TABLE data AS SELECT * FROM strict; DROP TABLE strict"
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) "
            "VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))",
            rows,
        )
        connection.commit()


def register(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/register", json={"extensionId": "demo", **more})


def make_large_original(path: Path, instances: int, keys: int = 20, length: int = 200) -> None:
    """Make a file with this many instances, each with this many values of this length."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("INSERT INTO characters (id) VALUES ('c')")
        connection.executemany(
            "INSERT INTO instances (id, character_id) VALUES (?, 'c')",
            ((f"i{number}",) for number in range(instances)),
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES (?, ?, ?)",
            (
                (f"i{number}", f"k{key}", f'"{number} {key} {"x" * length}"')
                for number in range(instances)
                for key in range(keys)
            ),
        )
        connection.commit()


# How a program that was killed leaves a file. All of them hold the same.


def _spoil(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE data SET value = '\"spoilt\"'")


def _mend(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE data SET value = (SELECT value FROM kept.data AS kept"
        " WHERE kept.instance_id = data.instance_id AND kept.key = data.key)"
    )
    connection.commit()


def _closed(connection: sqlite3.Connection) -> None:
    """Nothing is left beside the file."""


def _hot_journal(connection: sqlite3.Connection) -> None:
    """A transaction was half written to the file: its journal has what was there before."""
    connection.execute("PRAGMA cache_size = 1")
    _spoil(connection)


def _stale_journal(connection: sqlite3.Connection) -> None:
    """A journal that was not deleted after its transaction."""
    connection.execute("PRAGMA main.journal_mode = PERSIST")
    _spoil(connection)
    _mend(connection)


def _log(connection: sqlite3.Connection) -> None:
    """A transaction is in the log and not yet in the file."""
    _spoil(connection)
    connection.commit()
    connection.execute("PRAGMA main.journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    _mend(connection)


def _half_a_log(connection: sqlite3.Connection) -> None:
    """The same, and the next transaction is half written to the log."""
    _log(connection)
    connection.execute("PRAGMA cache_size = 1")
    _spoil(connection)


def _empty_log(connection: sqlite3.Connection) -> None:
    """The file says that it has a log, and all of that is in the file."""
    connection.execute("PRAGMA main.journal_mode = WAL")


# By name: what the program did, and the companion that it leaves.
STATES: dict[str, tuple[Callable[[sqlite3.Connection], None], str | None]] = {
    "closed": (_closed, None),
    "hot journal": (_hot_journal, "-journal"),
    "stale journal": (_stale_journal, "-journal"),
    "log": (_log, "-wal"),
    "half a log": (_half_a_log, "-wal"),
    "empty log": (_empty_log, None),
}


def leave(original: Path, path: Path, state: str) -> None:
    """Leave a copy of an original at `path` as a killed program would."""
    prepare, companion = STATES[state]
    made = original.with_name("made.db")
    shutil.copyfile(original, made)
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("ATTACH ? AS kept", (str(original),))
        prepare(connection)
        for ending in ("", "-journal", "-wal"):
            source = made.with_name(made.name + ending)
            if source.exists():
                shutil.copyfile(source, path.with_name(path.name + ending))
    if companion is not None:
        assert path.with_name(path.name + companion).stat().st_size > 0
