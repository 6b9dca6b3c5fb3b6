"""
The whole audit: counts, pointers, and the log of every subject against its rows.

It reads one subject at a time, so it needs memory for the values of one holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.audit.findings import Findings, TooMany
from valuetracker.store.audit.replayed import Replayed, SubjectReplay
from valuetracker.store.log.lists import subject_list, taken_list
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow, KeyframeRow
from valuetracker.store.rows.holders import (
    SELECT_ROWS_OF_HOLDER,
    DataRow,
    HolderRow,
    select_holders,
)
from valuetracker.store.rows.numbers import last_of
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row import select
from valuetracker.store.rows.row_cache import Subject

# Told how many entries have been replayed, and of how many.
Report = Callable[[int, int], None]


def _count(table: str, condition: str = "") -> Statement:
    return Statement(f"SELECT count(*) FROM {{schema}}.{table} {condition}")


def _missing(table: str, column: str, other: str, key: str, besides: str = "") -> Statement:
    """Count the rows whose pointer leads to no row."""
    return _count(
        table,
        f"WHERE {column} IS NOT NULL {besides} AND NOT EXISTS"
        f" (SELECT 1 FROM {{schema}}.{other} AS other WHERE other.{key} = {table}.{column})",
    )


COUNTS: dict[str, tuple[str, Statement]] = {
    "characters": ("characters", _count("characters", "WHERE deleted = 0")),
    "instances": ("instances", _count("instances", "WHERE deleted = 0 AND space = 'instance'")),
    "keys": ("values", _count("data", "WHERE key <> '' AND value IS NOT NULL")),
}
POINTERS: dict[str, Statement] = {
    "holders in a chat that is not there": _missing("instances", "chat", "chats", "number"),
    "values of a holder that is not there": _missing("data", "holder", "instances", "number"),
    "values that stand at a message that is not there": _missing(
        "data", "furthest", "places", "place"
    ),
    "adopted values of a holder that is not there": _missing(
        "adopted", "holder", "instances", "number"
    ),
    "members that are not there": _missing("members", "holder", "instances", "number"),
    "entries in a chat that is not there": _missing("entries", "chat", "chats", "number"),
    "taken entries of a holder that is not there": _missing(
        "taken", "subject", "instances", "number"
    ),
    "former ids of a chat that is not there": _missing("aliases", "chat", "chats", "number"),
    "messages of a chat that is not there": _missing(
        "places", "chat", "chats", "number", "AND places.chat <> 0"
    ),
    "moves of a message that is not there": _missing("flips", "place", "places", "place"),
    "checkpoints of a chat that is not there": _missing("checkpoints", "chat", "chats", "number"),
    "operations of a chat that is not there": _missing("operations", "chat", "chats", "number"),
    "branches of a chat that is not there": _missing("chats", "parent", "chats", "number"),
    "instances of a character that is not there": _count(
        "instances",
        "WHERE deleted = 0 AND space = 'instance' AND NOT EXISTS (SELECT 1 FROM"
        " {schema}.characters AS other WHERE other.id = instances.character_id"
        " AND other.deleted = 0)",
    ),
    "messages that are not where they were last put": _count(
        "places",
        """
        WHERE chat <> 0 AND NOT EXISTS (
            SELECT 1 FROM {schema}.flips AS flip WHERE flip.place = places.place
            AND flip.position = places.position AND flip.visible = places.visible
            AND flip.revision = (SELECT max(last.revision) FROM {schema}.flips AS last
                WHERE last.place = places.place)
        )
        """,
    ),
}
COUNT_ENTRIES = _count("entries")
COUNT_KEYFRAMES = _count("keyframes")
SELECT_CHARACTERS = select(CharacterRow, "ORDER BY number")
SELECT_CHATS = select(ChatRow, "ORDER BY number")
SELECT_HOLDERS = select_holders("ORDER BY number")
SELECT_FRAMES = Statement(
    "SELECT entry FROM {schema}.keyframes WHERE holder = :holder ORDER BY entry"
)
SELECT_FRAME = select(KeyframeRow, "WHERE holder = :holder AND entry = :entry")


class Audit:
    """One audit of one database, inside a transaction."""

    def __init__(self, tx: RowReader, report: Report | None = None) -> None:
        self._tx = tx
        self._report = report or (lambda done, total: None)
        self._findings = Findings()
        self.entries = self._frames = self._total = 0

    async def run(self) -> list[str]:
        """Return what is wrong, each finding as a sentence; an empty list if nothing is."""
        try:
            await self._check_counts()
            await self._check_pointers()
            await self._replay_all()
        except TooMany:
            self._findings.sentences.append("There is more.")
        except DatabaseDamaged as damage:
            self._findings.sentences.append(f"{self._findings.where}: {damage.message}")
        return self._findings.sentences

    async def _number(self, statement: Statement) -> int:
        row = await self._tx.fetch_one(statement)
        return int(row[0]) if row is not None else 0

    async def _check_counts(self) -> None:
        head = await self._tx.load_head()
        self._findings.where = "head"
        for name, (noun, statement) in COUNTS.items():
            found, counted = await self._number(statement), getattr(head, name)
            sentence = f"It counts {counted} {noun}, and there are {found}."
            self._findings.expect(found == counted, sentence)
        self._total = await self._number(COUNT_ENTRIES)

    async def _check_pointers(self) -> None:
        self._findings.where = ""
        for sentence, statement in POINTERS.items():
            count = await self._number(statement)
            self._findings.expect(not count, f"There are {count} {sentence}.")

    # The log

    async def _replay_all(self) -> None:
        tables: tuple[tuple[Statement, Callable[[Any], Subject]], ...] = (
            (SELECT_CHARACTERS, lambda columns: CharacterRow(*columns).verify()),
            (SELECT_CHATS, lambda columns: ChatRow(*columns).verify()),
            (SELECT_HOLDERS, HolderRow.of),
        )
        for statement, read in tables:
            self._findings.where = statement.sqlite.partition("FROM ")[2].split()[0]
            async for chunk in self._tx.fetch_chunks(statement):
                for columns in chunk:
                    await self._replay(read(columns))
        self._findings.where = ""
        self._findings.expect(
            self.entries == self._total,
            f"{self._total - self.entries} entries belong to no subject.",
        )
        frames = await self._number(COUNT_KEYFRAMES)
        self._findings.expect(
            self._frames == frames, f"{frames - self._frames} keyframes belong to no entry."
        )

    async def _replay(self, subject: Subject) -> None:
        head, findings = await self._tx.load_head(), self._findings
        is_holder = isinstance(subject, HolderRow)
        replay = SubjectReplay(subject.number, is_holder, head.oldest, findings)
        findings.where = f"subject {subject.number}"
        if isinstance(subject, HolderRow):
            async for taken in (await taken_list(self._tx, subject)).oldest_first(self._tx):
                replay.take_over(taken)
        frames = {
            number for (number,) in await self._tx.fetch_all(SELECT_FRAMES, holder=subject.number)
        }
        async for chunk in subject_list(subject).oldest_first(self._tx):
            for entry in chunk:
                replay.add(entry)
                if entry.entry in frames:
                    await self._check_frame(subject, entry, replay)
            self.entries += len(chunk)
            self._report(self.entries, self._total)
        findings.where = f"subject {subject.number}"
        findings.expect(replay.last == subject.last_entry, "Its last entry is another.")
        findings.expect(subject.revision <= head.revision, "Its revision is in the future.")
        self._check_shape(subject, replay)
        if isinstance(subject, HolderRow):
            await self._check_values(subject, replay)

    def _check_shape(self, subject: Subject, replay: SubjectReplay) -> None:
        """Compare the row of a subject with what the log says of it."""
        if isinstance(subject, HolderRow) and subject.space != "instance":
            return
        state = replay.keys.get("", Replayed())
        if isinstance(subject, ChatRow) and subject.deleted and not replay.count:
            # It was purged before it was exported.
            return
        expected = None if subject.deleted else subject.text()
        self._findings.expect(state.after == expected, "Its row is not what the log says.")

    async def _check_frame(self, subject: Subject, entry: EntryRow, replay: SubjectReplay) -> None:
        self._frames += 1
        row = await self._tx.fetch_one(SELECT_FRAME, holder=subject.number, entry=entry.entry)
        if row is None or not isinstance(subject, HolderRow):
            return
        found = KeyframeRow(*row).verify().entries()
        present = {
            key: state
            for key, state in replay.keys.items()
            if state.after is not None or (not key and subject.space == "instance")
        }
        agrees = found.keys() == present.keys() and all(
            replay.agree(found[key], state.entry) for key, state in present.items()
        )
        self._findings.expect(agrees, "The keyframe there says something else.")

    async def _check_values(self, holder: HolderRow, replay: SubjectReplay) -> None:
        """Compare the values of a holder with what the log says of them."""
        expect, folded = self._findings.expect, last_of((await self._tx.load_head()).oldest)
        count = digest = 0
        async for chunk in self._tx.fetch_chunks(SELECT_ROWS_OF_HOLDER, holder=holder.number):
            for columns in chunk:
                row = DataRow(*columns).verify()
                key = repr(row.key)[:100]
                state = replay.keys.pop(row.key, None)
                if row.value is not None:
                    count += 1
                    digest ^= row.content
                if state is None:
                    gone = row.value is None and 0 < row.last_change <= folded
                    expect(gone, f"The log knows nothing of {key}.")
                    continue
                same = (row.value, row.ordinal) == (state.after, state.ordinal)
                expect(same, f"The value of {key} is not what the log says.")
                agrees = replay.agree(row.entry, state.entry) and replay.agree(
                    row.last_change, state.last_change
                )
                expect(agrees, f"The row of {key} names a wrong entry.")
        replay.keys.pop("", None)
        for name in replay.keys:
            expect(False, f"The value of {name[:100]!r} is missing.")
        expect(
            (count, digest) == (holder.keys, holder.digest),
            "Its account says something else than its values.",
        )
