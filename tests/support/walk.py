"""
One session that takes every route, its refusals included: for whoever compares answers
with the documentation, or those of one engine with those of another.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Step:
    """A request of the walk: the route as the table has it, and what is put into it."""

    method: str
    route: str
    body: Any = None
    status: int = 200
    query: str = ""
    media_type: str = "application/json"
    # Text that a stream must have sent before it is left.
    until: str = ""


FILLED_IN = {
    "{extension}": "walker",
    "{character}": "arthur",
    "{instance}": "sword",
    "{key}": "edge",
    "{chat}": "the lake",
    "{series}": "recap",
    "{version}": "1",
    "{set}": "scenes",
    "{id}": "first",
    "{operation}": "job",
    "{checkpoint}": "safe",
    "{lorebook}": "Eldoria",
}
DATA = "/instances/{instance}/data"
ACROSS = "/cross-extension"
CHAT = "/chats/{chat}"
SERIES = CHAT + "/series/{series}"
SCENES = CHAT + "/processed/{set}"
WORK = CHAT + "/operations"
JOB = WORK + "/{operation}"
SAFE = CHAT + "/checkpoints/{checkpoint}"

OPERATIONS = [
    {"op": "set", "instanceId": "sword", "key": "name", "value": "Excalibur"},
    {"op": "increment", "instanceId": "sword", "key": "weight", "by": 0.5},
    {"op": "append", "instanceId": "sword", "key": "marks", "value": 1},
    {"op": "addToSet", "instanceId": "sword", "key": "marks", "value": 1.0},
    {"op": "pull", "instanceId": "sword", "key": "marks", "value": True},
    {"op": "merge", "instanceId": "shield", "key": "paint", "value": {"red": 1}},
    {"op": "remove", "instanceId": "sword", "key": "absent"},
    {"op": "clear", "instanceId": "shield"},
]

CHAT_OPERATIONS = [
    {"op": "increment", "key": "edge", "by": 1, "anchor": {"messageId": "m1"}},
    {"op": "set", "instanceId": "sword", "key": "shine", "value": 1, "anchor": {"messageId": "m1"}},
]

SESSION = {"session_id": "walk", "variables": {"gold": 1}, "messages": ["A lake."]}
# SillyTavern, which is not there, and sessions.
NOBODY = "http://127.0.0.1:9"
SILLYTAVERN = [
    Step("GET", "/st/paths"),
    Step("GET", "/st/health", query=f"?base_url={NOBODY}&timeout=5"),
    Step("GET", "/st/health", query="?base_url=http://169.254.169.254", status=403),
    Step("GET", "/st/health", query="?timeout=31", status=400),
    Step("POST", "/st/extension/sync", {"destination": "/nowhere"}, status=403),
    Step("POST", "/st/extension/sync", status=400),
    Step("POST", "/st/lorebooks/{lorebook}/clone", {"as": "Copy"}, status=404),
    Step("POST", "/st/session/sync", {**SESSION, "dry_run": True}),
    Step("POST", "/st/session/sync", {**SESSION, "base_url": NOBODY}, status=502),
    Step("GET", "/st/session/sync"),
    Step("POST", "/session/sync", SESSION),
    Step("POST", "/session/sync", {"session_id": 5}, status=400),
    Step("GET", "/session/pending"),
    Step("POST", "/session/reply", {"id": "none", "reply": None}, status=404),
]

# Work in progress, and points to go back to and to leave from.
POINTS = [
    Step("POST", WORK, {"id": "job", "type": "recap", "data": {"a": 1}, "priority": 2}),
    Step("POST", WORK, {"id": "job", "type": "recap"}, status=409),
    Step("POST", WORK, {"type": 5}, status=400),
    Step("GET", WORK),
    Step("GET", WORK, query="?status=done", status=400),
    Step("GET", JOB),
    Step("PATCH", JOB, {"stage": "half", "data": {"b": 2}}),
    Step("POST", CHAT + "/checkpoints", {"name": "safe"}, status=409),
    Step("POST", CHAT + "/checkpoints", {"name": "safe", "whenReady": True}, status=202),
    Step("GET", SAFE),
    Step("POST", SAFE + "/validate", status=409),
    Step("POST", JOB + "/complete", {"data": {"c": 3}}),
    Step("POST", JOB + "/fail", status=409),
    Step("POST", JOB + "/cancel", status=409),
    Step("POST", WORK + "/claim", {"leaseMs": 1000}, status=204),
    Step("POST", WORK, {"id": "other", "type": "recap"}),
    Step("POST", WORK + "/cleanup", {"maxAgeMs": 0}),
    Step("POST", WORK + "/cleanup"),
    Step("GET", CHAT + "/checkpoints"),
    Step("GET", SAFE),
    Step("POST", SAFE + "/validate", {"actual": {"messageCount": 3}}),
    Step("GET", SAFE + "/diff"),
    Step("POST", CHAT + "/branches", {"chatId": "the river"}, status=201),
    Step("POST", CHAT + "/branches", {"chatId": "the river"}, status=409),
    Step("GET", CHAT + "/lineage"),
    Step("POST", CHAT + "/data", {"key": "edge", "value": 9}),
    Step("POST", SAFE + "/restore", {"dryRun": True}),
    Step("POST", SAFE + "/restore"),
    Step("DELETE", SAFE),
    Step("DELETE", SAFE, status=404),
]

# What a chat can do, on the one the sword is in.
CHATS = [
    Step("GET", "/chats"),
    Step("GET", CHAT),
    Step("POST", CHAT + "/data", {"key": "edge", "value": 1}),
    Step("PUT", CHAT + "/data", {"key": "mood", "value": {"calm": True}}),
    Step("GET", CHAT + "/data"),
    Step("GET", CHAT + "/data/{key}"),
    Step("PATCH", CHAT + "/data", {"mood": {"calm": None}}),
    Step("PUT", CHAT + "/data/merge", {"edge": 2, "hue": "blue"}),
    Step("PUT", CHAT + "/data/override", {"edge": 3, "hue": "red", "old": 1}),
    Step("PUT", CHAT + "/data/remove", {"keys": ["old"]}),
    Step("POST", CHAT + "/batch", {"operations": CHAT_OPERATIONS}),
    Step("POST", CHAT + "/batch", {"operations": []}, status=400),
    Step("POST", CHAT + "/reconcile", {"anchors": [{"messageId": "m1", "hash": "a"}]}),
    Step("POST", CHAT + "/reconcile", {"anchors": []}),
    Step("POST", CHAT + "/reconcile", {"anchors": [{"messageId": "m1"}], "dryRun": True}),
    Step("POST", CHAT + "/reconcile", {"anchors": [{"messageId": "m1"}] * 2}, status=400),
    Step("POST", SERIES, {"content": "It began."}, status=201),
    Step("POST", SERIES, {"content": ["It", "went", "on."]}, status=201),
    Step("POST", SERIES, {"tone": "dry"}, status=400),
    Step("GET", SERIES),
    Step("GET", SERIES + "/current"),
    Step("GET", SERIES + "/{version}", status=200),
    Step("PUT", SERIES + "/current", {"version": 1}),
    Step("PUT", SERIES + "/current", {"version": 7}, status=404),
    Step("DELETE", SERIES + "/{version}"),
    Step("GET", SERIES + "/{version}", status=404),
    Step("POST", SCENES, {"ids": ["first", "second"]}),
    Step("POST", SCENES, {"ids": ["third"], "leaseMs": 60_000}),
    Step("POST", SCENES, {"ids": []}, status=400),
    Step("GET", SCENES),
    Step("GET", SCENES + "/{id}"),
    Step("PUT", SCENES + "/{id}"),
    Step("GET", CHAT + "/state"),
    Step("GET", CHAT + "/state", query="?at=message:m9", status=404),
    Step("GET", CHAT + "/state", query="?at=13"),
    Step("GET", CHAT + "/history"),
    Step("GET", CHAT + "/history", query="?limit=3&order=asc"),
    Step("GET", CHAT + "/diff", query="?from=13"),
    Step("GET", "/changes", query="?since=13&chatId=the%20lake"),
    Step("GET", ACROSS + "/chats/{extension}"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}/state"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}/data"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}/data/{key}"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}/history"),
    Step("GET", ACROSS + "/chats/{extension}/{chat}/diff", query="?from=13"),
    *POINTS,
    Step("POST", CHAT + "/restore", {"revision": 14}),
    Step("DELETE", SCENES + "/{id}", status=404),
    Step("DELETE", SERIES),
    Step("DELETE", CHAT + "/data/{key}"),
    Step("DELETE", CHAT + "/data"),
    Step("PATCH", CHAT, {"chatId": "the pond"}),
    Step("PATCH", CHAT, {"chatId": "the lake"}),
    Step("DELETE", CHAT),
    Step("POST", CHAT + "/data", {"key": "edge", "value": 1}, status=409),
    Step("POST", CHAT + "/open", {}, status=400),
    Step("POST", CHAT + "/open", {"client": "a tab", "defaults": {"edge": 1, "hue": 2}}),
]

WALK = [
    Step("GET", "/probe", status=204),
    Step("POST", "/ping", {"message": "hello"}),
    Step("POST", "/ping", {}, status=400),
    Step("GET", "/health"),
    Step("GET", "/healthz"),
    Step("GET", "/limits"),
    Step("GET", "/openapi.json"),
    Step("GET", "/docs"),
    Step("GET", "/characters", status=404),
    Step("POST", "/register", {"extensionId": "walker"}),
    Step("POST", "/register", {"extensionId": "Walker"}, status=409),
    Step("POST", "/characters", {"id": "arthur", "name": "Arthur"}),
    Step("POST", "/characters", {"id": "merlin"}),
    Step("POST", "/characters", [], status=400),
    Step("POST", "/instances", {"id": "sword", "characterId": "arthur", "chatId": "the lake"}),
    Step("POST", "/instances", {"id": "shield", "characterId": "arthur"}),
    Step("POST", DATA, {"key": "edge", "value": {"state": [1, 1.5, None, "x", True]}}),
    Step("PUT", DATA, {"key": "weight", "value": 2}),
    Step("PUT", DATA, {"key": "weight"}, status=400),
    Step("PUT", DATA + "/merge", {"owner": None}),
    Step("GET", "/characters"),
    Step("GET", "/characters/{character}"),
    Step("GET", "/characters/{character}/instances"),
    Step("GET", "/instances"),
    Step("GET", "/instances/{instance}"),
    Step("GET", DATA),
    Step("GET", DATA + "/{key}"),
    Step("GET", "/extensions"),
    Step("GET", "/extensions/{extension}"),
    Step("GET", ACROSS + "/characters/{extension}"),
    Step("GET", ACROSS + "/characters/{extension}/{character}"),
    Step("GET", ACROSS + "/characters/{extension}/{character}/instances"),
    Step("GET", ACROSS + "/instances/{extension}"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/data"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/data/{key}"),
    Step("PATCH", DATA, {"edge": {"state": None, "grip": "good"}}),
    Step(
        "PATCH",
        DATA,
        [
            {"op": "add", "path": "/marks", "value": []},
            {"op": "test", "path": "/weight", "value": 2},
        ],
        media_type="application/json-patch+json",
    ),
    Step(
        "PATCH",
        DATA,
        [{"op": "test", "path": "/weight", "value": 3}],
        status=409,
        media_type="application/json-patch+json",
    ),
    Step("PATCH", DATA, [], status=400, media_type="application/merge-patch+json"),
    Step("POST", "/batch", {"operations": OPERATIONS}),
    Step("POST", "/batch", {"operations": []}, status=400),
    Step(
        "POST",
        "/batch",
        {"operations": [{"op": "increment", "instanceId": "sword", "key": "edge", "by": 1}]},
        status=409,
    ),
    Step("GET", "/instances/{instance}/history"),
    Step("GET", "/instances/{instance}/history", query="?key=weight&order=asc&limit=1"),
    Step("GET", "/instances/{instance}/history", query="?limit=0", status=400),
    Step("GET", "/instances/{instance}/diff", query="?from=3"),
    Step("GET", "/instances/{instance}/diff", status=400),
    Step("GET", DATA, query="?at=4"),
    Step("GET", DATA, query="?at=4000", status=400),
    Step("GET", "/characters/{character}", query="?at=5"),
    Step("GET", "/changes", query="?since=0&limit=3"),
    Step("GET", "/changes", query="?since=0&instanceId=sword&key=weight"),
    Step("GET", "/events", query="?since=0", until="id: 7"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/history"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/diff", query="?from=3"),
    Step("GET", ACROSS + "/changes/{extension}", query="?since=2"),
    Step("GET", ACROSS + "/events/{extension}", query="?since=2", until="id: 7"),
    *CHATS,
    Step("PUT", DATA + "/override", {"edge": "keen", "owner": "Arthur"}),
    Step("PUT", DATA + "/remove", {"keys": ["owner", "absent"]}),
    Step("DELETE", DATA + "/{key}"),
    Step("DELETE", DATA + "/{key}", status=404),
    Step("DELETE", DATA),
    Step("DELETE", "/instances/{instance}"),
    Step("DELETE", "/instances/{instance}", status=404),
    Step("GET", "/instances/{instance}", status=404),
    Step("POST", DATA, {"key": "edge", "value": 1}, status=404),
    Step("DELETE", "/characters/{character}/instances"),
    Step("DELETE", "/characters/{character}"),
    Step("POST", "/instances/{instance}/restore", {"revision": 6}),
    Step("POST", "/instances/{instance}/restore", {"revision": 1}, status=404),
    Step("POST", "/characters/{character}/restore", {"revision": 5}),
    Step("GET", "/characters/{character}"),
    Step("DELETE", "/characters/{character}"),
    Step("POST", "/compact", {"keep": {"revisions": 3}}),
    Step("POST", "/compact", {"keep": {}}, status=400),
    Step("GET", DATA, query="?at=2", status=410),
    Step("GET", "/characters/{character}", status=404),
    *SILLYTAVERN,
    Step("DELETE", "/register", {"extensionId": "walker", "purge": True}),
    Step("GET", ACROSS + "/characters/{extension}", status=404),
    Step("GET", "/extensions/{extension}", status=404),
]


def take(client: httpx.Client, step: Step) -> httpx.Response:
    """Make one request of the walk; a stream is read until it has sent what it must."""
    path = re.sub(r"{\w+}", lambda name: FILLED_IN[name[0]], step.route) + step.query
    if step.until:
        return read_stream(client, path, step.until)
    headers = {"content-type": step.media_type} if step.body is not None else {}
    content = None if step.body is None else json.dumps(step.body)
    return client.request(step.method, path, content=content, headers=headers)


def read_stream(client: httpx.Client, path: str, until: str) -> httpx.Response:
    with client.stream("GET", path) as answer:
        received = ""
        for text in answer.iter_text():
            received += text
            if until in received:
                break
    headers = {"content-type": answer.headers["content-type"]}
    return httpx.Response(answer.status_code, headers=headers, text=received)
