"""The rows of all tables of a database, each verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow
from valuetracker.store.rows.entries import EntryRow, KeyframeRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.places import FlipRow, PlaceRow
from valuetracker.store.rows.row import Row, names
from valuetracker.store.tx.idempotency import RequestRow

Rows = list[tuple[Any, ...]]

ORDERED: dict[type[Row], str] = {
    CharacterRow: "ORDER BY ordinal",
    HolderRow: "ORDER BY ordinal",
    DataRow: "ORDER BY ordinal",
    EntryRow: "ORDER BY entry",
    KeyframeRow: "",
    ChatRow: "ORDER BY ordinal",
    AliasRow: "",
    PlaceRow: "",
    FlipRow: "ORDER BY revision",
    RequestRow: "",
}
# Each table, as a statement that PostgreSQL understands as well; `{}` is the schema.
TABLES = {
    "head": f"SELECT {names(Head.columns)}, (SELECT identity FROM {{}}.file) FROM {{}}.head",
    "members": "SELECT parent, holder FROM {}.members",
    "taken": f"SELECT {names(EntryRow.columns)} FROM {{}}.taken",
    **{
        row.table: f"SELECT {names(row.columns)} FROM {{}}.{row.table} {order}"
        for row, order in ORDERED.items()
    },
}


def statements(schema: str) -> dict[str, str]:
    return {name: text.replace("{}", schema) for name, text in TABLES.items()}


@dataclass
class Contents:
    head: Head
    characters: list[CharacterRow]
    holders: list[HolderRow]
    members: list[MemberRow]
    data: list[DataRow]
    entries: list[EntryRow]
    taken: list[EntryRow]
    keyframes: list[KeyframeRow]
    chats: list[ChatRow]
    aliases: list[AliasRow]
    places: list[PlaceRow]
    flips: list[FlipRow]
    requests: list[RequestRow]

    @classmethod
    def of(cls, found: dict[str, Rows]) -> Contents:
        (head,) = found["head"]
        return cls(
            Head(*head).verify(),
            [CharacterRow(*row).verify() for row in found["characters"]],
            [HolderRow(*row).verify() for row in found["instances"]],
            [MemberRow(*row) for row in found["members"]],
            [DataRow(*row).verify() for row in found["data"]],
            [EntryRow(*row).verify() for row in found["entries"]],
            [EntryRow(*row).verify() for row in found["taken"]],
            [KeyframeRow(*row).verify() for row in found["keyframes"]],
            [ChatRow(*row).verify() for row in found["chats"]],
            [AliasRow(*row).verify() for row in found["aliases"]],
            [PlaceRow(*row).verify() for row in found["places"]],
            [FlipRow(*row).verify() for row in found["flips"]],
            [RequestRow(*row).verify() for row in found["requests"]],
        )

    @property
    def instances(self) -> list[HolderRow]:
        """The instances that are not deleted."""
        return [row for row in self.holders if row.space == "instance" and not row.deleted]

    def values_of(self, holder: HolderRow) -> list[DataRow]:
        """Return the values of a holder in their order, without removed keys."""
        return [row for row in self.data if row.holder == holder.number and row.value is not None]
