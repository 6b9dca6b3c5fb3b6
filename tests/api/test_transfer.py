"""Export and import: what comes out goes in again, byte for byte, with all of its past."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.integrity.story import reads_of_story, write_story
from tests.security.raw import HOST, ROOT, connected, get, lines
from tests.support.answers import done, make_instance, outcome, refused, set_value, values_of
from tests.support.chat import Chat
from tests.support.events import Event, read_events, take

NUMBERS = itertools.count()

NewClient = Callable[[], httpx.Client]


@pytest.fixture
def new_client(shared_server: RunningServer, request: pytest.FixtureRequest) -> NewClient:
    """Return a function that registers one more extension, and returns its client."""

    def make() -> httpx.Client:
        name = f"unused-{next(NUMBERS)}"
        shared_server.register(name)
        client = shared_server.client(name)
        request.addfinalizer(client.close)
        return client

    return make


def export(client: httpx.Client, **query: str) -> bytes:
    answer = client.get("/export", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return answer.content


def import_(client: httpx.Client, file: bytes, **query: str) -> httpx.Response:
    return client.post("/import", content=file, params=query)


def imported(client: httpx.Client, file: bytes, **query: str) -> dict[str, Any]:
    answer = import_(client, file, **query)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


def records(file: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.splitlines()]


def sealed(lines: list[dict[str, Any]]) -> bytes:
    """Return a file of these records with a last line that fits."""
    content = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    digest = hashlib.sha256(content).hexdigest()
    last = {"type": "end", "count": len(lines), "sha256": digest}
    return content + json.dumps(last).encode() + b"\n"


def content_of(file: bytes) -> list[bytes]:
    """Return the lines of a file but the first and the last, which name the extension."""
    return file.splitlines()[1:-1]


def test_an_export_says_what_it_is_and_that_it_is_whole(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})

    file = export(client)

    first, *_, last = records(file)
    body = file[: file[:-1].rindex(b"\n") + 1]
    assert (first["type"], first["format"]) == ("valuetracker", 1)
    assert last == {
        "type": "end",
        "count": body.count(b"\n"),
        "sha256": hashlib.sha256(body).hexdigest(),
    }


def test_a_whole_story_goes_out_and_in_byte_for_byte(
    client: httpx.Client, new_client: NewClient
) -> None:
    write_story(client, "demo")
    file, copy = export(client, operations="true"), new_client()

    report = imported(copy, file)

    assert content_of(export(copy, operations="true")) == content_of(file)
    assert report["entries"] == sum(line["type"] == "entry" for line in records(file))
    for path in reads_of_story():
        if "operations" not in path:
            assert outcome(copy.get(path)) == outcome(client.get(path)), path


def test_an_imported_story_goes_on(client: httpx.Client, new_client: NewClient) -> None:
    write_story(client, "demo")
    copy = new_client()
    imported(copy, export(client))

    for each in (client, copy):
        chat = Chat(each, "chat")
        chat.reconcile("m0", "m1")
        chat.instance("hero", "character 0").increment("counter", 3, "m1")
        chat.reconcile("m0", "m1", ("m2", "1"), "m3")

    assert values_of(copy, "hero") == values_of(client, "hero")
    assert Chat(copy, "chat").state()["data"] == Chat(client, "chat").state()["data"]


# Into an extension that was used


def test_history_needs_an_unused_extension(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})
    file = export(client)

    assert refused(import_(client, file))[:2] == (409, "extension_not_empty")
    assert export(client) == file


def test_a_replaced_extension_goes_on_above_the_highest_revision(
    client: httpx.Client, new_client: NewClient
) -> None:
    write_story(client, "demo")
    file, target = export(client, operations="true"), new_client()
    make_instance(target, {"hp": 1, "old": True}, id="before")
    set_value(target, "hp", 2, id="before")
    head = int(target.get("/changes").json()["next"])
    shift = head + 1

    report = imported(target, file, mode="replace")

    source = records(file)[0]
    assert report["revision"] == source["revision"] + shift
    assert target.get("/instances/before").status_code == 404
    for path in ("/instances/hero", "/characters/character 0", "/chats/branch/state"):
        assert without_revisions(target.get(path)) == without_revisions(client.get(path)), path
    for revision in (75, 150):
        path = "/instances/hero/data"
        then = outcome(client.get(path, params={"at": revision}))
        assert outcome(target.get(path, params={"at": revision + shift})) == then
    past = {"limit": "500", "order": "asc"}
    of_source = without_revisions(client.get("/instances/hero/history", params=past))
    assert without_revisions(target.get("/instances/hero/history", params=past)) == of_source


def test_what_a_client_knew_before_a_replacement_is_refused(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client, {"hp": 50})
    target = new_client()
    make_instance(target, {"hp": 1})
    known = target.get("/instances/sword/data/hp").headers["etag"]
    head = int(target.get("/changes").json()["next"])

    imported(target, export(client), mode="replace")

    answer = target.get("/instances/sword/data/hp", headers={"if-none-match": known})
    assert outcome(answer) == (200, {"hp": 50})
    body = {"key": "hp", "value": 7}
    stale = target.post("/instances/sword/data", json=body, headers={"if-match": known})
    assert refused(stale)[:2] == (412, "revision_conflict")
    stale = target.get("/changes", params={"since": head})
    assert refused(stale)[:2] == (410, "incarnation_ended")


def test_who_follows_the_feed_is_told_of_a_replacement(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client, {"hp": 50})
    target = new_client()
    make_instance(target, {"hp": 1})
    with target.stream("GET", "/events") as answer:
        events = read_events(answer)
        set_value(target, "hp", 2)
        assert take(events, 1)[0].name == "change"

        imported(target, export(client), mode="replace")

        assert take(events, 1) == [Event("overflow", None, {})]


def test_who_follows_the_feed_is_told_of_a_merge(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client, {"hp": 50, "mp": 3})
    target = new_client()
    with target.stream("GET", "/events") as answer:
        events = read_events(answer)
        make_instance(target, {"hp": 1})
        revision = imported(target, export(client), mode="merge")["revision"]
        set_value(target, "hp", 2)

        found = take(events, 4)

    assert [event.id for event in found] == [1, 2, revision, revision + 1]
    assert [each["key"] for each in found[2].data["changes"]] == ["hp", "mp"]


def test_a_replacement_can_be_replaced_and_exported_again(
    client: httpx.Client, new_client: NewClient
) -> None:
    write_story(client, "demo")
    target, third = new_client(), new_client()
    make_instance(target)
    imported(target, export(client), mode="replace")
    imported(target, export(target), mode="replace")

    imported(third, export(target))

    assert content_of(export(third)) == content_of(export(target))
    assert values_of(third, "hero") == values_of(client, "hero")


def without_revisions(answer: httpx.Response) -> Any:
    """Return the body of an answer without the numbers of revisions."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items() if key not in REVISIONS}
        return [strip(each) for each in value] if isinstance(value, list) else value

    assert answer.status_code == 200, answer.text
    return strip(answer.json())


REVISIONS = ("revision", "next")


# Parts


def test_a_chat_comes_with_all_it_needs(client: httpx.Client, new_client: NewClient) -> None:
    write_story(client, "demo")
    friend = new_client()

    imported(friend, export(client, chatId="chat"))

    assert [each["chatId"] for each in friend.get("/chats").json()] == ["chat"]
    for path in (
        "/chats/chat/state",
        "/chats/chat/state?at=message:m1",
        "/chats/chat/data?at=150",
        "/chats/chat/checkpoints/here",
        "/chats/chat/series/recap",
        "/chats/chat/processed/scenes",
        "/instances/hero/history?limit=500",
        "/instances/hero/data?at=110",
    ):
        assert outcome(friend.get(path)) == outcome(client.get(path)), path
    assert friend.get("/instances/mule").status_code == 404
    # The log has gaps, also at its end.
    seen: list[int] = []
    since, head = 9, records(export(client))[0]["revision"]
    while since < head:
        page = friend.get("/changes", params={"since": since, "limit": 50}).json()
        seen += [each["revision"] for each in page["items"]]
        since = int(page["next"])
    assert seen == sorted(set(seen))
    assert done(friend.post("/characters", json={"id": "new"})) == head + 1


def test_an_imported_chat_follows_its_story(client: httpx.Client, new_client: NewClient) -> None:
    chat = Chat(client, "story")
    hero = chat.instance("hero", "arthur")
    hero.set("gold", 100)
    hero.increment("gold", -30, "m1")
    hero.increment("gold", 5, "m2")
    Chat(client, "other").set("weather", "rain", "m1")
    friend = new_client()

    imported(friend, export(client, chatId="story"))

    Chat(friend, "story").reconcile("m2")
    assert values_of(friend, "hero") == '{"gold":105}'
    Chat(friend, "story").reconcile("m1", "m2")
    assert values_of(friend, "hero") == '{"gold":75}'
    assert Chat(friend, "other").set("weather", "sun", "m9")


def test_a_branch_comes_without_its_parent(client: httpx.Client, new_client: NewClient) -> None:
    write_story(client, "demo")
    friend = new_client()

    imported(friend, export(client, chatId="branch", operations="true"))

    assert outcome(friend.get("/chats/branch/state?at=message:m1")) == outcome(
        client.get("/chats/branch/state?at=message:m1")
    )
    assert friend.get("/chats/chat").json() is None
    Chat(friend, "branch").reconcile("m0")
    Chat(client, "branch").reconcile("m0")
    of_branch = client.get("/chats/branch/data").text
    assert friend.get("/chats/branch/data").text == of_branch


OF_PARTS = {
    ("instanceId", "hero"): ["/instances/hero", "/instances/hero/history?limit=500"],
    ("instanceId", "mule"): ["/instances/mule", "/instances/mule/data?at=110"],
    ("characterId", "character 0"): [
        "/characters/character 0",
        "/instances/hero/data?at=75",
        "/instances/pack?at=110",
    ],
}


def test_a_character_or_instance_comes_with_its_messages(
    client: httpx.Client, new_client: NewClient
) -> None:
    write_story(client, "demo")
    friends = {part: new_client() for part in OF_PARTS}
    for (name, id), friend in friends.items():
        imported(friend, export(client, **{name: id}))

        for path in OF_PARTS[name, id]:
            assert outcome(friend.get(path)) == outcome(client.get(path)), path

    Chat(client, "chat").reconcile("m0")
    for part, friend in friends.items():
        Chat(friend, "chat").reconcile("m0")
        path = OF_PARTS[part][0]
        assert without_revisions(friend.get(path)) == without_revisions(client.get(path)), path


def test_an_unknown_part_is_refused(client: httpx.Client) -> None:
    for name in ("chat", "character", "instance"):
        answer = client.get("/export", params={f"{name}Id": "nothing"})

        assert refused(answer)[:2] == (404, f"{name}_not_found")


def test_a_part_replaces_nothing(client: httpx.Client, new_client: NewClient) -> None:
    Chat(client, "story").set("weather", "rain")
    target = new_client()
    make_instance(target, {"hp": 1})

    answer = import_(target, export(client, chatId="story"), mode="replace")

    assert refused(answer)[:2] == (409, "extension_not_empty")
    assert values_of(target) == '{"hp":1}'


def test_a_chat_can_be_given_another_id(client: httpx.Client, new_client: NewClient) -> None:
    chat = Chat(client, "story")
    chat.set("weather", "rain", "m1")
    unused, used = new_client(), new_client()
    Chat(used, "story").set("weather", "sun")
    file = export(client, chatId="story")

    imported(unused, file, **{"as": "told"})
    imported(used, file, mode="merge", **{"as": "told"})

    for each in (unused, used):
        assert each.get("/chats/told/data").json() == {"weather": "rain"}
    assert used.get("/chats/story/data").json() == {"weather": "sun"}


# The state alone


@pytest.mark.parametrize(("mode", "hp", "counts"), [("merge", 50, (3, 0)), ("skip", 1, (2, 1))])
def test_the_state_is_added_as_one_revision(
    client: httpx.Client, new_client: NewClient, mode: str, hp: int, counts: tuple[int, int]
) -> None:
    make_instance(client, {"hp": 50, "mp": 3})
    Chat(client, "story").set("weather", "rain", "m1")
    target = new_client()
    before = make_instance(target, {"own": True, "hp": 1})

    report = imported(target, export(client), mode=mode)

    assert report["revision"] == before + 1
    assert (report["values"], report["skipped"]) == counts
    assert target.get("/instances/sword/data").json() == {"own": True, "hp": hp, "mp": 3}
    assert target.get("/chats/story/data").json() == {"weather": "rain"}
    assert len(target.get("/changes", params={"since": before}).json()["items"]) == 1


def test_a_merge_that_finds_all_of_it_takes_no_revision(
    client: httpx.Client, new_client: NewClient
) -> None:
    revision = make_instance(client, {"hp": 50})

    assert imported(client, export(client), mode="skip")["revision"] == revision
    assert int(client.get("/changes").json()["next"]) == revision


def test_what_was_merged_stands_at_the_beginning(
    client: httpx.Client, new_client: NewClient
) -> None:
    Chat(client, "story").set("weather", "rain", "m1")
    target = new_client()
    story = Chat(target, "story")
    story.set("place", "inn", "m1")

    imported(target, export(client), mode="merge")

    story.set("weather", "snow", "m1")
    assert target.get("/chats/story/data").json() == {"place": "inn", "weather": "snow"}
    story.reconcile("m2")
    assert target.get("/chats/story/data").json() == {"weather": "rain"}


def test_series_and_processed_ids_are_merged(client: httpx.Client, new_client: NewClient) -> None:
    chat = Chat(client, "story")
    chat.add_version("recap", "one")
    chat.add_version("recap", "two")
    chat.claim("scenes", "a", "b")
    target = new_client()
    Chat(target, "story").claim("scenes", "c")

    imported(target, export(client), mode="merge")

    assert target.get("/chats/story/series/recap").json()["currentVersion"] == 2
    assert sorted(target.get("/chats/story/processed/scenes").json()["ids"]) == ["a", "b", "c"]


def test_ids_that_are_something_else_are_refused_or_listed(
    client: httpx.Client, new_client: NewClient
) -> None:
    chat = Chat(client, "story")
    chat.instance("hero", "arthur").set("hp", 50)
    make_instance(client, {"hp": 3}, id="sword", character_id="merlin")
    target = new_client()
    Chat(target, "another").instance("hero", "arthur").set("hp", 1)
    make_instance(target, {"hp": 2}, id="sword", character_id="arthur")
    Chat(target, "was").set("weather", "rain")
    Chat(target, "was").rename("story").rename("now")
    before = export(target)
    file = export(client)

    answer = import_(target, file, mode="merge")
    report = imported(target, file, mode="merge", dryRun="true")

    clashes = [(each["kind"], each["id"]) for each in report["clashes"]]
    assert clashes == [("chat", "story"), ("instance", "hero"), ("instance", "sword")]
    assert refused(answer) == (409, "ids_clash", {"clashes": report["clashes"]})
    assert export(target) == before


@pytest.mark.parametrize("mode", [None, "replace", "merge", "skip"])
def test_a_dry_run_changes_nothing(
    client: httpx.Client, new_client: NewClient, mode: str | None
) -> None:
    make_instance(client, {"hp": 50, "mp": 3})
    target = new_client()
    if mode is not None:
        make_instance(target, {"hp": 1})
    before, query = export(target), {} if mode is None else {"mode": mode}

    report = imported(target, export(client), dryRun="true", **query)

    assert report["dryRun"] is True
    assert report["values"] == (1 if mode == "skip" else 2)
    assert export(target) == before


# Bad files


def broken_files() -> dict[str, Callable[[bytes], bytes]]:
    return {
        "nothing": lambda file: b"",
        "blank": lambda file: b"\n",
        "foreign": lambda file: b'{"hello":"world"}\n',
        "binary": lambda file: bytes(range(256)) * 100,
        "without its last line": lambda file: file[: file[:-1].rindex(b"\n") + 1],
        "cut off": lambda file: file[: len(file) // 2],
        "without its last newline": lambda file: file[:-1],
        "edited": lambda file: file.replace(b"50", b"51", 1),
        "with a line too many": lambda file: file + file.splitlines(keepends=True)[-1],
        "half a gzip": lambda file: gzip.compress(file)[:-20],
        "no gzip": lambda file: b"\x1f\x8b" + file,
        "two gzips": lambda file: gzip.compress(file) + gzip.compress(file),
    }


@pytest.mark.one_engine
@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_a_file_that_is_not_whole_is_refused(client: httpx.Client, mode: str) -> None:
    make_instance(client, {"hp": 50})
    file = export(client)

    for name, broken in broken_files().items():
        answer = import_(client, broken(file), mode=mode)

        assert refused(answer)[:2] == (400, "import_invalid"), name
    assert export(client) == file


@pytest.mark.one_engine
def test_a_newer_format_is_refused(client: httpx.Client) -> None:
    file = sealed([{**records(export(client))[0], "format": 2}])

    assert refused(import_(client, file))[:2] == (400, "import_too_new")


@pytest.mark.one_engine
def test_a_bomb_is_refused(client: httpx.Client) -> None:
    bomb = gzip.compress(export(client) + b" " * (80 * 1024 * 1024))

    assert refused(import_(client, bomb))[:2] == (400, "import_invalid")


def edits() -> dict[str, Callable[[list[dict[str, Any]]], Any]]:
    """Return edits of records by somebody who also mends the last line."""

    def of(type: str, /, **changed: Any) -> Callable[[list[dict[str, Any]]], Any]:
        return lambda lines: next(each for each in lines if each["type"] == type).update(changed)

    def without(type: str) -> Callable[[list[dict[str, Any]]], Any]:
        return lambda lines: lines.remove(next(each for each in lines if each["type"] == type))

    def twice(type: str) -> Callable[[list[dict[str, Any]]], Any]:
        return lambda lines: lines.append(next(each for each in lines if each["type"] == type))

    return {
        "another value": of("value", value=51),
        "a value of nobody": of("value", holder=99),
        "a key that nobody set": of("value", key="other"),
        "a wrong type": of("value", ordinal="1"),
        "an unknown field": of("value", colour="red"),
        "a NUL": of("value", key="a\0b"),
        "another character": of("character", id="nobody"),
        "an instance of nobody": of("holder", characterId="nobody"),
        "another digest": of("holder", digest=5),
        "a wrong pointer": of("entry", back=1),
        "an unknown operator": of("entry", changes=[{"key": "hp", "op": "explode"}]),
        "a change without operator": of("entry", changes=[{"key": "hp"}]),
        "changes that are none": of("entry", changes="hp"),
        "a place in no chat": of("place", chat=77),
        "no entry": without("entry"),
        "no character": without("character"),
        "no chat": without("chat"),
        "two values": twice("value"),
        "two entries": twice("entry"),
        "an unknown record": of("value", type="spell"),
        "a number too large": of("entry", entry=2**70),
        "no revision": of("valuetracker", revision=None),
        "a deep value": of("value", value=json.loads("[" * 300 + "]" * 300)),
    }


def test_a_file_that_contradicts_itself_is_refused(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client, {"hp": 50})
    Chat(client, "story").set("weather", "rain", "m1")
    file, target = export(client), new_client()

    for name, edit in edits().items():
        lines = records(file)[:-1]
        edit(lines)
        answer = import_(target, sealed(lines))

        assert refused(answer)[:2] == (400, "import_invalid"), name
    assert len(records(export(target))) == 2
    imported(target, file)


@pytest.mark.one_engine
def test_a_wrong_query_is_refused(client: httpx.Client) -> None:
    for id in ("one", "two"):
        Chat(client, id).set("weather", "rain")
    file = export(client)

    for query in ({"mode": "other"}, {"dryRun": "maybe"}, {"as": " x"}, {"as": "two chats"}):
        answer = import_(client, file, **{"mode": "merge", **query})

        assert refused(answer)[0] == 400, query
    assert export(client) == file


def test_only_one_part_can_be_asked_for(client: httpx.Client) -> None:
    query = {"chatId": "a", "instanceId": "b"}

    assert refused(client.get("/export", params=query))[:2] == (400, "invalid_query")


# Compression, size, plain values


def test_an_export_is_compressed_for_who_accepts_it(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client, {"text": "long " * 10_000})
    plain = client.get("/export", headers={"accept-encoding": "identity"})
    packed = client.get("/export", headers={"accept-encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 10
    assert packed.content == plain.content
    imported(new_client(), gzip.compress(plain.content))


def test_a_head_request_has_no_body(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})

    answer = client.head("/export", headers={"accept-encoding": "identity"})

    assert int(answer.headers["content-length"]) == len(export(client))
    assert answer.content == b""


def test_a_file_may_be_larger_than_other_bodies(
    client: httpx.Client, new_client: NewClient
) -> None:
    make_instance(client)
    for number in range(3):
        set_value(client, f"key {number}", f"{number}" * 6_000_000)
    file, copy = export(client), new_client()
    assert len(file) > 32 * 1024 * 1024

    imported(copy, file)

    assert content_of(export(copy)) == content_of(file)


def test_a_body_can_be_sent_in_chunks(client: httpx.Client, new_client: NewClient) -> None:
    make_instance(client, {"text": "long " * 20_000})
    file, copy = export(client), new_client()
    pieces = (file[start : start + 7_000] for start in range(0, len(file), 7_000))

    answer = copy.post("/import", content=pieces)

    assert answer.status_code == 200, answer.text
    assert content_of(export(copy)) == content_of(file)


@pytest.mark.one_engine
def test_a_client_that_leaves_in_the_middle_changes_nothing(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    make_instance(client, {"text": "long " * 50_000})
    file = export(client)
    target = ROOT + b"/import?mode=replace"
    named = b"x-extension-id: " + client.headers["x-extension-id"].encode()
    for length in (b"content-length: %d" % len(file), b"transfer-encoding: chunked"):
        with connected(shared_server) as line:
            line.send(lines(b"POST " + target + b" HTTP/1.1", HOST, named, length))
            content = file[: len(file) // 2]
            line.send(content if b"length" in length else b"%x\r\n%b\r\n" % (len(content), content))

    assert export(client) == file
    set_value(client, "hp", 50)


@pytest.mark.one_engine
def test_an_answer_that_nobody_reads_to_its_end_costs_nobody_else(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    make_instance(client, {"text": "long " * 1_000_000})
    named = b"x-extension-id: " + client.headers["x-extension-id"].encode()
    with connected(shared_server) as line:
        line.send(get(ROOT + b"/export", named))
        line.until(b"\r\n\r\n")

    assert len(export(client)) > 5_000_000
    done(client.delete("/instances/sword"))


def test_plain_values_are_for_spreadsheets(client: httpx.Client) -> None:
    make_instance(client, {"hp": -5, "name": 'Arthur, "king"', "bag": ["rope"]})
    chat = Chat(client, "story")
    chat.set("formula", "=1+1")
    chat.add_version("recap", "one")

    table = client.get("/export", params={"format": "csv"})
    values = client.get("/export", params={"format": "json"})

    assert table.headers["content-type"].startswith("text/csv")
    rows = table.text.split("\n")
    assert rows[0] == "chatId,characterId,instanceId,space,key,value"
    assert rows[1:4] == [
        ",arthur,sword,instance,hp,-5",
        ',arthur,sword,instance,name,"Arthur, ""king"""',
        ',arthur,sword,instance,bag,"[""rope""]"',
    ]
    assert rows[4] == "story,,,chat,formula,'=1+1"
    of_chat = client.get("/export", params={"format": "json", "chatId": "story"}).json()
    assert values.json()[0] == {
        "chatId": None,
        "characterId": "arthur",
        "instanceId": "sword",
        "space": "instance",
        "key": "hp",
        "value": -5,
    }
    assert {each["space"] for each in of_chat} == {"chat", "series"}


def test_nothing_can_be_exported_as_plain_values(client: httpx.Client) -> None:
    assert client.get("/export", params={"format": "json"}).json() == []
    assert client.get("/export", params={"format": "csv"}).text.count("\n") == 1
