"""
Records of characters, instances and their values.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

# The values of one instance by key. Each is inserted as the JSON text that is stored.
Values = dict[str, Any]


class Character(TypedDict):
    """A character: the owner of instances and their values."""

    id: str
    name: str | None
    createdAt: str
    updatedAt: str


class Instance(TypedDict):
    """One tracked occurrence of a character: a run, a chat, a timeline."""

    id: str
    characterId: str
    name: str | None
    chatId: str | None
    createdAt: str
    updatedAt: str
    origin: NotRequired[str]


class CharacterPage(TypedDict):
    """A page of characters; `next` is passed back as `cursor`, null on the last page."""

    items: list[Character]
    next: str | None


class InstancePage(TypedDict):
    """A page of instances; `next` is passed back as `cursor`, null on the last page."""

    items: list[Instance]
    next: str | None


class FullInstance(TypedDict):
    """An instance with its values."""

    instance: Instance
    data: Values


class FullCharacter(TypedDict):
    """A character with all its instances and their values."""

    character: Character
    instances: list[FullInstance]


class ReplayConflict(TypedDict):
    """A change that no longer applies and was skipped."""

    instanceId: str | None
    key: str
    op: str
    revision: int
    reason: str
    space: NotRequired[str]


class Rendered(TypedDict):
    """A text in which macros were replaced, and the paths that have no value."""

    text: str
    missing: list[str]


class Success(TypedDict):
    """Confirmation that the request succeeded."""

    success: bool


class Changed(TypedDict):
    """Confirmation; `conflicts` lists later changes that no longer apply, if there are any."""

    success: bool
    conflicts: NotRequired[list[ReplayConflict]]


class ChangedMessage(Changed):
    """Confirmation with a message; `conflicts` lists later changes that no longer apply."""

    message: str


class SuccessMessage(TypedDict):
    """Confirmation that the request succeeded, with a message."""

    success: bool
    message: str


class Deleted(TypedDict):
    """The number of deleted instances."""

    success: bool
    deletedCount: int


class Removed(TypedDict):
    """The number of removed keys; `conflicts` lists later changes that no longer apply."""

    success: bool
    removedCount: int
    conflicts: NotRequired[list[ReplayConflict]]


class ValueSet(TypedDict):
    """
    The key and what it reads now, which is absent if the key is.

    `conflicts` lists later changes that no longer apply.
    """

    success: bool
    key: str
    value: NotRequired[Any]
    conflicts: NotRequired[list[ReplayConflict]]


class BatchAnswer(TypedDict):
    """The revision of the batch, and the result of each batch operation, in order."""

    revision: int
    results: list[dict[str, Any]]
    conflicts: NotRequired[list[ReplayConflict]]
