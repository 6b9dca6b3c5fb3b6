"""
Request ids: one for each answer, so that it can be found in the log.

A client or a proxy may send an id of its own. Otherwise the id is a random text of this run of the
server and a number, which costs less than a random text for each request.
"""

from __future__ import annotations

import re
import secrets
from itertools import count

HEADER = b"x-request-id"
# The id of a client: it is sent back and logged, so it has neither blanks nor control characters.
GIVEN = re.compile(rb"[A-Za-z0-9._~-]{1,64}\Z")


class RequestIds:
    """Gives each request its id."""

    __slots__ = ("numbers", "run")

    def __init__(self) -> None:
        # An id is both, joined by a hyphen: `dispatch` writes it itself, because each request needs
        # one and a call costs as much again.
        self.run = secrets.token_hex(6).encode()
        self.numbers = count(1)

    def new(self) -> bytes:
        return b"%b-%x" % (self.run, next(self.numbers))

    def of(self, given: bytes) -> bytes:
        """Return the id that a client has given, if it is well-formed, or else a new one."""
        return given if GIVEN.match(given) else self.new()
