"""
One request while it is being received: target, headers, body, and how the body is framed.

It lives from the first byte of a request to the last. The connection fills it in as the parser
reports its parts; this module checks what can be checked of the request alone. It knows
nothing of the socket, of deadlines, or of what the request asks for.
"""

from __future__ import annotations

import re

import httptools

from valuetracker.budget import Share
from valuetracker.errors import (
    BodyTooLarge,
    HeadersTooLarge,
    MalformedRequest,
    UnsupportedMediaType,
)
from valuetracker.http import limits
from valuetracker.http.replies import Headers, Request
from valuetracker.spool import Spool
from valuetracker.values import BODY_BYTES

VERSIONS = ("1.1", "1.0")
# Headers about the message and its connection; all others are left to `dispatch`.
FRAMING_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"expect", b"connection"})
SCHEMES = (b"http", b"https")
METHODS = {each.encode(): each for each in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")}
# Lines that the parser accepts, and this server does not: a request line of another protocol, and
# the size of a chunk that no body may have. What a line is depends on where it stands, so these
# only say where to look.
STRANGE_LINE = re.compile(
    rb"(?:^|\n)(?:(?P<request>[A-Z_-]+ [^ \r\n]+ (?:RTSP|ICE)/)|(?P<size>[0-9A-Fa-f]{7,}))"
)
LONG_SIZE = re.compile(rb"\n[0-9A-Fa-f]{7}")


def may_be_strange(data: bytes) -> bool:
    """Return False if no line that begins in these bytes is a strange one."""
    return b" RTSP/" in data or b" ICE/" in data or LONG_SIZE.search(data) is not None


class IncomingRequest:
    """The request being received on a connection."""

    __slots__ = (
        "body",
        "chunked_bytes",
        "expectation",
        "expects_size",
        "has_connection_header",
        "header_bytes",
        "headers",
        "open_line",
        "paused_at",
        "share",
        "size",
        "spool",
        "url",
    )

    def __init__(self) -> None:
        self.url = b""
        self.headers: Headers = []
        self.header_bytes = 0
        self.has_connection_header = False
        self.expectation: bytes | None = None
        self.body: bytes | bytearray = b""
        # Bytes of a chunked body, content and overhead; None if the body is not chunked.
        self.chunked_bytes: int | None = None
        # True if the size of the next chunk comes next.
        self.expects_size = False
        # The bytes of a line that has begun, if it may be a strange one.
        self.open_line = b""
        # How long the body may become.
        self.size = 0
        # The share that a large body has of the budget, and since when it waits for more.
        self.share: Share | None = None
        self.paused_at = 0.0
        # Where a body goes that may be of any size.
        self.spool: Spool | None = None

    @property
    def received(self) -> int:
        """How many bytes of the body have been received."""
        return self.spool.size if self.spool is not None else len(self.body)

    def read_framing(self, parser: httptools.HttpRequestParser) -> int:
        """
        Return how long the body may become, once the headers are complete.

        Raise if there are too many headers, or if they frame the body in a way that is not
        supported. The parser has refused lengths that are not numbers, or not unique.
        """
        if self.header_bytes > limits.HEADER_BYTES or len(self.headers) > limits.HEADER_COUNT:
            raise HeadersTooLarge()
        size = 0
        for name, value in self.headers:
            if name not in FRAMING_HEADERS:
                continue
            if name == b"content-length":
                size = int(value)
            elif name == b"transfer-encoding":
                if self.chunked_bytes is not None or parser.get_http_version() == "1.0":
                    raise MalformedRequest(
                        "Transfer-Encoding may occur once, and not in an HTTP/1.0 request."
                    )
                if value.strip().lower() != b"chunked":
                    raise UnsupportedMediaType("Compressed bodies are not supported.")
                # The length of a chunked body is unknown, so the longest is assumed.
                size = BODY_BYTES
                self.chunked_bytes = 0
                self.expects_size = True
            elif name == b"expect":
                self.expectation = value
            else:
                self.has_connection_header = True
        return size

    def keep_open_line(self, data: bytes) -> None:
        """Keep the line that ends these bytes if it is a request line or the size of a chunk."""
        _, newline, line = data.rpartition(b"\n")
        if not newline:
            line = self.open_line + line
        if not self.expects_size and (self.headers or b":" in line.partition(b" ")[0]):
            line = b""
        self.open_line = line

    def check_line(self, strange: re.Match[bytes]) -> None:
        """Raise if a strange line is what comes next, where the parser stands now."""
        if self.expects_size:
            # Sizes of more than 64 bits are refused by the parser.
            if (
                self.spool is None
                and strange["size"]
                and BODY_BYTES < int(strange["size"], 16) < 2**64
            ):
                raise BodyTooLarge()
        elif strange["request"] and (not self.url or self.open_line):
            raise MalformedRequest("Only HTTP/1.1 and HTTP/1.0 are supported.")

    def add_body(self, piece: bytes) -> None:
        if self.spool is not None:
            self.spool.write(piece)
            return
        if len(self.body) + len(piece) > BODY_BYTES:
            raise BodyTooLarge()
        if not self.body:
            self.body = piece
            return
        # One buffer: a list of small pieces would take many times their size.
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece

    def add_chunked_bytes(self, count: int) -> None:
        """Count bytes of a chunked body, and raise if too few of those before were content."""
        if self.chunked_bytes is None:
            return
        if self.chunked_bytes > limits.chunk_overhead(self.received):
            raise MalformedRequest("The chunked body has too much overhead.")
        self.chunked_bytes += count

    def complete(self, parser: httptools.HttpRequestParser) -> tuple[Request, bool]:
        """Return the whole request, and True if the connection may be kept for the next."""
        keep_alive = parser.should_keep_alive()
        # A request of any other version has a Connection header or is not kept alive.
        if self.has_connection_header or not keep_alive:
            version = parser.get_http_version()
            if version not in VERSIONS:
                raise MalformedRequest("Only HTTP/1.1 and HTTP/1.0 are supported.")
            # HTTP/1.0 clients may ask for it; the server need not agree.
            keep_alive = keep_alive and version == "1.1"
        target = self.url if self.url.startswith(b"/") else self._target_of_absolute_url()
        if b"#" in target:
            raise MalformedRequest("The target must not have a fragment.")
        method = parser.get_method()
        name = METHODS.get(method) or method.decode("ascii")
        body, self.body = bytes(self.body), b""
        return Request(name, target, self.headers, body, self.spool), keep_alive

    def _target_of_absolute_url(self) -> bytes:
        """Return path and query of a target that names the host as well, as for a proxy."""
        if self.url == b"*":
            return self.url
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            raise MalformedRequest("The target is not a URL.") from None
        if (url.schema or b"").lower() not in SCHEMES:
            raise MalformedRequest("The target is not an HTTP URL.")
        authority = (url.host or b"") + (b":%d" % url.port if url.port else b"")
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        if not url.path or hosts != [authority.lower()]:
            raise MalformedRequest("The target names another host than the Host header.")
        return url.path + (b"?" + url.query if url.query else b"")

    def discard(self) -> None:
        """Drop the body and give back its budget: the request will not be answered."""
        self.body = b""
        if self.share is not None:
            self.share.release()
        if self.spool is not None:
            self.spool.close()
