"""The rows of all tables of a database, each verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valuetracker.store import rows
from valuetracker.store import statements as sql
from valuetracker.store.entries import EntryRow, KeyframeRow
from valuetracker.store.requests import RequestRow

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
    head: rows.Head
    characters: list[rows.CharacterRow]
    holders: list[rows.HolderRow]
    members: list[rows.MemberRow]
    data: list[rows.DataRow]
    entries: list[EntryRow]
    taken: list[EntryRow]
    keyframes: list[KeyframeRow]
    chats: list[rows.ChatRow]
    aliases: list[rows.AliasRow]
    places: list[rows.PlaceRow]
    flips: list[rows.FlipRow]
    requests: list[RequestRow]

    @classmethod
    def of(cls, found: dict[str, Rows]) -> Contents:
        (head,) = found["head"]
        return cls(
            rows.Head(*head).verify(),
            [rows.CharacterRow(*row).verify() for row in found["characters"]],
            [rows.HolderRow(*row).verify() for row in found["holders"]],
            [rows.MemberRow(*row) for row in found["members"]],
            [rows.DataRow(*row).verify() for row in found["data"]],
            [EntryRow(*row).verify() for row in found["entries"]],
            [EntryRow(*row).verify() for row in found["taken"]],
            [KeyframeRow(*row).verify() for row in found["keyframes"]],
            [rows.ChatRow(*row).verify() for row in found["chats"]],
            [rows.AliasRow(*row).verify() for row in found["aliases"]],
            [rows.PlaceRow(*row).verify() for row in found["places"]],
            [rows.FlipRow(*row).verify() for row in found["flips"]],
            [RequestRow(*row).verify() for row in found["requests"]],
        )

    @property
    def instances(self) -> list[rows.HolderRow]:
        """Those that are there."""
        return [row for row in self.holders if row.space == "instance" and not row.gone]

    def values_of(self, holder: rows.HolderRow) -> list[rows.DataRow]:
        """Its values in their order, without keys that are gone."""
        return [row for row in self.data if row.holder == holder.number and row.value is not None]
