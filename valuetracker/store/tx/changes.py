"""
What a verb can ask `tx.apply` to do, one class per kind of change.

`op` is what the log will call it, and `operand` what it was asked with, where the result
does not say it. Values are canonical JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass

from valuetracker.store.rows.row_types import ChatRow, HolderRow


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
    # The chat the caller believes to be in, and the session it was given for one.
    chat_id: str | None = None
    session: str | None = None
    # The revision after which the caller has seen no change (`If-Match`).
    expected: int | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it says nothing that a write would have to look at."""
        return (
            self.anchor is None
            and self.chat_id is None
            and self.session is None
            and self.expected is None
        )


NO_CONTEXT = Context()


@dataclass(slots=True)
class SetValue:
    """A key of a holder gets a value; `after` is what comes of it if it takes effect."""

    holder: HolderRow
    key: str
    after: str
    op: str = "set"
    operand: str | None = None
    # Where it is anchored; None for what belongs to no message.
    anchor: Anchor | None = None


@dataclass(slots=True)
class RemoveValue:
    """A key of a holder goes."""

    holder: HolderRow
    key: str
    op: str = "remove"
    operand: str | None = None
    anchor: Anchor | None = None


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
    """An instance comes into being or becomes this; `chat` is the number of a chat."""

    id: str
    character_id: str
    chat: int | None
    name: str | None
    created_at: str
    updated_at: str
    origin: str | None = None


@dataclass(slots=True)
class DropInstance:
    """An instance goes; its values must have gone before."""

    holder: HolderRow


@dataclass(slots=True)
class ChangeChat:
    """A chat has become this; what the row says is what it is from now on."""

    chat: ChatRow
    op: str


@dataclass(slots=True)
class ChangeChain:
    """The chain of a chat has changed, and perhaps nothing else."""

    chat: ChatRow


Change = (
    SetValue
    | RemoveValue
    | PutCharacter
    | DropCharacter
    | PutInstance
    | DropInstance
    | ChangeChat
    | ChangeChain
)
