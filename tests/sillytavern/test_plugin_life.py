"""The server starts with SillyTavern, and ends with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson

from tests.conftest import wait_for
from tests.sillytavern.conftest import StartTavern
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.processes import server_pids
from tests.support.original import VALUES, make_original

# A plugin's folder in a SillyTavern.
PLUGIN = "plugins/valuetracker"


def begin(tavern: SillyTavern) -> httpx.Client:
    """A client of an extension with an instance `run`."""
    tavern.register("demo")
    client = tavern.client("demo")
    answer = client.post("/instances", json={"id": "run", "characterId": "hero"})
    assert answer.status_code == 200, answer.text
    return client


def test_nothing_is_left_running_whichever_way_sillytavern_ends(start_tavern: StartTavern) -> None:
    tavern = start_tavern()

    for end in (tavern.kill, tavern.stop, tavern.kill):
        wait_for(lambda: len(server_pids(tavern)) == 1)
        with closing(begin(tavern)) as client, client.stream("GET", "/events?since=0"):
            end()
        wait_for(lambda: server_pids(tavern) == [])
        tavern.boot()

    assert tavern.stop() == 0
    # SillyTavern has waited for it.
    assert server_pids(tavern) == []


def wait_until_healthy(client: httpx.Client) -> None:
    wait_for(lambda: client.get("/health").status_code == 200)


def why_away(client: httpx.Client, words: str) -> dict[str, Any]:
    """Wait until the plugin says with these words why its server is away, and return the error."""

    def ask() -> dict[str, Any]:
        answer = client.get("/health")
        assert answer.status_code == 503, answer.text
        found: dict[str, Any] = answer.json()
        return found if words in found["hint"] else {}

    found: dict[str, Any] = wait_for(ask)
    return found


class Writers:
    """Clients that write to one instance, each key once, until SillyTavern or they are stopped."""

    def __init__(self, tavern: SillyTavern, prefix: str = "") -> None:
        self.acknowledged: dict[str, int] = {}
        self._tavern = tavern
        self._told = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(prefix + name,)) for name in "abcd"
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, name: str) -> None:
        with self._tavern.client("demo") as client:
            number = 0
            while not self._told.is_set():
                key = f"{name}-{number}"
                try:
                    answer = client.post("/instances/run/data", json={"key": key, "value": number})
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    self.acknowledged[key] = number
                else:
                    assert answer.json()["code"] == "server_away", answer.text
                number += 1

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self.acknowledged) >= count)

    def end(self) -> dict[str, int]:
        self._told.set()
        for thread in self._threads:
            thread.join()
        return self.acknowledged


def test_nothing_acknowledged_is_lost_when_sillytavern_is_killed(start_tavern: StartTavern) -> None:
    tavern = start_tavern()
    begin(tavern).close()
    writers = Writers(tavern)
    writers.wait_for(100)

    tavern.kill()

    acknowledged = writers.end()
    wait_for(lambda: server_pids(tavern) == [])
    tavern.boot()
    with tavern.client("demo") as client:
        found = client.get("/instances/run/data").json()
    assert found | acknowledged == found


def test_a_server_that_is_killed_is_back_within_seconds_and_nothing_is_lost(
    start_tavern: StartTavern,
) -> None:
    tavern = start_tavern()
    begin(tavern).close()

    for round in range(3):
        wait_for(lambda: len(server_pids(tavern)) == 1)
        (pid,) = server_pids(tavern)
        writers = Writers(tavern, f"{round}-")
        writers.wait_for(50)

        os.kill(pid, signal.SIGKILL)

        with tavern.client("demo") as client:
            wait_until_healthy(client)
            writers.wait_for(len(writers.acknowledged) + 20)
            acknowledged = writers.end()
            found = client.get("/instances/run/data").json()
        assert found | acknowledged == found
        assert server_pids(tavern) not in ([], [pid])


def test_a_reader_of_the_feed_resumes_after_the_server_was_killed(
    start_tavern: StartTavern,
) -> None:
    tavern = start_tavern()
    with closing(begin(tavern)) as client:
        with client.stream("GET", "/events?since=0") as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith("id:")) == "id: 1"
            os.kill(server_pids(tavern)[0], signal.SIGKILL)
            # Told at once, and not left to listen to nobody.
            list(lines)
        wait_until_healthy(client)
        client.post("/instances/run/data", json={"key": "hp", "value": 1})

        with client.stream("GET", "/events", headers={"last-event-id": "1"}) as answer:
            assert next(line for line in answer.iter_lines() if line.startswith("id:")) == "id: 2"


def test_sillytavern_runs_without_a_python_and_says_what_is_missing(
    start_tavern: StartTavern,
) -> None:
    tavern = start_tavern(boot=False)
    record = tavern.server / PLUGIN / "installed.json"
    installed = orjson.loads(record.read_bytes())
    record.write_bytes(orjson.dumps({**installed, "python": str(tavern.folder / "gone/python")}))
    tavern.boot()

    with tavern.client() as client:
        answer = why_away(client, "The Python that installed Value Tracker no longer exists.")
        assert answer["code"] == "server_away"
        assert "gone/python" in tavern.log

        # Installed anew, it is found without a restart.
        record.write_bytes(orjson.dumps(installed))
        wait_until_healthy(client)


def test_two_sillytaverns_on_one_data_root(start_tavern: StartTavern) -> None:
    first = start_tavern()
    second = start_tavern(boot=False)
    config = second.server / PLUGIN / "config.json"
    config.write_bytes(orjson.dumps({"dataDir": str(first.data / "_valuetracker")}))
    second.boot()

    with closing(begin(first)) as ours, second.client("demo") as theirs:
        why_away(theirs, "Another Value Tracker server is using the data directory")
        assert ours.post("/instances/run/data", json={"key": "hp", "value": 7}).is_success

        first.kill()

        wait_until_healthy(theirs)
        assert theirs.get("/instances/run/data").json() == {"hp": 7}


def test_a_port_that_is_taken_leaves_no_server_behind(start_tavern: StartTavern) -> None:
    tavern = start_tavern(boot=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run = subprocess.run(
            [
                "node",
                str(tavern.server / "server.js"),
                *("--configPath", str(tavern.folder / "config.yaml")),
                *("--dataRoot", str(tavern.data)),
                *("--port", str(taken.getsockname()[1])),
                *("--browserLaunchEnabled", "false"),
            ],
            cwd=tavern.folder,
            capture_output=True,
            text=True,
            timeout=180,
        )

    assert "the server is ready" in run.stdout
    assert run.returncode != 0
    wait_for(lambda: server_pids(tavern) == [])


def test_the_files_of_the_original_plugin_are_there_after_the_first_start(
    start_tavern: StartTavern,
) -> None:
    tavern = start_tavern(boot=False)
    folder = tavern.server / "db"
    folder.mkdir()
    make_original(folder / "Outfits.db")
    before = (folder / "Outfits.db").read_bytes()
    tavern.boot()

    with tavern.client("Outfits") as client:
        wait_for(lambda: client.get("/instances/run").status_code == 200)
        found = client.get("/instances/run/data").json()

    wanted = {key: value for key, (_, value) in VALUES.items()}
    assert {key: found[key] for key in wanted} == wanted
    assert (folder / "Outfits.db").read_bytes() == before
    assert [each.name for each in folder.iterdir()] == ["Outfits.db"]
    kept = list((tavern.data / "_valuetracker").glob("Outfits.db.original*"))
    assert [each.read_bytes() for each in kept] == [before]


def test_attached_to_a_running_server_none_is_started(
    start_tavern: StartTavern, tmp_path: Path
) -> None:
    tavern = start_tavern(boot=False)
    with subprocess.Popen(
        [sys.executable, "-m", "valuetracker", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        env={**os.environ, "VALUETRACKER_BRIDGE_SECRET": "between us"},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            config: dict[str, Any] = {"attach": url, "secret": "between us"}
            (tavern.server / PLUGIN / "config.json").write_bytes(orjson.dumps(config))
            tavern.boot()

            begin(tavern).close()
            assert (tmp_path / "demo.db").exists()
            assert server_pids(tavern) == []

            tavern.stop()
            assert server.poll() is None
        finally:
            server.kill()
