"""
Parsing of requests: headers, path, query and body become the parts of a `Call`.

Each part is parsed by its kind (see `kinds`). A malformed part is refused here, before any
handler runs. This module knows nothing of sockets, of who calls, or of what handlers do.
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
from valuetracker.http.gate import CREDENTIAL_HEADERS
from valuetracker.http.kinds import PATH_KINDS, check_key_count
from valuetracker.http.replies import HeaderMap, Headers, Request
from valuetracker.http.router import Match, decode
from valuetracker.large_json import LargeDocument
from valuetracker.names import HEADER_TEXT_LENGTH, check_extension_id, check_id, check_key
from valuetracker.store.rows.head import KnownRevision
from valuetracker.store.tx.context import NO_CONTEXT, Anchor, Context
from valuetracker.values import canonical, parse, parse_large

# The context of a write: who makes it, where in which chat, and under which conditions.
CONTEXT_HEADERS = frozenset(
    {
        b"if-match",
        b"idempotency-key",
        b"prefer",
        b"x-actor",
        b"x-chat-id",
        b"x-session",
        b"x-message-id",
        b"x-swipe-id",
    }
)
# All headers of the API that a client sets. A page of an allowed origin may send these.
CLIENT_HEADERS = CONTEXT_HEADERS | {
    b"authorization",
    b"content-type",
    b"if-none-match",
    b"last-event-id",
    b"x-extension-id",
}
# Headers that may occur once: which of two should be obeyed?
UNIQUE_HEADERS = CLIENT_HEADERS | {b"content-encoding", *CREDENTIAL_HEADERS}
# Two requests with one idempotency key are the same request if these are equal, too.
FINGERPRINT_HEADERS = (b"content-type", b"x-actor", b"x-chat-id", b"x-message-id", b"x-swipe-id")

# Media types of JSON; parameters follow after a semicolon.
JSON_TYPE = re.compile(rb"application/(?:[a-z0-9.+-]+\+)?json\Z", re.IGNORECASE)
CHARSET = re.compile(rb'charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
IF_MATCH = re.compile(rb'"([0-9]{1,18})(?:\.([1-9][0-9]{0,8}))?"\Z')
ACTOR = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


# Headers


def refuse_repeated(headers: Headers) -> None:
    """Raise if a header occurs twice that may occur once."""
    found: set[bytes] = set()
    for name, _ in headers:
        if name in found and name in UNIQUE_HEADERS:
            if name == b"x-extension-id":
                raise InvalidExtensionId("The x-extension-id header occurs more than once.")
            if name == b"host":
                raise InvalidHost("The Host header occurs more than once.")
            raise InvalidHeader(f"The {name.decode('ascii')} header occurs more than once.")
        found.add(name)


def parse_context(endpoint: Endpoint, request: Request, headers: HeaderMap) -> Context:
    """Return the context of a write, from the headers of its request."""
    if CONTEXT_HEADERS.isdisjoint(headers):
        return NO_CONTEXT
    message_id = _parse_text_header(headers, "x-message-id")
    swipe = _parse_text_header(headers, "x-swipe-id")
    key = _parse_text_header(headers, "idempotency-key")
    actor = headers.get(b"x-actor", b"extension").decode("latin-1")
    if not ACTOR.match(actor):
        raise InvalidHeader("x-actor must be 1 to 64 letters, digits, `_`, `.` or `-`.")
    return Context(
        actor,
        Anchor(message_id, swipe or "0") if message_id is not None else None,
        _parse_text_header(headers, "x-chat-id"),
        _parse_text_header(headers, "x-session"),
        _parse_if_match(endpoint, headers.get(b"if-match")),
        key,
        _fingerprint(request, headers) if key is not None else "",
        _prefers_representation(headers.get(b"prefer", b"")),
    )


def _prefers_representation(preferences: bytes) -> bool:
    """Return True if one of the preferences (RFC 7240) is `return=representation`."""
    # Parameters follow after a semicolon; a value may be quoted.
    return any(
        b"".join(each.partition(b";")[0].lower().split()).replace(b'"', b"")
        == b"return=representation"
        for each in preferences.split(b",")
    )


def _parse_text_header(headers: HeaderMap, name: str) -> str | None:
    """Return the text of a header that is percent-encoded like a path segment."""
    raw = headers.get(name.encode())
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


def _parse_if_match(endpoint: Endpoint, condition: bytes | None) -> KnownRevision | None:
    if condition is None:
        return None
    if not endpoint.conditional:
        raise InvalidHeader("This request does not support If-Match.")
    match = IF_MATCH.match(condition)
    if match is None:
        raise InvalidHeader(
            'If-Match must be one revision in double quotes, such as "42".',
            hint="Use the `ETag` of the answer you read.",
        )
    return KnownRevision(int(match[1]), int(match[2] or 0))


def _fingerprint(request: Request, headers: HeaderMap) -> str:
    """Return a digest of all that makes two requests the same request."""
    digest = hashlib.sha256()
    values = (headers.get(name, b"") for name in FINGERPRINT_HEADERS)
    for part in (request.method.encode(), *values):
        digest.update(part + b"\0")
    digest.update(request.target + b"\0")
    digest.update(request.body)
    return digest.hexdigest()


# The extension id


def parse_extension_id(endpoint: Endpoint, headers: HeaderMap) -> str:
    """Return the extension id of the header; empty if the endpoint takes it from elsewhere."""
    if endpoint.extension not in ("header", "optional"):
        return ""
    value = headers.get(b"x-extension-id")
    if not value:
        if endpoint.extension == "optional":
            return ""
        raise ExtensionIdRequired()
    return _check_extension_id(value)


@lru_cache(maxsize=1_024)
def _check_extension_id(value: bytes) -> str:
    return check_extension_id(value.decode("latin-1"))


def choose_extension_id(headers: HeaderMap, parameter: str | None) -> str:
    """Return the extension id of the header or of the query, for clients without headers."""
    header = headers.get(b"x-extension-id", b"").decode("latin-1")
    if header and parameter and header != parameter:
        raise InvalidExtensionId("The header and the query name different extensions.")
    extension_id = header or parameter
    if not extension_id:
        raise ExtensionIdRequired()
    return check_extension_id(extension_id)


def choose_listed(query: dict[str, Any]) -> tuple[str, ...]:
    """Return the extensions that a query lists; none if it names one or none."""
    listed: tuple[str, ...] = query.get("extensions", ())
    if listed and "extensionId" in query:
        raise InvalidQuery("The query names `extensionId` and `extensions`: send one of them.")
    return listed


# Path and query


def parse_path(match: Match) -> dict[str, str]:
    # The router keeps the match of a path, and with it the parsed parameters.
    if match.path is None:
        path: dict[str, str] = {}
        for name, text in match.raw.items():
            if text is None:
                raise InvalidPath()
            path[name] = PATH_KINDS[name].parse(text)
        match.path = path
    return match.path


def parse_query(fields: tuple[Field, ...], query: bytes) -> dict[str, Any]:
    texts: dict[str, str] = {}
    for pair in query.split(b"&"):
        if pair:
            raw_name, _, raw_value = pair.replace(b"+", b" ").partition(b"=")
            name, value = decode(raw_name), decode(raw_value)
            if name is None or value is None:
                raise InvalidQuery("The query holds a malformed escape or bytes not in UTF-8.")
            if name in texts:
                raise InvalidQuery(f"The query names {name[:64]} more than once.")
            texts[name] = value
    for each in fields:
        if each.required and each.name not in texts:
            raise InvalidQuery(f"`{each.name}` is required in the query.")
    if not texts:
        return {}
    # Unknown parameters are ignored: pages add some to avoid caches.
    return {
        each.name: _parse_parameter(each, texts[each.name]) for each in fields if each.name in texts
    }


def _parse_parameter(field: Field, text: str) -> Any:
    try:
        return field.kind.parse(text)
    except (InvalidAt, InvalidQuery) as refusal:
        # Messages of other errors name the parameter themselves.
        refusal.message = f"`{field.name}`: {refusal.message}"
        raise


# The body


def parse_body(
    endpoint: Endpoint, body: bytes | LargeDocument, headers: HeaderMap, call: Call
) -> None:
    """Parse a body into `body`, `values` or `document` of the call, as the endpoint says."""
    if endpoint.body_optional and not body:
        return
    call.media_type = check_media_type(headers)
    document = parse(body) if isinstance(body, bytes) else parse_large(body)
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


def parse_rest(
    call: Call,
    endpoint: Endpoint,
    request: Request,
    headers: HeaderMap,
    body: bytes | LargeDocument,
) -> None:
    """Parse the body of a request, and the context of a write; the handler reads an upload."""
    if endpoint.body and not endpoint.upload:
        parse_body(endpoint, body, headers, call)
    if endpoint.writes:
        call.status = endpoint.status
        call.context = parse_context(endpoint, request, headers)


def check_media_type(headers: HeaderMap) -> str:
    """Return the media type of the body, which is JSON if no header says it."""
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("Compressed bodies are not supported.")
    return _parse_media_type(headers.get(b"content-type", b"application/json"))


@lru_cache(maxsize=64)
def _parse_media_type(value: bytes) -> str:
    media_type, _, parameters = value.partition(b";")
    if not JSON_TYPE.match(media_type.strip()):
        raise UnsupportedMediaType()
    charset = CHARSET.search(parameters)
    if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
        raise UnsupportedMediaType("The body must be in UTF-8.")
    return media_type.strip().lower().decode("latin-1")
