"""
The changes that `tx.apply` knows, one class per kind.

`op` is the name of a change in the log, `operand` what it was asked with, where the result
does not say it. Values are canonical JSON text. A change of which `takes_revision` is False
is not logged, and takes no revision by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.tx.context import Anchor

# Values


@dataclass(slots=True)
class ChangeValue:
    """
    Set a key of a holder to `after`, or remove it (None), if the change takes effect.

    `after` is the result where the change stands; changes that stand after it are applied to it.
    """

    holder: HolderRow
    key: str
    after: str | None
    op: str = "set"
    operand: str | None = None
    # None for a change that belongs to no message.
    anchor: Anchor | None = None
    # It stands at the beginning of the story, if the key has no change yet.
    first: bool = False
    # A restore that names a change which a flip can reach.
    reachable: bool = False
    # True if the operator makes `after` of the value the key has just before: then the log may
    # leave `after` out.
    recomputable: bool = False
    takes_revision: ClassVar[bool] = True


def remove(
    holder: HolderRow,
    key: str,
    anchor: Anchor | None = None,
    op: str = "remove",
    operand: str | None = None,
) -> ChangeValue:
    """Return the change that removes a key."""
    return ChangeValue(holder, key, None, op, operand, anchor)


@dataclass(slots=True)
class InheritKey:
    """Give a branch the row of a key without value, which its taken changes speak of."""

    holder: HolderRow
    key: str
    last_change: int
    takes_revision: ClassVar[bool] = False


@dataclass(slots=True)
class StandKey:
    """Note where the last change of a key stands in the story, and if a flip can reach one."""

    holder: HolderRow
    key: str
    furthest: int | None
    anchored: bool
    takes_revision: ClassVar[bool] = False


@dataclass(slots=True)
class KeepValues:
    """Log the values of a holder as bases: it is about to leave its chat."""

    holder: HolderRow
    takes_revision: ClassVar[bool] = True


# Characters, instances and chats


@dataclass(slots=True)
class PutCharacter:
    """Create or update a character."""

    id: str
    name: str | None
    created_at: str
    updated_at: str
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class DropCharacter:
    """Delete a character; its instances must be deleted before."""

    id: str
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class PutInstance:
    """Create or update an instance; `chat` is the number of a chat."""

    id: str
    character_id: str
    chat: int | None
    name: str | None
    created_at: str
    updated_at: str
    origin: str | None = None
    # For an instance of a branch: the entry in which it was last created, changed or deleted.
    former: int = 0
    takes_revision: ClassVar[bool] = True

    def differs_from(self, old: HolderRow) -> bool:
        return (self.character_id, self.chat, self.name) != (old.character_id, old.chat, old.name)


@dataclass(slots=True)
class DropInstance:
    """Delete an instance; its values must be removed before."""

    holder: HolderRow
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class ChangeChat:
    """Create (`create_chat`), update, rename or delete a chat: it becomes what the row says."""

    chat: ChatRow
    op: str
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class AddSpace:
    """Add one of the three spaces to a chat, which is needed for the first time."""

    holder: HolderRow
    takes_revision: ClassVar[bool] = False


@dataclass(slots=True)
class AddAlias:
    """Have a chat found by an id it is about to lose."""

    id: str
    chat: int
    takes_revision: ClassVar[bool] = False


# The chain of a chat


@dataclass(slots=True)
class AddPlace:
    """
    Register a message and swipe; `first_seen` of 0 means by this revision.

    A tentative one stands only if the request also changes a value.
    """

    place: PlaceRow
    tentative: bool = False
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class MovePlace:
    """Put a place at a position, visible or hidden."""

    place: PlaceRow
    position: int
    visible: bool
    takes_revision: ClassVar[bool] = True


@dataclass(slots=True)
class ChangeChain:
    """Log that the chain of a chat has changed, and no value with it."""

    chat: ChatRow
    takes_revision: ClassVar[bool] = True


# Without a revision


@dataclass(slots=True)
class UpdateQuietly:
    """Write a row as it is now; the log does not mention it."""

    row: HolderRow | ChatRow | PlaceRow
    takes_revision: ClassVar[bool] = False


@dataclass(slots=True)
class UpdateHead:
    """Skip to a revision, begin the log at another one, or begin another incarnation."""

    revision: int | None = None
    oldest: int | None = None
    incarnation: int | None = None
    takes_revision: ClassVar[bool] = False


Change = (
    ChangeValue
    | InheritKey
    | StandKey
    | KeepValues
    | PutCharacter
    | DropCharacter
    | PutInstance
    | DropInstance
    | ChangeChat
    | AddSpace
    | AddAlias
    | AddPlace
    | MovePlace
    | ChangeChain
    | UpdateQuietly
    | UpdateHead
)
