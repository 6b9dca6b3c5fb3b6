"""
What a request says: its headers, path, query and body, read strictly.

Each piece is parsed by its kind (see `endpoints`); what is malformed is refused here,
before any handler runs.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any

from valuetracker.endpoints import (
    PATH_KINDS,
    AnyDocument,
    AnyKeys,
    Call,
    Endpoint,
    Field,
    check_key_count,
)
from valuetracker.errors import (
    ExtensionIdRequired,
    InvalidBody,
    InvalidExtensionId,
    InvalidHeader,
    InvalidId,
    InvalidPath,
    InvalidQuery,
    UnsupportedMediaType,
)
from valuetracker.names import HEADER_TEXT_LENGTH, check_extension_id, check_id, check_key
from valuetracker.replies import Headers, Request
from valuetracker.router import decode
from valuetracker.store.changes import Anchor, Context
from valuetracker.values import canonical, parse

# What a media type may be for the body to be read as JSON; parameters come after it.
JSON_TYPE = re.compile(rb"application/(?:[a-z0-9.+-]+\+)?json\Z", re.IGNORECASE)
CHARSET = re.compile(rb'charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)

# The headers that mean something, to any request or to one that writes; any of them twice
# means nothing certain.
MEANINGFUL = frozenset({b"x-extension-id", b"if-none-match", b"last-event-id"})
MEANINGFUL_TO_WRITES = MEANINGFUL | frozenset(
    {
        b"if-match",
        b"idempotency-key",
        b"x-actor",
        b"x-chat-id",
        b"x-session",
        b"x-message-id",
        b"x-swipe-id",
        b"content-type",
    }
)
IF_MATCH = re.compile(r'"([0-9]{1,18})"\Z')
ACTOR = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


def read_headers(endpoint: Endpoint, headers: Headers) -> dict[str, str]:
    meaningful = MEANINGFUL_TO_WRITES if endpoint.writes else MEANINGFUL
    found: dict[str, str] = {}
    for name, value in headers:
        if name in meaningful:
            text = name.decode("ascii")
            if text in found:
                if name == b"x-extension-id":
                    raise InvalidExtensionId("The x-extension-id header is there more than once.")
                raise InvalidHeader(f"The {text} header is there twice.")
            found[text] = value.decode("latin-1")
    return found


def read_context(endpoint: Endpoint, request: Request, headers: dict[str, str]) -> Context:
    """What a writing request says in its headers."""
    message_id = _header_text(headers, "x-message-id")
    swipe = _header_text(headers, "x-swipe-id")
    key = _header_text(headers, "idempotency-key")
    actor = headers.get("x-actor", "extension")
    if not ACTOR.match(actor):
        raise InvalidHeader("x-actor must be 1 to 64 letters, digits, `_`, `.` or `-`.")
    return Context(
        actor,
        Anchor(message_id, swipe or "0") if message_id is not None else None,
        _header_text(headers, "x-chat-id"),
        _header_text(headers, "x-session"),
        _expected(endpoint, headers.get("if-match")),
        key,
        _fingerprint(request, headers) if key is not None else "",
    )


def _header_text(headers: dict[str, str], name: str) -> str | None:
    """A header that carries any text, percent-encoded like a path segment."""
    if name not in headers:
        return None
    text = decode(headers[name].encode("latin-1"))
    if text is None:
        raise InvalidHeader(
            f"{name} holds a malformed escape or bytes that are not UTF-8.",
            hint="Encode it with encodeURIComponent.",
        )
    try:
        return check_id(text, name, HEADER_TEXT_LENGTH)
    except InvalidId as error:
        raise InvalidHeader(error.message) from None


def _expected(endpoint: Endpoint, condition: str | None) -> int | None:
    if condition is None:
        return None
    if not endpoint.conditional:
        raise InvalidHeader("If-Match cannot guard this request.")
    match = IF_MATCH.match(condition)
    if match is None:
        raise InvalidHeader(
            'If-Match must be one revision in double quotes, such as "42".',
            hint="Use the `ETag` of the answer you read.",
        )
    return int(match[1])


def _fingerprint(request: Request, headers: dict[str, str]) -> str:
    """What makes two requests the same request."""
    digest = hashlib.sha256()
    named = ("content-type", "x-actor", "x-chat-id", "x-message-id", "x-swipe-id")
    for part in (request.method, *(headers.get(name, "") for name in named)):
        digest.update(part.encode() + b"\0")
    digest.update(request.target + b"\0" + request.body)
    return digest.hexdigest()


def read_extension_id(endpoint: Endpoint, headers: dict[str, str]) -> str:
    if endpoint.extension != "header":
        return ""
    found = headers.get("x-extension-id", "")
    if not found:
        raise ExtensionIdRequired()
    return check_extension_id(found)


def either_extension(headers: dict[str, str], query: str | None) -> str:
    """The extension from the header or from the query, for those who cannot set headers."""
    header = headers.get("x-extension-id")
    if header and query and header != query:
        raise InvalidExtensionId("The header and the query name different extensions.")
    found = header or query
    if not found:
        raise ExtensionIdRequired()
    return check_extension_id(found)


def read_path(raw: dict[str, str | None]) -> dict[str, str]:
    path: dict[str, str] = {}
    for name, text in raw.items():
        if text is None:
            raise InvalidPath()
        path[name] = PATH_KINDS[name].parse(text)
    return path


def read_query(fields: tuple[Field, ...], query: bytes) -> dict[str, Any]:
    given: dict[str, str] = {}
    for pair in query.split(b"&"):
        if pair:
            name, value = (decode(piece.replace(b"+", b" ")) for piece in _pair(pair))
            if name is None or value is None:
                raise InvalidQuery("The query holds a malformed escape or bytes not in UTF-8.")
            if name in given:
                raise InvalidQuery(f"The query names {name[:64]} more than once.")
            given[name] = value
    for each in fields:
        if each.required and each.name not in given:
            raise InvalidQuery(f"`{each.name}` is required in the query.")
    # Parameters nobody knows are let be: pages add some to get around caches.
    return {each.name: each.kind.parse(given[each.name]) for each in fields if each.name in given}


def _pair(pair: bytes) -> tuple[bytes, bytes]:
    name, _, value = pair.partition(b"=")
    return name, value


def read_body(endpoint: Endpoint, request: Request, call: Call) -> None:
    if endpoint.body_optional and not request.body:
        return
    call.media_type = _check_media_type(request.headers)
    document = parse(request.body)
    if isinstance(endpoint.body, AnyDocument):
        call.document = document
        return
    if not isinstance(document, dict):
        raise InvalidBody("The body must be a JSON object.")
    if isinstance(endpoint.body, AnyKeys):
        check_key_count(len(document))
        call.values = {check_key(key): canonical(value) for key, value in document.items()}
        return
    for each in endpoint.body:
        if each.name not in document:
            if each.required:
                raise InvalidBody(f"`{each.name}` is required.")
            continue
        value = document[each.name]
        call.body[each.name] = None if value is None and each.nullable else each.kind.parse(value)


def _check_media_type(headers: Headers) -> str:
    """The media type of a body that can be read; none at all counts as JSON."""
    found = "application/json"
    for name, value in headers:
        if name == b"content-encoding" and value.lower() != b"identity":
            raise UnsupportedMediaType("Compressed bodies are not taken.")
        if name == b"content-type":
            found = _parse_media_type(value)
    return found


@lru_cache(maxsize=64)
def _parse_media_type(value: bytes) -> str:
    media_type, _, parameters = value.partition(b";")
    if not JSON_TYPE.match(media_type.strip()):
        raise UnsupportedMediaType()
    charset = CHARSET.search(parameters)
    if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
        raise UnsupportedMediaType("The body must be in UTF-8.")
    return media_type.strip().lower().decode("latin-1")
