"""The memory of events: what the readers of one feed hold of it, and what others get."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.conftest import PATIENCE_SECONDS
from tests.runtime.test_joint_feed import extensions as extensions
from tests.runtime.test_joint_feed import write
from valuetracker.runtime import event_memory
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.feed import FeedStream
from valuetracker.store.feed_events import Filter

pytestmark = pytest.mark.anyio


async def following(stack: AsyncExitStack, extension: Extension) -> FeedStream:
    stream = extension.feed.stream(0, Filter())
    stack.push_async_callback(stream.aclose)
    return stream


async def first_event(stream: FeedStream) -> bytes:
    """Return the piece after the beginning."""
    pieces = aiter(stream)
    await anext(pieces)
    return await anext(pieces)


async def test_readers_of_a_slow_disk_do_not_hold_those_of_another(extensions: Extensions) -> None:
    await write(extensions, "a", times=3)
    await write(extensions, "b", times=3)
    slow, other = await extensions.acquire("a"), await extensions.acquire("b")
    freed = threading.Event()

    async def block(transaction: Any) -> None:
        freed.wait(PATIENCE_SECONDS)

    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
        # Both reading connections wait, as they would for a disk.
        blocked = [asyncio.create_task(slow.database.read(block)) for _ in range(2)]
        readers = [await following(stack, slow) for _ in range(45)]
        waiting = [asyncio.create_task(first_event(each)) for each in readers]
        try:
            assert (await first_event(await following(stack, other))).startswith(b"id: 1\n")
            assert extensions.events.budget.used <= event_memory.READ_BYTES
            assert not any(each.done() for each in waiting)
        finally:
            freed.set()
        found = await asyncio.gather(*waiting)
        assert all(each.startswith(b"id: 1\n") for each in found)
        await asyncio.gather(*blocked)
    assert extensions.events.budget.used == 0
    extensions.release(slow)
    extensions.release(other)


async def test_a_reader_that_is_filtered_needs_a_share_for_a_large_event(
    extensions: Extensions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of an event that is in memory."""
    monkeypatch.setattr(event_memory, "PIECE_BYTES", 50)
    monkeypatch.setattr(event_memory, "LARGEST_PIECE_BYTES", 50)
    extension = await extensions.acquire("a")
    async with AsyncExitStack() as stack:
        stream = extension.feed.stream(0, Filter(key="k"))
        stack.push_async_callback(stream.aclose)
        pieces = aiter(stream)
        await anext(pieces)
        await write(extensions, "a")
        piece = await anext(pieces)
        assert piece.startswith(b"id: 1\n")
        assert len(piece) == 50
        assert extensions.events.budget.used > 50
    assert extensions.events.budget.used == 0
    extensions.release(extension)
