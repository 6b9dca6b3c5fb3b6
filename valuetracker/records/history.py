"""
Records of changes: the history, differences between two revisions, the feed.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from valuetracker.records.chats import ChangedValue


class Anchor(TypedDict):
    """The message and swipe that a change was made at."""

    messageId: str
    swipe: str


class HistoryItem(TypedDict):
    """One change: `before` and `after` are absent where the key did not exist."""

    revision: int
    at: str
    actor: str
    instanceId: str | None
    key: str | None
    op: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    value: NotRequired[Any]
    anchor: Anchor | None
    live: bool
    superseded: NotRequired[bool]
    space: NotRequired[str]
    characterId: NotRequired[str | None]
    chatId: NotRequired[str | None]


class History(TypedDict):
    """A page of changes; `next` is passed back as `cursor`, null on the last page."""

    items: list[HistoryItem]
    next: str | None


class Difference(TypedDict):
    """One key that differs; `before` or `after` is absent where the key did not exist."""

    key: str
    before: NotRequired[Any]
    after: NotRequired[Any]
    # Between two revisions of a chat: the instance of the key; null for a key of the chat.
    instanceId: NotRequired[str | None]
    space: NotRequired[str]


class Restored(TypedDict):
    """The revision of the restore, and the values it changed; a dry run lists them."""

    revision: int
    changed: int
    warnings: list[str]
    changes: NotRequired[list[ChangedValue]]


class Compaction(TypedDict):
    """The oldest revision that can be read now, and the number of compacted changes."""

    oldest: int
    removed: int


class FeedChange(TypedDict):
    """One change of a revision; `after` is absent for removals and large values."""

    instanceId: str | None
    key: str | None
    op: str
    after: NotRequired[Any]
    value: NotRequired[Any]
    live: bool
    superseded: NotRequired[bool]
    chatId: str | None
    anchor: Anchor | None
    space: NotRequired[str]
    characterId: NotRequired[str | None]


class FeedEvent(TypedDict):
    """One revision: all changes of one request; a feed of several extensions says whose."""

    extensionId: NotRequired[str]
    revision: int
    at: str
    actor: str
    chatId: str | None
    anchor: Anchor | None
    changes: list[FeedChange]


class FeedPage(TypedDict):
    """Revisions in order; `next` is passed back as `since`."""

    items: list[FeedEvent]
    # Text once the database was restored: `12.2`.
    next: int | str


class JointPage(TypedDict):
    """
    Revisions of several extensions, those of each in order; `next` is passed back as `since`.

    `gone` names extensions that were deregistered; `next` no longer names them. `compacted` names
    those whose revisions after `since` are no longer in the log: `next` continues with their
    newest.
    """

    items: list[FeedEvent]
    next: str
    gone: list[str]
    compacted: list[str]
