"""Compacting the log: what is kept, what is folded, and how reads below it are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.support.answers import (
    done,
    head,
    instance,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)
from valuetracker.app import create_engine, retention
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extensions import Extensions
from valuetracker.settings import Settings
from valuetracker.store.data import set_value as set_stored
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.spaces import Address

READS = [
    "/instances/sword",
    "/instances/shield/data",
    "/instances/sword/data/a",
    "/characters/arthur",
    "/characters/uther",
]


def compact(client: httpx.Client, **keep: Any) -> httpx.Response:
    return client.post("/compact", json={"keep": keep})


def story(client: httpx.Client) -> int:
    """Make 14 revisions: create, change, move and delete keys, instances and characters."""
    make_instance(client, {"a": 1, "b": 1, "removed": 1})
    make_instance(client, {"x": 1}, id="shield")
    done(client.delete("/instances/sword/data/removed"))
    set_value(client, "a", 2, x_message_id="m1")
    done(client.post("/instances", json={"id": "shield", "characterId": "uther"}))
    done(client.put("/instances/sword/data/override", json={"b": 2, "c": 3}))
    set_value(client, "a", 3)
    done(client.delete("/characters/uther"))
    done(client.post("/instances/sword/restore", json={"revision": 8}))
    return set_value(client, "a", 4)


def state(client: httpx.Client, at: int) -> list[tuple[int, bytes]]:
    answers = [client.get(path, params={"at": at}) for path in READS]
    return [(answer.status_code, answer.content) for answer in answers]


LISTS = ["/characters", "/instances"]


def present(client: httpx.Client) -> list[tuple[int, bytes, str | None]]:
    answers = [client.get(path) for path in [*READS, *LISTS]]
    return [(each.status_code, each.content, each.headers.get("etag")) for each in answers]


@pytest.mark.parametrize("keep", range(14))
def test_everything_at_and_above_the_cutoff_stays(client: httpx.Client, keep: int) -> None:
    last = story(client)
    cutoff = last - keep
    before = [state(client, at) for at in range(cutoff, last + 1)]
    now = present(client)
    events = client.get("/changes", params={"since": cutoff}).json()
    newer = client.get("/instances/sword/history", params={"after": cutoff}).json()

    answer = compact(client, revisions=keep)

    body = answer.json()
    assert (answer.status_code, body["oldest"]) == (200, cutoff)
    assert set(body) == {"oldest", "removed"}
    assert answer.headers["x-revision"] == str(last)
    assert [state(client, at) for at in range(cutoff, last + 1)] == before
    # The ETag of a whole database changes, because the log has become shorter.
    lists = [(status, body, f'"{last}-{cutoff}"') for status, body, _ in now[len(READS) :]]
    assert present(client) == now[: len(READS)] + lists
    assert client.get("/changes", params={"since": cutoff}).json() == events
    assert client.get("/instances/sword/history").json() == newer
    assert client.get("/instances/sword/history", params={"after": cutoff}).json() == newer


def test_a_history_that_has_become_shorter_has_another_etag(
    client: httpx.Client,
) -> None:
    story(client)
    before = client.get("/instances/sword/history")
    done(compact(client, revisions=3))

    after = client.get(
        "/instances/sword/history", headers={"if-none-match": before.headers["etag"]}
    )

    assert after.status_code == 200
    assert len(after.json()["items"]) < len(before.json()["items"])


def test_a_read_below_the_cutoff_is_refused_and_names_the_oldest_revision(
    client: httpx.Client,
) -> None:
    last = story(client)
    done(compact(client, revisions=3))
    compacted = (410, "compacted", {"oldest": last - 3})
    below = last - 4

    assert [refused(client.get(path, params={"at": below})) for path in READS] == [compacted] * 5
    assert refused(client.get("/instances/sword?at=0")) == compacted
    assert refused(client.get("/instances/sword?at=2001-01-01T00:00:00Z")) == compacted
    assert refused(client.get(f"/instances/sword/diff?from={below}")) == compacted
    assert refused(client.get(f"/instances/sword/diff?from={last}&to={below}")) == compacted
    assert refused(client.get(f"/instances/sword/history?after={below}")) == compacted
    assert refused(client.get(f"/changes?since={below}")) == compacted
    assert refused(client.get(f"/events?since={below}")) == compacted
    for what in ("instances/sword", "characters/arthur"):
        assert refused(client.post(f"/{what}/restore", json={"revision": below})) == compacted
    assert head(client) == last


def test_revisions_continue_and_the_folded_state_can_be_restored(client: httpx.Client) -> None:
    last = story(client)
    before = values_of(client)
    done(compact(client, revisions=0))

    assert set_value(client, "a", "new") == last + 1
    done(client.delete("/characters/arthur"))
    answer = client.post("/characters/arthur/restore", json={"revision": last})

    assert outcome(answer) == (200, {"revision": last + 3, "changed": 2, "warnings": []})
    assert values_of(client) == values_of(client, at=last) == before


def test_the_first_change_after_the_cutoff_has_the_value_before_it(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 1})
    set_value(client, "a", 2)
    done(client.delete("/instances/sword/data/b"))
    done(compact(client, revisions=0))
    set_value(client, "a", 3)
    set_value(client, "b", 4)
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": "S"}))

    items = client.get("/instances/sword/history?order=asc").json()["items"]

    steps = [(each["op"], each.get("before", "none"), each["after"]) for each in items]
    named = instance("sword", "arthur", "S")
    assert steps == [
        ("set", 2, 3),
        ("set", "none", 4),
        ("update_instance", instance("sword", "arthur"), named),
    ]


def test_compacting_again_continues_from_the_last_cutoff(client: httpx.Client) -> None:
    last = story(client)
    middle = state(client, last - 2)

    first = compact(client, revisions=6).json()
    again = compact(client, revisions=6).json()
    less = compact(client, revisions=8).json()
    more = compact(client, revisions=2).json()

    assert (first["oldest"], again, less) == (
        last - 6,
        {"oldest": last - 6, "removed": 0},
        {"oldest": last - 6, "removed": 0},
    )
    assert more["oldest"] == last - 2
    assert first["removed"] > 0
    assert more["removed"] > 0
    assert state(client, last - 2) == middle
    set_value(client, "a", 5)
    assert compact(client, revisions=0).json()["oldest"] == last + 1


def test_revisions_that_are_to_be_kept_are_not_folded(client: httpx.Client) -> None:
    last = story(client)

    for keep in ({"revisions": last}, {"revisions": 10**18}, {"days": 1}, {"days": 1e300}):
        assert outcome(compact(client, **keep)) == (200, {"oldest": 0, "removed": 0})
    assert values_of(client, at=2) == '{"a":1}'


def test_days_are_counted_from_now(client: httpx.Client, shared_server: RunningServer) -> None:
    with shared_server.clock.at("2020-01-01T00:00:00.000Z"):
        make_instance(client, {"a": 1})
    with shared_server.clock.at("2020-01-02T00:00:00.000Z"):
        set_value(client, "a", 2)
    set_value(client, "a", 3)

    answer = compact(client, days=1.5)

    assert answer.json()["oldest"] == 3
    assert (values_of(client, at=3), values_of(client, at=4)) == ('{"a":2}', '{"a":3}')
    assert values_of(client, at="2020-06-01T00:00:00Z") == '{"a":2}'
    compacted = (410, "compacted", {"oldest": 3})
    assert refused(client.get("/instances/sword?at=2020-01-01T12:00:00Z")) == compacted
    assert compact(client, days=0).json()["oldest"] == 4


def test_an_empty_log_can_be_compacted(client: httpx.Client) -> None:
    assert outcome(compact(client, revisions=0)) == (200, {"oldest": 0, "removed": 0})
    assert outcome(compact(client, days=0)) == (200, {"oldest": 0, "removed": 0})
    assert make_instance(client) == 1


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"keep": None},
        {"keep": {}},
        {"keep": 5},
        {"keep": []},
        {"keep": {"revisions": -1}},
        {"keep": {"revisions": 1.0}},
        {"keep": {"revisions": "1"}},
        {"keep": {"revisions": True}},
        {"keep": {"revisions": None}},
        {"keep": {"days": -0.5}},
        {"keep": {"days": "1"}},
        {"keep": {"days": True}},
        {"keep": {"revisions": 1, "days": 1}},
        {"keep": {"hours": 1}},
        {"revisions": 1},
    ],
)
def test_a_malformed_body_folds_nothing(client: httpx.Client, body: Any) -> None:
    make_instance(client, {"a": 1})

    assert refused(client.post("/compact", json=body)) == (400, "invalid_body", {})
    assert values_of(client, at=1) == "{}"


def test_if_match_on_a_removed_key_works_after_compaction_as_before(client: httpx.Client) -> None:
    make_instance(client, {"a": 1})
    done(client.delete("/instances/sword/data/a"))
    done(compact(client, revisions=0))

    answer = client.post(
        "/instances/sword/data", json={"key": "a", "value": 2}, headers={"if-match": '"2"'}
    )

    assert refused(answer) == (412, "revision_conflict", {"expected": 2, "current": 3})


def test_the_present_can_be_read_by_its_time_after_compaction_below_a_gap(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client, {"a": 1})
    older = (tmp_path / "demo.db").read_bytes()
    with running_server(tmp_path) as server, server.client("demo") as client:
        set_value(client, "a", 2)
    (tmp_path / "demo.db").write_bytes(older)

    with running_server(tmp_path) as server, server.client("demo") as client:
        client.request("DELETE", "/register", json={"extensionId": "demo"})
        server.register("demo")
        assert compact(client, revisions=0).json()["oldest"] == 3

        assert values_of(client, at=3) == '{"a":1}'
        assert values_of(client, at="9999-01-01T00:00:00Z") == '{"a":1}'


def test_a_server_set_to_keep_some_revisions_folds_the_rest(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            last = story(client)

    with running_server(tmp_path, keep_revisions=4) as server, server.client("demo") as client:

        def is_folded() -> bool:
            return client.get("/instances/sword?at=1").status_code == 410

        wait_for(is_folded)

        compacted = refused(client.get("/instances/sword?at=1"))
        assert compacted == (410, "compacted", {"oldest": last - 4})


@pytest.mark.parametrize(
    ("given", "oldest"), [({}, 0), ({"keep_revisions": 2}, 4), ({"keep_days": 1}, 0)]
)
async def test_all_extensions_are_compacted_as_the_settings_say(
    tmp_path: Path, given: dict[str, int], oldest: int
) -> None:
    settings = Settings(data_dir=tmp_path, **given)  # type: ignore[arg-type]
    extensions = Extensions(
        create_engine(settings), AnswerCache(0), Capacity(1), retention(settings)
    )
    await extensions.start()
    for name in ("one", "two", "three"):
        await extensions.register(name, None)
        extension = await extensions.acquire(name)
        await extension.write(put_instance, "sword", "arthur", None)
        for number in range(5):
            await extension.write(set_stored, Address("instance", "sword"), "a", str(number))
        extensions.release(extension)

    await extensions.compact_all()

    heads: list[tuple[int, int]] = []
    for name in ("one", "two", "three"):
        extension = await extensions.acquire(name)
        found = await extension.database.read(load_head)
        heads.append((found.revision, found.oldest))
        extensions.release(extension)
    await extensions.stop()
    assert heads == [(6, oldest)] * 3
