"""Commands that change something: with a server, in files, after a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Terminal, call, run, terminal
from tests.conftest import RunningServer


@pytest.fixture
def instance(server: RunningServer, request: pytest.FixtureRequest) -> str:
    """An instance of the test's own on the shared server."""
    id = f"of {request.node.name}"
    with server.client("demo") as client:
        client.post("/instances", json={"id": id, "characterId": "tests"}).raise_for_status()
    return id


VALUES = [
    (("18446744073709551615",), b"", 18446744073709551615),
    (("-9223372036854775808",), b"", -9223372036854775808),
    (('{"b": [1, 2.5], "a": null}',), b"", {"b": [1, 2.5], "a": None}),
    (("5", "--text"), b"", "5"),
    (("-",), '"gr\u00fcn\\n"\n'.encode(), "gr\u00fcn\n"),
    (("-", "--text"), b"a\nb\n", "a\nb\n"),
]


@pytest.mark.parametrize(("arguments", "given", "value"), VALUES)
def test_a_value_is_set_exactly(
    server: RunningServer, instance: str, arguments: tuple[str, ...], given: bytes, value: object
) -> None:
    where = ("--data-dir", server.data_dir)

    # A number below zero is no option.
    done = call(
        "set", *where, *arguments[1:], "--", "demo", instance, "k", arguments[0], given=given
    )

    assert (done.code, done.out) == (0, ""), done.err
    with server.client("demo") as client:
        assert client.get(f"/instances/{instance}/data").json() == {"k": value}
        [change] = client.get(f"/instances/{instance}/history?key=k").json()["items"]
        assert change["actor"] == "user"


def test_a_wrong_value_is_refused_before_anything_is_sent(
    server: RunningServer, instance: str
) -> None:
    where = ("--data-dir", server.data_dir)

    outcomes = [
        call("set", "demo", instance, "k", value, *where)
        for value in ("calm", "NaN", '1, "key": "x"', "[" * 100_000, "18446744073709551616")
    ]

    assert [each.code for each in outcomes] == [2, 2, 2, 2, 4]
    assert "`--text`" in outcomes[0].err
    assert "number_out_of_range" in outcomes[4].err
    with server.client("demo") as client:
        assert client.get(f"/instances/{instance}/data").json() == {}


def test_a_terminal_says_what_was_set_and_silence_can_be_had(server: RunningServer) -> None:
    command = ("set", "demo", "A new chat", "mood", '"calm"', "--chat")
    where = ("--data-dir", server.data_dir)

    shown = terminal(*command, *where)
    silent = terminal(*command, *where, "--silent")
    as_json = run(*command, *where, "--json")

    assert (shown.code, silent.code) == (0, 0)
    assert "Set mood of A new chat." in shown.out
    assert silent.out == ""
    assert as_json.json == {"success": True, "key": "mood", "value": "calm"}
    assert run("get", "demo", "A new chat", "--chat", "--json", *where).json == {"mood": "calm"}


def test_a_restore_shows_what_it_would_do_and_asks(server: RunningServer, instance: str) -> None:
    where = ("--data-dir", server.data_dir)
    with server.client("demo") as client:
        data = f"/instances/{instance}/data"
        old = client.post(data, json={"key": "hp", "value": 1}).headers["x-revision"]
        client.post(data, json={"key": "hp", "value": 2})

    plan = run("restore", "demo", instance, old, "--dry-run", "--json", *where)
    unasked = run("restore", "demo", instance, old, *where)
    refused = Terminal("restore", "demo", instance, old, *where)
    refused.wait_for("change. [y/N]")
    refused.type("n\n")
    refusal = refused.end()

    assert [(each["key"], each["before"], each["after"]) for each in plan.json] == [("hp", 2, 1)]
    assert unasked.code == 2
    assert "--yes" in unasked.err
    assert refusal.code == 1
    assert run("get", "demo", instance, "hp", *where).out == "2\n"

    agreed = Terminal("restore", "demo", instance, old, "--key", "hp", *where)
    agreed.wait_for("1 values change. [y/N]")
    agreed.type("y\n")
    assert agreed.end().code == 0
    assert run("get", "demo", instance, "hp", *where).out == "1\n"


def test_chats_and_characters_are_restored(files: Path) -> None:
    where = ("--data-dir", files, "--yes", "--json")

    character = call("restore", "demo", "Bram.png", "300", "--character", *where)
    chat = call("restore", "demo", "Nights at the Gilded Boar", "848", "--chat", *where)
    both = call("restore", "demo", "Bram.png", "300", "--character", "--key", "hp", *where)

    assert character.code == 0, character.err
    assert character.json["revision"] == 853
    assert chat.code == 0, chat.err
    assert chat.json["revision"] == 854
    assert both.code == 2


def test_the_log_is_folded_after_a_question(files: Path) -> None:
    where = ("--data-dir", files)

    neither = run("compact", "demo", "--yes", *where)
    unasked = run("compact", "demo", "--keep-revisions", "100", *where)
    shown = Terminal("compact", "demo", "--keep-revisions", "100", *where)
    shown.wait_for("That cannot be undone. [y/N]")
    shown.type("y\n")
    done = shown.end()
    again = run("compact", "demo", "--keep-days", "100000", "--yes", "--json", *where)

    assert (neither.code, unasked.code, done.code, again.code) == (2, 2, 0, 0)
    assert "removed" in done.out
    assert again.json["removed"] == 0
