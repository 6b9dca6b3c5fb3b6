"""
The one write path: what each change does to the rows, and what it leaves in the log.

An `Applier` belongs to one group of writes. It changes rows in the cache, notes what was
touched, and collects entries, all in memory; the ledger writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.tx.apply_places import ApplyPlaces
from valuetracker.store.tx.apply_subjects import ApplySubjects
from valuetracker.store.tx.apply_values import ApplyValues
from valuetracker.store.tx.changes import (
    AddAlias,
    AddPlace,
    AddSpace,
    Change,
    ChangeChain,
    ChangeChat,
    ChangeValue,
    DropCharacter,
    DropInstance,
    InheritKey,
    KeepValues,
    MovePlace,
    PutCharacter,
    PutInstance,
    StandKey,
    UpdateHead,
    UpdateQuietly,
)
from valuetracker.store.tx.context import Anchor, Context
from valuetracker.store.tx.log_writer import LogWriter
from valuetracker.store.tx.touched import Touched


class Applier:
    """Applies the changes of one group."""

    def __init__(self, reader: RowReader) -> None:
        self._cache = reader.cache
        touched = Touched(reader.cache)
        self.touched = touched
        self.log = LogWriter(reader)
        self.values = ApplyValues(reader, self.log, touched)
        self._subjects = ApplySubjects(reader, self.log, touched)
        self._places = ApplyPlaces(reader, self.log, touched)

    def begin(self, context: Context, now: int) -> None:
        """Begin a request."""
        self.log.begin(context, now)
        self.values.begin()
        self._places.tentative, self._places.flipped = False, []

    @property
    def flipped(self) -> list[PlaceRow]:
        """The places of chats that the request has added, shown or hidden."""
        return self._places.flipped

    @property
    def changed_nothing(self) -> bool:
        """True if the request registered a place and then changed no value there."""
        return self._places.tentative and not self.values.logged

    async def apply(
        self, changes: Sequence[Change], head: Head, request_chat: ChatRow | None
    ) -> None:
        """
        Make these changes part of the head's revision.

        `request_chat` is the chat the request says it is in, for holders that are in none.
        """
        await self.values.load_for(changes)
        for where, run in groupby(changes, _where):
            if where is not None:
                values = cast(Iterable[ChangeValue], run)
                await self.values.change(values, head, request_chat)
                continue
            for change in run:
                await self._apply(change, head)

    async def _apply(self, change: Change, head: Head) -> None:
        match change:
            case PutInstance():
                await self._subjects.put_instance(change, head)
            case DropInstance():
                await self._subjects.drop_instance(change, head)
            case PutCharacter():
                await self._subjects.put_character(change, head)
            case DropCharacter():
                await self._subjects.drop_character(change, head)
            case ChangeChat():
                await self._subjects.change_chat(change, head)
            case AddSpace():
                self._subjects.add_space(change)
            case AddAlias():
                self._subjects.add_alias(change)
            case AddPlace():
                await self._places.add(change, head)
            case MovePlace():
                await self._places.move(change, head)
            case ChangeChain():
                await self._places.log_chain(change, head)
            case InheritKey():
                self.values.inherit(change)
            case StandKey():
                await self.values.stand(change)
            case KeepValues():
                await self.values.keep(change.holder)
            case UpdateQuietly():
                self._update_quietly(change)
            case UpdateHead():
                head.revision = max(head.revision, change.revision or 0)
                head.oldest = change.oldest if change.oldest is not None else head.oldest
                if head.adopted <= head.oldest:
                    head.adopted = 0
                if change.incarnation is not None:
                    head.incarnation = change.incarnation
            case _:
                raise TypeError(f"There is no such change: {change!r}")

    def _update_quietly(self, change: UpdateQuietly) -> None:
        row = change.row
        if isinstance(row, HolderRow):
            self._cache.put_holder(row)
            self._cache.restructured.add(row.number)
        elif isinstance(row, ChatRow):
            self._cache.put_chat(row)
            self._cache.restructured.add(row.number)
        else:
            self._cache.places.put(row.place, row)


def _where(change: Change) -> tuple[int, Anchor | None] | None:
    """Return the holder and anchor of a change of a value; None for any other change."""
    if isinstance(change, ChangeValue):
        return change.holder.number, change.anchor
    return None
