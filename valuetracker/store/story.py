"""
Values that follow the story: what happens to them when places of a chat come and go.

A reconcile says which chain is visible. Changes anchored to places that are not go dormant,
those whose places are visible again go live, and only the keys they are about are
recomputed. A write to a swipe nobody has seen does the same, by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.store import statements as sql
from valuetracker.store.changes import Anchor, Change, ChangeChat, RemoveValue, SetValue
from valuetracker.store.entries import BASES, DROPPED, FLIPPABLE, SETTLED, EntryRow
from valuetracker.store.ledger import Ledger
from valuetracker.store.replay import Conflict, Replay, is_live
from valuetracker.store.rows import ChatRow, DataRow, HolderRow, PlaceRow

# `places` is a JSON array of their numbers.
SELECT_ENTRIES_AT = sql.entries(
    f"""
    WHERE entries.place IN (SELECT value FROM json_each(:places))
        AND entries.place IS NOT NULL AND standing = {FLIPPABLE}
    ORDER BY entry
    """,
    postgres=f"""
    WHERE entries.place IN (
        SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:places AS json)) AS value
    ) AND standing = {FLIPPABLE}
    ORDER BY entry
    """,
)


@dataclass(slots=True)
class ValueFlip:
    """A value that is now another."""

    holder: HolderRow
    key: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Turn:
    """What came of a new chain."""

    dormant: int = 0
    revived: int = 0
    flips: list[ValueFlip] = field(default_factory=list)
    conflicts: list[tuple[HolderRow, Conflict]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def turn(tx: Ledger, hidden: Sequence[PlaceRow], shown: Sequence[PlaceRow]) -> Turn:
    """Bring the values to what they are now that these places were hidden and shown."""
    result = Turn()
    head = await tx.load_head()
    numbers = [place.place for place in (*hidden, *shown) if place.written]
    if not numbers:
        return result
    for place in (*hidden, *shown):
        if place.written and place.written <= head.oldest:
            result.warnings.append(
                f"What message {place.message_id} changed up to revision {head.oldest} has been"
                " folded and stays."
            )
    gone = {place.place for place in hidden}
    affected: dict[tuple[int, str], None] = {}
    rows = await tx.fetch_all(SELECT_ENTRIES_AT, places=orjson.dumps(numbers).decode())
    for row in rows:
        entry = EntryRow(*row).verify()
        records = entry.records
        if entry.place in gone:
            result.dormant += len(records)
        else:
            result.revived += len(records)
        for record in records:
            affected[entry.subject, record.key] = None
    await _recompute(tx, affected, result)
    return result


async def _recompute(tx: Ledger, affected: Iterable[tuple[int, str]], result: Turn) -> None:
    replay = Replay(tx)
    changes: list[Change] = []
    for number, key in affected:
        holder = await tx.get_holder(number)
        row = (await tx.load_rows(holder, [key]))[key]
        assert row is not None, "what the log speaks of has a row"
        replayed = await replay.replay(number, key, row.last, is_live)
        result.conflicts += [(holder, conflict) for conflict in replayed.conflicts]
        if replayed.value == row.value:
            continue
        result.flips.append(ValueFlip(holder, key, row.value, replayed.value))
        if replayed.value is None:
            changes.append(RemoveValue(holder, key, "reconcile"))
        else:
            changes.append(SetValue(holder, key, replayed.value, "reconcile"))
    await tx.apply(changes)


async def see(tx: Ledger, *places: tuple[HolderRow, Anchor | None]) -> None:
    """
    Make room for a write: see every place it is anchored to, before any of it is applied.

    A message nobody has seen is put at the end of its chain. A swipe nobody has seen
    becomes the visible one of its message, or brings a hidden message back at the end.
    """
    for holder, anchor in places:
        if anchor is not None:
            await _see(tx, holder, anchor)


async def _see(tx: Ledger, holder: HolderRow, anchor: Anchor) -> None:
    chat = await anchor_chat(tx, holder)
    if chat is None:
        if await tx.rows.find_lone_place(anchor.message_id, anchor.swipe) is None:
            await _add_place(tx, 0, anchor, seen=None, position=1)
        return
    chain = await tx.load_chain(chat.number)
    if (anchor.message_id, anchor.swipe) in chain.places:
        return
    await tx.change_chain(chat)
    old = chain.visible.get(anchor.message_id)
    seen = chain.seen.get(anchor.message_id)
    # Where the old swipe stood; a message that was not visible comes at the end.
    position = old.position if old is not None else chain.next_position()
    if old is not None:
        chain.move(old, None)
        tx.rows.flip(old, await tx.revise())
    await _add_place(tx, chat.number, anchor, seen, position)
    if old is not None:
        await turn(tx, [old], [])


async def _add_place(
    tx: Ledger, chat: int, anchor: Anchor, seen: int | None, position: int | None
) -> None:
    revision = await tx.revise()
    head = await tx.load_head()
    place = PlaceRow(
        head.next_number(),
        chat,
        anchor.message_id,
        anchor.swipe,
        revision if seen is None else seen,
        position,
    )
    tx.rows.add_place(place)
    if chat:
        tx.rows.flip(place, revision)


async def is_hidden(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> bool:
    """Whether a write there is stored without effect; the place must have been seen."""
    if anchor is None:
        return False
    chat = await anchor_chat(tx, holder)
    if chat is None:
        return False
    chain = await tx.load_chain(chat.number)
    return chain.places[anchor.message_id, anchor.swipe].position is None


async def anchor_chat(tx: Ledger, holder: HolderRow) -> ChatRow | None:
    """
    The chat an anchor on this holder is in: its own, else the one the request names.

    One that nobody has heard of comes into being with the anchor.
    """
    if holder.chat is not None:
        return await tx.get_chat(holder.chat)
    if tx.context.chat_id is not None:
        return await make_chat(tx, tx.context.chat_id)
    return None


async def make_chat(tx: Ledger, chat_id: str) -> ChatRow:
    """The chat of this id, made if it is not there."""
    chat = await tx.find_any_chat(chat_id)
    if chat is not None and not chat.gone:
        return chat
    head = await tx.load_head()
    if chat is None:
        chat = ChatRow(head.next_number(), 0, chat_id, None, None, "", "")
    chat.place, chat.gone, chat.archived_at = head.next_place(), 0, None
    chat.created_at = chat.updated_at = tx.now
    chat.parent = chat.origin = None
    head.chats += 1
    await tx.apply([ChangeChat(chat, "create_chat")])
    return chat


# Binding

SELECT_ANCHORED = sql.entries(
    f"""
    WHERE entries.subject = :subject AND entries.place IS NOT NULL AND standing = {FLIPPABLE}
    ORDER BY entry
    """
)

UPDATE_STANDING = sql.update("entries", sql.ENTRIES, "entry", "standing", "checksum")


async def unanchor(tx: Ledger, holder: HolderRow) -> None:
    """Leave a chat: what is live becomes unanchored, what is dormant is dropped."""
    entries = [
        EntryRow(*row).verify()
        for row in await tx.fetch_all(SELECT_ANCHORED, subject=holder.number)
    ]
    for entry in entries:
        entry.standing = SETTLED if entry.is_live else DROPPED
        entry.seal()
    if entries:
        await tx.execute_many(UPDATE_STANDING, entries)


async def has_dormant_change(tx: Ledger, row: DataRow) -> bool:
    """Whether a flip could bring a value back although there is none."""
    if not row.anchored:
        return False
    replay = Replay(tx)
    async for source in replay.walk(row.holder, row.key, row.last):
        if not source.entry.is_live:
            if source.entry.standing == FLIPPABLE:
                return True
        elif source.record.op == "restore":
            return await replay.names_dormant(source)
        elif not source.entry.is_flippable and source.record.op in BASES:
            return False
    return False


SELECT_POSITION_AT = Statement(
    """
    SELECT position FROM {schema}.flips
    WHERE place = :place AND revision <= :revision ORDER BY revision DESC LIMIT 1
    """
)
