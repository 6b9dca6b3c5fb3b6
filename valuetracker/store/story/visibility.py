"""
Values that follow the story: what happens to them when places of a chat come and go.

A reconcile says which chain is visible. Changes anchored to places that are not go dormant,
those whose places are visible again go live, and only the keys they are about are
recomputed. A write to a swipe nobody has seen does the same, by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.log.links import EntryList, put_in_place, subject_list, taken_list
from valuetracker.store.log.replay import Conflict, Replay
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.chain import Name
from valuetracker.store.rows.entries import FLIPPABLE, EntryRow
from valuetracker.store.rows.row_types import ChatRow, DataRow, HolderRow, PlaceRow
from valuetracker.store.tx.changes import (
    Anchor,
    Change,
    ChangeChain,
    ChangeChat,
    RemoveValue,
    SetValue,
)
from valuetracker.store.tx.ledger import Ledger

# `places` is a JSON array of their numbers.
_AT = """
    WHERE place IN (SELECT value FROM json_each(:places)) AND place IS NOT NULL ORDER BY entry
"""
_AT_OF_POSTGRES = """
    WHERE place IN (
        SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:places AS json)) AS value
    ) ORDER BY entry
"""
SELECT_ENTRIES_AT = sql.entries(_AT, _AT_OF_POSTGRES)
SELECT_TAKEN_AT = sql.taken(_AT, _AT_OF_POSTGRES)


@dataclass(slots=True)
class ValueFlip:
    """A value that is now another."""

    holder: HolderRow
    key: str
    before: str | None
    after: str | None
    # The revision of the newest source of the key.
    newest: int

    def change(self) -> Change:
        if self.after is None:
            return RemoveValue(self.holder, self.key, "reconcile", str(self.newest))
        return SetValue(self.holder, self.key, self.after, "reconcile", str(self.newest))


@dataclass(slots=True)
class Turn:
    """What comes of places that are hidden and shown."""

    dormant: int = 0
    revived: int = 0
    flips: list[ValueFlip] = field(default_factory=list)
    conflicts: list[tuple[HolderRow, Conflict]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def weigh(tx: Ledger, hidden: Sequence[PlaceRow], shown: Sequence[PlaceRow]) -> Turn:
    """What the values are once these places are hidden and shown; nothing is done yet."""
    result = Turn()
    oldest = (await tx.load_head()).oldest
    turned_places = [*hidden, *shown]
    turned = {place.place: False for place in hidden} | {place.place: True for place in shown}
    if not any(place.written for place in turned_places):
        return result
    result.warnings = [
        f"What message {place.message_id} changed up to revision {oldest} was folded and stays."
        for place in turned_places
        if 0 < place.written <= oldest
    ]

    def counts(entry: EntryRow) -> bool:
        if entry.standing == FLIPPABLE and entry.place in turned:
            return turned[entry.place]
        return entry.is_live

    affected: dict[tuple[int, str], None] = {}
    for entry in await _entries_at(tx, [place for place in turned_places if place.written]):
        if entry.standing != FLIPPABLE:
            continue
        records = entry.records
        if counts(entry):
            result.revived += len(records)
        else:
            result.dormant += len(records)
        for record in records:
            affected[entry.subject, record.key] = None
    replay = Replay(tx)
    for number, key in affected:
        holder = await tx.get_holder(number)
        stored = (await tx.load_rows(holder, [key]))[key]
        assert stored is not None, "what the log speaks of has a row"
        replayed = await replay.replay(number, key, stored.last, counts)
        result.conflicts += [(holder, conflict) for conflict in replayed.conflicts]
        if replayed.value != stored.value:
            result.flips.append(
                ValueFlip(holder, key, stored.value, replayed.value, replayed.newest)
            )
    return result


async def _entries_at(tx: Ledger, places: list[PlaceRow]) -> list[EntryRow]:
    """All entries that are anchored to these places, as many as they say there are."""
    numbers = orjson.dumps([place.place for place in places]).decode()
    taken = await tx.fetch_all(SELECT_TAKEN_AT, places=numbers)
    rows = [*taken, *await tx.fetch_all(SELECT_ENTRIES_AT, places=numbers)]
    entries = {(row[1], row[0]): EntryRow(*row).verify() for row in rows}
    found = Counter(entry.place for entry in entries.values())
    if any(found[place.place] != place.entries for place in places):
        raise DatabaseDamaged()
    await put_in_place(tx, entries.values())
    return list(entries.values())


async def see(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> None:
    """
    Make room for a write: see the place it is anchored to, before any of it is applied.

    A message nobody has seen is put at the end of its chain. A swipe nobody has seen
    becomes the visible one of its message, or brings a hidden message back at the end.
    """
    if anchor is None:
        return
    chat = await anchor_chat(tx, holder)
    if chat is None:
        if await tx.rows.find_lone_place(anchor.message_id, anchor.swipe) is None:
            revision = await tx.see()
            await _add_place(tx, 0, anchor, revision, position=1)
        return
    chain = await tx.load_chain(chat.number)
    if (anchor.message_id, anchor.swipe) in chain.places:
        return
    await tx.see()
    revision = await tx.change_chain(chat)
    old = chain.visible.get(anchor.message_id)
    seen = chain.seen.get(anchor.message_id, revision)
    # Where the old swipe stood; a message that was not visible comes at the end.
    position = old.position if old is not None else chain.next_position()
    if old is not None:
        turn = await weigh(tx, [old], [])
        # Weighing has written what was pending, and there is more now.
        await tx.revise()
        chain.move(old, None)
        tx.rows.flip(old, revision)
        await tx.apply([flip.change() for flip in turn.flips])
    await _add_place(tx, chat.number, anchor, seen, position)


async def _add_place(
    tx: Ledger, chat: int, anchor: Anchor, seen: int, position: int | None
) -> PlaceRow:
    head = await tx.load_head()
    place = PlaceRow(head.next_number(), chat, anchor.message_id, anchor.swipe, seen, position)
    tx.rows.add_place(place)
    if chat and position is not None:
        tx.rows.flip(place, head.revision)
    return place


async def turn_to(tx: Ledger, chat: ChatRow, names: list[Name], dry_run: bool = False) -> Turn:
    """Make this the visible chain of a chat, and bring its values along."""
    chain = await tx.load_chain(chat.number)
    # Most of a story stays as it is: only what comes after that is looked at.
    same = chain.same_until(names)
    order = chain.order()
    ahead = names[same:]
    wanted = set(ahead)
    hidden = [place for place in order[same:] if (place.message_id, place.swipe) not in wanted]
    known = [chain.places[name] for name in ahead if name in chain.places]
    turn = await weigh(tx, hidden, [place for place in known if place.position is None])
    if dry_run:
        return turn
    revision = await tx.change_chain(chat)
    last = order[same - 1].position or 0 if same else 0
    for place in hidden:
        chain.move(place, None)
        tx.rows.flip(place, revision)
    places = order[:same]
    for name in ahead:
        place_there = chain.places.get(name)
        if place_there is None:
            seen = chain.seen.get(name[0], revision)
            last = chain.next_position()
            place_there = await _add_place(tx, chat.number, Anchor(*name), seen, last)
        elif place_there.position is None or place_there.position < last:
            # Whatever comes after something that came later is numbered anew.
            last = chain.next_position()
            chain.move(place_there, last)
            tx.rows.flip(place_there, revision)
        else:
            last = place_there.position
        places.append(place_there)
    chain.is_now(names, places)
    changes: list[Change] = [flip.change() for flip in turn.flips]
    await tx.apply(changes or [ChangeChain(chat)])
    return turn


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
        chat = ChatRow(head.next_subject(), 0, chat_id, None, None, "", "")
    chat.place, chat.gone, chat.archived_at = head.next_place(), 0, None
    chat.created_at = chat.updated_at = tx.now
    chat.parent = chat.origin = None
    head.chats += 1
    await tx.apply([ChangeChat(chat, "create_chat")])
    return chat


# Binding

UPDATE_STANDING = sql.update("entries", sql.ENTRIES, "entry", "standing", "checksum")
UPDATE_TAKEN_STANDING = Statement(
    """
    UPDATE {schema}.taken SET standing = :standing, checksum = :checksum
    WHERE subject = :subject AND entry = :entry
    """,
    postgres="""
    UPDATE {schema}.taken SET standing = new.standing, checksum = new.checksum
    FROM unnest(:standing::bigint[], :checksum::bigint[], :subject::bigint[], :entry::bigint[])
        AS new (standing, checksum, subject, entry)
    WHERE taken.subject = new.subject AND taken.entry = new.entry
    """,
)


async def unanchor(tx: Ledger, holder: HolderRow) -> None:
    """Leave a chat: what is live becomes unanchored, what is dormant is dropped."""
    revision = await tx.revise()
    await _settle(tx, subject_list(holder), UPDATE_STANDING, revision)
    await _settle(tx, taken_list(holder), UPDATE_TAKEN_STANDING, revision)
    tx.forget_entries()


async def _settle(tx: Ledger, log: EntryList, change: Statement, revision: int) -> None:
    async for chunk in log.newest_first(tx):
        entries = [
            entry for entry in chunk if entry.place is not None and entry.standing == FLIPPABLE
        ]
        await put_in_place(tx, entries)
        for entry in entries:
            entry.standing = revision if entry.is_live else -revision
            entry.seal()
        if entries:
            await tx.execute_many(change, entries)


async def has_dormant_change(tx: Ledger, row: DataRow) -> bool:
    """Whether a change of this key waits for its place to come back."""
    if not row.anchored:
        return False
    # A batch may ask again and again.
    calm, asked = tx.read_entries.calm, (row.holder, row.key, row.last, tx.rows.turns)
    if asked in calm:
        return False
    async for source in Replay(tx).walk(row.holder, row.key, row.last):
        if source.entry.standing == FLIPPABLE and not source.entry.is_live:
            return True
    calm.add(asked)
    return False
