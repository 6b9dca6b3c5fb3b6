"""
Statements that confirm that a row is absent: by the table, and not by the index that missed it.

PostgreSQL looks after its own indexes.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement

_SUBJECTS = " + ".join(
    f"(SELECT count(*) FROM {{schema}}.{table} NOT INDEXED)"
    for table in ("characters", "instances", "chats")
)
COUNT_SUBJECTS = Statement(f"SELECT {_SUBJECTS}", postgres="SELECT subjects FROM {schema}.head")


def _scan(table: str, condition: str) -> Statement:
    """Count the rows of a name, and all rows, by the tables."""
    return Statement(
        f"SELECT count(*), {_SUBJECTS} FROM {{schema}}.{table} NOT INDEXED WHERE {condition}",
        postgres="SELECT count(*), (SELECT subjects FROM {schema}.head)"
        f" FROM {{schema}}.{table} WHERE {condition}",
    )


SCAN_FOR_INSTANCE = _scan("instances", "id = :id AND space = 'instance'")
SCAN_FOR_CHAT = _scan("chats", "id = :id")
SCAN_FOR_CHARACTER = _scan("characters", "id = :id")
# Answers 'ok', or what is wrong with the indexes of a table.
CHECK_INDEXES = tuple(
    Statement(
        f"SELECT integrity_check FROM pragma_integrity_check('{table}')", postgres="SELECT 'ok'"
    )
    for table in ("characters", "instances", "chats")
)
