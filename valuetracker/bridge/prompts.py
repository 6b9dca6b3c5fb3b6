"""
Where sessions wait for a page to reply, and what was synced lately. All of it in memory.

A page with the extension open asks for the next prompt and is kept waiting until there is
one. While nobody asks, nobody is waited for. DESIGN.md has the page's side of it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from valuetracker.bridge.records import Prompt, SyncSummary
from valuetracker.errors import PromptNotFound

PROMPTS_PER_USER = 16
PAGES_PER_USER = 16
RECENT_SYNCS = 50
# A page asks again at once; this is the time in between.
STILL_LISTENING_SECONDS = 3.0

Reply = Any


@dataclass
class Room:
    """What one user's pages wait for, and what waits for them."""

    unseen: deque[Prompt] = field(default_factory=deque)
    asked: dict[str, asyncio.Future[Reply]] = field(default_factory=dict)
    pages: deque[asyncio.Future[Prompt | None]] = field(default_factory=deque)
    last_asked: float = float("-inf")

    def is_listening(self, clock: float) -> bool:
        return bool(self.pages) or clock - self.last_asked < STILL_LISTENING_SECONDS

    def offer(self, prompt: Prompt) -> None:
        while self.pages:
            page = self.pages.popleft()
            if not page.done():
                page.set_result(prompt)
                return
        self.unseen.append(prompt)

    def withdraw(self, id: str) -> None:
        self.asked.pop(id, None)
        self.unseen = deque(each for each in self.unseen if each["id"] != id)


def is_settled(waiting: asyncio.Future[Any]) -> bool:
    """Whether it came at the very moment at which nobody was to wait any longer."""
    return waiting.done() and not waiting.cancelled()


class Desk:
    """The rooms of all users."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rooms: dict[str, Room] = {}
        self._recent: dict[str, deque[SyncSummary]] = {}
        self._ended = False

    async def ask(
        self, user: str, extension_id: str, context: dict[str, Any], seconds: float
    ) -> Reply:
        """What a page replies within that time; None at once if no page is listening."""
        room = self._rooms.get(user)
        if room is None or self._ended or not room.is_listening(self._clock()):
            return None
        if len(room.asked) >= PROMPTS_PER_USER:
            return None
        id = secrets.token_hex(12)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        room.asked[id] = reply
        room.offer(
            {
                "id": id,
                "extension_id": extension_id,
                "session_id": context["session_id"],
                "wait_ms": round(seconds * 1000),
                "context": context,
            }
        )
        try:
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            return reply.result() if is_settled(reply) else None
        finally:
            room.withdraw(id)

    async def next_prompt(self, user: str, seconds: float) -> Prompt | None:
        """The next session that waits for a reply, each given to one page."""
        room = self._rooms.setdefault(user, Room())
        if room.unseen:
            return room.unseen.popleft()
        if self._ended or not seconds:
            room.last_asked = self._clock()
            return None
        while len(room.pages) >= PAGES_PER_USER:
            oldest = room.pages.popleft()
            if not oldest.done():
                oldest.set_result(None)
        page: asyncio.Future[Prompt | None] = asyncio.get_running_loop().create_future()
        room.pages.append(page)
        try:
            async with asyncio.timeout(seconds):
                return await page
        except TimeoutError:
            return page.result() if is_settled(page) else None
        except asyncio.CancelledError:
            # The page hung up just when it was its turn.
            if is_settled(page) and (prompt := page.result()) is not None:
                room.offer(prompt)
            raise
        finally:
            room.last_asked = self._clock()
            if page in room.pages:
                room.pages.remove(page)

    def listeners(self, user: str) -> int:
        """How many pages are waiting at this moment."""
        room = self._rooms.get(user)
        return len(room.pages) if room is not None else 0

    def reply(self, user: str, id: str, reply: Reply) -> None:
        room = self._rooms.get(user)
        asked = room.asked.pop(id, None) if room is not None else None
        if asked is None or asked.done():
            raise PromptNotFound()
        asked.set_result(reply)

    def end(self) -> None:
        """Let all go: the server is about to stop."""
        self._ended = True
        for room in self._rooms.values():
            for waiting in (*room.pages, *room.asked.values()):
                if not waiting.done():
                    waiting.set_result(None)

    def note(self, user: str, sync: SyncSummary) -> None:
        self._recent.setdefault(user, deque(maxlen=RECENT_SYNCS)).appendleft(sync)

    def recent(self, user: str) -> list[SyncSummary]:
        return list(self._recent.get(user, ()))
