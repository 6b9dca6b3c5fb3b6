"""
Streams that are sent deflated, with what goes to many of them packed once.

Whoever asks for it (every browser does) is sent a stream with `Content-Encoding: deflate`: a
feed says much the same again and again, and packs to a fifteenth. Such a stream is made of blocks.
Blocks that refer to nothing before them can stand in any stream, so a piece that hundreds of
readers are given in the same moment is packed once. What costs, with many readers, is copying
bytes to their sockets.

Why not gzip, which is better known: its end holds a checksum (CRC-32) of all that was sent, and
those of two pieces cannot be put together as cheaply as deflate's (Adler-32, RFC 1950).
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from valuetracker.http.replies import Pieces

# What every stream begins with, and the empty block it ends with, before its checksum.
BEGINNING = b"\x78\x01"
END = b"\x03\x00"
BEGINNING_CHECKSUM = 1
ADLER_BASE = 65_521

# Below zero says: no beginning and no end. A window of 4 KB packs events nearly as well as a
# large one, whose memory would have to be cleared for every piece.
WINDOW_BITS = -12
MEMORY_LEVEL = 6
# How many bytes of pieces are remembered with what they packed to.
KEPT_BYTES = 4 * 1024 * 1024


class Packed(NamedTuple):
    """One piece as blocks, with the checksum and the length of what is in it."""

    blocks: bytes
    checksum: int
    length: int


class Packer:
    """Packs pieces; one that it was given just before, it has ready."""

    def __init__(self) -> None:
        # By the identity of the piece, which is held here so that no other can get it.
        self._kept: dict[int, tuple[bytes, Packed]] = {}
        self._kept_bytes = 0

    def pack(self, piece: bytes) -> Packed:
        kept = self._kept.get(id(piece))
        if kept is not None:
            return kept[1]
        packed = pack(piece)
        if len(piece) <= KEPT_BYTES:
            self._kept_bytes += len(piece)
            if self._kept_bytes > KEPT_BYTES:
                self._kept.clear()
                self._kept_bytes = len(piece)
            self._kept[id(piece)] = (piece, packed)
        return packed


def pack(piece: bytes) -> Packed:
    compressor = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
    # A full flush ends the piece on a whole byte and lets nothing later refer to it.
    blocks = compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)
    return Packed(blocks, zlib.adler32(piece), len(piece))


def combine(first: int, second: int, second_length: int) -> int:
    """The checksum of two texts, one after the other, from the checksum of each."""
    low, high = first & 0xFFFF, first >> 16
    length = second_length % ADLER_BASE
    high += length * low + (second >> 16) - length
    low += (second & 0xFFFF) - 1
    return (high % ADLER_BASE) << 16 | low % ADLER_BASE


class Deflated:
    """Pieces as they are sent to one who reads deflate."""

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
    """Whether a client says that it reads deflate; what it likes best does not matter."""
    for each in (accept_encoding or b"").lower().split(b","):
        name, _, weight = each.partition(b";")
        if name.strip() == b"deflate":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
