"""The story of `valuetracker demo`: always the same, complete and sound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, database_for, running_server, wait_for
from valuetracker.cli import demo
from valuetracker.cli.in_process import InProcess
from valuetracker.cli.story import CAVE, FEAST, INN, ROAD
from valuetracker.settings import PREFIX, Settings


def test_the_story_has_something_of_everything(story: bytes) -> None:
    records = [json.loads(line) for line in story.splitlines()]
    kinds = Counter(record["type"] for record in records)

    assert kinds["character"] >= 5
    assert kinds["chat"] >= 5
    assert kinds["checkpoint"] >= 4
    assert kinds["operation"] == 4
    assert kinds["entry"] > 1000
    places = [record for record in records if record["type"] == "place"]
    assert sum(record["swipe"] != "0" for record in places) > 50
    assert {record["id"] for record in records if record["type"] == "chat"} >= {
        ROAD,
        CAVE,
        FEAST,
        INN,
    }


def test_the_story_is_the_same_on_both_engines_and_after_each_making(
    story: bytes, engine_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = database_for(engine_name, request)
    with running_server(tmp_path, database=database) as server, server.client("demo") as client:
        if database:
            # Making it once more takes a while.
            server.register("demo")
            client.post("/import", content=story).raise_for_status()
        else:
            demo.fill(client)

        export = client.get("/export", params={"operations": "true"}).content

        assert export == story
        assert verified(client)["findings"] == []
        state = client.get(f"/chats/{quote(ROAD, safe='')}/state").json()
        assert state["data"]["messages"] == 500
        for checkpoint in client.get(f"/chats/{quote(ROAD, safe='')}/checkpoints").json():
            path = f"/chats/{quote(ROAD, safe='')}/checkpoints/{quote(checkpoint['name'])}/validate"
            assert client.post(path).json()["success"], checkpoint["name"]


def verified(client: httpx.Client) -> dict[str, Any]:
    job = client.post("/verify").json()["job"]

    def ended() -> Any:
        record = client.get(f"/jobs/{job}").json()
        return record if record["status"] != "running" else None

    record: dict[str, Any] = wait_for(ended)
    result: dict[str, Any] = record["result"]
    return result


# The server inside the program


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    settings = Settings(data_dir=tmp_path / "db", backup_at="off")
    with httpx.Client(
        transport=InProcess(settings),
        base_url=f"http://localhost{PREFIX}",
        headers={"x-extension-id": "demo"},
        timeout=PATIENCE_SECONDS,
    ) as client:
        client.post("/register", json={"extensionId": "demo"}).raise_for_status()
        yield client


def test_an_answer_may_be_left_before_its_end(client: httpx.Client, story: bytes) -> None:
    client.post("/import", content=story).raise_for_status()

    with client.stream("GET", "/export", headers={"accept-encoding": "identity"}) as answer:
        first = next(answer.iter_bytes())
    with client.stream("GET", "/events", params={"since": "0"}) as answer:
        event = next(line for line in answer.iter_lines() if line.startswith("id"))

    assert first.startswith(b'{"type":"valuetracker"')
    assert event == "id: 1"
    assert client.get("/instances/eldergrove/data/population").json() == {"population": 412}


def test_a_body_may_come_in_pieces(client: httpx.Client, story: bytes) -> None:
    pieces = (story[start : start + 1000] for start in range(0, len(story), 1000))

    answer = client.post("/import", content=pieces)

    assert answer.json()["entries"] == story.count(b'{"type":"entry"')
