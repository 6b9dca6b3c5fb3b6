"""Chats: opening, listing, reconciling, renaming, putting away."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import ChatExists, ChatNotFound
from valuetracker.records import Chat, OpenedChat, Reconciled, Success
from valuetracker.store.branches import begin_branch
from valuetracker.store.chat_state import contents_now, origin_record, state_record
from valuetracker.store.data import removable_keys
from valuetracker.store.instances import removal_of
from valuetracker.store.log.links import subject_list
from valuetracker.store.operation_guard import count_operations
from valuetracker.store.operations import sweep
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.chain import Name
from valuetracker.store.rows.listing import present_chats
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import AliasRow, ChatRow, HolderRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import shown_key
from valuetracker.store.rows.tags import chat_tag
from valuetracker.store.story.point import view_of
from valuetracker.store.story.visibility import Turn, make_chat, turn_to
from valuetracker.store.tx.changes import Change, ChangeChat, RemoveValue, SetValue
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import enter_chat, expect_chat, make_room


async def chat_record(tx: Reader, chat: ChatRow) -> Chat:
    return {
        "chatId": chat.id,
        "parent": await tx.chat_id(chat.parent),
        "origin": await origin_record(tx, chat),
        "archived": chat.archived_at is not None,
        "createdAt": chat.created_at,
        "updatedAt": chat.updated_at,
        "revision": chat.revision,
    }


async def list_chats(tx: Snapshot) -> list[Chat]:
    chats = await present_chats(tx)
    return [await chat_record(tx, chat) for chat in chats if chat.archived_at is None]


async def find_chat(tx: Snapshot, chat_id: str) -> Chat | None:
    chat = await tx.find_chat(chat_id)
    if chat is None:
        return None
    tx.depends_on(chat_tag(chat.number))
    tx.etag = chat.revision
    return await chat_record(tx, chat)


# Opening


@dataclass(slots=True, frozen=True)
class Opening:
    """How a chat is opened: by whom, and what it is to have if it is new."""

    client: str
    parent: str | None = None
    message_id: str | None = None
    defaults: dict[str, str] | None = None
    fresh: bool = False


DELETE_SESSION_OF_CLIENT = Statement("DELETE FROM {schema}.sessions WHERE client = :client")
INSERT_SESSION = Statement(
    """
    INSERT INTO {schema}.sessions (session, chat, client, at)
    VALUES (:session, :chat, :client, :at)
    """
)
DELETE_ALIAS = Statement("DELETE FROM {schema}.aliases WHERE id = :id")


async def _drop_alias(tx: Ledger, id: str) -> None:
    """No chat is found by this former id any more."""
    if await tx.fetch_one(sql.SELECT_ALIAS, id=id) is not None:
        await tx.execute(DELETE_ALIAS, id=id)
        (await tx.load_head()).aliases -= 1
    tx.rows.forget_chat_ids()


async def open_chat(tx: Ledger, chat_id: str, opening: Opening) -> OpenedChat:
    """The one load of a chat session; a chat comes into being with its first."""
    found = await tx.find_chat(chat_id)
    if found is not None and found.id != chat_id and opening.fresh:
        await _drop_alias(tx, chat_id)
        found = None
    warnings: list[str] = []
    chat = await make_chat(tx, chat_id)
    if found is None and opening.parent is not None:
        warnings += await _branch(tx, chat, opening.parent, opening.message_id)
    if chat.archived_at is not None:
        chat.archived_at, chat.updated_at = None, tx.now
        await tx.apply([ChangeChat(chat, "update_chat")])
    if opening.defaults:
        await _set_defaults(tx, chat, opening.defaults)
    await sweep(tx, chat)
    session = secrets.token_urlsafe(18)
    await tx.execute(DELETE_SESSION_OF_CLIENT, client=opening.client)
    await tx.execute(
        INSERT_SESSION, session=session, chat=chat.number, client=opening.client, at=tx.now
    )
    state = await state_record(tx, chat, await contents_now(tx, chat))
    state["warnings"] = warnings
    return {"session": session, "created": found is None, **state}


async def _branch(tx: Ledger, chat: ChatRow, parent_id: str, message_id: str | None) -> list[str]:
    """Take over what the parent has, as of a message; what could not be done as asked."""
    parent = await tx.find_chat(parent_id)
    if parent is None or parent.number == chat.number:
        return [f"There is no chat {parent_id}: this one begins empty."]
    warnings: list[str] = []
    chain = await tx.load_chain(parent.number)
    if message_id is not None and message_id not in chain.visible:
        warnings.append(f"Message {message_id} is not visible in {parent.id}: taken as it is now.")
        message_id = None
    counts = await count_operations(tx, parent)
    active = counts["pending"] + counts["inProgress"] + counts["retrying"]
    if active:
        warnings.append(f"{active} operations of {parent.id} are in queue and not taken over.")
    view = await view_of(tx, parent, None, message_id)
    warnings += view.warnings
    await begin_branch(tx, chat, view)
    return warnings


async def _set_defaults(tx: Ledger, chat: ChatRow, defaults: dict[str, str]) -> None:
    holder = await make_room(tx, chat, "chat")
    rows = await tx.load_rows(holder, list(defaults))
    absent = [key for key in defaults if (row := rows[key]) is None or row.value is None]
    # They belong to no message: a chat has them however its story goes.
    await tx.apply([SetValue(holder, key, defaults[key]) for key in absent])


# Reconciling


@dataclass(slots=True, frozen=True)
class VisibleChain:
    """The messages of a chat that are visible, oldest first, and hashes of some of them."""

    names: list[Name]
    hashes: dict[Name, str]


async def reconcile(
    tx: Ledger, chat_id: str, visible: VisibleChain, dry_run: bool = False
) -> Reconciled:
    chat = await enter_chat(tx, chat_id)
    if chat is None:
        raise ChatNotFound()
    await expect_chat(tx, chat_id)
    chain = await tx.load_chain(chat.number)
    same = visible.names == chain.names()
    turn = Turn() if same else await turn_to(tx, chat, visible.names, dry_run)
    stale = await _compare_hashes(tx, chat, visible.hashes, dry_run)
    return {
        "revision": (await tx.load_head()).revision,
        "dormant": turn.dormant,
        "revived": turn.revived,
        "changed": [
            _changed(flip.holder, flip.key, flip.before, flip.after) for flip in turn.flips
        ],
        "conflicts": [
            {
                **_owner(holder),
                "key": shown_key(holder.space, conflict.source.record.key) or "",
                "op": conflict.source.record.op,
                "revision": conflict.source.entry.revision,
                "reason": conflict.reason,
            }
            for holder, conflict in turn.conflicts
        ],
        "stale": stale,
        "warnings": turn.warnings,
    }


async def _compare_hashes(
    tx: Ledger, chat: ChatRow, hashes: dict[Name, str], dry_run: bool
) -> list[str]:
    """The messages whose text is another than when values were last made of it."""
    stale: list[str] = []
    chain = await tx.load_chain(chat.number)
    for name, text in hashes.items():
        place = chain.places.get(name)
        if place is None:
            continue
        if place.hash is None:
            if not dry_run:
                place.hash = text
                tx.put_place(place)
        elif place.hash != text:
            stale.append(place.message_id)
    return stale


def _owner(holder: HolderRow) -> dict[str, Any]:
    record: dict[str, Any] = {"instanceId": holder.id if holder.space == "instance" else None}
    if holder.space in ("series", "processed"):
        record["space"] = holder.space
    return record


def _changed(holder: HolderRow, key: str, before: str | None, after: str | None) -> Any:
    record = {**_owner(holder), "key": shown_key(holder.space, key)}
    if before is not None:
        record["before"] = orjson.Fragment(before)
    if after is not None:
        record["after"] = orjson.Fragment(after)
    return record


# Renaming


async def rename_chat(tx: Ledger, chat_id: str, new_id: str) -> Chat:
    chat = await enter_chat(tx, chat_id)
    if chat is None:
        raise ChatNotFound()
    taken = await tx.find_any_chat(new_id)
    if taken is not None and taken.number != chat.number and not taken.gone:
        raise ChatExists()
    await expect_chat(tx, chat_id)
    if new_id == chat.id:
        return await chat_record(tx, chat)
    if taken is not None and taken.number != chat.number:
        # What is left of a purged chat makes way; no id that can be asked for is like this.
        taken.id = f"\x7f{taken.number}"
        tx.rows.put_chat(taken)
        tx.rows.restructured.add(taken.number)
    await _drop_alias(tx, new_id)
    await tx.add_alias(AliasRow(chat.id, chat.number))
    chat.id, chat.updated_at = new_id, tx.now
    tx.rows.forget_chat_ids()
    revision = await tx.apply([ChangeChat(chat, "rename_chat")])
    # Every answer that names the chat is another now.
    for holder in await tx.list_holders_of_chat(chat):
        holder.revision = revision
        tx.put_holder(holder)
    tx.touched_everything()
    return await chat_record(tx, chat)


# Putting away


async def delete_chat(tx: Ledger, chat_id: str, purge: bool) -> Success:
    chat = await tx.find_chat(chat_id)
    await tx.enter(chat, unknown=chat is None, archived=True)
    if chat is None:
        raise ChatNotFound()
    await expect_chat(tx, chat_id)
    if purge:
        await _purge(tx, chat)
    elif chat.archived_at is None:
        chat.archived_at = chat.updated_at = tx.now
        await tx.apply([ChangeChat(chat, "update_chat")])
    return {"success": True}


SELECT_ALIASES_OF_CHAT = Statement("SELECT id FROM {schema}.aliases WHERE chat = :chat")
EMPTY_ENTRY = sql.update("entries", sql.ENTRIES, "entry", "changes", "checksum")
PURGE_HOLDER = (
    Statement("DELETE FROM {schema}.data WHERE holder = :number"),
    Statement("DELETE FROM {schema}.keyframes WHERE holder = :number"),
    Statement("DELETE FROM {schema}.taken WHERE subject = :number"),
)
PURGE_CHAT = (
    Statement(
        """
        DELETE FROM {schema}.flips
        WHERE place IN (SELECT place FROM {schema}.places WHERE chat = :number)
        """
    ),
    Statement("DELETE FROM {schema}.places WHERE chat = :number"),
    Statement("DELETE FROM {schema}.sessions WHERE chat = :number"),
    Statement("DELETE FROM {schema}.claims WHERE chat = :number"),
    Statement("DELETE FROM {schema}.aliases WHERE chat = :number"),
    Statement("DELETE FROM {schema}.operations WHERE chat = :number"),
    Statement("DELETE FROM {schema}.checkpoints WHERE chat = :number"),
)


async def _purge(tx: Ledger, chat: ChatRow) -> None:
    """Take a chat away with all that it held; of its revisions only the numbers stay."""
    head = await tx.load_head()
    holders = await tx.list_holders_of_chat(chat)
    changes: list[Change] = []
    for holder in holders:
        if holder.space == "instance":
            changes += await removal_of(tx, holder)
        else:
            changes += [RemoveValue(holder, key) for key in await removable_keys(tx, holder)]
    await tx.apply(changes)
    # Only what comes now is left of it in the log.
    subjects: list[ChatRow | HolderRow] = [chat, *holders]
    for subject in subjects:
        async for entries in subject_list(subject).newest_first(tx):
            for entry in entries:
                entry.changes = ""
                entry.seal()
            await tx.execute_many(EMPTY_ENTRY, entries)
    head.chats -= 1
    head.aliases -= len(await tx.fetch_all(SELECT_ALIASES_OF_CHAT, chat=chat.number))
    chat.gone, chat.archived_at = 1, None
    revision = await tx.apply([ChangeChat(chat, "delete_chat")])
    chat.floor = revision
    chat.places = chat.checkpoints = chat.operations = 0
    for holder in holders:
        holder.floor, holder.unframed, holder.shaped = revision, 0, 0
        holder.taken = holder.known = 0
        tx.put_holder(holder)
        for statement in PURGE_HOLDER:
            await tx.execute(statement, number=holder.number)
    for statement in PURGE_CHAT:
        await tx.execute(statement, number=chat.number)
    await tx.forget_rows()
