"""
The rows that are verified when a file is opened: a row class for each table.

A table that has none makes `tests/store/test_verification.py` fail.
"""

from __future__ import annotations

from valuetracker.engine import TableCheck
from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow, SessionRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.claims import ClaimRow
from valuetracker.store.rows.entries import TAKEN, EntryRow, KeyframeRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import AdoptedRow, DataRow, HolderRow
from valuetracker.store.rows.operations import OperationRow
from valuetracker.store.rows.places import FlipRow, PlaceRow
from valuetracker.store.rows.row import Row
from valuetracker.store.tx.idempotency import RequestRow

ROWS: tuple[type[Row], ...] = (
    CharacterRow,
    HolderRow,
    MemberRow,
    DataRow,
    AdoptedRow,
    EntryRow,
    KeyframeRow,
    ChatRow,
    AliasRow,
    PlaceRow,
    FlipRow,
    SessionRow,
    ClaimRow,
    OperationRow,
    CheckpointRow,
    RequestRow,
)


def check_of(row: type[Row], *besides: str) -> TableCheck:
    """Return how rows of a class are verified; `besides` follows the columns in a SELECT."""
    return TableCheck((*row.columns, *besides), lambda columns: row(*columns).verify())


TABLES: dict[str, TableCheck] = {
    # Its checksum is also over the identity of the database.
    Head.table: check_of(Head, "(SELECT identity FROM file)"),
    **{row.table: check_of(row) for row in ROWS},
    TAKEN: check_of(EntryRow),
}
