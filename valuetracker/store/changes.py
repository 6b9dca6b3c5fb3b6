"""
What a verb can ask `tx.apply` to do, one class per kind of change.

`op` is what the log will call it, and `operand` what it was asked with, where the result
does not say it. Values are canonical JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Anchor:
    """The place in a chat a change was made at: a message, and one of its swipes."""

    message_id: str
    swipe: str = "0"


@dataclass(slots=True, frozen=True)
class Context:
    """What a request says beside what it asks for."""

    actor: str = "extension"
    anchor: Anchor | None = None
    # The chat the caller believes to be in.
    chat_id: str | None = None
    # The revision after which the caller has seen no change (`If-Match`).
    expected: int | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""


NO_CONTEXT = Context()


@dataclass(slots=True)
class SetValue:
    """A key of an instance gets a value; the instance must exist by then."""

    instance_id: str
    key: str
    value: str
    op: str = "set"
    operand: str | None = None
    # Where this one change is anchored, if elsewhere than its request.
    anchor: Anchor | None = None
    # Some changes belong to no message, whatever the request says.
    anchored: bool = True


@dataclass(slots=True)
class RemoveValue:
    """A key of an instance goes, if it is there."""

    instance_id: str
    key: str
    op: str = "remove"
    operand: str | None = None
    anchor: Anchor | None = None
    anchored: bool = True


@dataclass(slots=True)
class PutCharacter:
    """A character comes into being or becomes this."""

    id: str
    name: str | None
    created_at: str
    updated_at: str


@dataclass(slots=True)
class DropCharacter:
    """A character goes; its instances must have gone before."""

    id: str


@dataclass(slots=True)
class PutInstance:
    """An instance comes into being or becomes this."""

    id: str
    character_id: str
    chat_id: str | None
    name: str | None
    created_at: str
    updated_at: str


@dataclass(slots=True)
class DropInstance:
    """An instance goes; its values must have gone before."""

    id: str


Change = SetValue | RemoveValue | PutCharacter | DropCharacter | PutInstance | DropInstance
