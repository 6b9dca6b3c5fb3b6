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

from valuetracker.errors import (
    ExtensionIdRequired,
    InvalidAt,
    InvalidBody,
    InvalidExtensionId,
    InvalidHeader,
    InvalidHost,
    InvalidId,
    InvalidPath,
    InvalidQuery,
    UnsupportedMediaType,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint, Field
from valuetracker.http.gate import LOOKED_AT
from valuetracker.http.kinds import PATH_KINDS, check_key_count
from valuetracker.http.replies import Headers, Request
from valuetracker.http.router import Match, decode
from valuetracker.names import HEADER_TEXT_LENGTH, check_extension_id, check_id, check_key
from valuetracker.store.tx.context import NO_CONTEXT, Anchor, Context
from valuetracker.values import canonical, parse

# What a media type may be for the body to be read as JSON; parameters come after it.
JSON_TYPE = re.compile(rb"application/(?:[a-z0-9.+-]+\+)?json\Z", re.IGNORECASE)
CHARSET = re.compile(rb'charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)

# The headers that mean something; any of them twice means nothing certain.
MEANINGFUL = frozenset(
    {
        b"x-extension-id",
        b"if-none-match",
        b"last-event-id",
        b"if-match",
        b"idempotency-key",
        b"x-actor",
        b"x-chat-id",
        b"x-session",
        b"x-message-id",
        b"x-swipe-id",
        b"content-type",
        b"content-encoding",
        *LOOKED_AT,
    }
)
# Those that say more of a write than what it asks for.
CONTEXT = frozenset(
    {
        b"if-match",
        b"idempotency-key",
        b"x-actor",
        b"x-chat-id",
        b"x-session",
        b"x-message-id",
        b"x-swipe-id",
    }
)
IF_MATCH = re.compile(rb'"([0-9]{1,18})"\Z')
ACTOR = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


Given = dict[bytes, bytes]


def refuse_repeated(headers: Headers) -> None:
    """Refuse a header that means something and is there twice; others may be."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen and name in MEANINGFUL:
            if name == b"x-extension-id":
                raise InvalidExtensionId("The x-extension-id header is there more than once.")
            if name == b"host":
                raise InvalidHost("The Host header is there more than once.")
            raise InvalidHeader(f"The {name.decode('ascii')} header is there twice.")
        seen.add(name)


def read_context(endpoint: Endpoint, request: Request, given: Given) -> Context:
    """What a writing request says in its headers."""
    if CONTEXT.isdisjoint(given):
        return NO_CONTEXT
    message_id = _header_text(given, "x-message-id")
    swipe = _header_text(given, "x-swipe-id")
    key = _header_text(given, "idempotency-key")
    actor = given.get(b"x-actor", b"extension").decode("latin-1")
    if not ACTOR.match(actor):
        raise InvalidHeader("x-actor must be 1 to 64 letters, digits, `_`, `.` or `-`.")
    return Context(
        actor,
        Anchor(message_id, swipe or "0") if message_id is not None else None,
        _header_text(given, "x-chat-id"),
        _header_text(given, "x-session"),
        _expected(endpoint, given.get(b"if-match")),
        key,
        _fingerprint(request, given) if key is not None else "",
    )


def _header_text(given: Given, name: str) -> str | None:
    """A header that carries any text, percent-encoded like a path segment."""
    raw = given.get(name.encode())
    if raw is None:
        return None
    text = decode(raw)
    if text is None:
        raise InvalidHeader(
            f"{name} holds a malformed escape or bytes that are not UTF-8.",
            hint="Encode it with encodeURIComponent.",
        )
    try:
        return check_id(text, name, HEADER_TEXT_LENGTH)
    except InvalidId as error:
        raise InvalidHeader(error.message) from None


def _expected(endpoint: Endpoint, condition: bytes | None) -> int | None:
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


def _fingerprint(request: Request, given: Given) -> str:
    """What makes two requests the same request."""
    digest = hashlib.sha256()
    named = (b"content-type", b"x-actor", b"x-chat-id", b"x-message-id", b"x-swipe-id")
    for part in (request.method.encode(), *(given.get(name, b"") for name in named)):
        digest.update(part + b"\0")
    digest.update(request.target + b"\0" + request.body)
    return digest.hexdigest()


def read_extension_id(endpoint: Endpoint, given: Given) -> str:
    if endpoint.extension not in ("header", "optional"):
        return ""
    found = given.get(b"x-extension-id")
    if not found:
        if endpoint.extension == "optional":
            return ""
        raise ExtensionIdRequired()
    return _extension_id(found)


@lru_cache(maxsize=1_024)
def _extension_id(header: bytes) -> str:
    return check_extension_id(header.decode("latin-1"))


def either_extension(given: Given, query: str | None) -> str:
    """The extension from the header or from the query, for those who cannot set headers."""
    header = given.get(b"x-extension-id", b"").decode("latin-1")
    if header and query and header != query:
        raise InvalidExtensionId("The header and the query name different extensions.")
    found = header or query
    if not found:
        raise ExtensionIdRequired()
    return check_extension_id(found)


def read_path(found: Match) -> dict[str, str]:
    # Clients ask for the same few paths again and again.
    if found.path is None:
        path: dict[str, str] = {}
        for name, text in found.raw.items():
            if text is None:
                raise InvalidPath()
            path[name] = PATH_KINDS[name].parse(text)
        found.path = path
    return found.path


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
    return {each.name: _parameter(each, given[each.name]) for each in fields if each.name in given}


def _parameter(field: Field, text: str) -> Any:
    try:
        return field.kind.parse(text)
    except (InvalidAt, InvalidQuery) as refusal:
        # Others say themselves what they are about.
        refusal.message = f"`{field.name}`: {refusal.message}"
        raise


def _pair(pair: bytes) -> tuple[bytes, bytes]:
    name, _, value = pair.partition(b"=")
    return name, value


def read_body(endpoint: Endpoint, body: bytes, given: Given, call: Call) -> None:
    if endpoint.body_optional and not body:
        return
    call.media_type = _check_media_type(given)
    document = parse(body)
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


def _check_media_type(given: Given) -> str:
    """The media type of a body that can be read; none at all counts as JSON."""
    if given.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("Compressed bodies are not taken.")
    return _parse_media_type(given.get(b"content-type", b"application/json"))


@lru_cache(maxsize=64)
def _parse_media_type(value: bytes) -> str:
    media_type, _, parameters = value.partition(b";")
    if not JSON_TYPE.match(media_type.strip()):
        raise UnsupportedMediaType()
    charset = CHARSET.search(parameters)
    if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
        raise UnsupportedMediaType("The body must be in UTF-8.")
    return media_type.strip().lower().decode("latin-1")
