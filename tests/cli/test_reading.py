"""Commands that read, in a terminal and in a pipe, from a server and from files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Terminal, call, run, terminal
from tests.conftest import RunningServer
from valuetracker.cli.story import ROAD

COLOUR = "\x1b["

# A command, a text of its table, and the fields of its JSON rows.
LISTS: list[tuple[tuple[str, ...], str, set[str]]] = [
    (("extensions",), "demo.db", {"id", "status", "revision", "bytes", "path"}),
    (("characters", "demo"), "Bram the Smith", {"id", "name", "createdAt"}),
    (("instances", "demo", "--character", "Bram.png"), "bram-inn", {"id", "characterId"}),
    (("chats", "demo"), "Nights at the Gilded Boar", {"chatId", "parent", "revision"}),
    (("history", "demo", "bram-road", "--key", "hp", "--limit", "5"), "increment", {"revision"}),
    (("history", "demo", ROAD, "--chat", "--key", "messages"), "r500", {"revision", "op"}),
    (("diff", "demo", "bram-road", "100"), "hp", {"key", "before", "after"}),
]
IDS = ["-".join(command[:1] + command[2:3]) for command, _, _ in LISTS]


@pytest.mark.parametrize(("command", "text", "fields"), LISTS, ids=IDS)
def test_a_terminal_shows_a_table_and_a_pipe_gets_json(
    server: RunningServer, command: tuple[str, ...], text: str, fields: set[str]
) -> None:
    where = ("--data-dir", server.data_dir)

    shown = Terminal(*command, *where)
    done = shown.end()
    piped = run(*command, *where, "--json")

    assert (done.code, piped.code) == (0, 0), done.out + piped.err
    assert text in done.out
    assert COLOUR in shown.raw
    assert piped.json
    assert all(fields <= set(row) for row in piped.json)
    assert piped.err == ""


def test_all_forms_of_a_list_say_the_same(server: RunningServer) -> None:
    command = ("characters", "demo", "--data-dir", server.data_dir)

    plain, lines, table = (call(*command, *form) for form in ((), ("--nl",), ("--csv",)))

    rows = [json.loads(line) for line in lines.lines]
    names = [row["name"] for row in rows]
    assert names == ["Seraphina", "Bram the Smith", "Ysolde", "Eldergrove"]
    assert [line.split("\t")[1] for line in plain.lines] == names
    found = list(csv.DictReader(io.StringIO(table.out)))
    assert [row["name"] for row in found] == names
    assert COLOUR not in plain.out + lines.out + table.out


def test_no_color_is_obeyed(server: RunningServer) -> None:
    shown = Terminal("characters", "demo", "--data-dir", server.data_dir, NO_COLOR="1")

    done = shown.end()

    assert "Seraphina" in done.out
    assert not any(f"\x1b[{number}m" in shown.raw for number in (31, 32, 33, 36))


def test_values_are_exact(server: RunningServer) -> None:
    where = ("--data-dir", server.data_dir)

    number = run("get", "demo", "eldergrove", "stars", *where)
    text = run("get", "demo", "eldergrove", "motto", "--text", *where)
    everything = run("get", "demo", "eldergrove", "--json", *where)
    shown = terminal("get", "demo", "eldergrove", "seasons", *where)
    table = terminal("get", "demo", "eldergrove", *where)

    assert number.out == "18446744073709551615\n"
    assert text.out == "Ubi silva, ibi vita — где лес, там жизнь 🌲\n"
    assert everything.json["stars"] == 18446744073709551615
    assert list(everything.json["seasons"]) == ["winter", "summer"]
    assert json.loads(shown.out) == everything.json["seasons"]
    assert "18446744073709551615" in table.out


def test_values_of_a_chat_and_of_the_past_are_read(server: RunningServer) -> None:
    where = ("--data-dir", server.data_dir)

    now = call("get", "demo", ROAD, "messages", "--chat", *where)
    then = call("get", "demo", ROAD, "messages", "--chat", "--at", "60", *where)

    assert now.out == "500\n"
    assert 0 < int(then.out) < 60


def test_what_is_missing_is_said_with_the_words_and_codes_of_the_api(
    server: RunningServer, tmp_path: Path
) -> None:
    where = ("--data-dir", server.data_dir)

    outcomes: list[tuple[Any, ...]] = []
    for command in (
        ("get", "demo", "eldergrove", "nothing", *where),
        ("get", "demo", "nobody", *where),
        ("chats", "nothing", *where),
        ("history", "demo", "bram-road", "--after", "999999", *where),
        ("get", "demo", *where),
        ("extensions", "--data-dir", tmp_path / "absent"),
        ("extensions", "--url", "ftp://127.0.0.1", *where),
    ):
        done = call(*command)
        assert done.out == ""
        outcomes.append((done.code, done.err.splitlines()[0]))

    assert outcomes == [
        (1, "error: eldergrove has no key nothing."),
        (4, "error: Instance not found (instance_not_found)"),
        (4, "error: Database not found for extension: nothing (extension_not_registered)"),
        (4, outcomes[3][1]),
        (2, "Usage: main get [OPTIONS] EXTENSION ID [KEY]"),
        (1, f"error: There is no data in {tmp_path / 'absent'}."),
        (2, "Usage: main extensions [OPTIONS]"),
    ]
    assert "revision_unknown" in outcomes[3][1]
    assert not (tmp_path / "absent").exists()


def test_errors_are_red_on_a_terminal(server: RunningServer) -> None:
    shown = Terminal("get", "demo", "nobody", "--data-dir", server.data_dir)

    done = shown.end()

    assert done.code == 4
    assert "\x1b[31merror:" in shown.raw
    assert "hint: Create it first" in done.out


def test_without_a_server_the_files_are_read_and_left_as_they_were(
    server: RunningServer, files: Path
) -> None:
    before = {each.name for each in files.iterdir()}

    for command, _, _ in LISTS[1:5]:
        from_files = call(*command, "--data-dir", files, "--json")
        from_server = call(*command, "--data-dir", server.data_dir, "--json")
        assert from_files.json == from_server.json

    assert {each.name for each in files.iterdir()} == before
    assert list(files.glob("backups/*")) == []


def test_control_characters_do_not_reach_a_terminal(server: RunningServer) -> None:
    where = ("--data-dir", server.data_dir)
    with server.client("demo") as client:
        client.post("/characters", json={"id": "odd", "name": "odd"})
        client.post("/instances", json={"id": "odd", "characterId": "odd"})
        value = "\x1b]0;title\x07 \x9b31m\nline"
        client.post("/instances/odd/data", json={"key": "k", "value": value})

    table = Terminal("get", "demo", "odd", *where)
    text = Terminal("get", "demo", "odd", "k", "--text", *where)
    piped = call("get", "demo", "odd", "k", "--text", *where)
    table.end()
    text.end()

    for shown in (table, text):
        assert "\x1b]0" not in shown.raw
        assert "\x9b" not in shown.raw
        assert "\x07" not in shown.raw
    assert piped.out == value + "\n"
    with server.client("demo") as client:
        client.delete("/characters/odd")
