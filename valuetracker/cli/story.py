"""
The story of `valuetracker demo`: 500 messages of three travellers on a long road.

`write_story` sends the requests that extensions would send while somebody plays. All ids are
fixed, chance is a sequence of numbers that is always the same, and the clock stands still until
the story moves it: so the story is the same to the byte, wherever it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

import httpx

from valuetracker.clock import Clock

MESSAGES = 500
BEGINNING_MS = 1_767_297_600_000  # 2026-01-01T20:00:00Z
MINUTE_MS = 60_000

ROAD = "The Long Road - 2026-01-01@20h00m00s"
CAVE = "The Long Road - Branch #1"
FEAST = "The Long Road - Branch #2"
INN = "Nights at the Gilded Boar"
OLD = "First steps"

HEROES = {
    "Seraphina.png": ("seraphina-road", "Seraphina"),
    "Bram.png": ("bram-road", "Bram the Smith"),
    "Ysolde.png": ("ysolde-road", "Ysolde"),
}
WORLD = ("world.json", "eldergrove", "Eldergrove")

PLACES = ("Eldergrove", "the old mill", "Ravenfen", "the salt road", "Highmoor", "the Gilded Boar")
MOODS = ("calm", "curious", "wary", "cheerful", "weary", "determined")
OUTFITS = ("a travelling cloak", "a linen dress", "leather armour", "a borrowed coat")
THINGS = ("rope", "lantern", "healing herbs", "silver key", "map", "bread", "flint", "letter")
WEATHER = ("clear", "rain", "fog", "snow", "wind")


class StoryClock(Clock):
    """A clock that stands still until the story moves it."""

    def __init__(self) -> None:
        self.now_ms = BEGINNING_MS
        super().__init__(lambda: self.now_ms, lambda: self.now_ms - BEGINNING_MS)

    def pass_minutes(self, minutes: int) -> None:
        self.now_ms += minutes * MINUTE_MS


@dataclass
class Chat:
    """One chat as it is played: its visible messages, each with its swipe."""

    id: str
    heroes: dict[str, str]
    chain: list[tuple[str, str]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/chats/{quote(self.id, safe='')}"


class Storyteller:
    """Plays chats of one extension."""

    def __init__(self, client: httpx.Client, clock: StoryClock) -> None:
        self._client = client
        self._clock = clock
        # Only `random` gives the same numbers in every version of Python.
        self._random = Random(20260101).random

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._client.request(method, path, json=body, headers=named)
        answer.raise_for_status()
        return answer.json()

    def chance(self, among: int) -> int:
        """Return a number below `among`."""
        return int(self._random() * among)

    def one_of(self, things: tuple[str, ...]) -> str:
        return things[self.chance(len(things))]

    # Messages

    def play(self, chat: Chat, count: int) -> None:
        """Play some messages; some are swiped, few are deleted again."""
        for _ in range(count):
            number = len(chat.chain) + 1
            message = f"{'r' if chat.id == ROAD else chat.id[-1]}{number:03d}"
            self._clock.pass_minutes(1 + self.chance(4))
            self.say(chat, message, "0")
            chat.chain.append((message, "0"))
            if number % 9 == 4:
                self.swipe(chat, 1 + self.chance(2))
            if number % 97 == 60:
                self.delete_last(chat)
            if number % 25 == 0:
                self.tell_recap(chat, message)

    def say(self, chat: Chat, message: str, swipe: str) -> None:
        """Write what one message changes, as one revision."""
        hero = list(chat.heroes.values())[self.chance(len(chat.heroes))]
        operations: list[dict[str, Any]] = [
            {"op": "increment", "key": "messages", "by": 1},
            {"op": "increment", "instanceId": hero, "key": "hp", "by": self.chance(9) - 4},
        ]
        turn = self.chance(10)
        if turn < 3:
            operations += self.moods(hero)
        elif turn < 5:
            operations += self.finds(hero)
        elif turn < 6:
            operations.append({"op": "set", "key": "weather", "value": self.one_of(WEATHER)})
            operations.append({"op": "set", "key": "scene", "value": self.scene()})
        elif turn < 7:
            value = {"stage": self.chance(5), "giver": self.one_of(tuple(chat.heroes))}
            operations.append({"op": "merge", "key": "quest", "value": value})
        elif turn < 8:
            outfit = self.one_of(OUTFITS)
            operations.append({"op": "set", "instanceId": hero, "key": "outfit", "value": outfit})
        anchor = {"messageId": message, "swipe": swipe}
        for operation in operations:
            operation["anchor"] = anchor
        actor = "user" if turn == 9 else "extension"
        self.send("POST", f"{chat.path}/batch", {"operations": operations}, x_actor=actor)

    def moods(self, hero: str) -> list[dict[str, Any]]:
        mood, by = self.one_of(MOODS), self.chance(7) - 3
        return [
            {"op": "set", "instanceId": hero, "key": "mood", "value": mood},
            {"op": "increment", "instanceId": hero, "key": "affection", "by": by},
        ]

    def finds(self, hero: str) -> list[dict[str, Any]]:
        thing, lost = self.one_of(THINGS), self.one_of(THINGS)
        return [
            {"op": "addToSet", "instanceId": hero, "key": "inventory", "value": thing},
            {"op": "pull", "instanceId": hero, "key": "inventory", "value": lost},
        ]

    def scene(self) -> dict[str, Any]:
        return {"place": self.one_of(PLACES), "light": self.chance(11) / 10, "indoors": False}

    def swipe(self, chat: Chat, times: int) -> None:
        """Swipe the last message; each swipe changes other values."""
        message, _ = chat.chain[-1]
        for number in range(1, times + 1):
            self._clock.pass_minutes(1)
            chat.chain[-1] = (message, str(number))
            self.reconcile(chat)
            self.say(chat, message, str(number))
        if self.chance(3) == 0:
            chat.chain[-1] = (message, "0")
            self.reconcile(chat)

    def delete_last(self, chat: Chat) -> None:
        """Delete the last message, and say another one in its place."""
        message, _ = chat.chain.pop()
        self.reconcile(chat)
        self._clock.pass_minutes(1)
        again = f"{message}-again"
        self.say(chat, again, "0")
        chat.chain.append((again, "0"))

    def reconcile(self, chat: Chat) -> None:
        anchors = [{"messageId": message, "swipe": swipe} for message, swipe in chat.chain]
        self.send("POST", f"{chat.path}/reconcile", {"anchors": anchors})

    def tell_recap(self, chat: Chat, message: str) -> None:
        """Summarise the last 25 messages: a version of a series, and their ids as processed."""
        body = {
            "content": f"After {len(chat.chain)} messages the travellers reach "
            f"{self.one_of(PLACES)}, and the weather is {self.one_of(WEATHER)}.",
            "upTo": message,
        }
        self.send("POST", f"{chat.path}/series/recap", body, x_message_id=message)
        ids = [id for id, _ in chat.chain[-25:]]
        self.send("POST", f"{chat.path}/processed/summarised", {"ids": ids}, x_message_id=message)

    # Chats, characters, and what is not a message

    def begin(self) -> Chat:
        for character, (instance, name) in HEROES.items():
            self.send("POST", "/characters", {"id": character, "name": name})
            self.bind(instance, character, ROAD, "On the road")
            start = {"hp": 40, "affection": 0, "mood": "calm", "inventory": ["map"]}
            self.send("PUT", f"/instances/{instance}/data/merge", start)
        character, instance, name = WORLD
        self.send("POST", "/characters", {"id": character, "name": name})
        self.send("POST", "/instances", {"id": instance, "characterId": character, "name": name})
        lore = {
            "population": 412,
            "founded": "in the year of the two moons",
            "stars": 18_446_744_073_709_551_615,
            "seasons": {"winter": {"days": 96, "cold": True}, "summer": {"days": 88}},
            "motto": "Ubi silva, ibi vita — где лес, там жизнь 🌲",
            "ruler": None,
        }
        self.send("PUT", f"/instances/{instance}/data/merge", lore)
        chat = Chat(ROAD, {name: instance for name, (instance, _) in HEROES.items()})
        data = {"day": 1, "weather": "clear", "quest": {"title": "The silver key"}, "messages": 0}
        self.send("PUT", f"{chat.path}/data/merge", data)
        return chat

    def bind(self, instance: str, character: str, chat: str, name: str) -> None:
        body = {"id": instance, "characterId": character, "chatId": chat, "name": name}
        self.send("POST", "/instances", body)

    def checkpoint(self, chat: Chat, name: str, message: str | None = None) -> None:
        body: dict[str, Any] = {"name": name, "meta": {"by": "demo"}}
        if message is not None:
            body["messageId"] = message
        body["capture"] = [{"key": "quest", "fields": ["stage"]}]
        self.send("POST", f"{chat.path}/checkpoints", body)

    def branch(self, chat: Chat, id: str, begins: dict[str, Any], length: int) -> Chat:
        """Branch a chat; its chain is the beginning of the parent's."""
        body = {"chatId": id, "from": begins}
        answer = self.send("POST", f"{chat.path}/branches", body)
        heroes = {name: answer["instances"][old] for name, old in chat.heroes.items()}
        return Chat(id, heroes, chat.chain[:length])

    def work(self, chat: Chat) -> None:
        """Queue operations: two that have ended, one that failed, one that waits."""
        path = f"{chat.path}/operations"
        for id, kind in (
            ("op-recap-1", "recap"),
            ("op-recap-2", "recap"),
            ("op-portrait", "portrait"),
            ("op-lorebook", "lorebook"),
        ):
            self._clock.pass_minutes(1)
            self.send("POST", path, {"id": id, "type": kind, "data": {"about": chat.id}})
        self.send("POST", f"{path}/op-recap-1/complete", {"data": {"words": 212}})
        self.send("POST", f"{path}/op-recap-2/complete", {"data": {"words": 187}})
        self.send("POST", f"{path}/op-portrait/fail", {"data": {"why": "the model is away"}})


def write_story(client: httpx.Client, clock: StoryClock) -> None:
    """Play the whole story into an extension that is empty; the client names the extension."""
    teller = Storyteller(client, clock)
    road = teller.begin()
    teller.play(road, 60)
    teller.checkpoint(road, "The silver key is found")
    teller.play(road, 140)
    teller.checkpoint(road, "Before the cave")
    teller.checkpoint(road, "At the old mill", road.chain[119][0])
    cave = teller.branch(road, CAVE, {"checkpoint": "Before the cave"}, 200)
    teller.play(cave, 30)
    teller.play(road, 100)
    # A person undoes what the last evening did to one value.
    history = teller.send("GET", "/instances/seraphina-road/history?key=mood&limit=2")
    revision = history["items"][-1]["revision"]
    teller.send("POST", "/instances/seraphina-road/data/mood/restore", {"revision": revision})
    teller.play(road, 100)
    feast = teller.branch(road, FEAST, {"messageId": road.chain[299][0]}, 300)
    teller.play(feast, 20)
    teller.play(road, MESSAGES - len(road.chain))
    teller.checkpoint(road, "The feast")
    teller.bind("bram-inn", "Bram.png", INN, "At the inn")
    inn = Chat(INN, {"Bram.png": "bram-inn"})
    teller.play(inn, 15)
    teller.send("PUT", f"/chats/{quote(OLD, safe='')}/data/merge", {"weather": "fog"})
    teller.send("DELETE", f"/chats/{quote(OLD, safe='')}")
    teller.send("POST", "/characters", {"id": "Crow.png", "name": "A crow"})
    teller.send("DELETE", "/characters/Crow.png")
    teller.work(road)
