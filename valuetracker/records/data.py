"""
Records of characters, instances and their values.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

# The values of one instance by key. Each is inserted as the JSON text that is stored.
Values = dict[str, Any]


class Character(TypedDict):
    """Whom values belong to."""

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


class FullInstance(TypedDict):
    """An instance with its values."""

    instance: Instance
    data: Values


class FullCharacter(TypedDict):
    """A character with all its instances and their values."""

    character: Character
    instances: list[FullInstance]


class Success(TypedDict):
    """It was done."""

    success: bool


class SuccessMessage(TypedDict):
    """It was done, in words."""

    success: bool
    message: str


class Deleted(TypedDict):
    """How many instances were deleted."""

    success: bool
    deletedCount: int


class Removed(TypedDict):
    """How many keys were removed."""

    success: bool
    removedCount: int


class ValueSet(TypedDict):
    """The key and the value it now has."""

    success: bool
    key: str
    value: Any


class BatchAnswer(TypedDict):
    """The revision the batch made, and what came of each operation, in order."""

    revision: int
    results: list[dict[str, Any]]
