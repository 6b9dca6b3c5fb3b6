"""
The router: finds the endpoint for a method and a raw path.

The route table becomes a trie of path segments. It is matched before the path is decoded,
because a decoded `%2F` would look like the end of a segment. This module knows nothing of
headers, queries and bodies.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from valuetracker.counts import RouteCounts
from valuetracker.errors import InvalidPath, MethodNotAllowed, RouteNotFound
from valuetracker.http.endpoint import Endpoint
from valuetracker.settings import PREFIX

MALFORMED_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
PREFIX_BYTES = PREFIX.encode() + b"/"
# Paths whose match is kept, and their longest length.
KEPT_PATHS = 4_096
KEPT_LENGTH = 256


class Node:
    """One segment of the trie: its literal children, its parameter child, its endpoints."""

    __slots__ = ("endpoints", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, Node] = {}
        self.parameter: Node | None = None
        # By method: the endpoint, the names of the parameters of its path, and its counts.
        self.endpoints: dict[str, tuple[Endpoint, tuple[str, ...], RouteCounts]] = {}


class Match:
    """The endpoint of a path, and the path's parameters: decoded, and later checked."""

    __slots__ = ("counts", "endpoint", "path", "raw")

    def __init__(self, endpoint: Endpoint, raw: dict[str, str | None], counts: RouteCounts) -> None:
        self.endpoint = endpoint
        self.counts = counts
        # A parameter that cannot be decoded is None.
        self.raw = raw
        self.path: dict[str, str] | None = None


class Router:
    """The route table as a trie of path segments."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = Node()
        self._prefixed = Node()
        self._kept: OrderedDict[tuple[str, bytes], Match] = OrderedDict()
        # By path and method; HEAD counts as GET. The first is for requests that come to no route.
        self.unrouted = RouteCounts()
        self.counts: dict[tuple[str, str], RouteCounts] = {("", ""): self.unrouted}
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
            if method in node.endpoints:
                raise TypeError(f"{method} {path} is in the route table twice.")
            counts = self.counts.setdefault((path, method), RouteCounts())
            node.endpoints[method] = (endpoint, tuple(parameters), counts)

    def find(self, method: str, path: bytes) -> Match:
        """
        Return the endpoint for a raw path, and the path's parameters.

        A parameter that cannot be decoded is no error yet: it is refused after the headers
        have been checked.
        """
        match = self._kept.get((method, path))
        if match is None:
            match = self._find(method, path)
            # Clients ask for the same few paths again and again.
            if len(path) <= KEPT_LENGTH:
                if len(self._kept) >= KEPT_PATHS:
                    # The oldest. One that is asked for often is soon back.
                    self._kept.popitem(last=False)
                self._kept[method, path] = match
        return match

    def _find(self, method: str, path: bytes) -> Match:
        node = self._root
        if path.startswith(PREFIX_BYTES):
            node, path = self._prefixed, path[len(PREFIX_BYTES) - 1 :]
        segments = _segments(path)
        # A slash at the end of a path is ignored. But a DELETE whose key is empty by mistake
        # must not become a DELETE of all keys.
        if len(segments) > 1 and segments[-1] == "":
            takes_parameter = any(end.parameter for end, _ in _walk(node, segments[:-1]))
            if method != "DELETE" or not takes_parameter:
                segments.pop()
        # HEAD is GET without the body of the answer.
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for end, values in _walk(node, segments):
            row = end.endpoints.get(wanted)
            if row is not None:
                endpoint, parameters, counts = row
                return Match(endpoint, dict(zip(parameters, values, strict=True)), counts)
            allowed.update(end.endpoints)
        if allowed:
            allow = sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)
            raise MethodNotAllowed(f"{method[:32]} is not possible here.", allow=allow)
        raise InvalidPath() if None in segments else RouteNotFound()


Segments = list[str | None]


def _segments(path: bytes) -> Segments:
    """Return the decoded segments of a path; None for those that are malformed."""
    if b"%" not in path:
        try:
            return [*path.decode().split("/")[1:]]
        except UnicodeDecodeError:
            pass
    return [decode(segment) for segment in path.split(b"/")[1:]]


def _walk(node: Node, segments: Segments) -> list[tuple[Node, tuple[str | None, ...]]]:
    """
    Return the nodes that a path leads to with their parameters, literal segments first.

    There can be two: a key may be called `merge`, and then reading that key and merging
    differ in the method alone.
    """
    values: Segments = []
    for index, segment in enumerate(segments):
        literal = None if segment is None else node.literals.get(segment)
        parameter = node.parameter
        if parameter is None:
            if literal is None:
                return []
            node = literal
        elif literal is None:
            values.append(segment)
            node = parameter
        else:
            rest = segments[index + 1 :]
            return [
                *((end, (*values, *more)) for end, more in _walk(literal, rest)),
                *((end, (*values, segment, *more)) for end, more in _walk(parameter, rest)),
            ]
    return [(node, tuple(values))]


def decode(raw: bytes) -> str | None:
    """Return a path segment or a piece of a query as text; None if it is malformed."""
    if b"%" in raw:
        if MALFORMED_ESCAPE.search(raw):
            return None
        raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
