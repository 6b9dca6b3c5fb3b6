"""Routes of the feed: Server-Sent Events, and the same events as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from valuetracker.errors import (
    Compacted,
    CursorMismatch,
    ExtensionNotRegistered,
    IncarnationEnded,
    InvalidExtensionId,
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
    EXTENSION_IDS,
    EXTENSIONS_PER_FEED,
    FEED_CURSOR,
    INSTANCE_ID,
    KEY,
    PAGE_SIZE,
    number_kind,
)
from valuetracker.records import FeedPage, JointPage
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.joint_feed import JointFeed
from valuetracker.store import feed_events
from valuetracker.store.rows.head import KnownRevision

LONGEST_WAIT_SECONDS = 60


async def list_events(call: Call) -> Stream:
    """
    Follow the changes of one extension, or of several, as Server-Sent Events.

    Each revision is one `event: change`. Its `id` is the revision, and its `data` is one line
    of JSON, a [`FeedEvent`](#feedevent). Events come in order, without gaps, and are never
    split. Values above 64 KiB are left out. The stream begins after the revision that `since`
    names, or `Last-Event-ID` after a lost connection; without either it begins now. A comment
    line comes every 15 s. A reader that is too slow gets `event: overflow`, and the server
    closes its stream; so it does when the extension is restored from a backup, and a reader that
    comes back with its old cursor is refused (410). When the extension is deregistered, its
    readers get `event: gone`. If the request accepts `deflate`, as browsers do, the stream is
    compressed without delaying events.

    Operations take no revision. Each change of a queue is one `event: operation` without an `id`,
    with the JSON `{at, actor, chatId, op, operation}`. `op` is `add`, `update`, `remove`, `pause`
    or `resume`; `operation` is the operation after it (null for the last two), without its `claim`
    and without `data` above 8 KiB. These events come after the changes that were made before them.
    They are not repeated: after a lost connection read the operations again. A lease that runs out
    is no event, and a server tells only what it has done itself. A reader of an instance or of a
    key gets none.

    Checkpoints take no revision either. Each change of them is one `event: checkpoint` in the same
    way, with the JSON `{at, actor, chatId, op, checkpoint}`. `op` is `add`, `update` (one that
    waited is ready now, or has failed) or `remove`; `checkpoint` is a
    [`CheckpointSummary`](#checkpointsummary).

    A job (`POST /verify`, `POST /backup`) is told of when it has begun, when it has ended, and at
    most twice a second between: one `event: job` without an `id`, with the JSON `{at, job, kind,
    status, done, total}`. `GET /jobs/:id` has what came of it. Of a job about one extension the
    readers of that extension are told, of any other those of all extensions of the user who began
    it. A reader of a chat, an instance or a key is told of none.

    `EventSource` cannot set headers, so the query may name the extension.

    With `extensions=a,b` it follows several, as `GET /cross-extension/events` does.
    """
    if call.extension_ids:
        return await list_joint_events(call)
    extension = await call.extensions.acquire(call.extension_id)
    try:
        since = _since(call, extension)
        # Refuse now: once the stream has begun, the status cannot change.
        await extension.read_result(feed_events.check_cursor, since)
        wanted = await _filter(call, extension)
    finally:
        # A reader does not use the extension in between: one that does not read what it is
        # sent must not keep it from being closed.
        call.extensions.release(extension)
    return Stream(extension.feed.stream(since, wanted))


async def list_changes(call: Call) -> Any:
    """
    Read the changes of one extension, or of several, as a page of JSON.

    The events are the same as those of `/events`. Send `next` as the `since` of the next
    request. With `wait`, the server delays an empty answer until a change happens or that many
    seconds have passed. Without `since` the page begins now.

    With `extensions=a,b` it reads those of several, as `GET /cross-extension/changes` does.
    """
    if call.extension_ids:
        return await list_joint_changes(call)
    extension = await call.extensions.acquire(call.extension_id)
    try:
        since = _since(call, extension)
        await extension.read_result(feed_events.check_cursor, since)
        wanted = await _filter(call, extension)
        return await extension.feed.page(
            since, wanted, call.query.get("limit", 100), call.query.get("wait", 0)
        )
    finally:
        call.extensions.release(extension)


async def list_joint_events(call: Call) -> Stream:
    """
    Follow the changes of several extensions on one connection, as Server-Sent Events.

    A browser opens at most six connections to one server, so a page that watches several
    extensions needs one feed for all of them. Stream and events are those of `GET /events`, but
    each event has its `extensionId`, and its `id` is a cursor for all extensions, in the order
    asked for: `a:12,b:7`. Send such a cursor as `since` or `Last-Event-ID`. A bare number, or
    the cursor of other extensions, is refused. The events of each extension come in order. The
    filters count for each extension.

    When one of the extensions is deregistered, the reader gets `event: gone` with
    `{extensionId}`, and later ids no longer name it. The stream ends when none is left. If the log
    of an extension no longer reaches back to its cursor, or the extension was restored from a
    backup, the reader gets `event: compacted` with `{extensionId, oldest}` and no `id`, and the
    stream goes on with the newest revision of that
    extension: read its values again. While the database of an extension cannot be read, the
    others go on, and its events follow later.

    The request is refused if one of the extensions is not registered, or if the caller may not
    read it; `details.extensionId` names it. A cursor may name an extension that was deregistered
    since: the reader gets `event: gone` for it. The reader counts as a reader of each extension.
    """
    return Stream((await _begin_joint(call, is_reader=True)).stream())


async def list_joint_changes(call: Call) -> JointPage:
    """
    Read the changes of several extensions, as a page of JSON.

    The events are the same as those of `GET /cross-extension/events`, and `since` may be the `id`
    of one of them. `limit` counts the events of all extensions together; each extension gets a
    share. `gone` and `compacted` list the extensions that have such an event in the stream. With
    `wait`, the server delays an empty answer until a change happens in one of the extensions or
    that many seconds have passed.
    """
    wait = call.query.get("wait", 0)
    joint = await _begin_joint(call, is_reader=wait > 0)
    try:
        return await joint.page(call.query.get("limit", 100), wait)
    finally:
        joint.close()


async def _begin_joint(call: Call, is_reader: bool) -> JointFeed:
    """Begin a feed of several extensions; the caller must `close` it."""
    cursors = _cursor(call)
    if isinstance(cursors, KnownRevision):
        raise CursorMismatch("The cursor of several extensions must name each, as in `a:12,b:7`.")
    for extension_id in cursors or ():
        if extension_id not in call.extension_ids:
            raise CursorMismatch(f"The cursor names {extension_id}, and `extensions` does not.")
    query = call.query
    wanted = feed_events.Filter(query.get("instanceId"), query.get("key"), query.get("chatId"))
    joint = JointFeed(call.extensions, wanted, is_reader)
    await joint.begin(call.extension_ids, cursors)
    return joint


def _since(call: Call, extension: Extension) -> int:
    since = _cursor(call)
    if isinstance(since, dict):
        raise CursorMismatch("The cursor of one extension must be a revision.")
    head = KnownRevision(extension.revision, extension.incarnation)
    if since is None:
        since = head
    feed_events.check_since(head, since)
    return since.revision


def _cursor(call: Call) -> KnownRevision | dict[str, KnownRevision] | None:
    """Return the revision that the request begins after, or those of several extensions."""
    # After a lost connection a browser repeats the old query and adds where it got to.
    if call.last_event_id is None:
        cursor: KnownRevision | dict[str, KnownRevision] | None = call.query.get("since")
        return cursor
    if call.last_event_id.isdigit():
        return KnownRevision(int(call.last_event_id[:20]))
    try:
        cursor = FEED_CURSOR.parse(call.last_event_id.decode("latin-1"))
    except InvalidQuery:
        raise InvalidHeader("Last-Event-ID must be the `id` of an event.") from None
    return cursor


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
    Field(
        "since",
        FEED_CURSOR,
        "Begin after this revision, or this cursor of several extensions; defaults to now.",
        required=False,
    ),
)
SEVERAL = Field(
    "extensions",
    EXTENSION_IDS,
    f"Several extensions, {EXTENSIONS_PER_FEED} at the most, with commas between them.",
    required=False,
)
WHICH = (
    Field("extensionId", EXTENSION_ID, "The extension, instead of the header.", required=False),
    SEVERAL,
)
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
    InvalidExtensionId,
    RevisionUnknown,
    CursorMismatch,
    ExtensionNotRegistered,
    Compacted,
    IncarnationEnded,
    TooManyReaders,
)
# Of several extensions, the one whose log was compacted, or that was restored, is skipped.
JOINT_REFUSALS = tuple(each for each in REFUSALS if each not in (Compacted, IncarnationEnded))

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/events",
        list_events,
        returns=Stream,
        query=(*WHICH, *FILTERS),
        raises=REFUSALS,
        extension="either",
    ),
    Endpoint(
        ("GET",),
        "/changes",
        list_changes,
        returns=FeedPage | JointPage,
        query=(*WHICH, *FILTERS, *PAGE),
        raises=REFUSALS,
        extension="either",
    ),
    Endpoint(
        ("GET",),
        "/cross-extension/events",
        list_joint_events,
        returns=Stream,
        query=(replace(SEVERAL, required=True), *FILTERS),
        raises=JOINT_REFUSALS,
        extension="listed",
    ),
    Endpoint(
        ("GET",),
        "/cross-extension/changes",
        list_joint_changes,
        returns=JointPage,
        query=(replace(SEVERAL, required=True), *FILTERS, *PAGE),
        raises=JOINT_REFUSALS,
        extension="listed",
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
