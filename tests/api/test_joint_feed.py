"""The joint feed: several extensions on one connection."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import NUMBERS, PATIENCE_SECONDS, RunningServer, running_server, wait_for
from tests.support.answers import done, make_instance, outcome, refused, set_value
from tests.support.events import Event, read_events, take
from valuetracker.errors import InvalidQuery
from valuetracker.http.kinds import FEED_CURSOR
from valuetracker.store.rows.head import KnownRevision

Follow = Callable[..., list[Event]]


class Several:
    """Three extensions of one test, and a client that belongs to none of them."""

    def __init__(self, server: RunningServer, reader: httpx.Client) -> None:
        self.server = server
        self.reader = reader
        number = next(NUMBERS)
        self.ids = [f"{name}-{number}" for name in ("apple", "beet", "corn")]
        for id in self.ids:
            server.register(id)

    @property
    def asked(self) -> str:
        return "extensions=" + ",".join(self.ids)

    def cursor(self, *revisions: int) -> str:
        """Return the cursor of the first extensions at these revisions."""
        return ",".join(f"{id}:{number}" for id, number in zip(self.ids, revisions, strict=False))

    def client(self, index: int) -> httpx.Client:
        return self.server.client(self.ids[index])

    def write(self, index: int, key: str = "edge", value: Any = 1) -> int:
        """Write to one extension, and return its revision."""
        with self.client(index) as client:
            if client.get("/changes").json()["next"] == 0:
                return make_instance(client)
            return set_value(client, key, value)

    def deregister(self, index: int) -> None:
        body = {"extensionId": self.ids[index]}
        with self.server.client() as client:
            assert client.request("DELETE", "/register", json=body).status_code == 200

    def compact(self, index: int) -> int:
        with self.client(index) as client:
            done(client.post("/compact", json={"keep": {"revisions": 1}}))
            oldest: int = client.get("/changes?since=0").json()["details"]["oldest"]
            return oldest

    def log(self, index: int) -> list[Any]:
        """Return all events of one extension, as the joint feed has them."""
        with self.client(index) as client:
            items = client.get("/changes?since=0&limit=1000").json()["items"]
        return [{"extensionId": self.ids[index], **item} for item in items]

    def follow(self, count: int, query: str = "", **headers: str) -> list[Event]:
        path = f"/events?{self.asked}{query}"
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        with self.reader.stream("GET", path, headers=named) as answer:
            assert answer.status_code == 200, answer.read()
            return take(read_events(answer), count)

    def page(self, query: str = "") -> dict[str, Any]:
        answer = self.reader.get(f"/changes?{self.asked}{query}")
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        assert set(page) == {"items", "next", "gone", "compacted"}
        return page

    def refused(self, path: str, **headers: str) -> tuple[int, str, dict[str, Any]]:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return refused(self.reader.get(path, headers=named))


@pytest.fixture
def several(shared_server: RunningServer) -> Iterator[Several]:
    with shared_server.client() as reader:
        yield Several(shared_server, reader)


@pytest.mark.parametrize("path", ["/events", "/cross-extension/events"])
def test_each_event_says_whose_it_is_and_its_id_names_all_extensions(
    several: Several, path: str
) -> None:
    for index in (0, 1, 1):
        several.write(index)
    with several.reader.stream("GET", f"{path}?{several.asked}") as answer:
        events = read_events(answer)
        # The comment at the beginning says that the stream has begun, which is now.
        assert next(events).name == ":"
        several.write(1)
        first = take(events, 1)
        several.write(0)
        several.write(2)
        others = take(events, 2)

    apple, beet, corn = (several.log(index) for index in range(3))
    assert first == [Event("change", several.cursor(1, 3, 0), beet[2])]
    assert others == [
        Event("change", several.cursor(2, 3, 0), apple[1]),
        Event("change", several.cursor(2, 3, 1), corn[0]),
    ]
    assert next(iter(apple[0])) == "extensionId"


def test_the_order_of_an_id_is_that_of_the_request(several: Several) -> None:
    several.ids.reverse()
    several.write(1)

    (event,) = several.follow(1, f"&since={several.cursor(0, 0, 0)}")

    assert event.id == several.cursor(0, 1, 0)
    assert str(event.id).startswith("corn-")


def test_a_reader_continues_at_its_cursor(several: Several) -> None:
    for index in (0, 0, 1, 1, 1, 2):
        several.write(index)
    everything = several.follow(6, f"&since={several.cursor(0, 0, 0)}")

    for number, event in enumerate(everything[:-1], 1):
        later = [each.data for each in everything[number:]]
        again = several.follow(len(later), f"&since={event.id}")
        # A browser repeats its first query, and sends the last event id in the header.
        begun = f"&since={several.cursor(0, 0, 0)}"
        by_header = several.follow(len(later), begun, last_event_id=str(event.id))
        assert [each.data for each in again] == [each.data for each in by_header] == later

    found = [each.data for each in everything]
    assert [each for each in found if each["extensionId"] == several.ids[1]] == several.log(1)
    assert everything[-1].id == several.cursor(2, 3, 1)


def test_the_names_of_a_cursor_may_come_in_any_order(several: Several) -> None:
    several.write(1)
    swapped = ",".join(reversed(several.cursor(0, 0, 0).split(",")))

    assert several.page(f"&since={swapped}")["items"] == several.log(1)


@pytest.mark.parametrize("path", ["/changes", "/cross-extension/changes"])
def test_the_same_events_can_be_read_as_pages(several: Several, path: str) -> None:
    for index in (0, 1, 1):
        several.write(index)

    page = several.reader.get(f"{path}?{several.asked}&since={several.cursor(0, 0, 0)}")
    later = several.reader.get(f"{path}?{several.asked}&since={several.cursor(1, 2, 0)}")
    now = several.reader.get(f"{path}?{several.asked}")

    items = [*several.log(0), *several.log(1)]
    end = {"next": several.cursor(1, 2, 0), "gone": [], "compacted": []}
    assert outcome(page) == (200, {"items": items, **end})
    assert outcome(later) == outcome(now) == (200, {"items": [], **end})


def test_the_limit_counts_the_events_of_all_extensions(several: Several) -> None:
    for index in (0, 0, 0, 0, 0, 0, 1, 1, 2):
        several.write(index)

    pages, cursor = [], several.cursor(0, 0, 0)
    for _ in range(3):
        page = several.page(f"&since={cursor}&limit=4")
        pages.append(page["items"])
        cursor = page["next"]

    assert [len(items) for items in pages] == [4, 4, 1]
    # Each extension gets a share of the first page, however much the others have.
    assert {each["extensionId"] for each in pages[0]} == set(several.ids)
    for index, id in enumerate(several.ids):
        found = [each for items in pages for each in items if each["extensionId"] == id]
        assert found == several.log(index)


def test_the_filters_count_for_each_extension(several: Several) -> None:
    for index in (0, 1):
        several.write(index)
        several.write(index, "hp")
        several.write(index, "gold")
        with several.client(index) as client:
            done(client.post("/chats/duel/data", json={"key": "hp", "value": index}))
    since = f"&since={several.cursor(0, 0, 0)}"

    by_key = several.page(f"{since}&key=hp")
    by_chat = several.page(f"{since}&chatId=duel")
    streamed = several.follow(2, f"{since}&key=gold&instanceId=sword")

    assert [(each["extensionId"], each["revision"]) for each in by_key["items"]] == [
        (id, revision) for id in several.ids[:2] for revision in (2, 4)
    ]
    assert by_key["next"] == several.cursor(4, 4, 0)
    assert [each["revision"] for each in by_chat["items"]] == [4, 4]
    assert [(each.name, each.data["revision"]) for each in streamed] == [("change", 3)] * 2
    assert several.page(f"{since}&key=none") == {
        "items": [],
        "next": several.cursor(4, 4, 0),
        "gone": [],
        "compacted": [],
    }


def test_a_deregistered_extension_is_dropped_and_the_others_go_on(several: Several) -> None:
    for index in range(3):
        several.write(index)
    with several.reader.stream("GET", f"/events?{several.asked}") as answer:
        events = read_events(answer)
        assert next(events).name == ":"
        several.write(1)
        before = take(events, 1)
        several.deregister(1)
        gone = take(events, 1)
        several.write(2)
        after = take(events, 1)

    apple, beet, corn = several.ids
    assert before[0].id == several.cursor(1, 2, 1)
    assert gone == [Event("gone", None, {"extensionId": beet})]
    assert after[0].id == f"{apple}:1,{corn}:2"
    # A browser asks again for all of them, with a cursor from before or after.
    for last in (before[0].id, after[0].id):
        again = several.follow(1, last_event_id=str(last))
        assert again == [Event("gone", None, {"extensionId": beet})]
    page = several.page(f"&since={before[0].id}")
    assert (page["gone"], page["next"]) == ([beet], f"{apple}:1,{corn}:2")
    assert page["items"] == several.log(2)[1:]
    # Without a cursor nobody followed it before.
    assert several.refused(f"/events?{several.asked}")[1] == "extension_not_registered"


def test_the_stream_ends_when_no_extension_is_left(several: Several) -> None:
    with several.reader.stream("GET", f"/events?{several.asked}") as answer:
        events = read_events(answer)
        assert next(events).name == ":"
        for index in (2, 0, 1):
            several.deregister(index)
        rest = [each for each in events if each.name != ":"]

    assert sorted(each.data["extensionId"] for each in rest) == several.ids
    assert {each.name for each in rest} == {"gone"}
    # A browser that connects again must be told to stop.
    again = several.refused(f"/events?{several.asked}", last_event_id=several.cursor(0, 0, 0))
    assert again == (404, "extension_not_registered", {"extensionId": several.ids[0]})


def test_an_extension_that_is_back_is_not_followed_by_an_old_cursor(several: Several) -> None:
    several.deregister(1)
    several.server.register(several.ids[1])
    apple, beet, corn = several.ids

    refusal = several.refused(f"/changes?{several.asked}&since={apple}:0,{corn}:0")

    assert refusal == (400, "cursor_mismatch", {"extensionId": beet})


def test_a_log_that_was_compacted_too_far_is_skipped_and_the_others_go_on(
    several: Several,
) -> None:
    for index in (0, 0, 0, 1, 1):
        several.write(index)
    oldest = several.compact(0)
    since = f"&since={several.cursor(1, 1, 0)}"

    page = several.page(since)
    with several.reader.stream("GET", f"/events?{several.asked}{since}") as answer:
        events = read_events(answer)
        found = take(events, 2)
        several.write(0)
        found += take(events, 1)

    apple = several.ids[0]
    beet = several.log(1)[1]
    assert page == {
        "items": [beet],
        "next": several.cursor(3, 2, 0),
        "gone": [],
        "compacted": [apple],
    }
    assert oldest > 1
    assert found[:2] == [
        Event("compacted", None, {"extensionId": apple, "oldest": oldest}),
        Event("change", several.cursor(3, 2, 0), beet),
    ]
    assert (found[2].id, found[2].data["extensionId"]) == (several.cursor(4, 2, 0), apple)


@pytest.mark.parametrize("path", ["/events", "/changes", "/cross-extension/events"])
def test_an_unknown_extension_is_named(several: Several, path: str) -> None:
    asked = f"{path}?{several.asked},nobody-knows"

    for query in ("", f"&since={several.cursor(0, 0, 0)},nobody-knows:0"):
        assert several.refused(asked + query) == (
            404,
            "extension_not_registered",
            {"extensionId": "nobody-knows"},
        )


@pytest.mark.one_engine
@pytest.mark.parametrize("path", ["/events", "/changes", "/cross-extension/changes"])
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("extensions=" + ",".join(f"e{number}" for number in range(33)), "invalid_query"),
        ("extensions=a,a", "invalid_query"),
        ("extensions=a&extensions=b", "invalid_query"),
        ("extensions=", "invalid_extension_id"),
        ("extensions=a,", "invalid_extension_id"),
        ("extensions=a,b%20c", "invalid_extension_id"),
        ("extensions=a:1", "invalid_extension_id"),
        ("extensions=a,../b", "invalid_extension_id"),
    ],
)
def test_an_invalid_list_is_refused(several: Several, path: str, query: str, code: str) -> None:
    assert several.refused(f"{path}?{query}")[:2] == (400, code)


@pytest.mark.one_engine
def test_the_query_names_one_extension_or_several(several: Several) -> None:
    both = several.refused(f"/changes?{several.asked}&extensionId={several.ids[0]}")
    missing = several.refused("/cross-extension/events")
    with several.client(0) as client:
        # The header says who asks.
        own = client.get(f"/changes?{several.asked}")

    assert both == (400, "invalid_query", {})
    assert missing == (400, "invalid_query", {})
    assert own.status_code == 200


def test_as_many_extensions_as_allowed_can_be_followed(several: Several) -> None:
    number = next(NUMBERS)
    several.ids = [f"{'x' * 118}-{number:06}-{each:02}" for each in range(32)]
    for id in several.ids:
        several.server.register(id)
    several.write(31)
    start = several.cursor(*[0] * 32)

    (event,) = several.follow(1, f"&since={start}")
    again = several.page(f"&since={event.id}")

    assert event.data == several.log(31)[0]
    assert str(event.id).endswith(f"{several.ids[31]}:1")
    assert (again["items"], again["next"]) == ([], event.id)


@pytest.mark.parametrize("path", ["/events", "/changes"])
def test_the_cursor_of_another_feed_is_refused(several: Several, path: str) -> None:
    several.write(0)
    apple, beet, corn = several.ids
    asked = f"{path}?{several.asked}"
    of_another = [
        "1",
        "0",
        f"{apple}:1",
        f"{apple}:1,{beet}:0",
        f"{several.cursor(1, 0, 0)},another:0",
        f"{apple}:1,{beet}:0,{corn.upper()}:0",
        "another:1",
    ]

    for cursor in of_another:
        by_query = several.refused(f"{asked}&since={cursor}")
        assert by_query[:2] == (400, "cursor_mismatch"), cursor
        assert several.refused(asked, last_event_id=cursor) == by_query
    one = f"{path}?extensionId={apple}"
    for answer in (
        several.refused(f"{one}&since={several.cursor(1, 0, 0)}"),
        several.refused(one, last_event_id=f"{apple}:1"),
    ):
        assert answer == (400, "cursor_mismatch", {})
    future = (400, "revision_unknown", {"current": 0, "extensionId": beet})
    assert several.refused(f"{asked}&since={several.cursor(1, 1, 0)}") == future


MALFORMED = [
    "",
    ",",
    ":",
    "a:",
    ":1",
    "a:1,",
    "a:1,,b:2",
    "a:1,a:1",
    "a:-1",
    "a:1.0",
    "a:0x1",
    "a:1:2",
    "a:1;b:2",
    "a:1 b:2",
    "a:\u0661",
    "a:" + "9" * 19,
    "a:" + "9" * 5_000,
    "a b:1",
    "\u00e4:1",
    "*",
    "a:1\x00",
]


@pytest.mark.one_engine
@pytest.mark.parametrize("cursor", MALFORMED)
def test_a_malformed_cursor_is_refused(several: Several, cursor: str) -> None:
    for path in ("/events", "/changes"):
        answer = several.reader.get(path, params={"extensions": "a,b", "since": cursor})
        assert refused(answer) == (400, "invalid_query", {})
        if cursor.isascii() and "\x00" not in cursor:
            by_header = several.refused(f"{path}?extensions=a,b", last_event_id=cursor)
            assert by_header == (400, "invalid_header", {})


IDS = st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True)


KNOWN = st.builds(KnownRevision, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))


@given(st.dictionaries(IDS, KNOWN, min_size=1, max_size=40))
def test_a_cursor_is_read_as_it_was_written(cursors: dict[str, KnownRevision]) -> None:
    text = ",".join(f"{id}:{known.tag}" for id, known in cursors.items())

    assert FEED_CURSOR.parse(text) == cursors


@given(st.text(st.sampled_from("ab1290:,-_ .+\x00\u0661\u00e4"), max_size=12) | st.text())
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        found = FEED_CURSOR.parse(text)
    except InvalidQuery:
        return
    if isinstance(found, dict):
        pairs = [each.split(":") for each in text.split(",")]
        assert found == {id: known(number) for id, number in pairs}
        assert len(found) == len(pairs)
    else:
        assert found == known(text)


def known(text: str) -> KnownRevision:
    revision, _, incarnation = text.partition(".")
    return KnownRevision(int(revision), int(incarnation or "0"))


def test_a_long_poll_is_answered_by_any_extension(several: Several) -> None:
    with several.server.client() as other, ThreadPoolExecutor(2) as pool:
        path = f"/changes?{several.asked}&since={several.cursor(0, 0, 0)}&wait=60"
        any_change = pool.submit(several.reader.get, path)
        one_key = pool.submit(other.get, f"{path}&key=edge")
        several.write(2)
        assert any_change.result(PATIENCE_SECONDS).json() == {
            "items": several.log(2),
            "next": several.cursor(0, 0, 1),
            "gone": [],
            "compacted": [],
        }
        several.write(1)
        several.write(1)
        assert one_key.result(PATIENCE_SECONDS).json() == {
            "items": several.log(1)[1:],
            "next": several.cursor(0, 2, 1),
            "gone": [],
            "compacted": [],
        }


def readers(server: RunningServer) -> int:
    found: int = server.app.state.capacity.readers
    return found


def test_a_long_poll_says_that_an_extension_is_gone(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as reader:
        several = Several(server, reader)
        with ThreadPoolExecutor(1) as pool:
            poll = pool.submit(reader.get, f"/changes?{several.asked}&wait=60")
            wait_for(lambda: readers(server) == 3)
            several.deregister(0)
            answer = poll.result(PATIENCE_SECONDS)

    apple, beet, corn = several.ids
    page = {"items": [], "next": f"{beet}:0,{corn}:0", "gone": [apple], "compacted": []}
    assert outcome(answer) == (200, page)


def test_a_stream_without_changes_sends_comments(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.feed.HEARTBEAT_SECONDS", 0.05)

    with several.reader.stream("GET", f"/events?{several.asked}") as answer:
        events = read_events(answer)
        names = [next(events).name for _ in range(4)]

    assert names == [":"] * 4


def test_followed_databases_stay_open_and_others_are_closed(tmp_path: Path) -> None:
    with running_server(tmp_path, open_databases=1) as server, server.client() as reader:
        several = Several(server, reader)
        start = f"/events?{several.asked}&since={several.cursor(0, 0, 0)}"
        with reader.stream("GET", start) as answer:
            events = read_events(answer)
            assert next(events).name == ":"
            for number in range(5):
                server.register(f"other-{number}")
                with server.client(f"other-{number}") as client:
                    make_instance(client)
            for index in range(3):
                several.write(index)
            found = take(events, 3)
            with server.client() as client:
                opened = client.get("/healthz").json()["openDatabases"]
        with server.client() as client:
            wait_for(lambda: readers(server) == 0)
            for number in range(5):
                client.get(f"/cross-extension/instances/other-{number}")
            wait_for(lambda: client.get("/healthz").json()["openDatabases"] <= 1)

    assert sorted(each.data["extensionId"] for each in found) == several.ids
    assert opened >= 3


def test_a_database_that_is_closed_and_opened_again_is_followed_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.feed.HEARTBEAT_SECONDS", 0.05)
    with running_server(tmp_path) as server, server.client() as reader:
        several = Several(server, reader)
        file = tmp_path / f"{several.ids[1]}.db"
        away = tmp_path / "away"
        for index in range(3):
            several.write(index)
        # Closing the database moves everything into this one file.
        several.deregister(1)
        server.register(several.ids[1])
        with reader.stream("GET", f"/events?{several.asked}") as answer:
            events = read_events(answer)
            assert next(events).name == ":"
            file.rename(away)
            with several.client(1) as client:
                wait_for(lambda: client.get("/characters").status_code == 503)
                several.write(0)
                meanwhile = take(events, 1)
                away.rename(file)
                wait_for(lambda: client.get("/characters").status_code == 200)
            several.write(1)
            afterwards = take(events, 1)

    assert meanwhile[0].id == several.cursor(2, 1, 1)
    assert (afterwards[0].id, afterwards[0].data["revision"]) == (several.cursor(2, 2, 1), 2)


def test_a_reader_that_does_not_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.runtime.feed.LARGEST_LAG", 5)
    with running_server(tmp_path) as server, server.client() as reader:
        several = Several(server, reader)
        several.write(0)
        several.write(1)
        with reader.stream("GET", f"/events?{several.asked}") as answer:
            events = read_events(answer)
            next(events)
            with several.client(0) as writer:
                for number in range(300):
                    set_value(writer, "big", str(number) + "x" * 60_000)
            found = [each for each in events if each.name != ":"]

    assert found[-1] == Event("overflow", None, {})
    assert [each.data["revision"] for each in found[:-1]] == list(range(2, len(found) + 1))
    assert len(found) < 300


def test_a_server_that_stops_ends_its_joint_feeds(tmp_path: Path) -> None:
    # Far longer than the test waits, so the server must end the feeds itself.
    with running_server(tmp_path, shutdown_seconds=600) as server:
        client = server.client()
        several = Several(server, client)
        several.write(0)
        stream = client.stream("GET", f"/events?{several.asked}&since={several.cursor(0, 0, 0)}")
        events = read_events(stream.__enter__())
        assert [each.id for each in take(events, 1)] == [several.cursor(1, 0, 0)]

    assert [each for each in events if each.name != ":"] == []
    stream.__exit__(None, None, None)
    client.close()


def read_restlessly(several: Several, ends: list[int], seed: int) -> list[Any]:
    """Return all events up to these revisions, read over many connections of both kinds."""
    choose = random.Random(seed)
    seen: list[Any] = []
    cursor = several.cursor(0, 0, 0)
    with several.server.client() as reader:
        mine = Several.__new__(Several)
        mine.server, mine.reader, mine.ids = several.server, reader, several.ids
        while cursor != several.cursor(*ends):
            count = min(choose.randint(1, 30), sum(ends) - len(seen))
            how = choose.choice(["since", "header", "page"])
            if how == "page":
                page = mine.page(f"&since={cursor}&wait=60&limit={count}")
                seen += page["items"]
                cursor = page["next"]
            else:
                headers = {} if how == "since" else {"last_event_id": cursor}
                start = cursor if how == "since" else several.cursor(0, 0, 0)
                events = mine.follow(count, f"&since={start}", **headers)
                seen += [each.data for each in events]
                cursor = str(events[-1].id)
    return seen


def test_readers_that_connect_again_and_again_get_exactly_the_logs(several: Several) -> None:
    counts = [50, 30, 10]

    def write(index: int) -> None:
        with several.client(index) as client:
            make_instance(client)
            for number in range(1, counts[index]):
                values = {f"key {key}": number for key in range(1 + number % 4)}
                done(client.put("/instances/sword/data/merge", json=values))

    with ThreadPoolExecutor(5) as pool:
        reading = [pool.submit(read_restlessly, several, counts, seed) for seed in range(2)]
        for writing in [pool.submit(write, index) for index in range(3)]:
            writing.result()
        seen = [each.result() for each in reading]

    for index, id in enumerate(several.ids):
        log = several.log(index)
        assert len(log) == counts[index]
        for events in seen:
            assert [each for each in events if each["extensionId"] == id] == log
    assert [len(events) for events in seen] == [sum(counts)] * 2
