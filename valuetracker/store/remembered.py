"""
Answers that were remembered without their values, and are given once more.

The values are read from the log: each as it was then. Those that have been folded or purged since
are left out.
"""

from __future__ import annotations

import secrets
from typing import Any

import orjson

from valuetracker.errors import Compacted
from valuetracker.store.log.lists import subject_list
from valuetracker.store.log.replay import resolve_value
from valuetracker.store.log.state_at import check_not_compacted, check_not_purged, state_at
from valuetracker.store.rows.entries import EntryRow, LoggedChange
from valuetracker.store.rows.numbers import Moment, first_of, last_of
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.tx.idempotency import HOLE


def is_incomplete(body: bytes) -> bool:
    return HOLE.encode() in body


async def fill_answer(tx: Snapshot, body: str, revision: int) -> bytes:
    """Return an answer with its values, as it was given at a revision."""
    pieces = body.split(HOLE)
    past = _Past(tx, revision)
    gone = f'"{secrets.token_hex(16)}"'
    for index in range(1, len(pieces), 2):
        value = await past.find(*orjson.loads(pieces[index]))
        pieces[index] = value if value is not None else gone
    text = "".join(pieces).encode()
    if gone in pieces:
        return orjson.dumps(_without(orjson.loads(text), orjson.loads(gone)))
    return text


def _without(answer: Any, gone: str) -> Any:
    """Return an answer without the members that are gone."""
    if isinstance(answer, dict):
        return {key: _without(each, gone) for key, each in answer.items() if each != gone}
    return [_without(each, gone) for each in answer] if isinstance(answer, list) else answer


class _Past:
    """The values around one revision, as the log has them."""

    def __init__(self, tx: Snapshot, revision: int) -> None:
        self._tx = tx
        self._revision = revision
        self._states: dict[tuple[int, int], dict[str, LoggedChange]] = {}

    async def find(self, number: int, key: str, later: int) -> str | None:
        """Return a value before the last `later` changes of the revision; None if it is gone."""
        try:
            if not later:
                return await self._value_at(number, key, self._revision)
            return await self._value_before(number, key, later)
        except Compacted:
            return None

    async def _value_at(self, number: int, key: str, revision: int) -> str | None:
        if (number, revision) not in self._states:
            check_not_compacted(await self._tx.load_head(), revision)
            holder, moment = await self._tx.get_holder(number), Moment(revision)
            check_not_purged(holder, moment)
            self._states[number, revision] = await state_at(self._tx, holder, moment)
        change = self._states[number, revision].get(key)
        return change.after if change is not None else None

    async def _value_before(self, number: int, key: str, later: int) -> str | None:
        revision = self._revision
        # What a folded revision did one by one is not known any more.
        check_not_compacted(await self._tx.load_head(), revision - 1)
        holder = await self._tx.get_holder(number)
        check_not_purged(holder, Moment(revision))
        made: list[tuple[EntryRow, int]] = []
        lists = subject_list(holder).newest_first(self._tx, first_of(revision), last_of(revision))
        async for chunk in lists:
            for entry in chunk:
                if entry.took_effect:
                    made += [(entry, index) for index in entry.indexes(key)]
        if later < len(made):
            return (await resolve_value(self._tx, *made[later])).after
        return await self._value_at(number, key, revision - 1)
