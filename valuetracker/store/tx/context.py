"""The context of a write: what a request says in its headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from valuetracker.store.rows.head import KnownRevision


@dataclass(slots=True, frozen=True)
class Anchor:
    """The place in a chat a change is made at: a message, and one of its swipes."""

    message_id: str
    swipe: str = "0"


@dataclass(slots=True, frozen=True)
class Context:
    """The headers of a writing request."""

    actor: str = "extension"
    anchor: Anchor | None = None
    # The chat the caller believes to be in, and the session it was given for one.
    chat_id: str | None = None
    session: str | None = None
    # The revision of `If-Match`.
    expected: KnownRevision | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""
    # True if the caller prefers an answer with the values as they are after the write.
    representation: bool = False

    @property
    def is_plain(self) -> bool:
        """True if it says nothing that a write has to look at."""
        return (
            self.anchor is None
            and self.chat_id is None
            and self.session is None
            and self.expected is None
        )


NO_CONTEXT = Context()

# Copies a lorebook again over the copy that this record describes, and returns the record of
# the new copy. SillyTavern's files are nothing the store knows: whoever makes the engine gives it.
RenewLorebook = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
