"""
Requests about a chat: set values at messages, reconcile chains, compare records.

`Values` are the chat's own data or those of an instance in it. Both must follow the story
alike, so most tests take the fixture `values` and run on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.answers import MOMENT, REPRESENTATION, done, outcome

# A visible message: its id (swipe 0), its id and its swipe, or the whole anchor as it is sent.
Place = str | tuple[str, Any] | dict[str, Any]

NO_OPERATIONS = {"pending": 0, "inProgress": 0, "retrying": 0, "paused": False}
MERGED = (200, {"success": True, "message": "Instance data merged successfully"})
OVERRIDDEN = (200, {"success": True, "message": "Instance data overridden successfully"})


def anchor_of(place: Place) -> dict[str, Any]:
    """Return one item of a chain as `reconcile` takes it."""
    if isinstance(place, dict):
        return place
    if isinstance(place, tuple):
        return {"messageId": place[0], "swipe": place[1]}
    return {"messageId": place}


def named(message: str | None, swipe: str | None, headers: dict[str, str]) -> dict[str, str]:
    """Return headers as they are sent: `_` becomes `-`, and the anchor is percent-encoded."""
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    if message is not None:
        sent["x-message-id"] = quote(message, safe="")
    if swipe is not None:
        sent["x-swipe-id"] = quote(swipe, safe="")
    return sent


class Values:
    """The values of a chat (no instance id) or of an instance in it."""

    def __init__(self, client: httpx.Client, chat_id: str, instance_id: str | None = None) -> None:
        self.client = client
        self.chat_id = chat_id
        self.instance_id = instance_id

    @property
    def chat(self) -> Chat:
        return Chat(self.client, self.chat_id)

    @property
    def path(self) -> str:
        if self.instance_id is not None:
            return f"/instances/{quote(self.instance_id, safe='')}"
        return f"/chats/{quote(self.chat_id, safe='')}"

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        message: str | None = None,
        swipe: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        return self.client.request(
            method, self.path + path, json=body, headers=named(message, swipe, headers)
        )

    def set(
        self,
        key: str,
        value: Any,
        message: str | None = None,
        swipe: str | None = None,
        **headers: str,
    ) -> int:
        """Set a key, at a message or unanchored, and return the revision."""
        body = {"key": key, "value": value}
        return done(self.send("POST", "/data", body, message, swipe, **headers))

    def run(
        self, *operations: dict[str, Any], message: str | None = None, **headers: str
    ) -> httpx.Response:
        """Run a batch on these values, by the route of the chat, and ask for the values."""
        owner = {} if self.instance_id is None else {"instanceId": self.instance_id}
        body = {"operations": [{**owner, **each} for each in operations]}
        return self.chat.send("POST", "/batch", body, message, **REPRESENTATION, **headers)

    def increment(self, key: str, by: Any, message: str | None = None, **headers: str) -> int:
        return done(self.run({"op": "increment", "key": key, "by": by}, message=message, **headers))

    def restore(self, revision: int, **headers: str) -> tuple[int, Any]:
        return outcome(self.send("POST", "/restore", {"revision": revision}, **headers))

    def data(self, at: int | str | None = None) -> Any:
        answer = self.client.get(f"{self.path}/data", params={} if at is None else {"at": at})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def text(self) -> str:
        """Return the values as JSON text, which shows order and types."""
        return self.client.get(f"{self.path}/data").text

    def history(self, **params: Any) -> list[dict[str, Any]]:
        """Return the changes, oldest first."""
        answer = self.client.get(f"{self.path}/history", params={"order": "asc", **params})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def etag(self, path: str = "/data") -> str:
        return self.client.get(self.path + path).headers["etag"]

    def difference(self, key: str, **sides: Any) -> dict[str, Any]:
        """Return one value as `reconcile` lists it: `before` and `after` if there is one."""
        return {"instanceId": self.instance_id, "key": key, **sides}

    def conflict(self, key: str, op: str, revision: int) -> dict[str, Any]:
        return {"instanceId": self.instance_id, "key": key, "op": op, "revision": revision}


class Chat(Values):
    """A chat, and requests that only chats have."""

    def open(self, client: str = "tab", **body: Any) -> Any:
        answer = self.send("POST", "/open", {"client": client, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self, client: str = "tab") -> str:
        return str(self.open(client)["session"])

    def instance(self, id: str, character_id: str = "arthur") -> Values:
        """Make an instance in this chat, or move it here."""
        body = {"id": id, "characterId": character_id, "chatId": self.chat_id}
        done(self.client.post("/instances", json=body))
        return Values(self.client, self.chat_id, id)

    def post_reconcile(self, *places: Place, **headers: str) -> httpx.Response:
        return self.send("POST", "/reconcile", {"anchors": [*map(anchor_of, places)]}, **headers)

    def reconcile(self, *places: Place, **body: Any) -> Any:
        """Send the visible messages, and return the answer without its messages for people."""
        sent = {"anchors": [anchor_of(place) for place in places], **body}
        answer = self.send("POST", "/reconcile", sent)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert answer.headers["x-revision"] == str(found["revision"])
        for conflict in found["conflicts"]:
            assert isinstance(conflict["reason"], str)
            assert conflict.pop("reason")
        found["changed"].sort(key=lambda each: (each["instanceId"] or "", each["key"]))
        return found

    def state(self, at: int | str | None = None) -> Any:
        answer = self.client.get(f"{self.path}/state", params={} if at is None else {"at": at})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def as_of(self, message: str) -> Any:
        return self.state(f"message:{message}")

    def archive(self) -> None:
        assert outcome(self.send("DELETE", "")) == (200, {"success": True})

    def purge(self) -> None:
        assert outcome(self.send("DELETE", "?purge=true")) == (200, {"success": True})

    def rename(self, chat_id: str) -> Chat:
        answer = self.send("PATCH", "", {"chatId": chat_id})
        assert answer.status_code == 200, answer.text
        return Chat(self.client, chat_id)

    def add_version(
        self, series: str, content: Any, message: str | None = None, **meta: Any
    ) -> int:
        path = f"/series/{quote(series, safe='')}"
        answer = self.send("POST", path, {"content": content, **meta}, message)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["version"])

    def series(self, name: str) -> Any:
        return self.client.get(f"{self.path}/series/{quote(name, safe='')}").json()

    def claim(self, set: str, *ids: str, message: str | None = None, **more: Any) -> Any:
        path = f"/processed/{quote(set, safe='')}"
        answer = self.send("POST", path, {"ids": list(ids), **more}, message)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def processed(self, set: str) -> Any:
        return self.client.get(f"{self.path}/processed/{quote(set, safe='')}").json()


def reconciled(
    revision: int,
    dormant: int = 0,
    revived: int = 0,
    changed: Iterable[dict[str, Any]] = (),
    conflicts: Iterable[dict[str, Any]] = (),
    stale: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the right answer to a reconcile, conflicts without their message for people."""
    return {
        "revision": revision,
        "dormant": dormant,
        "revived": revived,
        "changed": list(changed),
        "conflicts": list(conflicts),
        "stale": list(stale),
        "warnings": [],
    }


def restored(revision: int, changed: int) -> tuple[int, Any]:
    return 200, {"revision": revision, "changed": changed, "warnings": []}


def chat_record(chat_id: str, revision: int, archived: bool = False) -> dict[str, Any]:
    return {
        "chatId": chat_id,
        "parent": None,
        "origin": None,
        "archived": archived,
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
        "revision": revision,
    }


def chat_state(chat_id: str, revision: int, **parts: Any) -> dict[str, Any]:
    """Return the whole state of a chat: empty but for the parts that are given."""
    return {
        "chatId": chat_id,
        "revision": revision,
        "parent": None,
        "origin": None,
        "data": {},
        "instances": [],
        "series": {},
        "processed": {},
        "checkpoints": [],
        "operations": NO_OPERATIONS,
        "warnings": [],
        **parts,
    }


def furnish(client: httpx.Client) -> Chat:
    """Make five revisions: a chat with a value, an instance with a value, a version, an id."""
    chat = Chat(client, "chat")
    sword = chat.instance("sword")
    assert chat.set("hp", 50) == 2
    assert sword.set("hp", 7) == 3
    assert chat.add_version("recap", "Once") == 1
    assert chat.claim("seen", "a") == {"new": ["a"], "seen": []}
    return chat


Write = tuple[str, str, Any]


def _data_writes(owner: str) -> list[Write]:
    return [
        ("POST", f"{owner}/data", {"key": "hp", "value": 1}),
        ("PUT", f"{owner}/data", {"key": "hp", "value": 1}),
        ("DELETE", f"{owner}/data/hp", None),
        ("DELETE", f"{owner}/data", None),
        ("PUT", f"{owner}/data/override", {"mp": 1}),
        ("PUT", f"{owner}/data/merge", {"mp": 1}),
        ("PUT", f"{owner}/data/remove", {"keys": ["hp"]}),
        ("PATCH", f"{owner}/data", {"hp": 1}),
        ("POST", f"{owner}/restore", {"revision": 1}),
        ("POST", f"{owner}/data/hp/restore", {"revision": 1}),
    ]


# Every kind of write, each by a request that changes something in the furnished chat.
INSTANCE_WRITES: list[Write] = [
    *_data_writes("/instances/sword"),
    ("POST", "/instances", {"id": "sword", "characterId": "arthur", "name": "Excalibur"}),
    ("DELETE", "/instances/sword", None),
    (
        "POST",
        "/batch",
        {"operations": [{"op": "set", "instanceId": "sword", "key": "hp", "value": 1}]},
    ),
]
CHAT_WRITES: list[Write] = [
    *_data_writes("/chats/chat"),
    ("POST", "/chats/chat/batch", {"operations": [{"op": "set", "key": "hp", "value": 1}]}),
    (
        "POST",
        "/chats/chat/batch",
        {"operations": [{"op": "clear", "instanceId": "sword"}]},
    ),
    ("POST", "/chats/chat/reconcile", {"anchors": [{"messageId": "m1"}]}),
    ("PATCH", "/chats/chat", {"chatId": "renamed"}),
    ("POST", "/chats/chat/series/recap", {"content": "Twice"}),
    ("PUT", "/chats/chat/series/recap/current", {"version": 1}),
    ("DELETE", "/chats/chat/series/recap/1", None),
    ("DELETE", "/chats/chat/series/recap", None),
    ("POST", "/chats/chat/processed/seen", {"ids": ["b"]}),
    ("PUT", "/chats/chat/processed/seen/b", None),
    ("DELETE", "/chats/chat/processed/seen/a", None),
]
EVERY_WRITE: list[Write] = [*INSTANCE_WRITES, *CHAT_WRITES, ("DELETE", "/chats/chat", None)]
