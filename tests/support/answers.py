"""Answers of the API as tests expect them, and the writes that many tests begin with."""

from __future__ import annotations

import json
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
JSON_PATCH = "application/json-patch+json"
# Asks for the values as they are after a write.
REPRESENTATION = {"prefer": "return=representation"}
MERGE_PATCH = "application/merge-patch+json"
DONE = (200, {"success": True})


def outcome(answer: httpx.Response) -> tuple[int, Any]:
    """Return the status of an answer and its whole body."""
    return answer.status_code, answer.json()


def refusal(error: ValueTrackerError) -> tuple[int, Any]:
    """Return the outcome of a request that is refused with this error."""
    return error.status, error.body()


def refused(answer: httpx.Response) -> tuple[int, str, dict[str, Any]]:
    """Assert that an answer is a well-formed refusal; return its status, code and details."""
    body = answer.json()
    assert set(body) == {"error", "code", "hint", "details"}, body
    assert isinstance(body["error"], str)
    assert body["error"]
    return answer.status_code, body["code"], body["details"]


def refused_as(answer: httpx.Response, kind: type[ValueTrackerError]) -> tuple[int, Any]:
    """Return the outcome of a refusal with such an error, with the message of the answer."""
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


def done(answer: httpx.Response) -> int:
    """Assert that a write succeeded, and return the revision of the extension after it."""
    assert answer.status_code == 200, answer.text
    return int(answer.headers["x-revision"])


def head(client: httpx.Client) -> int:
    """Return the newest revision of the extension."""
    return int(client.get("/changes").json()["next"])


def same(one: Any, other: Any) -> bool:
    """Compare two values with their types and the order of their keys."""
    return json.dumps(one) == json.dumps(other)


def make_instance(
    client: httpx.Client,
    values: dict[str, Any] | None = None,
    id: str = "sword",
    character_id: str = "arthur",
) -> int:
    """Create an instance, set its values one by one, and return the revision after that."""
    revision = done(client.post("/instances", json={"id": id, "characterId": character_id}))
    for key, value in (values or {}).items():
        revision = set_value(client, key, value, id)
    return revision


def set_value(client: httpx.Client, key: str, value: Any, id: str = "sword", **headers: str) -> int:
    """Set a key and return the revision; names of headers have `_` for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return done(
        client.post(f"/instances/{id}/data", json={"key": key, "value": value}, headers=named)
    )


def values_of(client: httpx.Client, id: str = "sword", at: int | str | None = None) -> str:
    """Return the values of an instance as text, which shows their order and types."""
    params = {} if at is None else {"at": str(at)}
    answer = client.get(f"/instances/{id}/data", params=params)
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
