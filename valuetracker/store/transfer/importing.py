"""
Importing with history: the rows of a file become the rows of the extension.

All of it is one transaction: an import that is interrupted changes nothing. In an extension that
was never used, revisions keep their numbers. Otherwise they are shifted above the highest that was
given out, the log begins there, and it is a new incarnation: whatever a client still knows of the
old numbers is refused.
At the end all numbers that rows keep are compared with the log, because whoever writes a file can
also write a digest that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.engine import NotUnique
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, ExtensionNotEmpty, ImportInvalid, InvalidQuery
from valuetracker.records import Imported
from valuetracker.store.audit.audit import Audit
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.head import UPDATE_HEAD, Head
from valuetracker.store.rows.holders import INSERT_VALUE, DataRow, HolderRow
from valuetracker.store.rows.operations import OperationRow
from valuetracker.store.rows.row import Row, insert
from valuetracker.store.transfer.lines import Lines
from valuetracker.store.transfer.records import KINDS, TAKEN_ENTRY, Kind
from valuetracker.store.tx.jobs import NothingChanged
from valuetracker.store.tx.ledger import Ledger

# How many rows, and about how many characters of them, are written at once.
CHUNK_ROWS = 1_000
CHUNK_LENGTH = 1024 * 1024
# The verb that gives a chat another id.
Rename = Callable[[Ledger, str, str], Coroutine[Any, Any, Any]]
HEAD_FIELDS = ("revision", "oldest", "adopted", "number", "ordinal")
LARGEST_REVISION = 2**38

INSERTS: dict[str, Statement] = {
    kind.type: insert(kind.row, table=kind.table) for kind in KINDS.values()
}
# Rows that belong to a running server go, too, but not the answers to repeated requests.
EMPTIED = [
    Statement(f"DELETE FROM {{schema}}.{table}")
    for table in (*{kind.table for kind in KINDS.values()}, "sessions", "claims")
]


@dataclass(slots=True, frozen=True)
class Import:
    """How a file is imported."""

    lines: Lines
    mode: str | None = None
    # Another id for the one chat of the file.
    new_id: str | None = None
    dry_run: bool = False
    # The first number that the incarnation may have, where a backup is restored.
    incarnation: int = 0


@dataclass(slots=True)
class Counted:
    """How much was written."""

    characters: int = 0
    instances: int = 0
    chats: int = 0
    values: int = 0
    entries: int = 0
    chat_ids: list[str] = field(default_factory=list)


async def import_with_history(tx: Ledger, asked: Import, rename_chat: Rename) -> Imported:
    head = await tx.load_head()
    first = asked.lines.first
    if head.number and asked.mode != "replace":
        raise ExtensionNotEmpty()
    if head.number and "part" in first:
        raise ExtensionNotEmpty(
            "The file holds a part of an extension, which cannot replace all of another.",
            hint="Use `mode=merge` or `mode=skip`, or import it into an unused extension.",
        )
    # One number is left out, so that no cursor of before is one of the new log.
    shift = head.revision + 1 if head.revision else 0
    if head.number:
        for statement in EMPTIED:
            await tx.execute(statement)
    writing = Writing(tx, shift)
    await writing.write(asked.lines)
    await _write_head(tx, head, first, shift, writing.counted, asked.incarnation)
    await tx.forget_written()
    await _check(tx)
    counted = writing.counted
    if asked.new_id is not None:
        if len(counted.chat_ids) != 1:
            raise InvalidQuery("`as` needs a file with one chat.")
        await rename_chat(tx, counted.chat_ids[0], asked.new_id)
    tx.invalidate_everything()
    answer: Imported = {
        "mode": asked.mode or "history",
        "dryRun": asked.dry_run,
        "revision": (await tx.load_head()).revision,
        "characters": counted.characters,
        "instances": counted.instances,
        "chats": counted.chats,
        "values": counted.values,
        "entries": counted.entries,
        "skipped": 0,
        "warnings": [],
    }
    if asked.dry_run:
        raise NothingChanged(orjson.dumps(answer))
    return answer


class Writing:
    """Writes the rows of a file, some at a time."""

    def __init__(self, tx: Ledger, shift: int) -> None:
        self._tx = tx
        self._shift = shift
        self._kind: Kind | None = None
        self._rows: list[Any] = []
        self._accounts: list[DataRow] = []
        self._length = 0
        self.counted = Counted()

    async def write(self, lines: Lines) -> None:
        for record in lines.records():
            kind = KINDS.get(record["type"])
            if kind is None:
                raise ImportInvalid(f"There are no records `{record['type'][:64]}`.")
            if kind is not self._kind or self._is_full:
                await self._flush()
                self._kind = kind
            row = kind.decode(record, self._shift)
            self._count(kind, row)
            self._rows.append(row)
            if isinstance(row, HolderRow):
                self._accounts.append(row.account())
        await self._flush()

    @property
    def _is_full(self) -> bool:
        return len(self._rows) >= CHUNK_ROWS or self._length >= CHUNK_LENGTH

    async def _flush(self) -> None:
        rows, self._rows, self._length = self._rows, [], 0
        accounts, self._accounts = self._accounts, []
        if not rows or self._kind is None:
            return
        try:
            await self._tx.execute_many(INSERTS[self._kind.type], rows)
            if accounts:
                await self._tx.execute_many(INSERT_VALUE, accounts)
        except NotUnique:
            raise ImportInvalid(f"Two records `{self._kind.type}` are about the same.") from None

    def _count(self, kind: Kind, row: Row) -> None:
        counted = self.counted
        if isinstance(row, CharacterRow):
            counted.characters += not row.deleted
        elif isinstance(row, ChatRow):
            if not row.deleted:
                counted.chats += 1
                counted.chat_ids = [*counted.chat_ids, row.id][:2]
        elif isinstance(row, HolderRow):
            counted.instances += row.space == "instance" and not row.deleted
        elif isinstance(row, EntryRow):
            counted.entries += kind is not TAKEN_ENTRY
            self._length += len(row.changes)
        elif isinstance(row, DataRow):
            if not row.key:
                raise ImportInvalid("A value has no key.")
            counted.values += row.value is not None
            self._length += len(row.value or "")
        elif isinstance(row, OperationRow):
            row.touched = self._tx.clock.uptime
            row.seal()


async def _write_head(
    tx: Ledger,
    old: Head,
    first: dict[str, Any],
    shift: int,
    counted: Counted,
    incarnation: int,
) -> None:
    found = {name: first.get(name) for name in HEAD_FIELDS}
    if any(type(each) is not int or not 0 <= each < LARGEST_REVISION for each in found.values()):
        raise ImportInvalid("The first line lacks a number, or has a wrong one.")
    head = Head(**found, identity=old.identity)  # type: ignore[arg-type]
    if shift:
        head.revision, head.oldest = head.revision + shift, head.oldest + shift
        head.adopted += shift if head.adopted else 0
    # In an extension that was never used, nobody knows revisions of another line.
    head.incarnation = max(old.incarnation + (shift > 0), incarnation)
    head.characters, head.instances = counted.characters, counted.instances
    head.keys = counted.values
    head.seal()
    await tx.execute_many(UPDATE_HEAD, [head])


async def _check(tx: Ledger) -> None:
    """Refuse rows that contradict the log, or each other."""
    try:
        findings = await Audit(tx).run()
    except DatabaseDamaged:
        findings = ["A row that another one names is missing."]
    if findings:
        raise ImportInvalid(f"The file contradicts itself: {findings[0]}", findings=findings)
