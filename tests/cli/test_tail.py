"""`tail` follows the feed until Ctrl-C, or until the server goes away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import PROGRAM, Terminal, call, environment, serving
from tests.conftest import PATIENCE_SECONDS, RunningServer


@contextmanager
def following(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PROGRAM, "tail", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def set_hp(server: RunningServer, value: int, extension: str = "demo") -> None:
    with server.client(extension) as client:
        body = {"key": "hp", "value": value}
        client.post("/instances/bram-inn/data", json=body).raise_for_status()


def test_a_terminal_shows_changes_until_ctrl_c(server: RunningServer) -> None:
    shown = Terminal("tail", "demo", "--since", "851", "--data-dir", server.data_dir)
    shown.wait_for("852")

    set_hp(server, 4711)
    shown.wait_for("4711")
    shown.type("\x03")

    assert shown.end().code == 0
    assert "bram-inn  hp  set  4711" in shown.shown


def test_a_pipe_gets_one_event_per_line_as_it_comes(server: RunningServer) -> None:
    with following("demo", "--since", "851", "--nl", "--data-dir", server.data_dir) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["revision"] == 852

        set_hp(server, 12)
        while (event := json.loads(process.stdout.readline()))["revision"] == 853:
            # The change of the other test.
            if event["changes"][0].get("after") == 12:
                break

    assert event["event"] == "change"
    assert event["changes"][0]["after"] == 12


def test_a_server_that_goes_away_is_said(files: Path) -> None:
    with serving(files) as server:
        server.register("other")
        arguments = ("demo", "other", "--since", "demo:851,other:0", "--data-dir", files)
        process = subprocess.Popen(
            [*PROGRAM, "tail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert process.stdout is not None
        assert "demo" in process.stdout.readline().split("\t")

    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 5
    assert err.startswith("error: The server has ended the feed")


def test_without_a_server_nothing_can_be_followed(files: Path) -> None:
    done = call("tail", "demo", "--data-dir", files)

    assert (done.code, done.out) == (5, "")
    assert "valuetracker serve" in done.err
