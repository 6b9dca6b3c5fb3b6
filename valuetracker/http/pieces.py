"""
Answers that are sent in pieces: downloads, and streams that end when their caller must go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from valuetracker.http.call import Download
from valuetracker.http.gate import Caller, Gate
from valuetracker.http.replies import Pieces, Reply, document_headers
from valuetracker.spool import Spool


def download_reply(download: Download) -> Reply:
    extra = [
        (b"content-disposition", f'attachment; filename="{download.name}"'.encode()),
        (b"vary", b"Accept-Encoding"),
    ]
    if download.encoding is not None:
        extra.append((b"content-encoding", download.encoding.encode()))
    common = document_headers(download.media_type, None)
    return Reply(
        200, common, extra, pieces=SpooledPieces(download.spool), length=download.spool.size
    )


class SpooledPieces:
    """The content of a spool, read as fast as the client takes it."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._spool.rewind()
        while piece := await asyncio.to_thread(self._spool.read):
            yield piece

    async def aclose(self) -> None:
        self._spool.close()


class GuardedPieces:
    """A stream that ends when the gate would no longer admit its caller."""

    def __init__(self, pieces: Pieces, gate: Gate, caller: Caller) -> None:
        self._pieces = pieces
        self._gate = gate
        self._caller = caller

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            if not self._gate.still_admits(self._caller):
                return
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()
