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

    __slots__ = ("_numbers", "_run")

    def __init__(self) -> None:
        self._run = secrets.token_hex(6).encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        return b"%b-%x" % (self._run, next(self._numbers))

    def of(self, given: bytes | None) -> bytes:
        """Return the id that a client has given, if it is well-formed, or else a new one."""
        if given is not None and GIVEN.match(given):
            return given
        return b"%b-%x" % (self._run, next(self._numbers))
