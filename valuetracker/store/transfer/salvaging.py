"""
Salvaging: an export of every row of a damaged database that is intact.

It can be imported with `mode=merge`, which takes the present values; with `mode=replace` the
history comes along, too, if nothing that it needs is lost. What belongs to a row that is lost, and
means nothing without it, is lost with it.
"""

from __future__ import annotations

from typing import Any

from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DataRow, HolderRow, account_of
from valuetracker.store.rows.spaces import SPACES
from valuetracker.store.transfer.lines import LineWriter, first_line
from valuetracker.store.transfer.records import KINDS, VALUE, Kind

BY_TABLE: dict[str, Kind] = {kind.table: kind for kind in KINDS.values()}


class Salvage:
    """The intact rows of one database."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._rows: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        self._accounts: dict[int, DataRow] = {}
        self.lost: list[str] = []

    def take(self, table: str, columns: tuple[Any, ...]) -> None:
        """Take up a row that is intact."""
        if table == Head.table:
            self._head = Head(*columns)
        elif table in BY_TABLE:
            kind = BY_TABLE[table]
            row: Any = kind.row(*columns)
            if isinstance(row, DataRow) and not row.key:
                self._accounts[row.holder] = row
            else:
                self._rows[kind.type].append(row)

    def write(self, extension_id: str, writer: LineWriter) -> int:
        """Write an export of what belongs together; return how many values it has."""
        self._mend_holders()
        known = {row.number for row in self._rows["holder"]}
        values = self._rows[VALUE.type]
        self._rows[VALUE.type] = [row for row in values if row.holder in known]
        homeless = len(values) - len(self._rows[VALUE.type])
        if homeless:
            self.lost.append(f"data: {homeless} values of instances or chats that are lost.")
        head = self._head or self._guess_head()
        writer.write(
            first_line(
                extension_id,
                revision=head.revision,
                oldest=head.oldest,
                adopted=head.adopted,
                number=head.number,
                ordinal=head.ordinal,
            )
        )
        for name, kind in KINDS.items():
            for row in self._rows[name]:
                writer.write(kind.encode(row))
        writer.end()
        return sum(row.value is not None for row in self._rows[VALUE.type])

    def _mend_holders(self) -> None:
        """Keep the holders whose owners are there; an instance needs only the id of its own."""
        characters = {row.id for row in self._rows["character"] if not row.deleted}
        chats = {row.number for row in self._rows["chat"]}
        kept: list[HolderRow] = []
        for holder in self._rows["holder"]:
            if holder.chat is not None and holder.chat not in chats:
                self.lost.append(f"instances: the chat of {holder.id[:200]!r}.")
                if holder.space in SPACES:
                    continue
                holder.chat = None
            is_instance = holder.space not in SPACES and not holder.deleted
            if is_instance and holder.character_id not in characters:
                self.lost.append(f"characters: all of {holder.character_id!r} but its id.")
                self._rows["character"].append(_stand_in(holder))
                characters.add(holder.character_id)
            account = self._accounts.get(holder.number)
            if account is None:
                self.lost.append(f"data: the account of {holder.id[:200]!r}.")
            else:
                holder.last_entry = account.entry
                (
                    holder.revision,
                    holder.changes_since_keyframe,
                    holder.keys,
                    holder.digest,
                ) = account_of(account)
            kept.append(holder)
        self._rows["holder"] = kept

    def _guess_head(self) -> Head:
        entries: list[EntryRow] = self._rows["entry"]
        numbers = [
            row.number for name in ("character", "chat", "holder") for row in self._rows[name]
        ]
        revision = max((row.revision for row in entries), default=0)
        self.lost.append("head: where the log begins and ends.")
        return Head(revision, 0, number=max(numbers, default=0), ordinal=max(numbers, default=0))


def _stand_in(holder: HolderRow) -> CharacterRow:
    """Return a character of which only the id is known."""
    row = CharacterRow(
        holder.number,
        holder.ordinal,
        holder.character_id or "",
        None,
        holder.created_at,
        holder.updated_at,
    )
    row.seal()
    return row
