"""
Records: one row of a table as one line of an export.

A record has the columns of its row in camelCase, without the checksum, and without columns that
are NULL or 0. Texts that are JSON stand in it as JSON, and so do the changes of an entry. Reading
a record is the exact reverse: whatever the format does not know is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from valuetracker.errors import ImportInvalid
from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    BETWEEN_FIELDS,
    DERIVED,
    TAKEN,
    EntryRow,
    KeyframeRow,
    encode_name,
)
from valuetracker.store.rows.entries import decode_name as _decode_name
from valuetracker.store.rows.holders import AdoptedRow, DataRow, HolderRow
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.rows.operations import OperationRow
from valuetracker.store.rows.places import FlipRow, PlaceRow
from valuetracker.store.rows.row import Row

Record = dict[str, Any]
# Writes a column as a field, and reads it again.
Special = tuple[Callable[[str], Any], Callable[[Any], str]]

# No index of either engine takes a longer text.
LONGEST_INDEXED = 2_600
SMALLEST, LARGEST = -(2**63), 2**63 - 1
# How far back another entry is: `3`, or `3.1`.
BACK = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,8})?\Z")
ACCOUNT = ("revision", "last_entry", "changes_since_keyframe", "keys", "digest")


class Kind:
    """How the rows of one table are written as records of one type, and read again."""

    def __init__(
        self,
        type: str,
        row: type[Row],
        json: tuple[str, ...] = (),
        revisions: tuple[str, ...] = (),
        entries: tuple[str, ...] = (),
        indexed: tuple[str, ...] = (),
        table: str | None = None,
    ) -> None:
        self.type = type
        self.row = row
        self.table = table or row.table
        stored = [name for name in row.columns if name != "checksum"]
        annotations = {name: row.__annotations__[name] for name in stored}
        if row is HolderRow:
            annotations |= dict.fromkeys(ACCOUNT, "int")
        self._fields = [
            _Field(name, annotation, name in json, name in indexed, SPECIAL.get((row, name)))
            for name, annotation in annotations.items()
        ]
        self._by_name = {each.name: each for each in self._fields}
        self._revisions, self._entries = revisions, entries

    def encode(self, row: Any) -> bytes:
        """Return a row as a line, without the newline."""
        record: Record = {"type": self.type}
        for field in self._fields:
            value = getattr(row, field.column)
            if value is not None and value != 0 and not (field.is_special and not value):
                record[field.name] = field.write(value)
        return orjson.dumps(record)

    def decode(self, record: Record, shift: int) -> Any:
        """Return the row of a record, its revisions shifted, and sealed."""
        columns: dict[str, Any] = {}
        for name, value in record.items():
            if name != "type":
                field = self._by_name.get(name)
                if field is None:
                    raise ImportInvalid(f"A record `{self.type}` has no field `{name[:64]}`.")
                columns[field.column] = field.read(value)
        for field in self._fields:
            if field.column not in columns:
                columns[field.column] = field.default(self.type)
        if shift:
            self._shift(columns, shift)
        if self.row is HolderRow:
            return _holder(columns)
        row = self.row(**columns)
        row.seal()
        return row

    def _shift(self, columns: dict[str, Any], shift: int) -> None:
        # 0 stands for no revision and for no entry.
        for name in self._revisions:
            columns[name] += shift if columns[name] else 0
        for name in self._entries:
            columns[name] += first_of(shift) if columns[name] else 0
        if "changes" in columns:
            columns["changes"] = _shift_changes(columns["changes"], first_of(shift))


def _holder(columns: dict[str, Any]) -> HolderRow:
    account = {name: columns.pop(name) for name in ACCOUNT}
    row = HolderRow(**columns)
    for name, value in account.items():
        setattr(row, name, value)
    row.seal()
    return row


class _Field:
    """One column of a row, as a field of a record."""

    def __init__(
        self,
        column: str,
        annotation: str,
        is_json: bool,
        is_indexed: bool,
        special: Special | None,
    ) -> None:
        self.column = column
        first, *others = column.split("_")
        self.name = first + "".join(each.capitalize() for each in others)
        if column == "type":
            # Each record has a type of its own.
            self.name = "operationType"
        self._is_json, self._is_indexed = is_json, is_indexed
        self._is_text = annotation.startswith("str")
        self._is_optional = annotation.endswith("None")
        self._special = special
        self.is_special = special is not None

    def write(self, value: Any) -> Any:
        if self._special is not None:
            return self._special[0](value)
        return orjson.Fragment(value) if self._is_json else value

    def read(self, value: Any) -> Any:
        if self._special is not None:
            return self._special[1](value)
        if self._is_json:
            return _no_nul(_text(value), self.name)
        if self._is_text:
            if not isinstance(value, str):
                raise ImportInvalid(f"`{self.name}` must be a text.")
            if self._is_indexed and len(value.encode()) > LONGEST_INDEXED:
                raise ImportInvalid(f"`{self.name}` is too long.")
            return _no_nul(value, self.name)
        if type(value) is not int or not SMALLEST <= value <= LARGEST:
            raise ImportInvalid(f"`{self.name}` must be a whole number.")
        return value

    def default(self, type: str) -> Any:
        if self._is_optional:
            return None
        if not self._is_text:
            return 0
        if self.is_special:
            return ""
        raise ImportInvalid(f"A record `{type}` lacks the field `{self.name}`.")


def _text(value: Any) -> str:
    """Return a value as the text that is stored; what is stored was canonical."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        raise ImportInvalid("A value of the file is nested too deeply.") from None


def _no_nul(text: str, name: str) -> str:
    # Checksums are over texts that NUL separates, and PostgreSQL stores none.
    if "\0" in text:
        raise ImportInvalid(f"`{name}` holds a NUL.")
    return text


# The changes of an entry


def _write_changes(text: str) -> list[Record]:
    return [_write_change(piece) for piece in text.split(BETWEEN_CHANGES)]


def _write_change(piece: str) -> Record:
    key, op, back, ordinal, after, *operand = piece.split(BETWEEN_FIELDS)
    change: Record = {}
    if key:
        change["key"] = _decode_name(key)
    change["op"] = op or "set"
    if back:
        change["back"] = back
    if ordinal:
        change["ordinal"] = int(ordinal)
    if after[:1] == "~":
        change["leftOut"] = [int(number) for number in after[1:].split(".")]
    elif after:
        change["after"] = orjson.Fragment(after)
    if operand:
        change["operand"] = orjson.Fragment(operand[0])
    return change


CHANGE_FIELDS = {"key", "op", "back", "ordinal", "leftOut", "after", "operand"}


def _read_changes(value: Any) -> str:
    if not isinstance(value, list):
        raise ImportInvalid("`changes` must be a list.")
    return _no_nul(BETWEEN_CHANGES.join([_read_change(each) for each in value]), "changes")


def _read_change(change: Any) -> str:
    if not isinstance(change, dict) or change.keys() - CHANGE_FIELDS:
        raise ImportInvalid("A change has an unknown field.")
    key, op = change.get("key", ""), change.get("op")
    back, ordinal = change.get("back", ""), change.get("ordinal", 0)
    if not (isinstance(key, str) and isinstance(op, str) and op.isprintable() and op):
        raise ImportInvalid("A change must have an operator, and its key must be a text.")
    if not (isinstance(back, str) and (not back or BACK.match(back))):
        raise ImportInvalid("`back` of a change must look like 3 or 3.1.")
    if type(ordinal) is not int or not 0 <= ordinal <= LARGEST:
        raise ImportInvalid("`ordinal` of a change must be a whole number.")
    after = _text(change["after"]) if "after" in change else ""
    if "leftOut" in change:
        numbers = change["leftOut"]
        is_pair = isinstance(numbers, list) and len(numbers) == 2
        if after or not is_pair or any(type(each) is not int or each < 0 for each in numbers):
            raise ImportInvalid("`leftOut` of a change must be two whole numbers.")
        after = "~{}.{}".format(*numbers)
    fields = [encode_name(key), op if op != "set" else "", back, str(ordinal or ""), after]
    if "operand" in change:
        fields.append(_text(change["operand"]))
    return BETWEEN_FIELDS.join(fields)


def _shift_changes(text: str, shift: int) -> str:
    """Shift the entries that changes name by number: those of restores and of derived ones."""
    if not text:
        return text
    pieces: list[str] = []
    for piece in text.split(BETWEEN_CHANGES):
        fields = piece.split(BETWEEN_FIELDS)
        if len(fields) == 6 and fields[1] in ("restore", *DERIVED):
            fields[5] = _shift_operand(fields[5], shift)
            piece = BETWEEN_FIELDS.join(fields)
        pieces.append(piece)
    return BETWEEN_CHANGES.join(pieces)


def _shift_operand(text: str, shift: int) -> str:
    operand = orjson.loads(text)
    try:
        if isinstance(operand, list):
            operand = [[number + shift, index, always] for number, index, always in operand]
        else:
            operand = operand + shift if operand else operand
    except (TypeError, ValueError):
        raise ImportInvalid("The operand of a change names no entries.") from None
    return orjson.dumps(operand).decode()


# The entries that a keyframe names


def _write_keys(text: str) -> Record:
    pairs = (piece.split(BETWEEN_FIELDS) for piece in text.split(BETWEEN_CHANGES))
    return {_decode_name(key): back for key, back in pairs}


def _read_keys(value: Any) -> str:
    if not isinstance(value, dict):
        raise ImportInvalid("`keys` of a keyframe must be an object.")
    if not all(isinstance(back, str) and BACK.match(back) for back in value.values()):
        raise ImportInvalid("`keys` of a keyframe must say how far back each entry is.")
    text = BETWEEN_CHANGES.join(
        f"{encode_name(key)}{BETWEEN_FIELDS}{back}" for key, back in value.items()
    )
    return _no_nul(text, "keys")


SPECIAL: dict[tuple[type[Row], str], Special] = {
    (EntryRow, "changes"): (_write_changes, _read_changes),
    (KeyframeRow, "keys"): (_write_keys, _read_keys),
}

# In the order in which they stand in a file.
CHARACTER = Kind(
    "character",
    CharacterRow,
    revisions=("revision",),
    entries=("last_entry",),
    indexed=("id",),
)
CHAT = Kind(
    "chat",
    ChatRow,
    json=("origin",),
    revisions=("readable_from", "reordered", "revision"),
    entries=("last_entry",),
    indexed=("id",),
)
ALIAS = Kind("alias", AliasRow, indexed=("id",))
PLACE = Kind("place", PlaceRow, revisions=("first_seen", "first_written"))
FLIP = Kind("flip", FlipRow, revisions=("revision",))
HOLDER = Kind(
    "holder",
    HolderRow,
    revisions=("readable_from", "revision"),
    entries=("shape_entry", "last_entry"),
    indexed=("id", "space", "character_id"),
)
MEMBER = Kind("member", MemberRow)
VALUE = Kind("value", DataRow, json=("value",), entries=("entry", "dormant_entry"))
ADOPTED = Kind("adopted", AdoptedRow, json=("value",))
ENTRY = Kind("entry", EntryRow, revisions=("left_at",), entries=("entry",))
TAKEN_ENTRY = Kind("taken", EntryRow, revisions=("left_at",), entries=("entry",), table=TAKEN)
KEYFRAME = Kind("keyframe", KeyframeRow, entries=("entry",))
CHECKPOINT = Kind(
    "checkpoint",
    CheckpointRow,
    json=("expect", "meta", "warnings", "state"),
    revisions=("revision",),
    indexed=("name",),
)
OPERATION = Kind("operation", OperationRow, json=("data", "depends_on", "waiting"), indexed=("id",))
KINDS = {
    kind.type: kind
    for kind in (
        CHARACTER,
        CHAT,
        ALIAS,
        PLACE,
        FLIP,
        HOLDER,
        MEMBER,
        VALUE,
        ADOPTED,
        ENTRY,
        TAKEN_ENTRY,
        KEYFRAME,
        CHECKPOINT,
        OPERATION,
    )
}
