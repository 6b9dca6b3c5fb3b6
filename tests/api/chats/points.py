"""Requests about checkpoints and branches, and the records they should answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.support.answers import MOMENT, instance
from tests.support.chat import Chat, Values


def rows(
    data: int = 0, instances: int = 0, values: int = 0, series: int = 0, processed: int = 0
) -> dict[str, int]:
    """Return counts as a checkpoint has them: of keys, instances, their keys, versions, ids."""
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
    """Make a checkpoint that need not wait, and return its record."""
    answer = post_checkpoint(chat, name=name, **body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def await_checkpoint(chat: Chat, name: str = "here", **body: Any) -> None:
    """Ask for a checkpoint that must wait for the queue."""
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
    """Return name and status of each checkpoint; all routes must agree about them."""
    found = [(each["name"], each["status"]) for each in list_checkpoints(chat)]
    assert [(each["name"], each["status"]) for each in chat.state()["checkpoints"]] == found
    return found


def validate(chat: Chat, name: str = "here", **actual: Any) -> Any:
    body = {"actual": actual} if actual else {}
    answer = send_checkpoint(chat, "POST", name, "/validate", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def validate_branch(branch: Chat, **actual: Any) -> Any:
    answer = branch.send("POST", "/validate", {"actual": actual} if actual else None)
    assert answer.status_code == 200, answer.text
    return answer.json()


def state_of(chat: Chat, name: str = "here") -> Any:
    answer = send_checkpoint(chat, "GET", name, "/state")
    assert answer.status_code == 200, answer.text
    return answer.json()


VALID = {"success": True, "validated": True, "errors": [], "warnings": []}


def restore_checkpoint(
    chat: Chat, name: str = "here", headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    return send_checkpoint(chat, "POST", name, "/restore", body, **(headers or {}))


def back_at(revision: int, changed: int, **more: Any) -> tuple[int, Any]:
    """Return the right answer to restoring a sound checkpoint."""
    report = {"success": True, "errors": [], "warnings": []}
    return 200, {**report, "revision": revision, "changed": changed, **more}


def diff_checkpoint(chat: Chat, name: str = "here") -> Any:
    answer = send_checkpoint(chat, "GET", name, "/diff")
    assert answer.status_code == 200, answer.text
    return answer.json()


# Branches.


def post_branch(
    chat: Chat,
    chat_id: Any = "branch",
    headers: dict[str, str] | None = None,
    more: dict[str, Any] | None = None,
    **point: Any,
) -> httpx.Response:
    body = {"chatId": chat_id, **({"from": point} if point else {}), **(more or {})}
    return chat.send("POST", "/branches", body, **(headers or {}))


def branch_off(chat: Chat, chat_id: str = "branch", **point: Any) -> Chat:
    """Make a branch of a chat from a point, or from now."""
    answer = post_branch(chat, chat_id, **point)
    assert answer.status_code == 201, answer.text
    return Chat(chat.client, chat_id)


def values_in(values: Values, branch: Chat) -> Values:
    """Return the same values in a branch: its own, or those of the copied instance."""
    if values.instance_id is None:
        return branch
    copies = [
        each["instance"]["id"]
        for each in branch.state()["instances"]
        if each["instance"]["origin"] == values.instance_id
    ]
    assert len(copies) == 1
    return Values(branch.client, branch.chat_id, copies[0])


def copied_instance(
    id: str, origin: str, chat_id: str = "branch", name: str | None = None
) -> dict[str, Any]:
    """Return the record of an instance of arthur as a branch should have copied it."""
    return {**instance(id, "arthur", name, chat_id), "origin": origin}


class AnyRecord:
    """Equal to the record of any beginning that has this name, or none."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, dict)
            and list(other) == ["name", "createdAt", "versions", "rows"]
            and (other["name"], other["createdAt"]) == (self._name, MOMENT)
            and set(other["rows"]) == set(rows())
        )

    __hash__ = object.__hash__


def origin(
    chat_id: str = "chat",
    checkpoint: str | None = None,
    messageId: str | None = None,
) -> dict[str, Any]:
    return {
        "chatId": chat_id,
        "checkpoint": checkpoint,
        "messageId": messageId,
        "createdAt": MOMENT,
        "record": AnyRecord(checkpoint),
    }


def lineage(chat: Chat) -> Any:
    answer = chat.send("GET", "/lineage")
    assert answer.status_code == 200, answer.text
    return answer.json()


def lineage_item(chat_id: str, message_id: str | None = None, checkpoint: str | None = None) -> Any:
    """Return one chat of a lineage, with the point at which one branched off the other."""
    return {
        "chatId": chat_id,
        "messageId": message_id,
        "checkpoint": checkpoint,
        "createdAt": MOMENT,
    }
