"""
Kinds of values in a request: ids, keys, names, numbers, revisions, times.

A `Kind` says once how a piece of a request is parsed, refused and described. Paths, queries and
bodies use the same kinds, and OpenAPI takes its schemas from them. This module knows nothing
of routes, of handlers, or of the store beyond the types that verbs take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from valuetracker import names, values
from valuetracker.errors import (
    InvalidAt,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidName,
    InvalidQuery,
    TooManyKeys,
    ValueTrackerError,
)
from valuetracker.records import moment
from valuetracker.store.history import Cursor
from valuetracker.store.log.state_at import AsOf, ChatAt
from valuetracker.store.rows.head import KnownRevision


@dataclass(frozen=True)
class Kind:
    """One kind of value: its JSON schema, and `parse`, which checks a value and converts it."""

    schema: dict[str, Any]
    parse: Callable[[Any], Any]


# Texts and flags


def _text(value: Any, refusal: type[ValueTrackerError], noun: str) -> str:
    if not isinstance(value, str):
        raise refusal(f"The {noun} must be a string.")
    return value


def _id_kind(noun: str, length: int = names.ID_LENGTH) -> Kind:
    def parse(value: Any) -> str:
        return names.check_id(_text(value, InvalidId, f"{noun} id"), noun, length)

    # Control characters are refused, and blanks at either end.
    schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": length,
        "pattern": r"^[^\u0000-\u0020\u007f-\u00a0](.*[^\u0000-\u0020\u007f-\u00a0])?$",
    }
    return Kind(schema, parse)


def _parse_keys(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise InvalidBody("`keys` must be an array of keys.")
    check_key_count(len(value))
    return [KEY.parse(each) for each in value]


def check_key_count(count: int) -> None:
    if count > values.KEYS_PER_REQUEST:
        raise TooManyKeys(f"A request may name {values.KEYS_PER_REQUEST} keys at the most.")


def _parse_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidBody("A flag must be true or false.")
    return value


def choice_kind(*choices: str) -> Kind:
    """Return the kind of a query parameter that is one of these texts."""

    def parse(text: str) -> str:
        if text not in choices:
            raise InvalidQuery(f"This must be one of {', '.join(choices)}.")
        return text

    return Kind({"type": "string", "enum": list(choices)}, parse)


EXTENSION_ID = Kind(
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
    lambda value: names.check_extension_id(_text(value, InvalidExtensionId, "extension id")),
)
CHARACTER_ID = _id_kind("character")
INSTANCE_ID = _id_kind("instance")
CHAT_ID = _id_kind("chat", names.CHAT_ID_LENGTH)
MESSAGE_ID = _id_kind("message", names.CHAT_ID_LENGTH)
KEY = Kind(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": names.KEY_LENGTH,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
    },
    lambda value: names.check_key(_text(value, InvalidKey, "key")),
)
KEYS = Kind(
    {"type": "array", "items": KEY.schema, "maxItems": values.KEYS_PER_REQUEST}, _parse_keys
)
NAME = Kind(
    {"type": "string", "maxLength": names.NAME_LENGTH},
    lambda value: names.check_name(_text(value, InvalidName, "name")),
)
CHECKPOINT_NAME = _id_kind("checkpoint")
LOREBOOK_NAME = Kind(
    {"type": "string", "minLength": 1, "maxLength": names.FILE_NAME_BYTES},
    lambda value: names.check_lorebook_name(_text(value, InvalidName, "name")),
)
TEXT = Kind({"type": "string"}, lambda value: _text(value, InvalidBody, "text"))
FLAG = Kind({"type": "boolean"}, _parse_flag)


# JSON values. A verb is given the canonical text of a value, never the value itself.


def _parse_object(value: Any) -> str:
    if not isinstance(value, dict):
        raise InvalidBody("This must be an object.")
    return values.canonical(value)


VALUE = Kind({"description": "Any JSON value."}, values.canonical)
OBJECT = Kind({"type": "object"}, _parse_object)


# Numbers, revisions and times


def number_kind(smallest: int, largest: int) -> Kind:
    """Return the kind of a query parameter that is a whole number in this range."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= 19:
            number = int(text)
            if smallest <= number <= largest:
                return number
        raise InvalidQuery(f"This must be a whole number from {smallest} to {largest}.")

    return Kind({"type": "integer", "minimum": smallest, "maximum": largest}, parse)


def _parse_revision(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidBody("A revision must be a whole number.")
    return value


def _parse_at(text: str) -> int | str:
    """Return a revision if the text is all digits, otherwise a time."""
    if text.isascii() and text.isdigit():
        return int(text[:20])
    try:
        # A plus sign that the client did not encode arrives as a blank.
        time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return moment(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidAt() from None


def _parse_chat_at(text: str) -> ChatAt:
    kind, colon, message_id = text.partition(":")
    if kind == "message" and colon:
        return AsOf(MESSAGE_ID.parse(message_id))
    return _parse_at(text)


def _parse_cursor(text: str) -> Cursor:
    entry, _, rest = text.partition("-")
    index, incarnation = _parse_position(rest)
    return Cursor(POSITION.parse(entry), index, incarnation)


def _parse_extension_ids(text: str) -> tuple[str, ...]:
    ids = text.split(",")
    if len(ids) > EXTENSIONS_PER_FEED:
        raise InvalidQuery(f"This may name {EXTENSIONS_PER_FEED} extensions at the most.")
    found = tuple(map(EXTENSION_ID.parse, ids))
    if len(set(found)) < len(found):
        raise InvalidQuery("This names an extension twice.")
    return found


def _parse_feed_cursor(text: str) -> KnownRevision | dict[str, KnownRevision]:
    """Return the cursor of one extension, or those of several by their ids."""
    if ":" not in text:
        return _parse_position(text)
    pairs = [each.partition(":") for each in text.split(",")]
    cursors = {id: number for id, _, number in pairs}
    if len(cursors) < len(pairs) or not all(map(names.EXTENSION_ID.match, cursors)):
        raise InvalidQuery("This must name each extension once, as in `a:12,b:7`.")
    return {id: _parse_position(number) for id, number in cursors.items()}


def _parse_position(text: str) -> KnownRevision:
    """Return a cursor such as `12`, or `12.2` once it was restored twice."""
    revision, dot, incarnation = text.partition(".")
    return KnownRevision(POSITION.parse(revision), INCARNATION.parse(incarnation) if dot else 0)


REVISION = Kind({"type": "integer", "minimum": 0}, _parse_revision)
AT = Kind({"type": "string", "examples": ["42", "2026-01-31T12:00:00Z"]}, _parse_at)
CHAT_AT = Kind({"type": "string", "examples": ["42", "message:m-17"]}, _parse_chat_at)
LARGEST_NUMBER = 2**63 - 1
POSITION = number_kind(0, LARGEST_NUMBER)
INCARNATION = number_kind(1, LARGEST_NUMBER)
LARGEST_PAGE = 1_000
PAGE_SIZE = number_kind(1, LARGEST_PAGE)
CURSOR = Kind({"type": "string"}, _parse_cursor)
# How many extensions one feed may follow.
EXTENSIONS_PER_FEED = 32
EXTENSION_IDS = Kind({"type": "string", "examples": ["a,b"]}, _parse_extension_ids)
FEED_CURSOR = Kind({"type": "string", "examples": ["12", "12.2", "a:12,b:7.2"]}, _parse_feed_cursor)
# For callers any text: the ordinal of the last item.
LIST_CURSOR = Kind({"type": "string"}, POSITION.parse)


# The parameters of all paths. A name in the braces of a path must have its kind here.
PATH_KINDS = {
    "extension": EXTENSION_ID,
    "character": CHARACTER_ID,
    "instance": INSTANCE_ID,
    "key": KEY,
    "chat": CHAT_ID,
    "series": _id_kind("series"),
    "version": TEXT,
    "set": _id_kind("set"),
    "id": _id_kind("processed", names.CHAT_ID_LENGTH),
    "operation": _id_kind("operation"),
    "checkpoint": CHECKPOINT_NAME,
    "lorebook": LOREBOOK_NAME,
    "job": _id_kind("job"),
    "backup": _id_kind("backup"),
    "token": _id_kind("token"),
}
