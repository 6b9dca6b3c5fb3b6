"""
An endpoint is a row: methods, path, handler, what it takes, what it answers, what it refuses.

The router, OpenAPI, the docs page and API.md are all made from these rows. The kinds below
say, once, how a piece of a request is read, refused and described.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from valuetracker import names, values
from valuetracker.bridge.prompts import PromptBoard
from valuetracker.errors import (
    Compacted,
    InvalidAt,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidName,
    InvalidQuery,
    RevisionUnknown,
    TooManyKeys,
    ValueTrackerError,
)
from valuetracker.http.gate import Caller
from valuetracker.records import moment
from valuetracker.runtime.extension import Extension, Reading
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.feed import FeedStream
from valuetracker.runtime.users import Users
from valuetracker.settings import Settings
from valuetracker.store.chat_state import AsOf
from valuetracker.store.history import Cursor
from valuetracker.store.tx.changes import NO_CONTEXT, Context
from valuetracker.store.tx.ledger import Written


@dataclass(frozen=True)
class Kind:
    """How one piece of a request is read: `parse` refuses or gives what a verb is given."""

    schema: dict[str, Any]
    parse: Callable[[Any], Any]


def _text(value: Any, refusal: type[ValueTrackerError], noun: str) -> str:
    if not isinstance(value, str):
        raise refusal(f"The {noun} must be a string.")
    return value


def _id_kind(noun: str, length: int = names.ID_LENGTH) -> Kind:
    def parse(value: Any) -> str:
        return names.check_id(_text(value, InvalidId, f"{noun} id"), noun, length)

    # Control characters and blanks at either end are refused as well.
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


EXTENSION_ID = Kind(
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
    lambda value: names.check_extension_id(_text(value, InvalidExtensionId, "extension id")),
)
CHARACTER_ID = _id_kind("character")
INSTANCE_ID = _id_kind("instance")
CHAT_ID = _id_kind("chat", names.CHAT_ID_LENGTH)
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
# A verb is given the canonical text, never the value itself.
VALUE = Kind({"description": "Any JSON value."}, values.canonical)


def object_kind() -> Kind:
    """An object of anything, given as canonical text."""

    def parse(value: Any) -> str:
        if not isinstance(value, dict):
            raise InvalidBody("This must be an object.")
        return values.canonical(value)

    return Kind({"type": "object"}, parse)


def _parse_at(text: str) -> int | str:
    """Digits are a revision; anything else must be a time."""
    if text.isascii() and text.isdigit():
        return int(text[:20])
    try:
        # A plus that was not encoded arrives as a blank.
        time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return moment(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidAt() from None


def number_kind(smallest: int, largest: int) -> Kind:
    """A whole number in a query."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= 19:
            number = int(text)
            if smallest <= number <= largest:
                return number
        raise InvalidQuery(f"This must be a whole number from {smallest} to {largest}.")

    return Kind({"type": "integer", "minimum": smallest, "maximum": largest}, parse)


def choice_kind(*choices: str) -> Kind:
    def parse(text: str) -> str:
        if text not in choices:
            raise InvalidQuery(f"This must be one of {', '.join(choices)}.")
        return text

    return Kind({"type": "string", "enum": list(choices)}, parse)


def _parse_revision(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidBody("A revision must be a whole number.")
    return value


def _parse_state_at(text: str) -> int | str | AsOf:
    kind, colon, message_id = text.partition(":")
    if kind == "message" and colon:
        return AsOf(CHAT_ID.parse(message_id))
    return _parse_at(text)


AT = Kind({"type": "string", "examples": ["42", "2026-01-31T12:00:00Z"]}, _parse_at)
STATE_AT = Kind({"type": "string", "examples": ["42", "message:m-17"]}, _parse_state_at)
REVISION = Kind({"type": "integer", "minimum": 0}, _parse_revision)
LARGEST_NUMBER = 2**63 - 1
POSITION = number_kind(0, LARGEST_NUMBER)
LARGEST_PAGE = 1_000
PAGE_SIZE = number_kind(1, LARGEST_PAGE)


def _parse_cursor(text: str) -> Cursor:
    entry, _, index = text.partition("-")
    return Cursor(POSITION.parse(entry), POSITION.parse(index))


CURSOR = Kind({"type": "string"}, _parse_cursor)

# The names that may stand in braces in a path.
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
}


@dataclass(frozen=True)
class Field:
    """One field of a body, or one parameter of a query."""

    name: str
    kind: Kind
    description: str
    required: bool = True
    nullable: bool = False


# For the reads that can look back, and what they then refuse with.
AT_FIELD = Field(
    "at", AT, "As it was at this revision (digits) or time (ISO 8601).", required=False
)
PAST: tuple[type[ValueTrackerError], ...] = (InvalidAt, RevisionUnknown, Compacted)


@dataclass(frozen=True)
class AnyKeys:
    """A body that is an object of keys and values, whatever they are called."""

    description: str


@dataclass(frozen=True)
class AnyDocument:
    """A body the handler reads itself, by its media type."""

    description: str
    media_types: dict[str, dict[str, Any]]


Handler = Callable[["Call"], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Endpoint:
    """One row of the route table."""

    methods: tuple[str, ...]
    path: str
    handler: Handler
    returns: Any
    body: tuple[Field, ...] | AnyKeys | AnyDocument = ()
    query: tuple[Field, ...] = ()
    raises: tuple[type[ValueTrackerError], ...] = ()
    # Where the extension comes from: "header", "path", "either" the header or the query,
    # or "none" at all; "optional" takes the header where there is one.
    extension: str = "header"
    # Whether `If-Match` can guard it.
    conditional: bool = True
    status: int = 200
    # Other statuses of success, and what they answer.
    also: Mapping[int, Any] = field(default_factory=dict)
    # Whether a body may be left out, which is as good as an empty object.
    body_optional: bool = False
    at_root: bool = False
    # Who may ask (see `gate`): "extension" is whoever has that extension's scope, or may read
    # others if it is a read; "admin" is an admin; "registration" is anybody as long as there
    # are no tokens, then an admin; "own" is a user of SillyTavern with things of their own, or
    # an admin; "public" is anybody.
    access: str = "extension"

    @property
    def writes(self) -> bool:
        return self.extension == "header" and "GET" not in self.methods

    @property
    def changes(self) -> bool:
        """Whether it does more than read."""
        return "GET" not in self.methods

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().split("\n")[0]

    @property
    def description(self) -> str:
        lines = (self.handler.__doc__ or "").strip().split("\n")[1:]
        return "\n".join(line.strip() for line in lines).strip()


@dataclass(slots=True)
class Document:
    """An answer that is bytes already, of another type than JSON or JSON made before."""

    body: bytes
    media_type: str
    # What it may load and run, if it is a page.
    policy: str | None = None


@dataclass(slots=True)
class Stream:
    """An answer that goes on for as long as somebody listens."""

    pieces: FeedStream


@dataclass(frozen=True)
class Service:
    """What handlers may need beside the extension they are about."""

    settings: Settings
    users: Users
    prompts: PromptBoard = field(default_factory=PromptBoard)
    # Made on first use: most servers are never asked.
    documents: dict[str, Callable[[], Document]] = field(default_factory=dict)


class Call:
    """One request on its way: what was sent, checked, and the doors to the store."""

    __slots__ = (
        "body",
        "caller",
        "context",
        "document",
        "extension_id",
        "extensions",
        "last_event_id",
        "media_type",
        "path",
        "query",
        "reading",
        "service",
        "status",
        "values",
    )

    def __init__(
        self,
        service: Service,
        extensions: Extensions,
        caller: Caller,
        extension_id: str,
        path: dict[str, str],
    ) -> None:
        self.service = service
        self.caller = caller
        # Those of the user who asks.
        self.extensions = extensions
        self.extension_id = extension_id
        self.path = path
        self.query: dict[str, Any] = {}
        self.body: dict[str, Any] = {}
        # The keys and canonical values of a body that is all keys.
        self.values: dict[str, str] = {}
        # A body of a kind the handler reads itself.
        self.document: Any = None
        self.media_type = ""
        # What a writing request says beside what it asks for, and its status.
        self.context: Context = NO_CONTEXT
        self.status = 200
        self.last_event_id: bytes | None = None
        # What the answer was read at, for its headers and for memory.
        self.reading: tuple[Extension, Reading[Any]] | None = None

    async def read(self, verb: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        """Run a reading verb on a connection that cannot write."""
        extensions = self.extensions
        extension = await extensions.enter(self.extension_id)
        try:
            reading = await extension.read(verb, *arguments)
        finally:
            extensions.leave(extension)
        self.reading = (extension, reading)
        return reading.result

    async def write(
        self, verb: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any
    ) -> Written:
        """Run a writing verb; its answer is durable when this returns."""
        extensions = self.extensions
        extension = extensions.enter_open(self.extension_id) or await extensions.enter(
            self.extension_id
        )
        try:
            return await extension.write(verb, *arguments, context=self.context, status=self.status)
        finally:
            extensions.leave(extension)
