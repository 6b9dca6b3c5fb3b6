"""The rows of all tables of a database, each verified."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow, SessionRow
from valuetracker.store.rows.claims import ClaimRow
from valuetracker.store.rows.entries import EntryRow, KeyframeRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import AdoptedRow, DataRow, HolderRow
from valuetracker.store.rows.places import FlipRow, PlaceRow
from valuetracker.store.rows.row import Row, names
from valuetracker.store.tx.idempotency import RequestRow

Rows = list[tuple[Any, ...]]

ORDERED: dict[type[Row], str] = {
    CharacterRow: "ORDER BY ordinal",
    HolderRow: "ORDER BY ordinal",
    MemberRow: "",
    DataRow: "ORDER BY ordinal",
    AdoptedRow: "",
    SessionRow: "",
    ClaimRow: "",
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
    adopted: list[AdoptedRow]
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
        rows: dict[str, Any] = {
            kind.table: [kind(*row).verify() for row in found[kind.table]] for kind in ORDERED
        }
        data = rows["data"]
        accounts = {row.holder: row for row in data if not row.key}
        holders = [
            HolderRow.of((*row, *attrgetter(*DataRow.columns)(accounts.pop(row[0]))))
            for row in found["instances"]
        ]
        assert not accounts, "an account belongs to no holder"
        rows |= {"instances": holders, "data": [row for row in data if row.key]}
        taken = [EntryRow(*row).verify() for row in found["taken"]]
        del rows["sessions"], rows["claims"]
        rows["holders"] = rows.pop("instances")
        return cls(head=Head(*head).verify(), taken=taken, **rows)

    @property
    def instances(self) -> list[HolderRow]:
        """The instances that are not deleted."""
        return [row for row in self.holders if row.space == "instance" and not row.deleted]

    def values_of(self, holder: HolderRow) -> list[DataRow]:
        """Return the values of a holder in their order, without removed keys."""
        return [row for row in self.data if row.holder == holder.number and row.value is not None]
