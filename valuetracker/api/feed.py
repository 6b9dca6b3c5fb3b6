"""Routes of the feed: Server-Sent Events, and the same events as JSON."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    Compacted,
    ExtensionNotRegistered,
    InvalidHeader,
    InvalidId,
    InvalidKey,
    InvalidQuery,
    RevisionUnknown,
    TooManyReaders,
)
from valuetracker.http.call import Call, Stream
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import (
    CHAT_ID,
    EXTENSION_ID,
    INSTANCE_ID,
    KEY,
    PAGE_SIZE,
    POSITION,
    number_kind,
)
from valuetracker.records import FeedPage
from valuetracker.runtime.extension import Extension
from valuetracker.store import feed_events

LONGEST_WAIT_SECONDS = 60


async def list_events(call: Call) -> Stream:
    """
    Follow the changes of an extension as Server-Sent Events.

    Each revision is one `event: change`. Its `id` is the revision, and its `data` is one line
    of JSON, a [`FeedEvent`](#feedevent). Events come in order, without gaps, and are never
    split. Values above 64 KiB are left out. The stream begins after the revision that `since`
    names, or `Last-Event-ID` after a lost connection; without either it begins now. A comment
    line comes every 15 s. A reader that is too slow gets `event: overflow`, and the server
    closes its stream. When the extension is deregistered, its readers get `event: gone`. If the
    request accepts `deflate`, as browsers do, the stream is compressed without delaying events.

    `EventSource` cannot set headers, so the query may name the extension.
    """
    extension = await call.extensions.acquire(call.extension_id)
    try:
        since = _since(call, extension)
        # Refuse now: once the stream has begun, the status cannot change.
        await extension.read_result(feed_events.list_revisions, since, 0)
        wanted = await _filter(call, extension)
    finally:
        # A reader does not use the extension in between: one that does not read what it is
        # sent must not keep it from being closed.
        call.extensions.release(extension)
    return Stream(extension.feed.stream(since, wanted))


async def list_changes(call: Call) -> Any:
    """
    Read the changes after a revision, as a page of JSON.

    The events are the same as those of `/events`. Send `next` as the `since` of the next
    request. With `wait`, the server delays an empty answer until a change happens or that many
    seconds have passed. Without `since` the page begins now.
    """
    extension = await call.extensions.acquire(call.extension_id)
    try:
        since = _since(call, extension)
        await extension.read_result(feed_events.list_revisions, since, 0)
        wanted = await _filter(call, extension)
        return await extension.feed.page(
            since, wanted, call.query.get("limit", 100), call.query.get("wait", 0)
        )
    finally:
        call.extensions.release(extension)


def _since(call: Call, extension: Extension) -> int:
    # After a lost connection a browser repeats the old query and adds where it got to.
    if call.last_event_id is not None:
        if not call.last_event_id.isdigit():
            raise InvalidHeader("Last-Event-ID must be a revision.")
        since = int(call.last_event_id[:20])
    else:
        since = call.query.get("since", extension.revision)
    feed_events.check_since(extension.revision, since)
    return since


async def _filter(call: Call, extension: Extension) -> feed_events.Filter:
    chat_id = call.query.get("chatId")
    number = None
    if chat_id is not None:
        number = await extension.read_result(feed_events.find_chat_number, chat_id)
    return feed_events.Filter(call.query.get("instanceId"), call.query.get("key"), chat_id, number)


FILTERS = (
    Field("chatId", CHAT_ID, "Only changes in this chat.", required=False),
    Field("instanceId", INSTANCE_ID, "Only changes of this instance.", required=False),
    Field("key", KEY, "Only changes of this key.", required=False),
    Field("since", POSITION, "Begin after this revision; defaults to now.", required=False),
)
WHICH = Field("extensionId", EXTENSION_ID, "The extension, instead of the header.", required=False)
PAGE = (
    Field("limit", PAGE_SIZE, "The largest number of events; defaults to 100.", required=False),
    Field(
        "wait",
        number_kind(0, LONGEST_WAIT_SECONDS),
        "How many seconds to wait for the first event.",
        required=False,
    ),
)
REFUSALS = (
    InvalidId,
    InvalidKey,
    InvalidQuery,
    InvalidHeader,
    RevisionUnknown,
    ExtensionNotRegistered,
    Compacted,
    TooManyReaders,
)

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/events",
        list_events,
        returns=Stream,
        query=(WHICH, *FILTERS),
        raises=REFUSALS,
        extension="either",
    ),
    Endpoint(
        ("GET",),
        "/changes",
        list_changes,
        returns=FeedPage,
        query=(WHICH, *FILTERS, *PAGE),
        raises=REFUSALS,
        extension="either",
    ),
    Endpoint(
        ("GET",),
        "/cross-extension/events/{extension}",
        list_events,
        returns=Stream,
        query=FILTERS,
        raises=REFUSALS,
        extension="path",
    ),
    Endpoint(
        ("GET",),
        "/cross-extension/changes/{extension}",
        list_changes,
        returns=FeedPage,
        query=(*FILTERS, *PAGE),
        raises=REFUSALS,
        extension="path",
    ),
]
