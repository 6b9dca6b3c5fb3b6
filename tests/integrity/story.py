"""Fill a database with a story: swipes, a branch, renames, a folded log, many revisions."""

from __future__ import annotations

import httpx

from tests.support.answers import done
from tests.support.chat import Chat, Values

HERO, MULE, PACK = "hero", "mule", "pack"
MESSAGES = 8
# The revisions that past reads ask for.
REVISIONS = (40, 75, 110, 150)


def write_story(client: httpx.Client, name: str) -> None:
    """Write a chat with two instances and one outside it; more changes than one keyframe bounds."""
    chat = Chat(client, "chat")
    hero, mule = chat.instance(HERO, "character 0"), chat.instance(MULE, "character 1")
    for number in range(12):
        mule.set(f"load {number % 5}", f"{number} of {name}")
    assert client.post("/compact", json={"keep": {"revisions": 5}}).status_code == 200
    _write_messages(chat, hero)
    _write_outside_chats(client)
    chat.rename("other").rename("chat")
    _write_records(client, chat, name)
    branch = {"chatId": "branch", "from": {"messageId": "m3"}}
    assert chat.send("POST", "/branches", branch).status_code == 201
    Chat(client, "branch").reconcile("m0", "m1", "m2")
    chat.reconcile("m0", "m1", ("m2", "1"), "m3", "m4")
    hero.set("hp", 1, "m4")
    assert mule.restore(12)[0] == 200
    done(client.delete(f"/instances/{PACK}"))
    operation = {"id": "write", "type": "write", "data": {"of": name}}
    assert Chat(client, "branch").send("POST", "/operations", operation).status_code < 300
    _write_late(chat, hero, mule)
    _write_what_ends_by_the_clock(client, chat, name)


def _write_messages(chat: Chat, hero: Values) -> None:
    for number in range(MESSAGES):
        message = f"m{number}"
        for key in ("hp", "gold"):
            hero.set(key, {"of": message, "is": number * 7}, message)
        hero.increment("counter", number, message)
        chat.set("weather", f"rain {number}", message)
        chat.set(f"fact {number}", [number] * 9, message, "1")
        if number % 2:
            chat.reconcile(*(f"m{each}" for each in range(number)))
            hero.set("late", number, message)
            chat.reconcile(*(f"m{each}" for each in range(number + 1)))


def _write_late(chat: Chat, hero: Values, mule: Values) -> None:
    """Write at earlier messages, put messages into another order, and leave a chat."""
    hero.set("hp", "superseded", "m0")
    hero.increment("counter", 100, "m0")
    mule.set("load 1", "an edit")
    chat.reconcile("m1", "m0", ("m2", "1"), "m4", "m3")
    Chat(chat.client, "aside").instance(MULE, "character 1")
    mule.set("load 2", "far away", "m2")


def _write_outside_chats(client: httpx.Client) -> None:
    """Write an instance that belongs to no chat and moves from one character to another."""
    done(client.post("/instances", json={"id": PACK, "characterId": "character 1"}))
    for number in range(80):
        body = {"key": f"key {number % 7}", "value": number}
        done(client.post(f"/instances/{PACK}/data", json=body))
    done(client.post("/instances", json={"id": PACK, "characterId": "character 0"}))
    done(client.delete(f"/instances/{PACK}/data/key 3"))


def _write_records(client: httpx.Client, chat: Chat, name: str) -> None:
    assert chat.send("POST", "/checkpoints", {"name": "here"}).status_code == 201
    for number in range(3):
        chat.add_version("recap", f"{number} of {name}")
    chat.claim("scenes", "a", "b", "c")
    # Compaction keeps the changes a checkpoint of a message needs, so this checkpoint is made
    # in another chat.
    aside = Chat(client, "aside")
    for message in ("m1", "m2"):
        aside.set("weather", f"wind of {name}", message)
        aside.set("said", message)
    there = {"name": "there", "messageId": "m1"}
    assert aside.send("POST", "/checkpoints", there).status_code == 201


def _write_what_ends_by_the_clock(client: httpx.Client, chat: Chat, name: str) -> None:
    """Open a session, claim an id for a while, and send a request that can be repeated."""
    chat.session(f"tab of {name}")
    chat.claim("leased", "a", leaseMs=3_600_000)
    once = {"idempotency-key": f"once {name}"}
    done(client.post("/characters", json={"id": "character 0"}, headers=once))


def reads_of_story() -> list[str]:
    return [
        *_reads_now_and_then(),
        *(f"{each}?at={revision}" for revision in REVISIONS for each in _reads_now_and_then()),
        *(f"/changes?since={revision}&limit=15" for revision in REVISIONS),
        "/changes?since=20&limit=500&chatId=chat",
        *_reads_of_chats(),
        *_reads_of_instances(),
    ]


def _reads_now_and_then() -> list[str]:
    """Return the reads that are made of the present state and of past revisions."""
    return [
        *(f"/instances/{id}" for id in (HERO, MULE, PACK)),
        f"/instances/{HERO}/data/hp",
        "/characters/character 0",
        "/characters/character 1",
        "/chats/chat/state",
        "/chats/chat/data",
    ]


def _reads_of_chats() -> list[str]:
    return [
        "/chats",
        "/chats/other",
        "/chats/nowhere",
        "/chats/branch/state",
        "/chats/branch/state?at=message:m1",
        "/chats/chat/state?at=message:m1",
        "/chats/chat/state?at=message:m3",
        "/chats/chat/history?limit=40",
        "/chats/chat/history?limit=40&order=asc&after=60",
        "/chats/chat/history?key=weather",
        "/chats/chat/diff?from=60&to=150",
        "/chats/chat/lineage",
        "/chats/chat/checkpoints",
        "/chats/aside/checkpoints/there",
        "/chats/chat/checkpoints/nothing",
        "/chats/chat/checkpoints/here/diff",
        "/chats/aside/checkpoints/there/diff",
        "/chats/chat/series/recap",
        "/chats/chat/processed/scenes",
        "/chats/branch/processed/scenes",
        "/chats/branch/operations",
        "/chats/branch/operations/nothing",
    ]


def _reads_of_instances() -> list[str]:
    return [
        f"/instances/{HERO}/history?limit=30",
        f"/instances/{HERO}/history?key=hp",
        f"/instances/{HERO}/history?key=hp&order=asc&after=40",
        f"/instances/{HERO}/diff?from=70",
        f"/instances/{PACK}/history?key=key 3",
        f"/instances/{PACK}/history?limit=200&order=asc",
        f"/instances/{PACK}/diff?from=110&to=150",
    ]
