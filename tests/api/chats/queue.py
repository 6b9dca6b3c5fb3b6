"""Requests about the operations of a chat, and the records they should answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.support.answers import MOMENT, done
from tests.support.chat import Chat

# Leases: far longer than any test takes, and the shortest possible.
LONG, SHORT = 600_000, 1
ACTIVE = ["pending", "in_progress", "retrying"]
ENDED = ["completed", "failed", "cancelled"]
# The verb that ends an operation, and its status then.
ENDS = {"complete": "completed", "fail": "failed", "cancel": "cancelled"}


def operation(id: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Return the record of a new operation, with the fields that are given."""
    return {
        "id": id,
        "type": "recap",
        "status": status,
        "stage": None,
        "data": {},
        "priority": 0,
        "claim": None,
        "leaseUntil": None,
        "attempts": 0,
        "maxAttempts": 1,
        "retryAfterMs": None,
        "dependsOn": [],
        "anchor": None,
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
        **more,
    }


class Queue:
    """The operations of one chat."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def post(self, body: Any, message: str | None = None, **headers: str) -> httpx.Response:
        return self.chat.send("POST", "/operations", body, message, **headers)

    def add(self, id: str, status: str = "pending", **more: Any) -> Any:
        """Add an operation, move it to a status, and return its record."""
        answer = self.post({"id": id, "type": "recap", **more})
        assert answer.status_code == 200, answer.text
        assert answer.json()["created"] is True
        if status == "pending":
            return self.get(id)
        moved = self.patch(id, status=status)
        assert moved.status_code == 200, moved.text
        return moved.json()

    def send(
        self, method: str, id: str, verb: str = "", body: Any = None, **headers: str
    ) -> httpx.Response:
        return self.chat.send(method, f"/operations/{quote(id, safe='')}{verb}", body, **headers)

    def get(self, id: str) -> Any:
        answer = self.send("GET", id)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def listed(self, status: str | None = None) -> Any:
        params = {} if status is None else {"status": status}
        answer = self.chat.client.get(f"{self.chat.path}/operations", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ids(self, status: str | None = None) -> list[str]:
        return [each["id"] for each in self.listed(status)]

    def patch(self, id: str, **body: Any) -> httpx.Response:
        return self.send("PATCH", id, body=body)

    def end(self, id: str, verb: str = "complete", **body: Any) -> httpx.Response:
        return self.send("POST", id, f"/{verb}", body)

    def post_claim(self, lease_ms: Any = LONG, types: Any = ...) -> httpx.Response:
        body = {"leaseMs": lease_ms} if types is ... else {"leaseMs": lease_ms, "types": types}
        return self.chat.send("POST", "/operations/claim", body)

    def claim(self, lease_ms: int = LONG, types: Any = ...) -> Any:
        """Claim an operation; return it, or None if there was none."""
        answer = self.post_claim(lease_ms, types)
        if answer.status_code == 204:
            assert answer.content == b""
            return None
        assert answer.status_code == 200, answer.text
        token = answer.json()["claim"]
        assert isinstance(token, str)
        assert token
        return answer.json()

    def renew(self, id: str, claim: Any = ..., lease_ms: Any = LONG) -> httpx.Response:
        body = {"leaseMs": lease_ms} if claim is ... else {"leaseMs": lease_ms, "claim": claim}
        return self.send("POST", id, "/renew", body)

    def pause(self, verb: str = "pause") -> Any:
        answer = self.chat.send("POST", f"/operations/{verb}", {})
        done(answer)
        return answer.json()

    def clean_up(self, **body: Any) -> Any:
        answer = self.chat.send("POST", "/operations/cleanup", body)
        done(answer)
        return answer.json()

    def counts(self) -> Any:
        """Return the counts of the queue; the chat's state and its next open must agree."""
        found = self.chat.state()["operations"]
        assert self.chat.open("a tab that counts")["operations"] == found
        return found


def added(id: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Return the answer to a request that added an operation."""
    return {**operation(id, status, **more), "created": True}
