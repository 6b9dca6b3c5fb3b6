"""Database files as the original SillyTavern plugin made them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

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
