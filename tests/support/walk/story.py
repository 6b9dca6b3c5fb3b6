"""
The walk: the steps of one session, in order.

To give a route an example, add a step with a `title` here or in `chat_story.py`, and run
`make docs`. A step without a title is only compared with OpenAPI and between the engines. A new
step that changes something moves the revisions of all steps after it, so add it near the end.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.support.walk.chat_story import CHATS
from tests.support.walk.steps import Step
from valuetracker import __version__

DATA = "/instances/{instance}/data"
ACROSS = "/cross-extension"
JSON_PATCH = {"content-type": "application/json-patch+json"}
MERGE_PATCH = {"content-type": "application/merge-patch+json"}

SERVER = [
    Step("GET", "/probe", status=204, title="The plugin is there."),
    Step("POST", "/ping", {"message": "hello"}, title="A greeting comes back."),
    Step("POST", "/ping", {}, status=400),
    Step("GET", "/health", title="The plugin is well."),
    Step("GET", "/healthz", title="The server is well."),
    Step("GET", "/caller", title="Who am I, and what may I do?"),
    Step("GET", "/limits", title="How much a request may hold."),
    Step("GET", "/openapi.json", title="The description of all routes, for programs."),
    Step("GET", "/docs", title="The description of all routes, for people."),
    Step("GET", "/settings", title="How the server is set up."),
    Step("GET", "/metrics", title="How busy the server is."),
]

REGISTERING = [
    Step("GET", "/characters", status=404),
    Step(
        "POST",
        "/register",
        {"extensionId": "story-stats"},
        title="An extension makes itself known when it starts.",
    ),
    Step("POST", "/register", {"extensionId": "Story-Stats"}, status=409),
]

CHARACTERS = [
    Step(
        "POST",
        "/characters",
        {"id": "seraphina", "name": "Seraphina"},
        title="Seraphina appears.",
    ),
    Step("GET", "/export", title="All that the extension has, with its history."),
    Step("POST", "/characters", {"id": "merlin"}),
    Step("POST", "/characters", [], status=400),
    Step(
        "POST",
        "/instances",
        {"id": "seraphina-1", "characterId": "seraphina", "chatId": "Seraphina - first date"},
        title="Seraphina, as she is in this chat.",
    ),
    Step("POST", "/instances", {"id": "seraphina-dream", "characterId": "seraphina"}),
    Step("GET", "/characters", title="Everybody so far."),
    Step("GET", "/characters", query="?limit=1", title="The first page of a list."),
    Step("GET", "/characters", query="?limit=words", status=400),
    Step("GET", "/instances", query="?characterId=merlin"),
    Step(
        "GET",
        "/instances",
        title="The instances of one chat.",
        query="?chatId=Seraphina%20-%20first%20date",
    ),
    Step("GET", "/instances"),
    Step("GET", "/instances", query="?limit=1"),
    Step("GET", "/characters/{character}/instances", query="?limit=1&cursor=1"),
    Step("GET", "/characters/{character}/instances", title="The instances of Seraphina."),
]

VALUES = [
    Step(
        "POST",
        DATA,
        {"key": "hp", "value": 100},
        title="Seraphina starts with 100 hp. `Idempotency-Key` makes it safe to send it again.",
        headers={"idempotency-key": "start-hp"},
    ),
    Step("POST", DATA, {"key": "hp", "value": 100}, headers={"idempotency-key": "start-hp"}),
    Step(
        "PUT",
        DATA,
        {"key": "mood", "value": {"name": "curious", "since": "m-1", "score": 0.75}},
    ),
    Step("PUT", DATA, {"key": "mood"}, status=400),
    Step(
        "PUT",
        DATA,
        {"key": "mood", "value": "bored"},
        status=412,
        title="A page that has not seen the last change is refused.",
        headers={"if-match": '"5"'},
    ),
    Step(
        "PUT",
        DATA + "/merge",
        {"outfit": {"top": "sundress", "shoes": None}, "inventory": ["lantern"]},
        title="Outfit and inventory are set; hp and mood stay.",
    ),
    Step("GET", DATA, title="All values of Seraphina."),
    Step("GET", DATA, status=304, headers={"if-none-match": '"7"'}),
    Step("GET", DATA + "/{key}", title="Only her hp."),
    Step("GET", "/instances/{instance}", title="Seraphina with her values."),
    Step("GET", "/characters/{character}", title="Seraphina with all her instances."),
    Step(
        "PATCH",
        DATA,
        {"outfit": {"top": "cloak", "shoes": "boots"}, "mood": {"since": None}},
        title="She changes clothes. A merge patch changes a part of a value.",
        headers=MERGE_PATCH,
    ),
    Step(
        "PATCH",
        DATA,
        [
            {"op": "test", "path": "/hp", "value": 100},
            {"op": "add", "path": "/inventory/-", "value": "map"},
        ],
        title="A JSON Patch adds a map, if her hp is still 100.",
        headers=JSON_PATCH,
    ),
    Step("PATCH", DATA, [{"op": "test", "path": "/hp", "value": 3}], 409, headers=JSON_PATCH),
    Step("PATCH", DATA, [], status=400, headers=MERGE_PATCH),
    Step(
        "POST",
        "/batch",
        {
            "operations": [
                {"op": "increment", "instanceId": "seraphina-1", "key": "hp", "by": -5},
                {
                    "op": "addToSet",
                    "instanceId": "seraphina-1",
                    "key": "inventory",
                    "value": "rose",
                },
                {"op": "set", "instanceId": "seraphina-dream", "key": "mood", "value": "calm"},
            ]
        },
        title="She pricks her finger on a rose, and dreams of it.",
    ),
    Step(
        "POST",
        "/batch",
        {
            "operations": [
                {"op": "append", "instanceId": "seraphina-1", "key": "marks", "value": 1},
                {"op": "pull", "instanceId": "seraphina-1", "key": "marks", "value": 1.0},
                {"op": "merge", "instanceId": "seraphina-dream", "key": "sky", "value": {"red": 1}},
                {"op": "remove", "instanceId": "seraphina-1", "key": "marks"},
                {"op": "remove", "instanceId": "seraphina-1", "key": "absent"},
                {"op": "clear", "instanceId": "seraphina-dream"},
            ]
        },
    ),
    Step("POST", "/batch", {"operations": []}, status=400),
    Step(
        "POST",
        "/batch",
        {"operations": [{"op": "increment", "instanceId": "seraphina-1", "key": "mood", "by": 1}]},
        status=409,
    ),
]

PAST = [
    Step(
        "GET",
        "/instances/{instance}/history",
        title="The changes of her hp.",
        query="?key=hp",
    ),
    Step("GET", "/instances/{instance}/history"),
    Step("GET", "/instances/{instance}/history", query="?key=mood&order=asc&limit=1"),
    Step("GET", "/instances/{instance}/history", query="?limit=0", status=400),
    Step(
        "GET",
        "/instances/{instance}/diff",
        title="What the rose changed.",
        query="?from=9&to=10",
    ),
    Step("GET", "/instances/{instance}/diff", status=400),
    Step("GET", DATA, title="Her values as they were at revision 6.", query="?at=6"),
    Step("GET", DATA, query="?at=4000", status=400),
    Step("GET", "/characters/{character}", query="?at=5"),
    Step("GET", "/changes", title="The next change after revision 8.", query="?since=8&limit=1"),
    Step("GET", "/changes", query="?since=0&instanceId=seraphina-1&key=mood"),
    Step(
        "GET",
        "/events",
        title="The feed from revision 8 on.",
        query="?since=8&instanceId=seraphina-1",
        until="id: 9",
    ),
    Step("GET", "/events", query="?since=0", until="id: 9"),
]

BOTH = "?extensions=story-stats,outfits"
OTHERS = [
    Step("GET", "/extensions", title="Every extension of this server."),
    Step("GET", "/extensions/{extension}", title="Our extension in numbers."),
    Step("GET", ACROSS + "/characters/{extension}", title="Another extension lists ours."),
    Step(
        "GET",
        ACROSS + "/characters/{extension}/{character}",
        title="Another extension reads a character of ours.",
    ),
    Step(
        "GET",
        ACROSS + "/characters/{extension}/{character}/instances",
        title="Another extension lists the instances of a character.",
    ),
    Step("GET", ACROSS + "/instances/{extension}", title="Another extension lists our instances."),
    Step(
        "GET",
        ACROSS + "/instances/{extension}/{instance}",
        title="Another extension reads one of our instances.",
    ),
    Step(
        "GET",
        ACROSS + "/instances/{extension}/{instance}/data",
        title="Another extension reads her values.",
    ),
    Step(
        "GET",
        ACROSS + "/instances/{extension}/{instance}/data/{key}",
        title="Another extension reads her hp.",
    ),
    Step(
        "GET",
        ACROSS + "/instances/{extension}/{instance}/history",
        title="Another extension reads the last change of her hp.",
        query="?key=hp&limit=1",
    ),
    Step(
        "GET",
        ACROSS + "/instances/{extension}/{instance}/diff",
        title="Another extension compares two revisions.",
        query="?from=9&to=10",
    ),
    Step(
        "GET",
        ACROSS + "/changes/{extension}",
        title="Another extension reads our changes.",
        query="?since=8&limit=1",
    ),
    Step(
        "GET",
        ACROSS + "/events/{extension}",
        title="Another extension follows our feed.",
        query="?since=8",
        until="id: 9",
    ),
    Step("POST", "/register", {"extensionId": "outfits"}),
    Step(
        "GET",
        "/changes",
        title="The next change of either of two extensions.",
        query=f"{BOTH}&since=story-stats:8,outfits:0&limit=1",
    ),
    Step("GET", "/changes", query=f"{BOTH}&since=8", status=400),
    Step("GET", "/changes", query="?extensions=story-stats,nobody", status=404),
    Step(
        "GET",
        "/events",
        title="Two extensions on one connection.",
        query=f"{BOTH}&since=story-stats:8,outfits:0",
        until="id: story-stats:9",
    ),
    Step(
        "GET",
        ACROSS + "/changes",
        title="A page reads the next change of either of two extensions.",
        query=f"{BOTH}&since=story-stats:8,outfits:0&limit=1",
    ),
    Step(
        "GET",
        ACROSS + "/events",
        title="A page follows two extensions on one connection.",
        query=f"{BOTH}&since=story-stats:8,outfits:0",
        until="id: story-stats:9",
    ),
]

SYNC = {
    "session_id": "Seraphina - first date",
    "scene_id": "glade",
    "messages": [{"role": "user", "content": "Shall we go on?"}],
}
# A port nobody listens on.
NOBODY = "http://127.0.0.1:9"
SILLYTAVERN = [
    Step("GET", "/st/paths", title="Where the extension goes in this SillyTavern."),
    Step("POST", "/st/extension/sync", title="What would be copied?"),
    Step("POST", "/st/extension/sync", {"destination": "/nowhere"}, status=403),
    Step("POST", "/st/extension/sync", {"dry_run": False}),
    Step("GET", "/st/health", title="SillyTavern is there, with the plugin in it."),
    Step("GET", "/st/health", query=f"?base_url={NOBODY}&timeout=5"),
    Step("GET", "/st/health", query="?base_url=http://169.254.169.254", status=403),
    Step("GET", "/st/health", query="?timeout=31", status=400),
    Step(
        "POST",
        "/st/lorebooks/{lorebook}/clone",
        {"as": "Eldoria - what if"},
        title="The branch gets a lorebook of its own.",
    ),
    Step("POST", "/st/lorebooks/{lorebook}/clone", status=404, fill={"lorebook": "Nowhere"}),
    Step("POST", "/st/session/sync", {**SYNC, "dry_run": True}),
    Step("POST", "/st/session/sync", {**SYNC, "base_url": NOBODY}, status=502),
    Step(
        "POST",
        "/st/session/sync",
        {**SYNC, "variables": {"hp": 80}},
        title="A story that is told elsewhere asks SillyTavern for the next line.",
    ),
    Step("GET", "/st/session/sync", title="The latest syncs."),
    Step("POST", "/session/sync", {"session_id": 5}, status=400),
    # A page asks, so sessions wait for it.
    Step("GET", "/session/pending"),
    Step(
        "POST",
        "/session/sync",
        {**SYNC, "variables": {"hp": 80}, "timeout": 30},
        title="SillyTavern's side: the session waits until a page replies.",
        background=True,
    ),
    Step(
        "GET",
        "/session/pending",
        title="A page takes the session that waits.",
        query="?wait=30",
        keep="prompt",
    ),
    Step(
        "POST",
        "/session/reply",
        {"id": "{prompt}", "reply": {"role": "assistant", "content": "Seraphina nods."}},
        title="The page replies.",
    ),
    Step("POST", "/session/reply", {"id": "{prompt}", "reply": None}, status=404),
]

ONE_KEY = [
    Step(
        "POST",
        DATA + "/{key}/restore",
        {"revision": 6, "dryRun": True},
        title="What would her hp become, if it were that of revision 6 again?",
    ),
    Step("POST", DATA + "/{key}/restore", {"revision": 6}),
    Step("POST", DATA + "/{key}/restore", {"revision": 6}, status=404, fill={"key": "absent"}),
    Step(
        "POST",
        "/chats/{chat}/data/{key}/restore",
        {"revision": 18},
        title="The affinity of the chat is that of revision 18 again.",
        fill={"key": "affinity"},
    ),
]


def compact(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def exported_file() -> str:
    """Return the export of an extension that has one character and nothing else."""
    first = {
        "type": "valuetracker",
        "format": 1,
        "version": __version__,
        "extension": "story-stats",
        "revision": 1,
        "oldest": 0,
        "adopted": 0,
        "number": 1,
        "ordinal": 1,
    }
    at = "2026-02-14T20:15:00.000Z"
    gareth = {
        "type": "character",
        "number": 1,
        "ordinal": 1,
        "id": "gareth",
        "name": "Gareth",
        "createdAt": at,
        "updatedAt": at,
        "revision": 1,
        "lastEntry": 16_777_216,
    }
    content = "".join(compact(each) for each in (first, gareth))
    digest = hashlib.sha256(content.encode()).hexdigest()
    return content + compact({"type": "end", "count": 2, "sha256": digest})


LINES = {"content-type": "application/x-ndjson"}
TRANSFER = [
    Step("GET", "/export"),
    Step("GET", "/export", query="?chatId=nowhere", status=404),
    Step(
        "GET",
        "/export",
        query="?instanceId=seraphina-1&format=csv",
        title="The values of one instance, for a spreadsheet.",
    ),
    Step("POST", "/import", text=exported_file(), headers=LINES, status=409),
    Step("POST", "/import", text="hello", headers=LINES, status=400),
    Step(
        "POST",
        "/import",
        text=exported_file(),
        headers=LINES,
        query="?mode=merge&dryRun=true",
        title="What would become of a file with one character?",
    ),
]

SAFETY = [
    Step("POST", "/verify", status=202, title="Is all of it sound?", keep="job"),
    Step(
        "GET",
        "/jobs/{job}",
        title="The verification has ended.",
        fill={"job": "{job}"},
        until_without='"running"',
    ),
    Step("GET", "/jobs/{job}", status=404, fill={"job": "nothing"}),
    Step("POST", "/register", {"extensionId": "quests"}),
    Step("POST", "/backup", status=202, title="All extensions are backed up.", keep="job"),
    Step("GET", "/jobs/{job}", fill={"job": "{job}"}, until_without='"running"'),
    Step("GET", "/backup", title="The backups, the newest first.", keep="backup"),
    Step(
        "POST",
        "/backup/{backup}/verify",
        status=202,
        title="Is the backup still what it was?",
        fill={"backup": "{backup}"},
        keep="job",
    ),
    Step("GET", "/jobs/{job}", fill={"job": "{job}"}, until_without='"running"'),
    Step(
        "POST",
        "/backup/{backup}/restore",
        {"extensionId": "quests", "force": True},
        status=202,
        title="One extension is as it was again.",
        fill={"backup": "{backup}"},
        keep="job",
    ),
    Step("GET", "/jobs/{job}", fill={"job": "{job}"}, until_without='"running"'),
    Step("DELETE", "/register", {"extensionId": "quests", "purge": True}),
    Step("POST", "/backup/{backup}/restore", {}, status=409, fill={"backup": "{backup}"}),
    Step(
        "POST",
        "/backup/{backup}/restore",
        {"extensionId": "nobody"},
        status=404,
        fill={"backup": "{backup}"},
    ),
    Step(
        "DELETE",
        "/backup/{backup}",
        title="The backup is not needed any more.",
        fill={"backup": "{backup}"},
    ),
    Step("DELETE", "/backup/{backup}", status=404, fill={"backup": "nothing"}),
]

ENDING = [
    Step(
        "PUT",
        DATA + "/override",
        {"hp": 85, "mood": "tired", "outfit": {"top": "cloak"}},
        title="These are all the keys that Seraphina has from now on.",
    ),
    Step("PUT", DATA + "/remove", {"keys": ["mood", "absent"]}, title="Her mood is removed."),
    Step("DELETE", DATA + "/{key}", title="Her hp is removed."),
    Step("DELETE", DATA + "/{key}", status=404),
    Step("DELETE", DATA, title="All her values are removed."),
    Step("DELETE", "/instances/{instance}", title="She leaves this chat."),
    Step("DELETE", "/instances/{instance}", status=404),
    Step("GET", "/instances/{instance}", status=404),
    Step("POST", DATA, {"key": "hp", "value": 1}, status=404),
    Step("DELETE", "/characters/{character}/instances", title="No instance of her is left."),
    Step("DELETE", "/characters/{character}", title="She leaves for good."),
    Step(
        "POST",
        "/instances/{instance}/restore",
        {"revision": 10},
        title="She comes back as she was at revision 10.",
    ),
    Step("POST", "/instances/{instance}/restore", {"revision": 1}, status=404),
    Step(
        "POST",
        "/characters/{character}/restore",
        {"revision": 10},
        title="Her other instances come back, too.",
    ),
    Step("GET", "/characters/{character}"),
    Step(
        "POST",
        "/compact",
        {"keep": {"revisions": 3}},
        title="The last three revisions stay readable, and all since the checkpoint of 28.",
    ),
    Step("POST", "/compact", {"keep": {}}, status=400),
    Step("GET", DATA, query="?at=2", status=410),
    Step(
        "DELETE",
        "/register",
        {"extensionId": "story-stats", "purge": True},
        title="The extension is uninstalled, with its data.",
    ),
    Step("GET", ACROSS + "/characters/{extension}", status=404),
    Step("GET", "/extensions/{extension}", status=404),
]

TEMPLATES = [
    Step(
        "POST",
        "/render",
        {
            "template": "Seraphina has {{vt::Seraphina.hp}} hp and {{vt::gold::no}} gold.",
            "chatId": "Seraphina - first date",
        },
        title="A text with values of a chat.",
    ),
    Step("POST", "/render", {"template": "{{vt::hp}}", "instanceId": "seraphina-1"}),
    Step("POST", "/render", {"template": "{{vt::hp}}"}, status=400),
    Step("POST", "/render", {"template": "{{vt::hp}}", "chatId": "nowhere"}, status=404),
    Step("POST", "/render", {"template": "{{vt::hp}}", "instanceId": "nobody"}, status=404),
]

# The last steps: from the first token on every request needs one.
WITH_TOKEN = {"authorization": "Bearer {token}"}
TOKENS = [
    Step("GET", "/tokens"),
    Step("POST", "/tokens", {"name": "phone"}, status=400),
    Step("POST", "/tokens", {"name": "phone", "extensions": ["story-stats"]}, status=409),
    Step(
        "POST",
        "/tokens",
        {"name": "me", "admin": True},
        title="A token for yourself. From now on every client needs one.",
        keep="token",
    ),
    Step("GET", "/tokens", status=401),
    Step(
        "GET",
        "/tokens",
        title="Who may use the server?",
        headers=WITH_TOKEN,
        keep="tokenId",
    ),
    Step("DELETE", "/tokens/{token}", status=404, headers=WITH_TOKEN, fill={"token": "nothing"}),
    Step(
        "DELETE",
        "/tokens/{token}",
        title="The token is not needed any more.",
        headers=WITH_TOKEN,
        fill={"token": "{tokenId}"},
    ),
]

WALK = [
    *SERVER,
    *REGISTERING,
    *CHARACTERS,
    *VALUES,
    *PAST,
    *OTHERS,
    *CHATS,
    *TEMPLATES,
    *SILLYTAVERN,
    *ONE_KEY,
    *TRANSFER,
    *SAFETY,
    *ENDING,
    *TOKENS,
]
