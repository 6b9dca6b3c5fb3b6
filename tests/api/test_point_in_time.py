"""Reading the past: `at` by revision and by time, and differences between two moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, wait_for
from tests.support.answers import (
    character,
    done,
    head,
    instance,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)

AT_ROUTES = [
    "/instances/sword",
    "/instances/sword/data",
    "/instances/sword/data/edge",
    "/characters/arthur",
]


def story(client: httpx.Client) -> None:
    """Make seven revisions in which everything is created, changed, moved and deleted."""
    make_instance(client, {"edge": "keen", "hilt": {"b": 1, "a": 2}})
    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    done(client.delete("/instances/sword/data/edge"))
    set_value(client, "edge", "dull")
    done(client.delete("/characters/arthur"))


def state(client: httpx.Client, at: int) -> list[tuple[int, str]]:
    answers = [client.get(route, params={"at": at}) for route in AT_ROUTES]
    return [(answer.status_code, answer.text) for answer in answers]


def test_each_revision_reads_as_it_was(client: httpx.Client) -> None:
    story(client)

    texts = [values_of(client, at=revision) for revision in range(8)]

    hilt = '"hilt":{"b":1,"a":2}'
    assert texts == [
        "{}",
        "{}",
        '{"edge":"keen"}',
        f'{{"edge":"keen",{hilt}}}',
        f'{{"edge":"keen",{hilt}}}',
        f"{{{hilt}}}",
        f'{{{hilt},"edge":"dull"}}',
        "{}",
    ]


def test_an_instance_and_a_character_deleted_since_read_as_they_were(
    client: httpx.Client,
) -> None:
    story(client)

    sword = {"instance": instance("sword", "arthur"), "data": {"edge": "keen"}}
    assert outcome(client.get("/instances/sword?at=2")) == (200, sword)
    assert outcome(client.get("/instances/sword/data/edge?at=2")) == (200, {"edge": "keen"})
    assert outcome(client.get("/instances/sword/data/edge?at=5")) == (200, {})
    expected = {"character": character("arthur"), "instances": [sword]}
    assert outcome(client.get("/characters/arthur?at=2")) == (200, expected)
    assert refused(client.get("/instances/sword?at=7")) == (404, "instance_not_found", {})
    assert refused(client.get("/instances/sword?at=0")) == (404, "instance_not_found", {})
    assert refused(client.get("/characters/arthur?at=7")) == (404, "character_not_found", {})


def test_a_moved_instance_reads_as_being_where_it_was(client: httpx.Client) -> None:
    make_instance(client)
    make_instance(client, id="shield")
    done(client.post("/instances", json={"id": "sword", "characterId": "uther"}))
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": "S"}))

    def instances(character_id: str, at: int) -> list[Any]:
        answer = client.get(f"/characters/{character_id}", params={"at": at})
        return [each["instance"] for each in answer.json()["instances"]]

    sword, shield = instance("sword", "arthur"), instance("shield", "arthur")
    assert instances("arthur", 2) == [sword, shield]
    assert instances("arthur", 3) == [shield]
    assert instances("uther", 3) == [instance("sword", "uther")]
    assert instances("arthur", 4) == [instance("sword", "arthur", "S"), shield]
    assert instances("uther", 4) == []


def test_the_present_as_a_revision_reads_like_the_present(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "hilt": 1})
    set_value(client, "edge", "dull")

    for route in AT_ROUTES:
        assert client.get(route, params={"at": head(client)}).content == client.get(route).content


def test_a_read_of_the_past_never_changes(client: httpx.Client) -> None:
    story(client)
    before = [state(client, revision) for revision in range(8)]

    make_instance(client, {"edge": "new", "other": 1})
    done(client.post("/instances/sword/restore", json={"revision": 3}))
    done(client.delete("/instances/sword"))
    done(client.post("/characters/arthur/restore", json={"revision": 4}))

    assert [state(client, revision) for revision in range(8)] == before


def recorded(client: httpx.Client, revision: int) -> str:
    items = client.get("/changes", params={"since": revision - 1, "limit": 1}).json()["items"]
    return str(items[0]["at"])


def next_millisecond(client: httpx.Client, revision: int) -> None:
    """Wait until the clock shows another time than that revision was recorded at."""
    wait_for(lambda: now() > recorded(client, revision))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_a_time_is_the_highest_revision_recorded_by_then(client: httpx.Client) -> None:
    for revision in range(1, 5):
        if revision == 1:
            make_instance(client)
        else:
            set_value(client, "edge", revision)
        next_millisecond(client, revision)

    for revision in range(2, 5):
        at = recorded(client, revision)
        expected = f'{{"edge":{revision}}}'
        moment = datetime.fromisoformat(at)
        tokyo = moment.astimezone(timezone(timedelta(hours=9))).isoformat()
        assert values_of(client, at=at) == expected
        assert values_of(client, at=tokyo) == expected
        assert values_of(client, at=at.removesuffix("Z")) == expected
        # As a person writes it into a URL, where the plus means a blank.
        target = f"/instances/sword/data?at={at.removesuffix('Z')}+00:00"
        assert client.get(target).text == expected
        earlier = (moment - timedelta(milliseconds=1)).isoformat()
        assert values_of(client, at=earlier) != expected


@pytest.mark.parametrize("year", ["0001", "0999", "1969", "2001"])
def test_before_the_first_revision_there_was_nothing(client: httpx.Client, year: str) -> None:
    make_instance(client, {"edge": 1})

    at = f"{year}-06-01T00:00:00Z"

    assert values_of(client, at=at) == "{}"
    assert refused(client.get("/instances/sword", params={"at": at}))[0] == 404


def test_a_future_time_reads_the_present(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    assert values_of(client, at="9999-06-01T00:00:00Z") == '{"edge":1}'
    set_value(client, "edge", 2)
    assert values_of(client, at="9999-06-01T00:00:00Z") == '{"edge":2}'


@pytest.mark.one_engine
@pytest.mark.parametrize("route", AT_ROUTES)
@pytest.mark.parametrize(
    "at", ["", "x", "-1", "1.5", "0x1", "2026-02-30T00:00:00Z", "12:00", "now", "²", "1 "]
)
def test_a_malformed_moment_is_refused(client: httpx.Client, route: str, at: str) -> None:
    make_instance(client, {"edge": 1})

    assert refused(client.get(route, params={"at": at})) == (400, "invalid_at", {})


@pytest.mark.parametrize("route", AT_ROUTES)
@pytest.mark.parametrize("at", ["3", "18446744073709551616", "9" * 500])
def test_a_future_revision_is_refused(client: httpx.Client, route: str, at: str) -> None:
    make_instance(client, {"edge": 1})

    answer = client.get(route, params={"at": at})

    assert refused(answer) == (400, "revision_unknown", {"current": 2})


def test_another_extension_reads_the_same_past(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    story(client)

    with shared_server.client() as stranger:
        for route in AT_ROUTES:
            noun, _, rest = route[1:].partition("/")
            twin = stranger.get(f"/cross-extension/{noun}/{extension_id}/{rest}?at=3")
            assert twin.status_code == 200
            assert twin.content == client.get(f"{route}?at=3").content
        twin = stranger.get(f"/cross-extension/instances/{extension_id}/sword/diff?from=1&to=3")
        assert twin.content == client.get("/instances/sword/diff?from=1&to=3").content


def differences(client: httpx.Client, **params: Any) -> Any:
    answer = client.get("/instances/sword/diff", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_difference_lists_the_old_keys_in_order_and_then_the_new(client: httpx.Client) -> None:
    make_instance(client, {"z": 1, "same": [1], "removed": None, "a": {"x": 1}})
    done(client.delete("/instances/sword/data/removed"))
    values = {"new": None, "a": {"x": 2}, "z": "1", "same": [1], "late": 0}
    revision = done(client.put("/instances/sword/data/merge", json=values))

    forth = differences(client, **{"from": 5, "to": revision})
    back = differences(client, **{"from": revision, "to": 5})

    assert forth == [
        {"key": "z", "before": 1, "after": "1"},
        {"key": "removed", "before": None},
        {"key": "a", "before": {"x": 1}, "after": {"x": 2}},
        {"key": "new", "after": None},
        {"key": "late", "after": 0},
    ]
    assert back == [
        {"key": "z", "before": "1", "after": 1},
        {"key": "a", "before": {"x": 2}, "after": {"x": 1}},
        {"key": "new", "before": None},
        {"key": "late", "before": 0},
        {"key": "removed", "after": None},
    ]
    assert differences(client, **{"from": 5}) == forth
    assert differences(client, **{"from": 5, "to": 5}) == []


def test_a_difference_covers_a_deletion_and_takes_times(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    done(client.delete("/instances/sword"))

    assert differences(client, **{"from": 2}) == [{"key": "edge", "before": 1}]
    times = {"from": "2001-01-01T00:00:00Z", "to": str(2)}
    assert differences(client, **times) == [{"key": "edge", "after": 1}]


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (400, "invalid_query", {})),
        ("to=1", (400, "invalid_query", {})),
        ("from=x", (400, "invalid_at", {})),
        ("from=1&to=x", (400, "invalid_at", {})),
        ("from=9", (400, "revision_unknown", {"current": 2})),
        ("from=1&to=9", (400, "revision_unknown", {"current": 2})),
    ],
)
def test_a_malformed_difference_is_refused(client: httpx.Client, query: str, expected: Any) -> None:
    make_instance(client, {"edge": 1})

    assert refused(client.get(f"/instances/sword/diff?{query}")) == expected


def test_order_does_not_come_from_the_clock(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    make_instance(client)

    revisions: list[int] = []
    for number, year in enumerate([2040, 1990, 2030, 1980]):
        with shared_server.clock.at(f"{year}-01-01T00:00:00.000Z"):
            revisions.append(set_value(client, "edge", number))

    assert revisions == [2, 3, 4, 5]
    history = client.get("/instances/sword/history?key=edge&order=asc").json()["items"]
    assert [item["after"] for item in history] == [0, 1, 2, 3]
    assert [item["at"][:4] for item in history] == ["2040", "1990", "2030", "1980"]
    events = client.get("/changes?since=1").json()["items"]
    assert [event["revision"] for event in events] == revisions
    # The highest revision recorded at or before 1985 is the last one, of 1980.
    assert values_of(client, at="1985-01-01T00:00:00Z") == '{"edge":3}'
    assert values_of(client, at=2) == '{"edge":0}'
