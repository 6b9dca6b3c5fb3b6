"""Chats: opening, listing, reconciling, renaming, archiving, purging."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from valuetracker.engine.statement import Statement
from valuetracker.errors import ChatExists, Compacted
from valuetracker.records import Chat, ChatPage, OpenedChat, Reconciled, Success
from valuetracker.store.chat_state import origin_record, state_record
from valuetracker.store.checkpoint_making import record_beginning
from valuetracker.store.log.lists import subject_list
from valuetracker.store.operations import sweep
from valuetracker.store.rows.chat_rows import count_active, count_operations
from valuetracker.store.rows.chats import (
    DELETE_ALIAS,
    DELETE_SESSION_OF_CLIENT,
    INSERT_SESSION,
    SELECT_PAGE_OF_CHATS,
    ChatRow,
    SessionRow,
)
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.holders import HolderRow, changed_value, in_answer
from valuetracker.store.rows.pages import Page
from valuetracker.store.rows.places import PlaceName
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row import update
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import ALL_CHATS, chat_tag
from valuetracker.store.story.contents import contents_now, contents_of
from valuetracker.store.story.point import point_of
from valuetracker.store.story.visibility import Flips
from valuetracker.store.tx.branching import begin_branch
from valuetracker.store.tx.changes import (
    AddAlias,
    Change,
    ChangeChat,
    ChangeValue,
    UpdateQuietly,
    remove,
)
from valuetracker.store.tx.conflicts import conflict_records
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import show_chain
from valuetracker.store.tx.removal import removal_of
from valuetracker.store.tx.write_target import (
    check_chat_if_match,
    get_writable_chat,
)


async def chat_record(tx: RowReader, chat: ChatRow) -> Chat:
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
    tx.lists(ALL_CHATS)
    chats = await tx.list_chats()
    return [await chat_record(tx, chat) for chat in chats if chat.archived_at is None]


async def list_page_of_chats(tx: Snapshot, page: Page) -> ChatPage:
    tx.lists(ALL_CHATS)
    rows, cursor = await tx.read_page(SELECT_PAGE_OF_CHATS, ChatRow, page)
    return {"items": [await chat_record(tx, row) for row in rows], "next": cursor}


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
    """How a chat is opened: by whom, and what a new one begins with."""

    client: str
    parent: str | None = None
    message_id: str | None = None
    defaults: dict[str, str] | None = None
    fresh: bool = False


async def _drop_alias(tx: Ledger, id: str) -> None:
    """Have no chat found by this former id any more."""
    await tx.execute(DELETE_ALIAS, id=id)
    tx.cache.chat_numbers.clear()


async def open_chat(tx: Ledger, chat_id: str, opening: Opening) -> OpenedChat:
    """Open a chat: the one load of a session. A chat is created when it is first opened."""
    found = await tx.find_chat(chat_id)
    if found is not None and found.id != chat_id and opening.fresh:
        await _drop_alias(tx, chat_id)
        found = None
    warnings: list[str] = []
    chat = await tx.get_or_create_chat(chat_id)
    if found is None and opening.parent is not None:
        warnings += await _branch(tx, chat, opening.parent, opening.message_id)
    if chat.archived_at is not None:
        chat.archived_at, chat.updated_at = None, tx.now
        await tx.apply([ChangeChat(chat, "update_chat")])
    if opening.defaults:
        await _set_defaults(tx, chat, opening.defaults)
    if found is None and chat.parent is not None:
        await record_beginning(tx, chat)
    await sweep(tx, chat)
    session = SessionRow(secrets.token_urlsafe(18), chat.number, opening.client, tx.now)
    session.seal()
    await tx.execute(DELETE_SESSION_OF_CLIENT, client=opening.client)
    await tx.execute_many(INSERT_SESSION, [session])
    state = await state_record(tx, chat, await contents_now(tx, chat, answers=True))
    state["warnings"] = warnings
    return {"session": session.session, "created": found is None, **state}


async def _branch(tx: Ledger, chat: ChatRow, parent_id: str, message_id: str | None) -> list[str]:
    """Make a new chat a branch as of a message; return warnings."""
    parent = await tx.find_chat(parent_id)
    if parent is None or parent.number == chat.number:
        return [f"There is no chat {parent_id}: this one begins empty."]
    warnings: list[str] = []
    chain = await tx.load_chain(parent.number)
    if message_id is not None and message_id not in chain.visible:
        warnings.append(f"Message {message_id} is not visible in {parent.id}: taken as it is now.")
        message_id = None
    counts = await count_operations(tx, parent)
    active = count_active(counts)
    if active:
        warnings.append(f"{active} operations of {parent.id} are in queue and not taken over.")
    point = await point_of(tx, parent, None, message_id)
    if point.message_id is not None and point.oldest:
        try:
            await contents_of(tx, point)
        except Compacted:
            warnings.append(f"Changes behind {message_id} were folded: taken as it is now.")
            point = await point_of(tx, parent)
    await begin_branch(tx, chat, point)
    return warnings


async def _set_defaults(tx: Ledger, chat: ChatRow, defaults: dict[str, str]) -> None:
    holder = await tx.get_or_create_space(chat, "chat")
    rows = await tx.load_rows(holder, list(defaults))
    absent = [key for key in defaults if (row := rows[key]) is None or row.value is None]
    # They belong to no message, so a chat keeps them when messages are hidden.
    await tx.apply([ChangeValue(holder, key, defaults[key], first=True) for key in absent])


# Reconciling


@dataclass(slots=True, frozen=True)
class VisibleChain:
    """The messages of a chat that are visible, oldest first, and hashes of some of them."""

    names: list[PlaceName]
    hashes: dict[PlaceName, str]


async def reconcile(
    tx: Ledger, chat_id: str, visible: VisibleChain, dry_run: bool = False
) -> Reconciled:
    chat = await get_writable_chat(tx, chat_id)
    await check_chat_if_match(tx, chat_id)
    chain = await tx.load_chain(chat.number)
    same = visible.names == chain.names()
    flips = Flips() if same else await show_chain(tx, chat, visible.names, dry_run)
    stale = await _compare_hashes(tx, chat, visible.hashes, dry_run)
    return {
        "revision": (await tx.load_head()).revision,
        "dormant": flips.dormant,
        "revived": flips.revived,
        "changed": [
            changed_value(
                value.holder,
                value.key,
                value.before,
                value.after,
                # A dry run shows values that the log does not have.
                in_answer if dry_run else tx.shown,
            )
            for value in flips.values
        ],
        "conflicts": conflict_records(flips.conflicts),
        "stale": stale,
        "warnings": flips.warnings,
    }


async def _compare_hashes(
    tx: Ledger, chat: ChatRow, hashes: dict[PlaceName, str], dry_run: bool
) -> list[str]:
    """Return the messages whose text has changed since values were last made of it."""
    stale: list[str] = []
    chain = await tx.load_chain(chat.number)
    for name, text in hashes.items():
        place = chain.places.get(name)
        if place is None:
            continue
        if place.hash is None:
            if not dry_run:
                place.hash = text
                await tx.apply([UpdateQuietly(place)])
        elif place.hash != text:
            stale.append(place.message_id)
    return stale


# Renaming


async def rename_chat(tx: Ledger, chat_id: str, new_id: str) -> Chat:
    chat = await get_writable_chat(tx, chat_id)
    taken = await tx.find_any_chat(new_id)
    if taken is not None and taken.number != chat.number and not taken.deleted:
        raise ChatExists()
    await check_chat_if_match(tx, chat_id)
    if new_id == chat.id:
        return await chat_record(tx, chat)
    if taken is not None and taken.number != chat.number:
        # The row of a purged chat gives up its id; no request can name the new one.
        taken.id = f"\x7f{taken.number}"
        await tx.apply([UpdateQuietly(taken)])
    await _drop_alias(tx, new_id)
    await tx.apply([AddAlias(chat.id, chat.number)])
    chat.id, chat.updated_at = new_id, tx.now
    tx.cache.chat_numbers.clear()
    revision = await tx.apply([ChangeChat(chat, "rename_chat")])
    # Every answer that names the chat is another one now.
    holders = await tx.list_holders_of_chat(chat)
    for holder in holders:
        holder.revision = revision
    await tx.apply([UpdateQuietly(holder) for holder in holders])
    tx.invalidate_everything()
    return await chat_record(tx, chat)


# Archiving and purging


async def delete_chat(tx: Ledger, chat_id: str, purge: bool) -> Success:
    chat = await get_writable_chat(tx, chat_id, archived=True)
    await check_chat_if_match(tx, chat_id)
    if purge:
        await _purge(tx, chat)
    elif chat.archived_at is None:
        chat.archived_at = chat.updated_at = tx.now
        await tx.apply([ChangeChat(chat, "update_chat")])
    return {"success": True}


EMPTY_ENTRY = update(EntryRow, "entry", "changes", "checksum")
PURGE_HOLDER = (
    # The account stays: the holder has a row, too.
    Statement("DELETE FROM {schema}.data WHERE holder = :number AND key <> ''"),
    Statement("DELETE FROM {schema}.adopted WHERE holder = :number"),
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
    # Folding leaves one of the chat itself, which speaks of an entry that is empty now.
    Statement("DELETE FROM {schema}.keyframes WHERE holder = :number"),
    Statement("DELETE FROM {schema}.sessions WHERE chat = :number"),
    Statement("DELETE FROM {schema}.claims WHERE chat = :number"),
    Statement("DELETE FROM {schema}.aliases WHERE chat = :number"),
    Statement("DELETE FROM {schema}.operations WHERE chat = :number"),
    Statement("DELETE FROM {schema}.checkpoints WHERE chat = :number"),
)


async def _purge(tx: Ledger, chat: ChatRow) -> None:
    """Delete a chat with all that it holds; of its revisions only the numbers stay."""
    holders = await tx.list_holders_of_chat(chat)
    changes: list[Change] = []
    for holder in holders:
        if holder.space == "instance":
            changes += await removal_of(tx, holder)
        else:
            rows = await tx.list_rows(holder)
            changes += [remove(holder, row.key) for row in rows if row.is_removable]
    await tx.apply(changes)
    # Empty all entries so far: only those that follow say anything.
    subjects: list[ChatRow | HolderRow] = [chat, *holders]
    for subject in subjects:
        async for entries in subject_list(subject).newest_first(tx):
            for entry in entries:
                entry.changes = ""
                entry.seal()
            await tx.execute_many(EMPTY_ENTRY, entries)
    chat.deleted, chat.archived_at = 1, None
    revision = await tx.apply([ChangeChat(chat, "delete_chat")])
    chat.readable_from = revision
    for holder in holders:
        holder.readable_from, holder.changes_since_keyframe, holder.shape_entry = revision, 0, 0
        await tx.apply([UpdateQuietly(holder)])
        for statement in PURGE_HOLDER:
            await tx.execute(statement, number=holder.number)
    for statement in PURGE_CHAT:
        await tx.execute(statement, number=chat.number)
    await tx.reload_rows()
