"""
The middle of the story: the chat "Seraphina - first date".

A wolf attacks in message m-2. The player swipes to a telling without the wolf, and back. A
recap is written as an operation. The checkpoint "duel" is made, used and deleted. A branch
asks "what if".
"""

from __future__ import annotations

from tests.support.walk.steps import Step

CHAT = "/chats/{chat}"
DATA = CHAT + "/data"
SERIES = CHAT + "/series/{series}"
SCENES = CHAT + "/processed/{set}"
WORK = CHAT + "/operations"
JOB = WORK + "/{operation}"
CHECKPOINT = CHAT + "/checkpoints/{checkpoint}"
ACROSS = "/cross-extension/chats/{extension}"

SESSION = {"x-session": "{session}"}
WOLF = [
    {"op": "increment", "instanceId": "seraphina-1", "key": "hp", "by": -15},
    {"op": "set", "instanceId": "seraphina-1", "key": "mood", "value": "frightened"},
    {"op": "set", "key": "location", "value": "forest path"},
]
FIRST = {"messageId": "m-1", "swipe": 0}
WITH_WOLF = [FIRST, {"messageId": "m-2", "swipe": 0}]
WITHOUT_WOLF = [FIRST, {"messageId": "m-2", "swipe": 1}]

OPENING = [
    Step(
        "POST",
        CHAT + "/open",
        {"client": "tab-1", "defaults": {"location": "glade", "affinity": 10}},
        title="The player opens the chat. `defaults` sets the keys that the chat does not have.",
        keep="session",
    ),
    Step("POST", CHAT + "/open", {}, status=400),
    Step("GET", "/chats", title="There is one chat."),
    Step("GET", "/chats", query="?limit=1"),
    Step("GET", CHAT, title="The chat itself, without what it holds."),
    Step("GET", CHAT, fill={"chat": "never heard of"}),
    Step(
        "POST",
        DATA,
        {"key": "affinity", "value": 12},
        title="Seraphina likes the player's greeting, which is message m-1.",
        headers={**SESSION, "x-message-id": "m-1"},
    ),
    Step("PUT", DATA, {"key": "weather", "value": {"sky": "clear", "wind": "calm"}}),
    Step("GET", DATA, title="All values of the chat itself."),
    Step("GET", DATA + "/{key}", title="One value of the chat.", fill={"key": "affinity"}),
    Step(
        "PATCH",
        DATA,
        {"weather": {"sky": "cloudy", "wind": None}},
        title="Clouds come up. A merge patch changes a part of a value; null removes a field.",
    ),
    Step(
        "PUT",
        DATA + "/merge",
        {"time": "dusk", "affinity": 13},
        title="Two keys are set and the others stay.",
    ),
    Step(
        "PUT",
        DATA + "/override",
        {"location": "glade", "affinity": 13, "time": "dusk", "draft": True},
        title="These are all the keys that the chat has from now on.",
    ),
    Step("PUT", DATA + "/remove", {"keys": ["draft", "absent"]}, title="The draft is removed."),
]

SWIPES = [
    Step(
        "POST",
        CHAT + "/batch",
        {"operations": WOLF},
        title="A wolf attacks in message m-2: all of it is one revision, anchored to that message.",
        headers={**SESSION, "x-message-id": "m-2"},
    ),
    Step("POST", CHAT + "/batch", {"operations": []}, status=400),
    Step(
        "POST",
        CHAT + "/reconcile",
        {"anchors": WITHOUT_WOLF},
        title="The player swipes m-2 to a telling without the wolf: hp, mood and location go back.",
    ),
    Step(
        "POST",
        CHAT + "/reconcile",
        {"anchors": WITH_WOLF, "dryRun": True},
        title="A dry run says what the first telling would bring back.",
    ),
    Step("POST", CHAT + "/reconcile", {"anchors": [FIRST, FIRST]}, status=400),
    Step(
        "POST",
        DATA,
        {"key": "location", "value": "cave"},
        title="A late write to the telling that is hidden now is kept without effect.",
        headers={"x-message-id": "m-2", "x-swipe-id": "0"},
    ),
    Step("POST", CHAT + "/reconcile", {"anchors": WITH_WOLF}),
]

NOTES = [
    Step(
        "POST",
        SERIES,
        {"content": "They met in the glade.", "tone": "warm"},
        status=201,
        title="The first recap of the chat. `tone` is kept with the version.",
    ),
    Step("POST", SERIES, {"content": ["They met.", "A wolf came."]}, status=201),
    Step("POST", SERIES, {"tone": "dry"}, status=400),
    Step("GET", SERIES, title="All versions of the recap."),
    Step("GET", SERIES + "/current", title="The version that is current."),
    Step("GET", SERIES + "/{version}", title="The first version."),
    Step("PUT", SERIES + "/current", {"version": 1}, title="The first version is the better one."),
    Step("PUT", SERIES + "/current", {"version": 7}, status=404),
    Step(
        "DELETE",
        SERIES + "/{version}",
        title="The second version is removed.",
        fill={"version": "2"},
    ),
    Step("GET", SERIES + "/{version}", status=404, fill={"version": "2"}),
    Step(
        "POST",
        SCENES,
        {"ids": ["m-1", "m-2"]},
        title="Two messages are to be processed once; this caller got both.",
    ),
    Step("POST", SCENES, {"ids": ["m-2", "m-3"], "leaseMs": 60_000}),
    Step("POST", SCENES, {"ids": []}, status=400),
    Step("GET", SCENES, title="m-3 is claimed and not confirmed, so it is not listed."),
    Step("GET", SCENES + "/{id}", title="m-1 has been processed."),
    Step("GET", SERIES, query="?at=message:m-2"),
    Step("GET", SCENES, query="?at=20"),
    Step("PUT", SCENES + "/{id}", title="The claim of m-3 is confirmed.", fill={"id": "m-3"}),
]

READING = [
    Step("GET", CHAT + "/state", title="All that the chat holds, in one request."),
    Step("GET", CHAT + "/state", query="?at=message:m-1"),
    Step("GET", CHAT + "/state", query="?at=message:m-9", status=404),
    Step("GET", CHAT + "/state", query="?at=22"),
    Step(
        "GET",
        CHAT + "/history",
        title="The last two changes of the chat's `location`.",
        query="?key=location&limit=2",
    ),
    Step("GET", CHAT + "/history"),
    Step("GET", CHAT + "/history", query="?limit=3&order=asc"),
    Step("GET", CHAT + "/diff", title="The attack left these differences.", query="?from=18&to=19"),
    Step("GET", "/changes", query="?since=20&chatId=Seraphina%20-%20first%20date"),
    Step("GET", ACROSS, title="Another extension lists our chats."),
    Step("GET", ACROSS + "/{chat}", title="Another extension reads one of our chats."),
    Step("GET", ACROSS + "/{chat}/state", title="Another extension reads all that a chat holds."),
    Step("GET", ACROSS + "/{chat}/data", title="Another extension reads the values of a chat."),
    Step(
        "GET",
        ACROSS + "/{chat}/data/{key}",
        title="Another extension reads one value of a chat.",
        fill={"key": "affinity"},
    ),
    Step(
        "GET",
        ACROSS + "/{chat}/history",
        title="Another extension reads the last change of a chat.",
        query="?limit=1",
    ),
    Step(
        "GET",
        ACROSS + "/{chat}/diff",
        title="Another extension compares two revisions of a chat.",
        query="?from=18&to=19",
    ),
]

OPERATIONS = [
    Step(
        "POST",
        CHAT + "/checkpoints",
        {
            "name": "duel",
            "meta": {"note": "before the duel"},
            "expect": {"series": ["recap"], "messageCount": 2},
            "capture": [{"key": "hp", "instanceId": "seraphina-1"}],
        },
        status=201,
        title="The player names this state, to come back to it.",
    ),
    Step(
        "POST",
        WORK,
        {"id": "recap-1", "type": "recap", "data": {"upTo": "m-2"}, "priority": 2},
        title="A recap is to be written by whoever has time.",
    ),
    Step("POST", WORK, {"id": "recap-1", "type": "recap"}, status=409),
    Step("POST", WORK, {"type": 5}, status=400),
    Step("POST", WORK, {"id": "portrait-1", "type": "portrait"}),
    Step("POST", WORK, {"id": "voice-1", "type": "voice"}),
    Step("POST", WORK, {"id": "map-1", "type": "map"}),
    Step(
        "POST",
        WORK,
        {
            "id": "frame-1",
            "type": "frame",
            "dependsOn": ["portrait-1"],
            "maxAttempts": 3,
            "retryAfterMs": 5_000,
            "ifAbsent": True,
        },
        title="A frame is to be drawn when the portrait of message m-2 is painted.",
        headers={"x-message-id": "m-2"},
    ),
    Step("POST", WORK, {"type": "frame", "dependsOn": ["never heard of"]}, status=404),
    Step(
        "POST",
        WORK,
        {"type": "recap"},
        status=409,
        headers={"x-message-id": "m-2", "x-swipe-id": "1"},
    ),
    Step("GET", WORK, title="Which operations wait?", query="?status=pending"),
    Step("GET", WORK),
    Step("GET", WORK, query="?status=done", status=400),
    Step("GET", JOB, title="The recap waits."),
    Step("POST", WORK + "/pause", title="The player wants no work to begin for now."),
    Step("POST", WORK + "/claim", {"leaseMs": 60_000}, status=204),
    Step("POST", WORK + "/resume", title="Work may begin again."),
    Step("POST", WORK + "/claim", {"leaseMs": 60_000, "types": []}, status=400),
    Step(
        "POST",
        WORK + "/claim",
        {"leaseMs": 60_000, "types": ["recap", "summary"]},
        title="A worker that writes recaps takes the one of the highest priority for a minute.",
        keep="claim",
    ),
    Step(
        "POST",
        JOB + "/renew",
        {"leaseMs": 120_000, "claim": "{claim}"},
        title="The worker needs two minutes more.",
    ),
    Step("POST", JOB + "/renew", {"leaseMs": 120_000}, status=409),
    Step(
        "PATCH",
        JOB,
        {"stage": "writing", "data": {"words": 40}, "claim": "{claim}"},
        title="The worker tells how far it is.",
    ),
    Step("PATCH", JOB, {"stage": "writing", "claim": "not mine"}, status=409),
    Step("POST", CHAT + "/checkpoints", {"name": "dawn"}, status=409),
    Step(
        "POST",
        CHAT + "/checkpoints",
        {"name": "dawn", "whenReady": True},
        status=202,
        title="While operations are active, a checkpoint can wait for them.",
    ),
    Step("POST", CHECKPOINT + "/validate", status=409, fill={"checkpoint": "dawn"}),
    Step(
        "POST",
        JOB + "/complete",
        {"claim": "{claim}", "data": {"version": 1}},
        title="The recap is written.",
    ),
    Step("POST", JOB + "/complete", status=409),
    Step(
        "POST",
        JOB + "/fail",
        {"data": {"reason": "The image model is away."}},
        title="The portrait could not be painted.",
        fill={"operation": "portrait-1"},
    ),
    Step("POST", JOB + "/fail", status=409),
    Step(
        "POST",
        JOB + "/retry",
        title="The image model is back; the portrait is tried once more.",
        fill={"operation": "portrait-1"},
    ),
    Step("POST", JOB + "/retry", status=409),
    Step(
        "POST",
        JOB + "/cancel",
        title="The player does not want a voice any more.",
        fill={"operation": "voice-1"},
    ),
    Step("POST", JOB + "/cancel", status=409),
    Step(
        "DELETE",
        JOB,
        title="The list need not show the voice any longer.",
        fill={"operation": "voice-1"},
    ),
    Step("DELETE", JOB, status=404, fill={"operation": "voice-1"}),
    Step(
        "POST",
        WORK + "/cleanup",
        {"maxAgeMs": 0},
        title="Everything that is still active is removed, however young it is.",
    ),
    Step("POST", WORK + "/cleanup"),
    Step(
        "POST",
        WORK + "/claim",
        {"leaseMs": 60_000},
        status=204,
        title="Nothing waits any more.",
    ),
]

CHECKPOINTS = [
    Step("GET", CHAT + "/checkpoints", title="The checkpoints of the chat."),
    Step("GET", CHECKPOINT, title="The checkpoint with the state it records."),
    Step("GET", CHECKPOINT + "/state", title="All that the chat held at the checkpoint."),
    Step(
        "POST",
        CHECKPOINT + "/validate",
        {"actual": {"messageCount": 3, "series": {"recap": 1}}},
        title="The checkpoint agrees with the log; the chat has one message more than then.",
    ),
    Step("POST", CHECKPOINT + "/validate", {"actual": {"series": {"recap": 2}}}),
    Step(
        "POST",
        CHAT + "/branches",
        {
            "chatId": "Seraphina - forced",
            "from": {"checkpoint": "duel"},
            "actual": {"series": {"recap": 2}},
        },
        status=409,
    ),
    Step(
        "POST",
        CHAT + "/branches",
        {"chatId": "Seraphina - what if", "from": {"messageId": "m-1"}},
        status=201,
        title="What if the wolf had never come? The branch begins after message m-1.",
    ),
    Step("POST", CHAT + "/branches", {"chatId": "Seraphina - what if"}, status=409),
    Step("GET", CHAT + "/lineage", title="The chat has one branch."),
    Step(
        "POST",
        CHAT + "/validate",
        {"actual": {"series": {"recap": None}}},
        title="The branch began as it was recorded, but its author finds a recap missing.",
        fill={"chat": "Seraphina - what if"},
    ),
    Step("POST", CHAT + "/validate"),
    Step("POST", DATA, {"key": "affinity", "value": 3}),
    Step("GET", CHECKPOINT + "/diff", title="The duel went badly: affinity fell to 3."),
    Step("POST", CHECKPOINT + "/restore", {"dryRun": True}),
    Step(
        "POST",
        CHECKPOINT + "/restore",
        title="The player goes back to the state before the duel.",
    ),
    Step("DELETE", CHECKPOINT, title="The checkpoint is not needed any more."),
    Step("DELETE", CHECKPOINT, status=404),
]

CLOSING = [
    Step("DELETE", SCENES + "/{id}", title="m-3 is to be processed again.", fill={"id": "m-3"}),
    Step("DELETE", SCENES + "/{id}", status=404, fill={"id": "m-3"}),
    Step("DELETE", SERIES, title="All recaps are removed."),
    Step(
        "POST",
        CHAT + "/restore",
        {"revision": 18},
        title="The chat goes back to the moment before the wolf.",
    ),
    Step("DELETE", DATA + "/{key}", title="The time of day is removed.", fill={"key": "time"}),
    Step("DELETE", DATA, title="All values of the chat itself are removed."),
    Step(
        "PATCH",
        CHAT,
        {"chatId": "Seraphina - the first date"},
        title="The player renames the chat; the old id still finds it.",
    ),
    Step("PATCH", CHAT, {"chatId": "Seraphina - first date"}),
    Step(
        "DELETE",
        CHAT,
        title="The branch is archived. Opening it again brings it back.",
        fill={"chat": "Seraphina - what if"},
    ),
    Step(
        "POST",
        DATA,
        {"key": "affinity", "value": 1},
        status=409,
        fill={"chat": "Seraphina - what if"},
    ),
    Step(
        "POST",
        CHAT + "/open",
        {"client": "tab-1", "defaults": {"affinity": 1, "sky": 2}},
        fill={"chat": "Seraphina - what if"},
    ),
    # The tab has another chat open now.
    Step("POST", DATA, {"key": "affinity", "value": 1}, status=409, headers=SESSION),
]

CHATS = [*OPENING, *SWIPES, *NOTES, *READING, *OPERATIONS, *CHECKPOINTS, *CLOSING]
