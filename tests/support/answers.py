"""Requests that many tests of the API make, and the answers they should get."""

from __future__ import annotations

import re
from typing import Any

import httpx

from valuetracker.errors import ValueTrackerError
from valuetracker.settings import PREFIX


class Moment:
    """Equal to any time as the API writes times."""

    FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(self.FORM.fullmatch(other))

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<a moment>"


MOMENT = Moment()
DONE = (200, {"success": True})


def outcome(answer: httpx.Response) -> tuple[int, Any]:
    """Return the status of an answer and its whole body."""
    return answer.status_code, answer.json()


def refusal(error: ValueTrackerError) -> tuple[int, Any]:
    """Return the outcome of a request that is refused with this error."""
    return error.status, error.body()


def refused_as(answer: httpx.Response, kind: type[ValueTrackerError]) -> tuple[int, Any]:
    """Return the outcome of a request that is refused with such an error, whatever its message."""
    sentence = answer.json()["error"]
    assert isinstance(sentence, str)
    assert sentence
    return refusal(kind(sentence))


def character(id: str, name: str | None = None) -> dict[str, Any]:
    return {"id": id, "name": name, "createdAt": MOMENT, "updatedAt": MOMENT}


def instance(
    id: str, character_id: str, name: str | None = None, chat_id: str | None = None
) -> dict[str, Any]:
    return {
        "id": id,
        "characterId": character_id,
        "name": name,
        "chatId": chat_id,
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }


def make_instance(
    client: httpx.Client,
    id: str = "sword",
    values: dict[str, Any] | None = None,
    character_id: str = "arthur",
) -> None:
    """Make an instance with these values, in this order."""
    made = client.post("/instances", json={"id": id, "characterId": character_id})
    assert made.status_code == 200, made.text
    for key, value in (values or {}).items():
        done = client.post(f"/instances/{id}/data", json={"key": key, "value": value})
        assert done.status_code == 200, done.text


def data_text(client: httpx.Client, id: str = "sword") -> str:
    """Return the values of an instance as JSON text, which shows order and types."""
    answer = client.get(f"/instances/{id}/data")
    assert answer.status_code == 200, answer.text
    return answer.text


def send_target(client: httpx.Client, method: str, target: str, **given: Any) -> httpx.Response:
    """Send a path below the prefix exactly as it is written, without encoding any of it."""
    raw = (PREFIX + target).encode("latin-1")
    return client.request(method, "/", extensions={"target": raw}, **given)


def delete_register(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.request("DELETE", "/register", json=body)


def registered(extension_id: str) -> tuple[int, Any]:
    message = f"Extension {extension_id} registered successfully"
    return 200, {"success": True, "message": message}


def deregistered(extension_id: str) -> tuple[int, Any]:
    message = f"Extension {extension_id} deregistered successfully"
    return 200, {"success": True, "message": message}
