"""Deflated streams: any zlib reads them, and a piece for many readers is packed once."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from valuetracker.http.deflate import KEPT_BYTES, Deflated, Packer, accepts_deflate, combine

PIECES = some.lists(some.binary(max_size=2_000), max_size=8)


class Given:
    """A stream of pieces that are available at once."""

    def __init__(self, *pieces: bytes) -> None:
        self._given = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for each in self._given:
            yield each

    async def aclose(self) -> None:
        self.closed = True


async def sent(packer: Packer, *pieces: bytes) -> list[bytes]:
    return [piece async for piece in Deflated(Given(*pieces), packer)]


@given(PIECES, some.integers(0, 8))
async def test_each_packed_piece_can_be_unpacked_as_soon_as_it_is_sent(
    pieces: list[bytes], shared: int
) -> None:
    packer = Packer()
    # Another stream began with others of the same pieces.
    await sent(packer, *pieces[shared:])
    reader = zlib.decompressobj()
    beginning, *blocks, end = await sent(packer, *pieces)

    assert reader.decompress(beginning) == b""
    assert [reader.decompress(block) for block in blocks] == pieces
    assert not reader.eof

    assert reader.decompress(end) == b""
    assert reader.eof


@given(some.binary(max_size=100_000), some.binary(max_size=100_000))
def test_the_checksum_of_joined_texts_is_computed_from_their_checksums(
    first: bytes, second: bytes
) -> None:
    combined = combine(zlib.adler32(first), zlib.adler32(second), len(second))

    assert combined == zlib.adler32(first + second)


async def test_a_piece_for_many_is_packed_once() -> None:
    packer = Packer()
    piece = b"much the same again and again " * 100

    first, second = packer.pack(piece), packer.pack(piece)

    assert first is second
    assert packer.pack(bytes(bytearray(piece))) is not first


async def test_the_bytes_of_remembered_pieces_are_bounded() -> None:
    packer = Packer()
    pieces = [bytes(KEPT_BYTES // 4 + number) for number in range(5)]
    large = bytes(KEPT_BYTES + 1)

    packed = [packer.pack(piece) for piece in pieces]
    too_large = packer.pack(large)

    assert packer.pack(pieces[-1]) is packed[-1]
    assert packer.pack(pieces[0]) is not packed[0]
    assert packer.pack(large) is not too_large


async def test_closing_the_stream_closes_its_source() -> None:
    pieces = Given(b"a")

    await Deflated(pieces, Packer()).aclose()

    assert pieces.closed


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        (b"", False),
        (b"gzip", False),
        (b"identity, *", False),
        (b"deflate", True),
        (b"gzip, deflate, br, zstd", True),
        (b"gzip;q=1.0,DEFLATE;q=0.5", True),
        (b"deflate; q=1", True),
        (b"deflate;q=0", False),
        (b"gzip, deflate ; q = 0.000", False),
        (b"x-deflate", False),
    ],
)
def test_which_accept_encoding_headers_accept_deflate(header: bytes | None, accepted: bool) -> None:
    assert accepts_deflate(header) is accepted
