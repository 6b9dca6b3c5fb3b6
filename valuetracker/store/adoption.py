"""
Adopting the files of the original SillyTavern plugin.

Everything reads the same afterwards; it becomes revision 1, unanchored.

The rows of the new file are written here and not by `tx.apply`, as those of a folded log are:
`apply` keeps all rows of a revision in memory until it is complete, and this revision is a whole
file. No other write can come between, and no kept answer is touched. `tests/integrity/recount.py`
checks that the rows are those that `apply` would have written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from valuetracker.engine import Conversion, Original, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.records import milliseconds, time_text
from valuetracker.store.original_file import FoundCharacter, FoundInstance, OriginalFile
from valuetracker.store.rows.characters import (
    INSERT_CHARACTER,
    INSERT_MEMBER,
    CharacterRow,
    MemberRow,
)
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    INSERT_ENTRY,
    INSERT_KEYFRAME,
    EntryRow,
    KeyframeRow,
    encode_change,
)
from valuetracker.store.rows.head import INSERT_HEAD, SELECT_IDENTITY, Head
from valuetracker.store.rows.holders import INSERT_HOLDER, INSERT_VALUE, DataRow, HolderRow
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.tx.log_writer import is_frame_due

logger = logging.getLogger(__name__)

# How many characters of values are written at once.
CHUNK_LENGTH = 1024 * 1024
PROGRESS_SECONDS = 5.0


def conversion(revision: int, incarnation: int, progress: Progress) -> Conversion:
    """Return what writes the rows of a new database; `revision` is the last one given out."""
    head = Head(revision, oldest=revision, incarnation=incarnation)

    async def convert(transaction: Transaction, original: Original) -> None:
        at = milliseconds()
        file = OriginalFile(original, time_text(at), progress.report)
        await file.find()
        await Rows(transaction, replace(head), at, progress).write(file)

    return convert


class Progress:
    """Logs every few seconds how far an adoption has come."""

    def __init__(self, extension_id: str) -> None:
        self._extension_id = extension_id
        self._begun = self._logged = time.monotonic()
        self._done: dict[str, int] = {}

    def report(self, **done: int) -> None:
        self._done = done
        if time.monotonic() - self._logged >= PROGRESS_SECONDS:
            self._log("adopting a file of the original plugin")

    def end(self) -> None:
        self._log("adopted a file of the original plugin")

    def _log(self, message: str) -> None:
        self._logged = time.monotonic()
        seconds = round(self._logged - self._begun, 1)
        extra = {"extension": self._extension_id, "seconds": seconds, **self._done}
        logger.info(message, extra=extra)


@dataclass(slots=True)
class Pending:
    """Rows that are about to be written."""

    characters: list[CharacterRow] = field(default_factory=list)
    holders: list[HolderRow] = field(default_factory=list)
    members: list[MemberRow] = field(default_factory=list)
    values: list[DataRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)
    keyframes: list[KeyframeRow] = field(default_factory=list)
    length: int = 0

    async def write(self, transaction: Transaction) -> None:
        # Rows in the order of their keys leave no gaps in the file.
        self.values.sort(key=attrgetter("holder", "key"))
        for row in (*self.characters, *self.holders, *self.members, *self.entries):
            row.seal()
        steps: tuple[tuple[Statement, Sequence[Any]], ...] = (
            (INSERT_CHARACTER, self.characters),
            (INSERT_HOLDER, self.holders),
            (INSERT_MEMBER, self.members),
            (INSERT_VALUE, self.values),
            (INSERT_ENTRY, self.entries),
            (INSERT_KEYFRAME, self.keyframes),
        )
        for statement, rows in steps:
            await transaction.execute_many(statement, rows)


class Rows:
    """The rows of the new database: one revision, and in it one entry for each subject."""

    def __init__(self, transaction: Transaction, head: Head, at: int, progress: Progress) -> None:
        self._transaction = transaction
        self._at = at
        self._progress = progress
        self._head = head
        self._pending = Pending()

    async def write(self, file: OriginalFile) -> None:
        head = self._head
        head.characters, head.instances = await file.count()
        if head.characters:
            head.revision += 1
        for character in file.characters():
            self._add_character(character)
            await self._write_chunk()
        for instance, values in file.instances():
            self._add_instance(instance, values)
            await self._write_chunk()
        await self._write_pending()
        if head.keys:
            head.adopted = head.revision
        identity = await self._transaction.fetch_one(SELECT_IDENTITY)
        assert identity is not None, "not identified"
        head.identity = identity[0]
        head.seal()
        await self._transaction.execute_many(INSERT_HEAD, [head])

    async def _write_chunk(self) -> None:
        if self._pending.length >= CHUNK_LENGTH:
            await self._write_pending()

    async def _write_pending(self) -> None:
        await self._pending.write(self._transaction)
        self._pending = Pending()
        head = self._head
        written = max(head.number - head.characters, 0)
        self._progress.report(instances=written, of=head.instances, values=head.keys)

    def _add_character(self, found: FoundCharacter) -> None:
        head = self._head
        number, entry = head.next_number(), self._next_entry()
        row = CharacterRow(
            number, head.next_ordinal(), *found, revision=head.revision, last_entry=entry
        )
        self._pending.characters.append(row)
        shape = encode_change(entry, "", "create_character", 0, row.ordinal, row.text())
        self._add_entry(entry, number, [shape])

    def _next_entry(self) -> int:
        # Each subject has one entry, in the order of their numbers.
        return first_of(self._head.revision) + self._head.number - 1

    def _add_instance(self, found: FoundInstance, values: dict[str, str]) -> None:
        head, pending = self._head, self._pending
        number, entry = head.next_number(), self._next_entry()
        holder = HolderRow(
            number, head.next_ordinal(), "instance", found.id, found.character_id, None,
            found.name, None, found.created_at, found.updated_at,
            shape_entry=entry, revision=head.revision, last_entry=entry,
        )  # fmt: skip
        changes = [encode_change(entry, "", "create_instance", 0, holder.ordinal, holder.text())]
        for key, value in values.items():
            row = DataRow(number, key, value, head.next_ordinal(), entry, 0, 0)
            row.seal()
            holder.digest ^= row.content
            pending.values.append(row)
            pending.length += len(value)
            # The log names the key only: see rows/holders.py.
            changes.append(encode_change(entry, key, "adopt", 0, row.ordinal, None))
        holder.keys = len(values)
        head.keys += len(values)
        if is_frame_due(holder, len(changes)):
            keys = [(key, entry) for key in (*values, "")]
            pending.keyframes.append(KeyframeRow.of(number, entry, keys))
        else:
            holder.changes_since_keyframe = len(changes)
        pending.values.append(holder.account())
        pending.holders.append(holder)
        pending.members.append(MemberRow(found.character, number))
        self._add_entry(entry, number, changes)

    def _add_entry(self, entry: int, subject: int, changes: list[str]) -> None:
        text = BETWEEN_CHANGES.join(changes)
        self._pending.length += len(text)
        self._pending.entries.append(
            EntryRow(entry, subject, self._at, None, None, None, None, 1, 0, 0, 0, text)
        )
