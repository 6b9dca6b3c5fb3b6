"""The rows of claims: processed ids that somebody works on, for some time."""

from __future__ import annotations

from dataclasses import dataclass

from valuetracker.engine.statement import Statement
from valuetracker.store.rows.row import Row, insert, select


@dataclass(slots=True)
class ClaimRow(Row, table="claims"):
    """An id that somebody has claimed since a time of `LeaseTime`, for so many milliseconds."""

    chat: int
    key: str
    since: int
    lease: int
    checksum: int = 0


# PostgreSQL indexes keys by their hash, because it refuses long keys in an index.
_OF_KEY = "WHERE chat = :chat AND key = :key"
_OF_KEY_ON_POSTGRES = "WHERE chat = :chat AND md5(key) = md5(:key) AND key = :key"
SELECT_CLAIM = select(ClaimRow, _OF_KEY, postgres=_OF_KEY_ON_POSTGRES)
DELETE_CLAIM = Statement(
    f"DELETE FROM {{schema}}.claims {_OF_KEY}",
    postgres=f"DELETE FROM {{schema}}.claims {_OF_KEY_ON_POSTGRES}",
)
INSERT_CLAIM = insert(ClaimRow)
