"""
Exporting: writes all rows of an extension, or of a part of it, as lines.

The rows of one transaction are read some at a time, table by table, in the order of their keys. So
two exports of one state are byte-equal on both engines. Left out is what belongs to a running
server: sessions, claims and remembered requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.spool import Spool
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import WAITING, CheckpointRow
from valuetracker.store.rows.holders import DataRow, HolderRow, select_holders
from valuetracker.store.rows.operations import OperationRow
from valuetracker.store.rows.row import names
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.transfer import records
from valuetracker.store.transfer.lines import LineWriter, Packed, first_line
from valuetracker.store.transfer.part import Part, Wanted, find_part
from valuetracker.store.transfer.records import Kind
from valuetracker.store.transfer.tables import write_values

NewSpool = Callable[[], Spool]


@dataclass(frozen=True, slots=True)
class Form:
    """How an export is written."""

    # `ndjson`, or `csv` or `json` for plain values.
    format: str = "ndjson"
    # True if operations come along.
    operations: bool = False
    # True if it is compressed.
    packed: bool = False


# A list of numbers as each engine takes it; the names of the lists are those of `Part`.
LISTS = ("holders", "characters", "chats", "told_chats", "whole_chats", "subjects")


def _of(list: str, postgres: bool = False) -> str:
    if not postgres:
        return f"(SELECT value FROM json_each(:{list}))"
    return (
        f"(SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:{list} AS json))"
        " AS value)"
    )


@dataclass(frozen=True)
class Table:
    """How the rows of one kind are selected: all of them, or those of a part."""

    kind: Kind
    order: str
    # Goes on after WHERE for all rows, and for those of a part; `{…}` is a list of numbers.
    always: str = ""
    of_part: str = ""

    def statement(self, part: bool) -> Statement:
        conditions = [each for each in (self.always, self.of_part if part else "") if each]
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        tail = f"{where}ORDER BY {self.order}"
        sqlite, postgres = (self._filled(tail, each) for each in (False, True))
        if self.kind.row is HolderRow:
            return select_holders(sqlite, postgres)
        text = f"SELECT {names(self.kind.row.columns)} FROM {{schema}}.{self.kind.table}"
        return Statement(f"{text} {sqlite}", f"{text} {postgres}")

    def _filled(self, text: str, postgres: bool) -> str:
        for each in LISTS:
            text = text.replace(f"[{each}]", _of(each, postgres))
        return text

    def lists(self) -> list[str]:
        return [each for each in LISTS if f"[{each}]" in self.of_part]


_PLACES_OF_PART = """
    (chat IN [told_chats] OR (chat = 0 AND place IN
        (SELECT entries.place FROM {schema}.entries WHERE subject IN [holders])))
"""
_FLIPS_OF_PART = (
    "place IN (SELECT places.place FROM {schema}.places WHERE places.chat IN [told_chats])"
)
TABLES = (
    Table(records.CHARACTER, "number", of_part="number IN [characters]"),
    Table(records.CHAT, "number", of_part="number IN [chats]"),
    Table(records.ALIAS, "id", of_part="chat IN [whole_chats]"),
    Table(records.PLACE, "place", of_part=_PLACES_OF_PART),
    Table(records.FLIP, "place, revision", of_part=_FLIPS_OF_PART),
    Table(records.HOLDER, "number", of_part="number IN [holders]"),
    Table(records.MEMBER, "parent, holder", of_part="holder IN [holders]"),
    Table(records.VALUE, "holder, key", always="key <> ''", of_part="holder IN [holders]"),
    Table(records.ADOPTED, "holder, key", of_part="holder IN [holders]"),
    Table(records.ENTRY, "entry", of_part="subject IN [subjects]"),
    Table(records.TAKEN_ENTRY, "subject, entry", of_part="subject IN [holders]"),
    Table(records.KEYFRAME, "holder, entry", of_part="holder IN [subjects]"),
    Table(records.CHECKPOINT, "chat, number, name", of_part="chat IN [whole_chats]"),
    Table(records.OPERATION, "chat, number, id", of_part="chat IN [whole_chats]"),
)
WHOLE = {table.kind.type: table.statement(part=False) for table in TABLES}
OF_PART = {table.kind.type: table.statement(part=True) for table in TABLES}


async def export(
    tx: Snapshot, extension_id: str, wanted: Wanted, form: Form, new_spool: NewSpool
) -> Spool:
    """
    Write an extension, or a part of it, to a spool.

    The spool is made here: while rows are still being verified, a verb is begun a second time.
    """
    tx.takes_no_revision()
    spool = new_spool()
    try:
        packed = Packed(spool) if form.packed else None
        target = packed or spool
        if form.format == "ndjson":
            await write_lines(tx, extension_id, wanted, form.operations, LineWriter(target))
        else:
            await write_values(tx, await find_part(tx, wanted), form.format, target)
        if packed is not None:
            packed.end()
    except BaseException:
        # At once: the disk may be full.
        spool.close()
        raise
    return spool


async def write_lines(
    tx: Snapshot, extension_id: str, wanted: Wanted, operations: bool, writer: LineWriter
) -> int:
    """Write an extension, or a part of it; return the revision it is at."""
    part = await find_part(tx, wanted)
    head = tx.head
    writer.write(
        first_line(
            extension_id,
            part=wanted.record(),
            revision=head.revision,
            oldest=head.oldest,
            adopted=head.adopted,
            number=head.number,
            ordinal=head.ordinal,
        )
    )
    for table in TABLES:
        if table.kind is records.OPERATION and not operations:
            continue
        await _write_table(tx, table, part, operations, writer)
    writer.end()
    return head.revision


async def _write_table(
    tx: Snapshot, table: Table, part: Part | None, operations: bool, writer: LineWriter
) -> None:
    statement, given = WHOLE[table.kind.type], {}
    if part is not None:
        statement = OF_PART[table.kind.type]
        given = {each: _list(part, each) for each in table.lists()}
    kind = table.kind
    async for chunk in tx.fetch_chunks(statement, **given):
        for columns in chunk:
            is_holder = kind.row is HolderRow
            read: Any = HolderRow.of(columns) if is_holder else kind.row(*columns).verify()
            row = _prepared(read, part, operations, tx.head.revision)
            if row is not None:
                writer.write(kind.encode(row))


def _list(part: Part, name: str) -> str:
    chats = part.told_chats | part.purged_chats
    numbers: set[int] = chats if name == "chats" else getattr(part, name)
    return orjson.dumps(sorted(numbers)).decode()


def _prepared(row: Any, part: Part | None, operations: bool, revision: int) -> Any:
    """Return a row as it is exported; None if it is not."""
    if isinstance(row, DataRow):
        return row if row.key else None
    if isinstance(row, OperationRow):
        # Nobody works on it where it is imported.
        status = "pending" if row.is_active else row.status
        return replace(row, status=status, claim=None, lease=None, since=None, touched=0)
    if isinstance(row, CheckpointRow) and not operations and row.status == WAITING:
        # It would wait for operations that do not come along.
        return None
    if isinstance(row, ChatRow) and part is not None:
        if row.number in part.purged_chats:
            return replace(
                row, parent=None, origin=None, archived_at=None, deleted=1, paused=0,
                reordered=0, revision=0, last_entry=0, readable_from=revision,
            )  # fmt: skip
        if row.number in part.stories:
            return replace(row, paused=0)
    return row
