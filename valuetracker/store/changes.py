"""
What a verb can ask `tx.apply` to do, one class per kind of change.

`op` is what the log will call it. Values are canonical JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class SetValue:
    """A key of an instance gets a value; the instance must exist by then."""

    instance_id: str
    key: str
    value: str
    op: str = "set"


@dataclass(slots=True, frozen=True)
class RemoveValue:
    """A key of an instance goes, if it is there."""

    instance_id: str
    key: str
    op: str = "remove"


@dataclass(slots=True, frozen=True)
class PutCharacter:
    """A character comes into being or becomes this."""

    id: str
    name: str | None
    created_at: str
    updated_at: str


@dataclass(slots=True, frozen=True)
class DropCharacter:
    """A character goes; its instances must have gone before."""

    id: str


@dataclass(slots=True, frozen=True)
class PutInstance:
    """An instance comes into being or becomes this."""

    id: str
    character_id: str
    chat_id: str | None
    name: str | None
    created_at: str
    updated_at: str


@dataclass(slots=True, frozen=True)
class DropInstance:
    """An instance goes; its values must have gone before."""

    id: str


Change = SetValue | RemoveValue | PutCharacter | DropCharacter | PutInstance | DropInstance
