"""Checkpoints and branches as tests speak of them: records compared, points chosen."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.model.values_model import instance
from tests.support.answers import MOMENT
from tests.support.chat import Chat, Values


def rows(
    data: int = 0, instances: int = 0, values: int = 0, series: int = 0, processed: int = 0
) -> dict[str, int]:
    """How much a chat holds: its own keys, its instances, their keys, versions, ids."""
    return {
        "data": data,
        "instances": instances,
        "values": values,
        "series": series,
        "processed": processed,
    }


# Checkpoints.


def post_checkpoint(chat: Chat, headers: dict[str, str] | None = None, **body: Any) -> Any:
    return chat.send("POST", "/checkpoints", body, **(headers or {}))


def make_checkpoint(chat: Chat, name: str = "here", **body: Any) -> Any:
    """A checkpoint that must be made at once; its record."""
    answer = post_checkpoint(chat, name=name, **body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def await_checkpoint(chat: Chat, name: str = "here", **body: Any) -> None:
    """A checkpoint that must wait for the queue."""
    answer = post_checkpoint(chat, name=name, whenReady=True, **body)
    assert (answer.status_code, answer.json()) == (202, {"name": name, "status": "waiting"})


def send_checkpoint(
    chat: Chat, method: str, name: str = "here", verb: str = "", body: Any = None, **headers: str
) -> httpx.Response:
    return chat.send(method, f"/checkpoints/{quote(name, safe='')}{verb}", body, **headers)


def get_checkpoint(chat: Chat, name: str = "here") -> Any:
    answer = send_checkpoint(chat, "GET", name)
    assert answer.status_code == 200, answer.text
    return answer.json()


def list_checkpoints(chat: Chat) -> Any:
    answer = chat.send("GET", "/checkpoints")
    assert answer.status_code == 200, answer.text
    return answer.json()


def statuses(chat: Chat) -> list[tuple[str, str]]:
    """Each checkpoint's name and status, which every way of asking must agree about."""
    found = [(each["name"], each["status"]) for each in list_checkpoints(chat)]
    assert [(each["name"], each["status"]) for each in chat.state()["checkpoints"]] == found
    return found


def validate(chat: Chat, name: str = "here", **actual: Any) -> Any:
    body = {"actual": actual} if actual else {}
    answer = send_checkpoint(chat, "POST", name, "/validate", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


VALID = {"success": True, "validated": True, "errors": [], "warnings": []}


def restore_checkpoint(
    chat: Chat, name: str = "here", headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    return send_checkpoint(chat, "POST", name, "/restore", body, **(headers or {}))


def back_at(revision: int, changed: int) -> tuple[int, Any]:
    """What restoring a sound checkpoint should answer."""
    report = {"success": True, "errors": [], "warnings": []}
    return 200, {**report, "revision": revision, "changed": changed}


def diff_checkpoint(chat: Chat, name: str = "here") -> Any:
    answer = send_checkpoint(chat, "GET", name, "/diff")
    assert answer.status_code == 200, answer.text
    return answer.json()


# Branches.


def post_branch(
    chat: Chat, chat_id: Any = "branch", headers: dict[str, str] | None = None, **point: Any
) -> httpx.Response:
    body = {"chatId": chat_id, **({"from": point} if point else {})}
    return chat.send("POST", "/branches", body, **(headers or {}))


def branch_off(chat: Chat, chat_id: str = "branch", **point: Any) -> Chat:
    """A branch of a chat from a point, or from now."""
    answer = post_branch(chat, chat_id, **point)
    assert answer.status_code == 201, answer.text
    return Chat(chat.client, chat_id)


def heir_of(values: Values, branch: Chat) -> Values:
    """In a branch, what took over these values: its own, or an instance's of a new id."""
    if values.instance_id is None:
        return branch
    heirs = [
        each["instance"]["id"]
        for each in branch.state()["instances"]
        if each["instance"]["origin"] == values.instance_id
    ]
    assert len(heirs) == 1
    return Values(branch.client, branch.chat_id, heirs[0])


def heir(id: str, origin: str, chat_id: str = "branch", name: str | None = None) -> dict[str, Any]:
    """An instance of the character arthur, as a branch should have taken it over."""
    return {**instance(id, "arthur", name, chat_id), "origin": origin}


def origin(chat_id: str = "chat", **point: Any) -> dict[str, Any]:
    return {"chatId": chat_id, **point, "createdAt": MOMENT}


def lineage(chat: Chat) -> Any:
    answer = chat.send("GET", "/lineage")
    assert answer.status_code == 200, answer.text
    return answer.json()


def kin(chat_id: str, message_id: str | None = None, checkpoint: str | None = None) -> Any:
    """One chat of a lineage, and where the younger of the two left the older one."""
    return {
        "chatId": chat_id,
        "messageId": message_id,
        "checkpoint": checkpoint,
        "createdAt": MOMENT,
    }
