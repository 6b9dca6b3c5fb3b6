"""
The route table as a trie of path segments, matched on the raw path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from valuetracker.errors import InvalidPath, MethodNotAllowed, RouteNotFound
from valuetracker.http.endpoint import Endpoint
from valuetracker.settings import PREFIX

ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
REMEMBERED_PATHS = 4_096
REMEMBERED_LENGTH = 256
PREFIX_BYTES = PREFIX.encode() + b"/"


class Node:
    """One segment of the trie: literal children, one for a parameter, and endpoints."""

    __slots__ = ("endpoints", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, Node] = {}
        self.parameter: Node | None = None
        # By method: the endpoint and the names of the parameters on the way to it.
        self.endpoints: dict[str, tuple[Endpoint, tuple[str, ...]]] = {}


class Found:
    """Where a raw path leads: its parameters, decoded, and once they are read, checked."""

    __slots__ = ("endpoint", "path", "raw")

    def __init__(self, endpoint: Endpoint, raw: dict[str, str | None]) -> None:
        self.endpoint = endpoint
        self.raw = raw
        self.path: dict[str, str] | None = None


class Router:
    """The route table as a trie of path segments."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = Node()
        self._prefixed = Node()
        self._found: dict[tuple[str, bytes], Found] = {}
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

    def find(self, method: str, path: bytes) -> Found:
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

    def _find(self, method: str, path: bytes) -> Found:
        node = self._root
        if path.startswith(PREFIX_BYTES):
            node, path = self._prefixed, path[len(PREFIX_BYTES) - 1 :]
        segments = [decode(segment) for segment in path.split(b"/")[1:]]
        # One slash at the end is as good as none. But a key that is empty by mistake must
        # not turn the removal of one key into that of all.
        if len(segments) > 1 and segments[-1] == "":
            above = any(end.parameter for end, _ in _walk(node, segments[:-1], 0, ()))
            if method != "DELETE" or not above:
                segments.pop()
        # HEAD is GET whose body is not sent.
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for end, found in _walk(node, segments, 0, ()):
            match = end.endpoints.get(wanted)
            if match is not None:
                endpoint, parameters = match
                return Found(endpoint, dict(zip(parameters, found, strict=True)))
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
