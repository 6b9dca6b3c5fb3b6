"""
`dispatch(request) → Reply`: the whole of HTTP in plain Python over bytes.

    memory → route → header → path → body → handler (registration, verb) → reply

Starlette is one adapter of this function; nothing here knows it. Errors become answers
here and nowhere else, and the headers every answer carries are set here, where replies
are built.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import orjson

from valuetracker.endpoints import (
    KEY,
    PATH_KINDS,
    VALUE,
    AnyDocument,
    AnyKeys,
    Call,
    Document,
    Endpoint,
    Field,
    Service,
    Stream,
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
    MethodNotAllowed,
    RouteNotFound,
    UnsupportedMediaType,
    ValueTrackerError,
)
from valuetracker.failpoints import Failpoint
from valuetracker.names import check_extension_id, check_id
from valuetracker.settings import PREFIX
from valuetracker.store.changes import Anchor, Context
from valuetracker.store.ledger import Written
from valuetracker.store.memory import Memory
from valuetracker.values import parse

logger = logging.getLogger(__name__)

Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
# What a media type may be for the body to be read as JSON; parameters come after it.
JSON_TYPE = re.compile(rb"application/(?:[a-z0-9.+-]+\+)?json\Z", re.IGNORECASE)
# Where `/` leads: the only redirect there is.
HOME = f"{PREFIX}/docs".encode()
REMEMBERED_PATHS = 4_096
REMEMBERED_LENGTH = 256
PREFIX_BYTES = PREFIX.encode() + b"/"


class Request(NamedTuple):
    """A request as it came: the raw target, lower-case header names, the whole body."""

    method: str
    target: bytes
    headers: Headers
    body: bytes = b""


@dataclass(slots=True)
class Reply:
    """An answer as it goes out: a body, or pieces for as long as somebody listens."""

    status: int
    headers: Headers
    body: bytes
    etag: bytes | None = None
    pieces: AsyncIterator[bytes] | None = None
    # The status line and headers as bytes, once an adapter has made them.
    head: bytes | None = None


def build_reply(
    status: int, body: bytes, media_type: bytes, extra: Iterable[tuple[bytes, bytes]] = ()
) -> Reply:
    headers = [NO_STORE, NO_SNIFF]
    # A 204 has no body, and says neither how long nor of what type it is.
    if status != 204:
        headers.append((b"content-length", b"%d" % len(body)))
        headers.append((b"content-type", media_type))
    headers.extend(extra)
    return Reply(status, headers, body)


def stream_reply(pieces: AsyncIterator[bytes]) -> Reply:
    # `no-transform`: a proxy that compresses would keep events back until it has enough.
    headers = [
        (b"cache-control", b"no-cache, no-transform"),
        NO_SNIFF,
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"x-accel-buffering", b"no"),
    ]
    return Reply(200, headers, b"", pieces=pieces)


def not_modified(reply: Reply) -> Reply:
    assert reply.etag is not None
    return Reply(304, [NO_STORE, NO_SNIFF, (b"etag", reply.etag)], b"", reply.etag)


def matches(etag: bytes | None, condition: bytes) -> bool:
    """Whether an `If-None-Match` names the state the answer is of."""
    if etag is None:
        return False
    named = [each.strip().removeprefix(b"W/") for each in condition.split(b",")]
    return etag in named or named == [b"*"]


def error_reply(error: ValueTrackerError) -> Reply:
    extra = []
    if isinstance(error, MethodNotAllowed):
        extra.append((b"allow", ", ".join(error.details["allow"]).encode()))
    return build_reply(error.status, orjson.dumps(error.body()), JSON, extra)


class Node:
    """One segment of the trie: literal children, one for a parameter, and endpoints."""

    __slots__ = ("endpoints", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, Node] = {}
        self.parameter: Node | None = None
        # By method: the endpoint and the names of the parameters on the way to it.
        self.endpoints: dict[str, tuple[Endpoint, tuple[str, ...]]] = {}


class Router:
    """The route table as a trie of path segments."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = Node()
        self._prefixed = Node()
        self._found: dict[tuple[str, bytes], tuple[Endpoint, dict[str, str | None]]] = {}
        for endpoint in endpoints:
            self._add(self._prefixed, endpoint)
            if endpoint.at_root:
                self._add(self._root, endpoint)

    def _add(self, node: Node, endpoint: Endpoint) -> None:
        path = endpoint.path
        parameters: list[str] = []
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                parameters.append(segment[1:-1])
                node.parameter = node.parameter or Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, Node())
        for method in endpoint.methods:
            assert method not in node.endpoints, f"{method} {path} is there twice"
            node.endpoints[method] = (endpoint, tuple(parameters))

    def find(self, method: str, path: bytes) -> tuple[Endpoint, dict[str, str | None]]:
        """
        The endpoint for a raw path, and its parameters, decoded.

        A parameter that cannot be decoded is None: it is refused only after the header
        has been looked at.
        """
        known = self._found.get((method, path))
        if known is None:
            known = self._find(method, path)
            # Clients ask for the same few paths again and again.
            if len(path) <= REMEMBERED_LENGTH:
                if len(self._found) >= REMEMBERED_PATHS:
                    self._found.clear()
                self._found[method, path] = known
        return known

    def _find(self, method: str, path: bytes) -> tuple[Endpoint, dict[str, str | None]]:
        node = self._root
        if path.startswith(PREFIX_BYTES):
            node, path = self._prefixed, path[len(PREFIX_BYTES) - 1 :]
        segments = [decode(segment) for segment in path.split(b"/")[1:]]
        # One slash at the end is as good as none.
        if len(segments) > 1 and segments[-1] == "":
            segments.pop()
        # HEAD is GET whose body is not sent.
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for end, found in _walk(node, segments, 0, ()):
            match = end.endpoints.get(wanted)
            if match is not None:
                endpoint, parameters = match
                return endpoint, dict(zip(parameters, found, strict=True))
            allowed.update(end.endpoints)
        if allowed:
            allow = sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)
            raise MethodNotAllowed(f"{method[:32]} is not possible here.", allow=allow)
        raise InvalidPath() if None in segments else RouteNotFound()


def _walk(
    node: Node, segments: list[str | None], depth: int, found: tuple[str | None, ...]
) -> Iterator[tuple[Node, tuple[str | None, ...]]]:
    """
    The nodes a path leads to, literal segments before parameters.

    There can be two: a key may be called `merge`, and then reading it and merging differ
    only in the method.
    """
    if depth == len(segments):
        yield node, found
        return
    segment = segments[depth]
    literal = None if segment is None else node.literals.get(segment)
    if literal is not None:
        yield from _walk(literal, segments, depth + 1, found)
    if node.parameter is not None:
        yield from _walk(node.parameter, segments, depth + 1, (*found, segment))


def decode(raw: bytes) -> str | None:
    """A path segment or query piece as text; None if it is malformed."""
    if b"%" in raw:
        if ESCAPE.search(raw):
            return None
        raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


@dataclass
class Dispatcher:
    """The function and what it needs: the table, the service and the memory of answers."""

    router: Router
    service: Service
    memory: Memory[Reply]

    def __post_init__(self) -> None:
        self._failpoint = Failpoint.from_environment()

    def dispatch(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer at once, if it is in memory; else what to await for it."""
        if request.method != "GET":
            return self._answer(request, None)
        extension = condition = None
        for name, value in request.headers:
            if name == b"x-extension-id":
                if extension is not None:
                    return self._answer(request, None)
                extension = value
            elif name == b"if-none-match":
                condition = value
        key = (extension or b"", request.target)
        reply = self.memory.get(key)
        if reply is None:
            return self._answer(request, key)
        if condition is not None and matches(reply.etag, condition):
            reply = not_modified(reply)
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, time.perf_counter())
        return reply

    async def _answer(self, request: Request, key: tuple[bytes, bytes] | None) -> Reply:
        started = time.perf_counter()
        try:
            reply = await self._handle(request, key)
            self._failpoint.reach("before_reply")
        except ValueTrackerError as error:
            if error.status >= 500:
                logger.error(error.message, extra=_failure(error, request))
            reply = error_reply(error)
        except Exception:
            request_id = secrets.token_hex(8)
            logger.exception(
                "unexpected failure", extra={"requestId": request_id, **_place(request)}
            )
            reply = error_reply(ValueTrackerError("Something went wrong.", requestId=request_id))
        if request.method == "HEAD":
            reply = replace(reply, body=b"", head=None)
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, started)
        return reply

    async def _handle(self, request: Request, key: tuple[bytes, bytes] | None) -> Reply:
        path, _, query = request.target.partition(b"?")
        if path == b"/" and request.method in ("GET", "HEAD"):
            return build_reply(302, b"", JSON, [(b"location", HOME)])
        endpoint, raw = self.router.find(request.method, path)
        headers = read_headers(request.headers)
        extension_id = self._extension_id(endpoint, headers)
        call = Call(self.service, extension_id, _read_path(raw))
        if endpoint.extension == "path":
            call.extension_id = call.path["extension"]
        if endpoint.query:
            call.query = _read_query(endpoint.query, query)
        if endpoint.extension == "either":
            call.extension_id = _either(headers, call.query.get("extensionId"))
        call.last_event_id = headers.get("last-event-id")
        if endpoint.body:
            _read_body(endpoint, request, call)
        if endpoint.writes:
            call.status = endpoint.status
            call.context = read_context(endpoint, request, headers)
        result = await endpoint.handler(call)
        return self._reply(endpoint, call, result, key, headers.get("if-none-match"))

    def _reply(
        self,
        endpoint: Endpoint,
        call: Call,
        result: Any,
        key: tuple[bytes, bytes] | None,
        condition: str | None,
    ) -> Reply:
        if isinstance(result, Written):
            extra = [(b"x-revision", str(result.revision).encode())]
            if result.replayed:
                extra.append((b"idempotency-replayed", b"true"))
            return build_reply(result.status, result.body, JSON, extra)
        if isinstance(result, Document):
            return build_reply(endpoint.status, result.body, result.media_type.encode())
        if isinstance(result, Stream):
            return stream_reply(result.pieces)
        body = b"" if result is None else orjson.dumps(result)
        if call.reading is None:
            return build_reply(endpoint.status, body, JSON)
        extension, reading = call.reading
        etag = b'"%d"' % reading.etag if reading.etag is not None else None
        reply = build_reply(endpoint.status, body, JSON, [(b"etag", etag)] if etag else ())
        reply.etag = etag
        if key is not None and reading.keepable and self._may_keep(endpoint, key, extension.id):
            size = len(body) + len(key[0]) + len(key[1])
            self.memory.keep(key, reply, size, extension, reading.tags)
        if condition is not None and matches(etag, condition.encode("latin-1")):
            return not_modified(reply)
        return reply

    @staticmethod
    def _may_keep(endpoint: Endpoint, key: tuple[bytes, bytes], extension_id: str) -> bool:
        # A needless header on a route that takes none would make many keys for one answer.
        expected = extension_id.encode() if endpoint.extension == "header" else b""
        return key[0] == expected

    @staticmethod
    def _extension_id(endpoint: Endpoint, headers: dict[str, str]) -> str:
        if endpoint.extension != "header":
            return ""
        found = headers.get("x-extension-id", "")
        if not found:
            raise ExtensionIdRequired()
        return check_extension_id(found)


# The headers that mean something here; any of them twice means nothing certain.
MEANINGFUL = frozenset(
    {
        b"x-extension-id",
        b"if-match",
        b"if-none-match",
        b"idempotency-key",
        b"x-actor",
        b"x-chat-id",
        b"x-message-id",
        b"x-swipe-id",
        b"last-event-id",
        b"content-type",
    }
)
IF_MATCH = re.compile(r'"([0-9]{1,18})"\Z')
ACTOR = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
HEADER_TEXT_LENGTH = 512


def read_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        if name in MEANINGFUL:
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


def _either(headers: dict[str, str], query: str | None) -> str:
    """The extension from the header or from the query, for those who cannot set headers."""
    header = headers.get("x-extension-id")
    if header and query and header != query:
        raise InvalidExtensionId("The header and the query name different extensions.")
    found = header or query
    if not found:
        raise ExtensionIdRequired()
    return check_extension_id(found)


def _read_path(raw: dict[str, str | None]) -> dict[str, str]:
    path: dict[str, str] = {}
    for name, text in raw.items():
        if text is None:
            raise InvalidPath()
        path[name] = PATH_KINDS[name].parse(text)
    return path


def _read_query(fields: tuple[Field, ...], query: bytes) -> dict[str, Any]:
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


def _read_body(endpoint: Endpoint, request: Request, call: Call) -> None:
    call.media_type = _check_media_type(request.headers)
    document = parse(request.body)
    if isinstance(endpoint.body, AnyDocument):
        call.document = document
        return
    if not isinstance(document, dict):
        raise InvalidBody("The body must be a JSON object.")
    if isinstance(endpoint.body, AnyKeys):
        check_key_count(len(document))
        call.values = {KEY.parse(key): VALUE.parse(value) for key, value in document.items()}
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
            media_type, _, parameters = value.partition(b";")
            if not JSON_TYPE.match(media_type.strip()):
                raise UnsupportedMediaType()
            charset = re.search(rb'charset\s*=\s*"?([^\s;"]+)', parameters, re.IGNORECASE)
            if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
                raise UnsupportedMediaType("The body must be in UTF-8.")
            found = media_type.strip().lower().decode("latin-1")
    return found


def _failure(error: ValueTrackerError, request: Request) -> dict[str, str]:
    # The first line says what failed; those after it may quote what was being written.
    cause = error.__cause__
    why = f"{type(cause).__name__}: {str(cause).partition(chr(10))[0][:200]}" if cause else ""
    return {"code": error.code, "cause": why, **_place(request)}


def _place(request: Request) -> dict[str, str]:
    path = request.target.partition(b"?")[0]
    return {"method": request.method, "path": path[:512].decode("latin-1")}


def log_request(request: Request, reply: Reply, started: float) -> None:
    """One line per request, at debug: names of things, never their values."""
    logger.debug(
        "request",
        extra={
            **_place(request),
            "status": reply.status,
            "bytes": len(reply.body),
            "ms": round((time.perf_counter() - started) * 1000, 3),
        },
    )
