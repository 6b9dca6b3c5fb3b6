"""
Compressed streams, in which a piece that goes to many readers is compressed once.

A client that accepts it (every browser does) is sent a stream with `Content-Encoding: deflate`:
a feed repeats much the same text, and becomes fifteen times smaller. Such a stream consists of
blocks. Blocks that refer to nothing before them can be part of any stream, so a piece that
hundreds of readers are sent at the same moment is compressed once. With many readers the
remaining cost is copying bytes to their sockets.

Why not gzip, which is better known: a gzip stream ends with a checksum (CRC-32) of all its
content, and the checksums of two pieces cannot be combined as cheaply as those of deflate
(Adler-32, RFC 1950).

This module knows nothing of events or requests.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from valuetracker.http.replies import Pieces

# The first bytes of every stream, and the empty block at its end, before the checksum.
BEGINNING = b"\x78\x01"
END = b"\x03\x00"
BEGINNING_CHECKSUM = 1
ADLER_BASE = 65_521

# Negative: without the first and the last bytes of a stream. A window of 4 KB compresses events
# nearly as well as a large one, whose memory would have to be cleared for every piece.
WINDOW_BITS = -12
MEMORY_LEVEL = 6
# Bytes of pieces that are kept together with their compressed form.
KEPT_BYTES = 4 * 1024 * 1024


class Packed(NamedTuple):
    """One piece as compressed blocks, with the checksum and the length of its content."""

    blocks: bytes
    checksum: int
    length: int


class Packer:
    """Compresses pieces, each of them once."""

    def __init__(self) -> None:
        # By the identity of the piece. The piece is kept, so that no other gets its identity.
        self._kept: dict[int, tuple[bytes, Packed]] = {}
        self._kept_bytes = 0

    def pack(self, piece: bytes) -> Packed:
        kept = self._kept.get(id(piece))
        if kept is not None:
            return kept[1]
        packed = pack(piece)
        if len(piece) <= KEPT_BYTES:
            self._kept_bytes += len(piece)
            while self._kept_bytes > KEPT_BYTES:
                oldest, _ = self._kept.pop(next(iter(self._kept)))
                self._kept_bytes -= len(oldest)
            self._kept[id(piece)] = (piece, packed)
        return packed


def pack(piece: bytes) -> Packed:
    compressor = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
    # A full flush ends the piece on a whole byte, and nothing later can refer to it.
    blocks = compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)
    return Packed(blocks, zlib.adler32(piece), len(piece))


def combine(first: int, second: int, second_length: int) -> int:
    """Return the checksum of two texts in a row, from the checksum of each."""
    low, high = first & 0xFFFF, first >> 16
    length = second_length % ADLER_BASE
    high += length * low + (second >> 16) - length
    low += (second & 0xFFFF) - 1
    return (high % ADLER_BASE) << 16 | low % ADLER_BASE


class Deflated:
    """The pieces of a stream, compressed for one reader."""

    def __init__(self, pieces: Pieces, packer: Packer) -> None:
        self._pieces = pieces
        self._packer = packer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield BEGINNING
        checksum = BEGINNING_CHECKSUM
        async for piece in self._pieces:
            packed = self._packer.pack(piece)
            checksum = combine(checksum, packed.checksum, packed.length)
            yield packed.blocks
        yield END + checksum.to_bytes(4, "big")

    async def aclose(self) -> None:
        await self._pieces.aclose()


def accepts_deflate(accept_encoding: bytes | None) -> bool:
    return accepts(b"deflate", accept_encoding)


def accepts(encoding: bytes, accept_encoding: bytes | None) -> bool:
    """Return True if a client accepts an encoding, even if it prefers something else."""
    for each in (accept_encoding or b"").lower().split(b","):
        name, _, weight = each.partition(b";")
        if name.strip() == encoding:
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
