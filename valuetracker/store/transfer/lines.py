"""
The lines of an export: the first says what it is, the last that it is whole.

The last line has the number of the lines before it, and the SHA-256 of their bytes with newlines.
So a file that was cut off, or edited, is refused before anything is written. A file may be
compressed with gzip, which is seen by its first bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from valuetracker import __version__
from valuetracker.errors import ImportInvalid, ImportTooNew
from valuetracker.values import load_text

FORMAT = 1
FIRST, LAST = "valuetracker", "end"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_BITS = 31
PIECE_BYTES = 64 * 1024
UNPACKED_BYTES = 1024 * 1024
# One line holds one row, which may hold many values.
LONGEST_LINE = 256 * 1024 * 1024
# Compressed content above this size may not be more than so many times as long as what was sent.
UNSUSPECTED_BYTES = 64 * 1024 * 1024
LARGEST_RATIO = 200

NOT_WHOLE = "The file is not whole: its last line is missing or says something else."


class Target(Protocol):
    """Takes bytes one after the other: a spool, a file, or what compresses them."""

    def write(self, piece: bytes) -> Any: ...


class Content(Protocol):
    """Gives bytes, as often as it is rewound: a spool, or a file."""

    size: int

    def rewind(self) -> None: ...

    def read(self, size: int = ...) -> bytes: ...


class Packed:
    """Compresses what is written, and passes it on."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._packer = zlib.compressobj(wbits=GZIP_BITS)

    def write(self, piece: bytes) -> None:
        self._target.write(self._packer.compress(piece))

    def end(self) -> None:
        self._target.write(self._packer.flush())


class LineWriter:
    """Writes lines, and the last one after them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._digest = hashlib.sha256()
        self._count = 0
        self._pending = bytearray()

    def write(self, line: bytes) -> None:
        self._pending += line
        self._pending += b"\n"
        self._count += 1
        if len(self._pending) >= PIECE_BYTES:
            self._flush()

    def _flush(self) -> None:
        piece = bytes(self._pending)
        self._pending.clear()
        self._digest.update(piece)
        self._target.write(piece)

    def end(self) -> None:
        self._flush()
        last = {"type": LAST, "count": self._count, "sha256": self._digest.hexdigest()}
        self._target.write(orjson.dumps(last) + b"\n")


class Lines:
    """A whole file that was received: checked once, then read as often as needed."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.first: dict[str, Any] = {}

    def check(self) -> None:
        """Read the first and the last line; raise unless they say that the file is whole."""
        digest, count = hashlib.sha256(), 0
        before: bytes | None = None
        for line in self._read():
            if before is None:
                self._check_first(line)
            else:
                digest.update(before + b"\n")
                count += 1
            before = line
        last = _parse(before) if before is not None and count else {}
        if last != {"type": LAST, "count": count, "sha256": digest.hexdigest()}:
            raise ImportInvalid(NOT_WHOLE)

    def _check_first(self, line: bytes) -> None:
        try:
            self.first = _parse(line)
        except ImportInvalid:
            self.first = {}
        if self.first.get("type") != FIRST:
            raise ImportInvalid("The file is not an export of Value Tracker.")
        number = self.first.get("format")
        if type(number) is not int or number < 1:
            raise ImportInvalid("The first line does not say which format the file has.")
        if number > FORMAT:
            raise ImportTooNew()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records between the first and the last line."""
        lines = self._read()
        next(lines)
        for line in lines:
            record = _parse(line)
            if record["type"] == LAST:
                return
            yield record

    def _read(self) -> Iterator[bytes]:
        """Yield lines without their newlines; each must end with one."""
        rest: list[bytes] = []
        length = 0
        for piece in self._pieces():
            *lines, end = piece.split(b"\n")
            for line in lines:
                rest.append(line)
                yield b"".join(rest)
                rest.clear()
                length = 0
            rest.append(end)
            length += len(end)
            if length > LONGEST_LINE:
                raise ImportInvalid("A line of the file is too long.")
        if length:
            raise ImportInvalid(NOT_WHOLE)

    def _pieces(self) -> Iterator[bytes]:
        self._content.rewind()
        piece = self._content.read()
        if not piece.startswith(GZIP_MAGIC):
            while piece:
                yield piece
                piece = self._content.read()
            return
        yield from self._unpacked(piece)

    def _unpacked(self, piece: bytes) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=GZIP_BITS)
        size = 0
        try:
            while piece:
                # No more than this at once: a little may unpack to very much.
                unpacked = unpacker.decompress(piece, UNPACKED_BYTES)
                size += len(unpacked)
                if size > max(UNSUSPECTED_BYTES, LARGEST_RATIO * self._content.size):
                    raise ImportInvalid(
                        "The file unpacks to suspiciously much.",
                        hint="Nothing was changed. Send it as it is, without gzip.",
                    )
                yield unpacked
                piece = unpacker.unconsumed_tail
                if unpacker.eof and (unpacker.unused_data or self._content.read(1)):
                    raise ImportInvalid(NOT_WHOLE)
                piece = piece or self._content.read()
            # The bytes it has taken in and not yet given out.
            yield unpacker.flush()
        except zlib.error:
            raise ImportInvalid("The file cannot be unpacked.") from None
        if not unpacker.eof:
            raise ImportInvalid(NOT_WHOLE)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        record = load_text(line)
    except orjson.JSONDecodeError:
        raise ImportInvalid("A line of the file is not valid JSON.") from None
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise ImportInvalid("A line of the file is no record.")
    return record


def first_line(extension_id: str, **fields: Any) -> bytes:
    """Return the first line of an export; fields that are None are left out."""
    record = {"type": FIRST, "format": FORMAT, "version": __version__, "extension": extension_id}
    return orjson.dumps(
        record | {name: value for name, value in fields.items() if value is not None}
    )
