"""
Values: any JSON, stored as canonical JSON text.

`parse` turns a body into Python objects and refuses values that could not be returned
exactly as they were sent. `canonical` turns one value into the text that is stored and
later inserted into answers without being parsed again. `load_text` turns such a text into Python
objects, for an operator that changes it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from valuetracker.errors import (
    InvalidBody,
    NumberOutOfRange,
    TooDeep,
    ValueTooLarge,
    ValueTrackerError,
)
from valuetracker.integers import LARGEST_INTEGER, SMALLEST_INTEGER, may_be_beyond
from valuetracker.large_json import PIECE_BYTES, LargeDocument

BODY_BYTES = 32 * 1024 * 1024
VALUE_BYTES = 8 * 1024 * 1024
VALUE_DEPTH = 128
KEYS_PER_REQUEST = 10_000

CONTAINERS = (dict, list)

# Bodies of more bytes are cut into pieces, which takes longer and delays nobody.
LARGE_BODY_BYTES = PIECE_BYTES


def parse(body: bytes) -> Any:
    """Return the JSON document in `body`, or raise an error that says what is wrong with it."""
    if not body:
        raise InvalidBody("A JSON body is required.")
    if len(body) > LARGE_BODY_BYTES:
        return parse_large(LargeDocument(body))
    document = load(body)
    # Strings full of digits are rare enough not to matter.
    if may_be_beyond(body):
        _check_integers(body)
    return document


def parse_large(document: LargeDocument) -> Any:
    """Return a document that has been cut into pieces."""
    return document.parse(load)


def load(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "infinity" in error.msg:
            raise NumberOutOfRange() from None
        if "depth limit" in error.msg:
            raise TooDeep() from None
        raise InvalidBody(f"The body is not valid JSON: {error.msg}.") from None


def load_text(text: str | bytes) -> Any:
    """
    Return the JSON of a text that was checked when it was stored.

    A large one is parsed in pieces: the parser would keep every other request waiting for as long
    as it takes, in whichever thread it runs.
    """
    if len(text) <= PIECE_BYTES:
        return orjson.loads(text)
    body = text.encode() if isinstance(text, str) else text
    try:
        return LargeDocument(body, math.inf).parse(orjson.loads)
    except ValueTrackerError:
        # It is no JSON. The parser says what is wrong.
        return orjson.loads(text)


def _check_integers(body: bytes) -> None:
    # orjson silently turns an integer beyond 64 bits into a float. Python's own parser
    # passes the digits to `check`, so the comparison is exact. That parser recurses, but
    # orjson has already parsed the document, and it allows 1,024 levels.
    def check(digits: str) -> int:
        # int() refuses very long runs of digits; 21 digits are already too many.
        if len(digits) > 21 or not SMALLEST_INTEGER <= int(digits) <= LARGEST_INTEGER:
            raise NumberOutOfRange()
        return 0

    try:
        json.loads(body, parse_int=check)
    except RecursionError:
        raise TooDeep() from None


def canonical(value: Any, largest: int = VALUE_BYTES, depth: int = VALUE_DEPTH) -> str:
    """Return the text a value is stored as: its own key order, no blanks, exact numbers."""
    if isinstance(value, CONTAINERS) and depth_exceeds(value, depth):
        raise TooDeep(f"A value is nested more than {depth} levels deep.")
    # A string with more characters need not be written to know.
    text = b"" if isinstance(value, str) and len(value) > largest else orjson.dumps(value)
    if not text or len(text) > largest:
        raise ValueTooLarge(f"A value takes more than {largest} bytes.")
    return text.decode()


def depth_exceeds(value: Any, limit: int) -> bool:
    """Return true if containers are nested deeper than `limit`; `[]` alone is one level."""
    level = [value] if isinstance(value, CONTAINERS) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            return True
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, CONTAINERS)
        ]
    return False
