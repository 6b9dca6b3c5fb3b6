"""
Plain values for spreadsheets: one row per value, without history, as CSV or JSON.
"""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import shown_key
from valuetracker.store.transfer.lines import Target
from valuetracker.store.transfer.part import Part

COLUMNS = ("chatId", "characterId", "instanceId", "space", "key", "value")
SELECT_VALUES = Statement(
    """
    SELECT instances.number, chats.id, instances.character_id, instances.id, instances.space,
        data.key, data.value
    FROM {schema}.data JOIN {schema}.instances ON instances.number = data.holder
        LEFT JOIN {schema}.chats ON chats.number = instances.chat
    WHERE data.key <> '' AND data.value IS NOT NULL AND instances.deleted = 0
    ORDER BY instances.ordinal, data.ordinal
    """
)
# A spreadsheet takes a text that begins with one of these for a formula, and runs it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
PIECE_LENGTH = 64 * 1024


async def write_values(tx: Snapshot, part: Part | None, format: str, target: Target) -> None:
    """Write the present values of an extension, or of a part of it."""
    writer = _CSV(target) if format == "csv" else _JSON(target)
    async for chunk in tx.fetch_chunks(SELECT_VALUES):
        for number, chat_id, character_id, id, space, key, value in chunk:
            if _belongs(part, number):
                instance_id = id if space == "instance" else None
                shown = shown_key(space, key) or ""
                writer.add((chat_id, character_id, instance_id, space, shown), value)
    writer.end()


def _belongs(part: Part | None, number: int) -> bool:
    return part is None or number in part.holders


class _CSV:
    """Texts stand as they are, other values as JSON."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._text = io.StringIO(newline="")
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def add(self, names: tuple[str | None, ...], value: str) -> None:
        plain: Any = orjson.loads(value) if value[:1] == '"' else None
        shown = _no_formula(plain) if isinstance(plain, str) else value
        self._writer.writerow([*(_no_formula(each or "") for each in names), shown])
        if self._text.tell() >= PIECE_LENGTH:
            self._flush()

    def _flush(self) -> None:
        self._target.write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()

    def end(self) -> None:
        self._flush()


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


class _JSON:
    """An array with one object per value."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._before = b"["

    def add(self, names: tuple[str | None, ...], value: str) -> None:
        record = dict(zip(COLUMNS, (*names, orjson.Fragment(value)), strict=True))
        self._target.write(self._before + orjson.dumps(record))
        self._before = b",\n"

    def end(self) -> None:
        self._target.write((b"[" if self._before == b"[" else b"") + b"]\n")
