"""
Prompts that wait for a page to reply, and the latest session syncs. All of it in memory.

A page with the extension open asks for the next prompt, and its request stays open until there
is one. While no page asks, no session waits for a reply. DESIGN.md describes the page's side.
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
# A page asks again at once after an answer; it counts as listening for this long in between.
STILL_LISTENING_SECONDS = 3.0

Reply = Any


@dataclass
class UserPrompts:
    """The prompts of one user, and the pages of that user that wait for one."""

    # Prompts that no page has received yet.
    unsent: deque[Prompt] = field(default_factory=deque)
    # By prompt id: the session that waits for the reply.
    replies: dict[str, asyncio.Future[Reply]] = field(default_factory=dict)
    pages: deque[asyncio.Future[Prompt | None]] = field(default_factory=deque)
    last_asked: float = float("-inf")

    def is_listening(self, clock: float) -> bool:
        return bool(self.pages) or clock - self.last_asked < STILL_LISTENING_SECONDS

    def offer(self, prompt: Prompt) -> None:
        """Give a prompt to the page that has waited longest, or keep it for the next page."""
        while self.pages:
            page = self.pages.popleft()
            if not page.done():
                page.set_result(prompt)
                return
        self.unsent.append(prompt)

    def withdraw(self, id: str) -> None:
        self.replies.pop(id, None)
        self.unsent = deque(each for each in self.unsent if each["id"] != id)


def has_result(waiting: asyncio.Future[Any]) -> bool:
    """Return true if the result arrived at the same moment as the timeout or cancellation."""
    return waiting.done() and not waiting.cancelled()


class PromptBoard:
    """The prompts of all users."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._users: dict[str, UserPrompts] = {}
        self._recent: dict[str, deque[SyncSummary]] = {}
        self._ended = False

    async def ask(
        self, user: str, extension_id: str, context: dict[str, Any], seconds: float
    ) -> Reply:
        """Return the reply of a page within that time; None at once if no page is listening."""
        prompts = self._users.get(user)
        if prompts is None or self._ended or not prompts.is_listening(self._clock()):
            return None
        if len(prompts.replies) >= PROMPTS_PER_USER:
            return None
        id = secrets.token_hex(12)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        prompts.replies[id] = reply
        prompts.offer(
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
            return reply.result() if has_result(reply) else None
        finally:
            prompts.withdraw(id)

    async def next_prompt(self, user: str, seconds: float) -> Prompt | None:
        """Return the next prompt, which no other page receives; None if there is none in time."""
        prompts = self._users.setdefault(user, UserPrompts())
        if prompts.unsent:
            return prompts.unsent.popleft()
        if self._ended or not seconds:
            prompts.last_asked = self._clock()
            return None
        while len(prompts.pages) >= PAGES_PER_USER:
            oldest = prompts.pages.popleft()
            if not oldest.done():
                oldest.set_result(None)
        page: asyncio.Future[Prompt | None] = asyncio.get_running_loop().create_future()
        prompts.pages.append(page)
        try:
            async with asyncio.timeout(seconds):
                return await page
        except TimeoutError:
            return page.result() if has_result(page) else None
        except asyncio.CancelledError:
            # The page disconnected just when it was given a prompt: another page gets it.
            if has_result(page) and (prompt := page.result()) is not None:
                prompts.offer(prompt)
            raise
        finally:
            prompts.last_asked = self._clock()
            if page in prompts.pages:
                prompts.pages.remove(page)

    def listeners(self, user: str) -> int:
        """Return the number of pages that are waiting at this moment."""
        prompts = self._users.get(user)
        return len(prompts.pages) if prompts is not None else 0

    def reply(self, user: str, id: str, reply: Reply) -> None:
        """Pass a page's reply to the session that waits for it."""
        prompts = self._users.get(user)
        waiting = prompts.replies.pop(id, None) if prompts is not None else None
        if waiting is None or waiting.done():
            raise PromptNotFound()
        waiting.set_result(reply)

    def end(self) -> None:
        """Answer everything that waits with None: the server is about to stop."""
        self._ended = True
        for prompts in self._users.values():
            for waiting in (*prompts.pages, *prompts.replies.values()):
                if not waiting.done():
                    waiting.set_result(None)

    def add_sync(self, user: str, sync: SyncSummary) -> None:
        self._recent.setdefault(user, deque(maxlen=RECENT_SYNCS)).appendleft(sync)

    def recent_syncs(self, user: str) -> list[SyncSummary]:
        return list(self._recent.get(user, ()))
