"""The rows of all tables of a database, each verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valuetracker.store.rows import row_types
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import EntryRow, KeyframeRow
from valuetracker.store.tx.idempotency import RequestRow

Rows = list[tuple[Any, ...]]

# Each table, as a statement that PostgreSQL understands as well; `{}` is the schema.
TABLES = {
    "head": f"SELECT {sql.names(sql.HEAD)}, (SELECT identity FROM {{}}.file) FROM {{}}.head",
    "characters": f"SELECT {sql.names(sql.CHARACTERS)} FROM {{}}.characters ORDER BY place",
    "holders": f"SELECT {sql.names(sql.HOLDERS)} FROM {{}}.holders ORDER BY place",
    "members": f"SELECT {sql.names(sql.MEMBERS)} FROM {{}}.members",
    "data": f"SELECT {sql.names(sql.DATA)} FROM {{}}.data ORDER BY place",
    "entries": f"SELECT {sql.names(sql.ENTRIES)} FROM {{}}.entries ORDER BY entry",
    "taken": f"SELECT {sql.names(sql.ENTRIES)} FROM {{}}.taken",
    "keyframes": f"SELECT {sql.names(sql.KEYFRAMES)} FROM {{}}.keyframes",
    "chats": f"SELECT {sql.names(sql.CHATS)} FROM {{}}.chats ORDER BY place",
    "aliases": f"SELECT {sql.names(sql.ALIASES)} FROM {{}}.aliases",
    "places": f"SELECT {sql.names(sql.PLACES)} FROM {{}}.places",
    "flips": f"SELECT {sql.names(sql.FLIPS)} FROM {{}}.flips ORDER BY revision",
    "requests": """
        SELECT key, fingerprint, at, revision, status, live, body, checksum
        FROM {}.requests""",
}


def statements(schema: str) -> dict[str, str]:
    return {name: text.replace("{}", schema) for name, text in TABLES.items()}


@dataclass
class Contents:
    head: row_types.Head
    characters: list[row_types.CharacterRow]
    holders: list[row_types.HolderRow]
    members: list[row_types.MemberRow]
    data: list[row_types.DataRow]
    entries: list[EntryRow]
    taken: list[EntryRow]
    keyframes: list[KeyframeRow]
    chats: list[row_types.ChatRow]
    aliases: list[row_types.AliasRow]
    places: list[row_types.PlaceRow]
    flips: list[row_types.FlipRow]
    requests: list[RequestRow]

    @classmethod
    def of(cls, found: dict[str, Rows]) -> Contents:
        (head,) = found["head"]
        return cls(
            row_types.Head(*head).verify(),
            [row_types.CharacterRow(*row).verify() for row in found["characters"]],
            [row_types.HolderRow(*row).verify() for row in found["holders"]],
            [row_types.MemberRow(*row) for row in found["members"]],
            [row_types.DataRow(*row).verify() for row in found["data"]],
            [EntryRow(*row).verify() for row in found["entries"]],
            [EntryRow(*row).verify() for row in found["taken"]],
            [KeyframeRow(*row).verify() for row in found["keyframes"]],
            [row_types.ChatRow(*row).verify() for row in found["chats"]],
            [row_types.AliasRow(*row).verify() for row in found["aliases"]],
            [row_types.PlaceRow(*row).verify() for row in found["places"]],
            [row_types.FlipRow(*row).verify() for row in found["flips"]],
            [RequestRow(*row).verify() for row in found["requests"]],
        )

    @property
    def instances(self) -> list[row_types.HolderRow]:
        """Those that are there."""
        return [row for row in self.holders if row.space == "instance" and not row.gone]

    def values_of(self, holder: row_types.HolderRow) -> list[row_types.DataRow]:
        """Its values in their order, without keys that are gone."""
        return [row for row in self.data if row.holder == holder.number and row.value is not None]
