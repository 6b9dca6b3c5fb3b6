"""The joint feed beside a log that is compacted while its reader is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from valuetracker import create_app
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.joint_feed import JointFeed
from valuetracker.settings import Settings
from valuetracker.store.compaction import Keep, compact
from valuetracker.store.data import merge_values
from valuetracker.store.feed_events import Filter
from valuetracker.store.rows.head import KnownRevision
from valuetracker.store.rows.spaces import chat

pytestmark = pytest.mark.anyio


@pytest.fixture
async def extensions(tmp_path: Path) -> AsyncIterator[Extensions]:
    """The extensions `a` and `b` of a server that nobody else uses."""
    app = create_app(Settings(data_dir=tmp_path))
    async with app.router.lifespan_context(app):
        found: Extensions = app.state.dispatcher.service.users.default
        for id in ("a", "b"):
            await found.register(id, None)
        yield found


async def write(extensions: Extensions, id: str, times: int = 1, keep: int | None = None) -> None:
    """Write to an extension; then compact its log if it is to keep only so many revisions."""
    extension = await extensions.acquire(id)
    try:
        for number in range(times):
            await extension.write(merge_values, chat("c"), {"k": f"{number}"})
        if keep is not None:
            await extension.write(compact, Keep(revisions=keep))
    finally:
        extensions.release(extension)


async def test_a_log_that_is_compacted_past_a_slow_reader_is_skipped(
    extensions: Extensions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the events in memory had been replaced by later ones.
    monkeypatch.setattr("valuetracker.runtime.event_memory.RECENT_BYTES", 0)
    joint = JointFeed(extensions, Filter(), is_reader=True)
    await joint.begin(["a", "b"], None)
    stream = joint.stream()
    pieces = aiter(stream)
    assert (await anext(pieces)).startswith(b":")

    await write(extensions, "a", times=5, keep=1)
    await write(extensions, "b")
    skipped = await anext(pieces)
    other = await anext(pieces)
    await write(extensions, "a")
    later = await anext(pieces)
    await stream.aclose()

    assert skipped == b'event: compacted\ndata: {"extensionId":"a","oldest":4}\n\n'
    assert other.startswith(b'id: a:5,b:1\nevent: change\ndata: {"extensionId":"b","revision":1,')
    assert later.startswith(b'id: a:6,b:1\nevent: change\ndata: {"extensionId":"a","revision":6,')
    extension = await extensions.acquire("a")
    assert not extension.feed.has_readers
    extensions.release(extension)


async def test_large_events_are_sent_in_pieces(
    extensions: Extensions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.event_memory.PIECE_BYTES", 100)
    await write(extensions, "a", times=5)
    joint = JointFeed(extensions, Filter(), is_reader=True)
    await joint.begin(["a", "b"], {"a": KnownRevision(1), "b": KnownRevision(0)})
    stream = joint.stream()
    pieces = aiter(stream)

    assert (await anext(pieces)).startswith(b":")
    found: list[bytes] = []
    while b"".join(found).count(b"\n\n") < 4:
        found.append(await anext(pieces))
    await stream.aclose()

    events = b"".join(found).split(b"\n\n")
    ids = [event.split(b"\n")[0] for event in events if event]
    assert ids == [b"id: a:%d,b:0" % revision for revision in range(2, 6)]
    assert all(len(piece) <= 100 for piece in found)
