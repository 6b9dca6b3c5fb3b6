"""
Large JSON documents: their parts are counted before they are parsed, and they are parsed in pieces.

The parser keeps the lock of the interpreter, so whatever it parses at once keeps every other
request waiting, in whichever thread it runs. So a large document is cut at commas into pieces of
about `PIECE_BYTES`. Each piece is parsed by itself, with the brackets that are open around it, and
what it holds is added to the containers that were open before it.

The pieces are the whole text in its order. So they are valid JSON exactly if the document is.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from valuetracker.errors import BodyTooLarge, InvalidBody, TooDeep
from valuetracker.integers import MANY_DIGITS, check_integers

PIECE_BYTES = 256 * 1024
# As many levels as the parser reads.
MOST_LEVELS = 1_024
# The memory a document may take, and about how many bytes its parts take once they are parsed.
MOST_BYTES = 128 * 1024 * 1024
OBJECT_BYTES, ARRAY_BYTES, STRING_BYTES, COMMA_BYTES = 160, 80, 64, 24
# Escapes take no memory, but the longest to read and to write. Short strings have few.
ESCAPE_BYTES = 4
LONG_STRING = 64
# The text is in memory as often while it is worked on: in values, in the log, on its way there.
COPIES = 3

QUOTE, BACKSLASH, COMMA = b'"\\,'
OPENING, CLOSING = {0x5B: 0x5D, 0x7B: 0x7D}, {0x5D: 0x5B, 0x7D: 0x7B}
OBJECT = 0x7B
BLANKS = b" \t\n\r"
# A string without escapes is one token; of any other, its first quote is.
TOKEN = re.compile(rb'"[^"\\]*+"|["\[\]{}]')
IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
STRING_PART_BYTES = 64 * 1024
TOKEN_OR_COMMA = re.compile(rb'"[^"\\]*+"|["\[\]{},]')


class Open(NamedTuple):
    """A container that is open at some point of the text."""

    bracket: int
    # Where its key stands, if it is a member of an object.
    key: tuple[int, int]


class Piece(NamedTuple):
    """A part of the text, and the containers around it."""

    start: int
    end: int
    # Those open at its start, how many of them stay open, and those open at its end.
    before: tuple[Open, ...]
    kept: int
    after: tuple[Open, ...]


class LargeDocument:
    """A large document: where to cut it, and about how many bytes it takes once it is parsed."""

    def __init__(self, body: bytes, limit: float = MOST_BYTES) -> None:
        self._body = body
        self._limit = limit
        self._open: list[Open] = []
        self._pieces: list[Piece] = []
        self.size = COPIES * len(body)
        self._find_pieces()

    # Cutting and counting

    def _find_pieces(self) -> None:
        body, stack = self._body, self._open
        start = position = gap = kept = 0
        before: tuple[Open, ...] = ()
        string = (0, 0)
        while position < len(body):
            is_due = position >= start + PIECE_BYTES
            limit = (position if is_due else start) + PIECE_BYTES
            tokens = TOKEN_OR_COMMA if is_due else TOKEN
            for found in tokens.finditer(body, position, limit):
                at, position = found.span()
                byte = body[at]
                if byte == QUOTE:
                    self._count_gap(gap, at)
                    is_whole = position > at + 1
                    gap = position if is_whole else self._end_of_string(at)
                    string = (at, gap)
                    self.size += STRING_BYTES
                    if not is_whole:
                        limit = gap
                        break
                elif byte == COMMA:
                    if not stack:
                        raise InvalidBody("The body is not valid JSON: it goes on after its end.")
                    self._count_gap(gap, at)
                    self._pieces.append(Piece(start, at, before, kept, tuple(stack)))
                    limit = start = gap = position
                    before, kept = tuple(stack), len(stack)
                    break
                elif byte in OPENING:
                    stack.append(Open(byte, string))
                    self.size += OBJECT_BYTES if byte == OBJECT else ARRAY_BYTES
                    if len(stack) > MOST_LEVELS:
                        raise TooDeep()
                else:
                    if not stack or stack.pop().bracket != CLOSING[byte]:
                        raise InvalidBody("The body is not valid JSON: its brackets do not match.")
                    kept = min(kept, len(stack))
            position = limit
            self._check_size()
        if stack:
            raise InvalidBody("The body is not valid JSON: it ends too early.")
        self._count_gap(gap, len(body))
        self._check_size()
        self._pieces.append(Piece(start, len(body), before, kept, ()))

    def _check_size(self) -> None:
        if self.size > self._limit:
            raise BodyTooLarge(
                "The body has too many parts: it would take more than "
                f"{MOST_BYTES // 2**20} MiB of memory."
            )

    def _end_of_string(self, start: int) -> int:
        """Return the position after a string that begins here."""
        body = self._body
        end = body.find(b'"', start + 1)
        if end >= 0 and body[end - 1] == BACKSLASH:
            # It may be part of the string: look at all escapes, some bytes at a time.
            end = start + 1
            while end < len(body) and body[end] != QUOTE:
                part = IN_STRING.match(body, end, end + STRING_PART_BYTES)
                if part is None or part.end() == end:
                    break
                end = part.end()
        if not start < end < len(body):
            raise InvalidBody("The body is not valid JSON: a string does not end.")
        if end - start > LONG_STRING:
            self.size += ESCAPE_BYTES * body.count(b"\\", start, end)
        return end + 1

    def _count_gap(self, start: int, end: int) -> None:
        """Count what stands between two strings."""
        self.size += COMMA_BYTES * self._body.count(b",", start, end)
        if end - start >= len(MANY_DIGITS):
            check_integers(self._body[start:end])

    # Parsing

    def parse(self, load: Callable[[bytes], Any]) -> Any:
        """Return the document; `load` parses one piece."""
        joint = Joint(self._body)
        for piece in self._pieces:
            joint.add(piece, load)
        return joint.document


class Joint:
    """A document that is put together of its pieces."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        # The key of the member with which an object goes on. No text has it: nobody knows it.
        self._token = secrets.token_hex(16)
        self._going_on = b'{"%b":' % self._token.encode()
        self._open: list[Any] = []
        self.document: Any = None

    def add(self, piece: Piece, load: Callable[[bytes], Any]) -> None:
        parsed = load(self._with_brackets(piece))
        if not self._open:
            self.document = parsed
            self._open = [parsed] if piece.after else []
        else:
            self._go_on(piece, parsed)
        self._find_open(piece)

    def _with_brackets(self, piece: Piece) -> bytes:
        """Return the text of a piece with the brackets it needs around it."""
        text = self._body[piece.start : piece.end]
        bare = text.strip(BLANKS)
        # With brackets around it, nothing would look like an empty container.
        if piece.before and (not bare or bare[0] in CLOSING):
            raise InvalidBody("The body is not valid JSON: something is missing after a comma.")
        if piece.after and (not bare or bare[-1] in OPENING):
            raise InvalidBody("The body is not valid JSON: something is missing before a comma.")
        base = max(0, piece.kept - 1)
        opened = b"".join(
            self._going_on if each.bracket == OBJECT else b"[" for each in piece.before[base:-1]
        )
        if piece.before:
            opened += bytes([piece.before[-1].bracket])
        closed = bytes(OPENING[each.bracket] for each in reversed(piece.after[base:]))
        return opened + text + closed

    def _go_on(self, piece: Piece, parsed: Any) -> None:
        """Add the members of a piece to the containers that were open before it."""
        innermost = len(piece.before) - 1
        for level in range(max(0, piece.kept - 1), len(piece.before)):
            target = self._open[level]
            inner = None
            if isinstance(target, list):
                if level < innermost:
                    inner = parsed[0]
                    del parsed[0]
                target.extend(parsed)
            else:
                if level < innermost:
                    inner = parsed.pop(self._token)
                target.update(parsed)
            parsed = inner

    def _find_open(self, piece: Piece) -> None:
        """Find the containers that are open at the end of a piece."""
        del self._open[max(piece.kept, 1) :]
        if not piece.after:
            self._open.clear()
        for each in piece.after[len(self._open) :]:
            outer = self._open[-1]
            if isinstance(outer, list):
                self._open.append(outer[-1])
            else:
                start, end = each.key
                self._open.append(outer[orjson.loads(self._body[start:end])])
