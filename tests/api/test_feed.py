"""The feed: every revision as one event, in order, without a gap, never split."""

from __future__ import annotations

import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, Answering, RunningServer, running_server
from tests.support.answers import (
    MOMENT,
    done,
    head,
    instance,
    make_instance,
    outcome,
    refused,
    set_value,
)
from tests.support.events import Event, read_events, take
from valuetracker.settings import PREFIX


def follow(client: httpx.Client, count: int, query: str = "", **headers: str) -> list[Event]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    with client.stream("GET", f"/events{query}", headers=named) as answer:
        assert answer.status_code == 200, answer.read()
        return take(read_events(answer), count)


def changes(client: httpx.Client, query: str = "?since=0") -> list[Any]:
    answer = client.get(f"/changes{query}")
    assert answer.status_code == 200, answer.text
    items: list[Any] = answer.json()["items"]
    return items


def change(op: str, key: str | None = None, id: str | None = "sword", **more: Any) -> Any:
    common = {"live": True, "chatId": None, "anchor": None}
    return {"instanceId": id, "key": key, "op": op, **common, **more}


def event(revision: int, *changes: Any, **more: Any) -> Any:
    common = {"at": MOMENT, "actor": "extension", "chatId": None, "anchor": None}
    return {"revision": revision, **common, "changes": list(changes), **more}


def story(client: httpx.Client) -> list[Any]:
    """Make four revisions, and return the events they should be."""
    make_instance(client)
    anchor = {"messageId": "m1", "swipe": "2"}
    set_value(client, "edge", None, x_actor="user", x_message_id="m1", x_swipe_id="2")
    operations = [
        {"op": "increment", "instanceId": "sword", "key": "hits", "by": 2},
        {"op": "remove", "instanceId": "sword", "key": "edge", "anchor": {"messageId": "m2"}},
    ]
    done(client.post("/batch", json={"operations": operations}))
    done(client.put("/instances/sword/data/override", json={"a": [], "b": {}}))
    made = {"id": "arthur", "name": None, "createdAt": MOMENT, "updatedAt": MOMENT}
    return [
        event(
            1,
            change("create_character", id=None, characterId="arthur", after=made),
            change("create_instance", characterId="arthur", after=instance("sword", "arthur")),
        ),
        event(2, change("set", "edge", anchor=anchor, after=None), actor="user", anchor=anchor),
        event(
            3,
            change("increment", "hits", after=2),
            change("remove", "edge", anchor={"messageId": "m2", "swipe": "0"}),
        ),
        event(
            4,
            change("remove", "hits"),
            change("set", "a", after=[]),
            change("set", "b", after={}),
        ),
    ]


def test_a_reader_that_catches_up_on_large_values_gets_every_event(client: httpx.Client) -> None:
    make_instance(client)
    for number in range(5):
        set_value(client, "edge", f"{number}" + "x" * (3 * 1024 * 1024))

    found = [each.id for each in follow(client, 6, "?since=0")]
    pages, since = [], 0
    while since < 6:
        page = client.get(f"/changes?since={since}&limit=1000").json()
        pages.append([item["revision"] for item in page["items"]])
        since = page["next"]

    assert found == [1, 2, 3, 4, 5, 6]
    assert [revision for page in pages for revision in page] == found
    assert len(pages) > 1


@pytest.mark.parametrize("coding", ["identity", "gzip, deflate, br"])
def test_a_reader_gets_an_encoding_that_it_accepts(client: httpx.Client, coding: str) -> None:
    expected = story(client)
    packed = "deflate" in coding

    with client.stream("GET", "/events?since=0", headers={"accept-encoding": coding}) as answer:
        found = take(read_events(answer), len(expected))

    assert answer.headers.get("content-encoding") == ("deflate" if packed else None)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert [each.data for each in found] == expected


def test_each_revision_is_one_event(client: httpx.Client) -> None:
    expected = story(client)

    events = follow(client, 4, "?since=0")

    assert events == [Event("change", each["revision"], each) for each in expected]


def test_a_deletion_names_the_deleted_instance_and_its_character(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    done(client.delete("/characters/arthur"))

    expected = event(
        3,
        change("remove", "edge"),
        change("delete_instance", characterId="arthur"),
        change("delete_character", id=None, characterId="arthur"),
    )
    assert changes(client, "?since=2") == [expected]


def test_the_same_events_can_be_read_as_pages(client: httpx.Client) -> None:
    expected = story(client)

    assert outcome(client.get("/changes?since=0")) == (200, {"items": expected, "next": 4})
    assert outcome(client.get("/changes?since=1&limit=2")) == (
        200,
        {"items": expected[1:3], "next": 3},
    )
    assert outcome(client.get("/changes?since=4")) == (200, {"items": [], "next": 4})
    assert outcome(client.get("/changes")) == (200, {"items": [], "next": 4})


def test_the_headers_of_a_stream_forbid_to_store_or_transform_it(client: httpx.Client) -> None:
    with client.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert client.get("/changes").headers["cache-control"] == "no-store"


def test_without_a_cursor_a_stream_begins_now(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    with client.stream("GET", "/events") as answer:
        events = read_events(answer)
        # The comment at the beginning says that the stream has begun.
        assert next(events).name == ":"
        with httpx.Client(base_url=client.base_url, headers=client.headers) as writer:
            set_value(writer, "edge", 2)
        found = take(events, 1)

    expected = event(3, change("set", "edge", after=2))
    assert found == [Event("change", 3, expected)]


def test_a_stream_continues_after_the_last_event_id(client: httpx.Client) -> None:
    expected = story(client)

    assert [each.data for each in follow(client, 2, last_event_id="2")] == expected[2:]
    # A browser repeats its first query, and sends the last event id in the header.
    again = follow(client, 1, "?since=0", last_event_id="3")
    assert [each.data for each in again] == expected[3:]


@pytest.mark.parametrize("path", ["/events", "/changes"])
def test_an_invalid_cursor_is_refused(client: httpx.Client, path: str) -> None:
    make_instance(client)
    future = (400, "revision_unknown", {"current": 1})

    assert refused(client.get(f"{path}?since=2")) == future
    assert refused(client.get(path, headers={"last-event-id": "2"})) == future
    assert refused(client.get(path, headers={"last-event-id": "9" * 30})) == future
    for since in ("x", "-1", "", "1.0", "9" * 30):
        assert refused(client.get(f"{path}?since={since}")) == (400, "invalid_query", {})
    for last in ("x", "-1", "", "1.0", '"1"', "1 2"):
        answer = client.get(path, headers={"last-event-id": last})
        assert refused(answer) == (400, "invalid_header", {})
    twice = client.get(path, headers=[("last-event-id", "0"), ("last-event-id", "1")])
    assert refused(twice) == (400, "invalid_header", {})


@pytest.mark.one_engine
@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "wait=-1", "wait=x"])
def test_a_malformed_page_is_refused(client: httpx.Client, query: str) -> None:
    assert refused(client.get(f"/changes?{query}")) == (400, "invalid_query", {})


@pytest.mark.parametrize("path", ["/events", "/changes"])
def test_a_cursor_below_the_oldest_revision_is_refused(client: httpx.Client, path: str) -> None:
    story(client)
    done(client.post("/compact", json={"keep": {"revisions": 1}}))

    assert refused(client.get(f"{path}?since=2")) == (410, "compacted", {"oldest": 3})
    compacted = client.get(path, headers={"last-event-id": "0"})
    assert refused(compacted) == (410, "compacted", {"oldest": 3})
    assert [each.id for each in follow(client, 1, "?since=3")] == [4]


def test_the_extension_comes_from_the_header_or_the_query(
    extension_id: str, shared_server: RunningServer
) -> None:
    with shared_server.client(extension_id) as client:
        expected = story(client)
        same = changes(client, f"?since=0&extensionId={extension_id}")
        differs = client.get("/changes?since=0&extensionId=another")
        bad = client.get("/changes?since=0&extensionId=no%20name")
    with shared_server.client() as nobody:
        found = follow(nobody, 4, f"?since=0&extensionId={extension_id}")
        missing = nobody.get("/events")
        unknown = nobody.get("/events?extensionId=nobody-knows")

    assert same == [each.data for each in found] == expected
    assert (differs.status_code, bad.status_code) == (400, 400)
    assert refused(missing) == (400, "extension_id_required", {})
    assert refused(unknown) == (404, "extension_not_registered", {})


def test_other_extensions_read_the_same_feed(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    expected = story(client)

    with shared_server.client() as stranger:
        page = stranger.get(f"/cross-extension/changes/{extension_id}?since=0")
        with stranger.stream("GET", f"/cross-extension/events/{extension_id}?since=0") as answer:
            events = take(read_events(answer), 4)
        unknown = stranger.get("/cross-extension/events/nobody-knows")
        written = stranger.post(f"/cross-extension/events/{extension_id}")

    assert outcome(page) == (200, {"items": expected, "next": 4})
    assert [each.data for each in events] == expected
    assert (unknown.status_code, written.status_code) == (404, 405)


def filtered(client: httpx.Client, query: str) -> list[tuple[int, list[tuple[Any, Any]]]]:
    return [
        (each["revision"], [(one["instanceId"], one["key"]) for one in each["changes"]])
        for each in changes(client, f"?since=0{query}")
    ]


def test_a_reader_can_filter_by_instance_or_key(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 1})
    make_instance(client, {"a": 2}, id="shield")
    operations = [
        {"op": "set", "instanceId": id, "key": key, "value": 1}
        for id, key in [("sword", "a"), ("shield", "a"), ("shield", "b")]
    ]
    done(client.post("/batch", json={"operations": operations}))

    sword = [(1, [("sword", None)]), (2, [("sword", "a")]), (3, [("sword", "b")])]
    assert filtered(client, "&instanceId=sword") == [*sword, (6, [("sword", "a")])]
    assert filtered(client, "&key=b") == [(3, [("sword", "b")]), (6, [("shield", "b")])]
    assert filtered(client, "&key=b&instanceId=shield") == [(6, [("shield", "b")])]
    assert filtered(client, "&instanceId=arthur") == []
    streamed = follow(client, 2, "?since=0&key=b")
    assert [each.data for each in streamed] == changes(client, "?since=0&key=b")
    assert outcome(client.get("/changes?since=0&key=none"))[1] == {"items": [], "next": 6}


@pytest.mark.parametrize(
    ("value", "shown"),
    [("x" * (64 * 1024 - 2), True), ("x" * (64 * 1024 - 1), False), ("日" * 30_000, False)],
    ids=["64 KiB", "one byte more", "more in bytes than in characters"],
)
def test_values_above_64_kib_are_left_out(client: httpx.Client, value: str, shown: bool) -> None:
    make_instance(client, {"edge": value})

    found = changes(client, "?since=1")[0]["changes"]

    assert found == [change("set", "edge", **({"after": value} if shown else {}))]


def test_no_text_can_break_the_frame(client: httpx.Client) -> None:
    value = ["a\n\nevent: gone\ndata: {}\n\n", "\r\n\r\n", "\u2028\u2029\x85\x0b\x0c", {"\n": "\r"}]
    key = "id: 9 event: gone data: \u2028"
    make_instance(client, {key: value, "plain": 1})

    events = follow(client, 3, "?since=0")

    assert [each.id for each in events] == [1, 2, 3]
    assert events[1].data == event(2, change("set", key, after=value))


def test_a_long_poll_is_answered_by_a_write(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client)
    with shared_server.client(extension_id) as waiting, ThreadPoolExecutor(2) as pool:
        any_change = pool.submit(client.get, "/changes?since=1&wait=60")
        one_key = pool.submit(waiting.get, "/changes?since=1&wait=60&key=b")
        with shared_server.client(extension_id) as writer:
            set_value(writer, "a", 1)
            assert any_change.result(PATIENCE_SECONDS).json()["next"] == 2
            set_value(writer, "b", 2)

        expected = {"items": [event(3, change("set", "b", after=2))], "next": 3}
        assert outcome(one_key.result(PATIENCE_SECONDS)) == (200, expected)


def test_a_feed_without_changes_sends_comments(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.feed.HEARTBEAT_SECONDS", 0.05)

    with client.stream("GET", "/events") as answer:
        events = read_events(answer)
        names = [next(events).name for _ in range(4)]

    assert names == [":"] * 4


def test_readers_of_a_deregistered_extension_get_a_last_event(
    client: httpx.Client, extension_id: str
) -> None:
    make_instance(client)
    with client.stream("GET", "/events?since=0") as answer:
        events = read_events(answer)
        assert [each.id for each in take(events, 1)] == [1]
        with httpx.Client(base_url=client.base_url) as other:
            body = {"extensionId": extension_id}
            assert other.request("DELETE", "/register", json=body).status_code == 200

        assert [each for each in events if each.name != ":"] == [Event("gone", None, {})]


def stalled(server: RunningServer) -> httpx.Client:
    """Open a connection with a small buffer, which is not read."""
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)]
    return httpx.Client(
        base_url=server.url + PREFIX,
        headers={"x-extension-id": "demo"},
        timeout=PATIENCE_SECONDS,
        transport=httpx.HTTPTransport(socket_options=small),
    )


def write_megabytes(server: RunningServer) -> None:
    with server.client("demo") as writer:
        for number in range(300):
            set_value(writer, "big", str(number) + "x" * 60_000)


def test_a_reader_that_does_not_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.feed.LARGEST_LAG", 5)
    with running_server(tmp_path) as server, stalled(server) as reader:
        server.register("demo")
        make_instance(reader)
        with reader.stream("GET", "/events?since=1") as answer:
            events = read_events(answer)
            next(events)
            write_megabytes(server)
            found = [each for each in events if each.name != ":"]

    assert found[-1] == Event("overflow", None, {})
    assert [each.id for each in found[:-1]] == list(range(2, len(found) + 1))
    assert len(found) < 300


def test_a_reader_that_does_not_read_delays_nobody(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, stalled(server) as reader:
        server.register("demo")
        make_instance(reader)
        with reader.stream("GET", "/events?since=1") as answer:
            events = read_events(answer)
            next(events)
            write_megabytes(server)
            with server.client() as other:
                deregistered = other.request("DELETE", "/register", json={"extensionId": "demo"})

    assert deregistered.status_code == 200


def test_a_head_request_for_a_stream_ends(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            answer = client.head("/events")
            # Sent on the same connection, which must be free again.
            after = client.get("/probe")

    assert (answer.status_code, after.status_code) == (200, 204)


def test_a_server_that_stops_ends_its_feeds(tmp_path: Path) -> None:
    # Far longer than the test waits, so the server must end the feeds itself.
    pool = ThreadPoolExecutor(1)
    with running_server(tmp_path, shutdown_seconds=600) as server:
        server.register("demo")
        client = server.client("demo")
        make_instance(client)
        stream = client.stream("GET", "/events?since=0")
        events = read_events(stream.__enter__())
        assert [each.id for each in take(events, 1)] == [1]
        poll = pool.submit(outcome_of_poll, server.url)

    assert [each for each in events if each.name != ":"] == []
    assert poll.result(PATIENCE_SECONDS) in ({"items": [], "next": 1}, None)
    stream.__exit__(None, None, None)
    client.close()
    pool.shutdown()


def outcome_of_poll(url: str) -> Any:
    """Return the answer to a long poll, or None if the server stopped before the request came."""
    path = f"{url}{PREFIX}/changes?extensionId=demo&wait=60"
    try:
        answer = httpx.get(path, timeout=PATIENCE_SECONDS)
    except httpx.TransportError:
        return None
    if Answering.http == "asgi" and answer.text == "Internal Server Error":
        # A stock uvicorn does not tell the application that it stops. It cancels the poll instead.
        return None
    return answer.json()


def read_restlessly(client: httpx.Client, last: int, seed: int) -> list[Any]:
    """Return all events up to `last`, read over many connections of both kinds."""
    choose = random.Random(seed)
    seen: list[Any] = []
    place = 0
    while place < last:
        count = min(choose.randint(1, 30), last - place)
        how = choose.choice(["since", "header", "page"])
        if how == "page":
            answer = client.get(f"/changes?since={place}&wait=60&limit={count}").json()
            seen += answer["items"]
            place = answer["next"]
            continue
        place_in_query = f"?since={place}" if how == "since" else "?since=0"
        headers = {} if how == "since" else {"last_event_id": str(place)}
        seen += [each.data for each in follow(client, count, place_in_query, **headers)]
        place = seen[-1]["revision"]
    return seen


def test_readers_that_connect_again_and_again_get_exactly_the_log(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client)
    writers, each_writes, readers = 4, 40, 3
    last = 1 + writers * each_writes

    def write(writer: int) -> None:
        with shared_server.client(extension_id) as mine:
            for number in range(each_writes):
                values = {f"{writer} {key}": number for key in range(1 + number % 4)}
                done(mine.put("/instances/sword/data/merge", json=values))

    def read(seed: int) -> list[Any]:
        with shared_server.client(extension_id) as mine:
            return read_restlessly(mine, last, seed)

    with ThreadPoolExecutor(writers + readers) as pool:
        reading = [pool.submit(read, seed) for seed in range(readers)]
        for writing in [pool.submit(write, writer) for writer in range(writers)]:
            writing.result()
        seen = [each.result() for each in reading]

    log = changes(client, "?since=0&limit=1000")
    assert [each["revision"] for each in log] == list(range(1, last + 1))
    assert [len(each["changes"]) for each in log[1:]].count(4) == writers * each_writes // 4
    assert seen == [log] * readers
    assert head(client) == last
