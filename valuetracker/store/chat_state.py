"""The state of a chat: all that it holds now, at a moment, or as of a message."""

from __future__ import annotations

from typing import Any

import orjson

from valuetracker.errors import MessageNotFound
from valuetracker.records import ChatState, Origin
from valuetracker.store.log.state_at import (
    AsOf,
    ChatAt,
    check_not_purged,
    find_moment,
    shape_at,
)
from valuetracker.store.rows.chat_rows import count_operations, list_checkpoint_rows
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.contents import Contents, contents_at, contents_now, contents_of
from valuetracker.store.story.point import point_of
from valuetracker.store.story.series import parse_series, processed_sets


async def get_state(tx: Snapshot, chat_id: str, at: ChatAt | None) -> ChatState | None:
    tx.takes_no_revision()
    chat = await tx.find_any_chat(chat_id)
    if isinstance(at, AsOf):
        if chat is None or chat.deleted:
            raise MessageNotFound()
        point = await point_of(tx, chat, None, at.message_id)
        return await state_record(tx, chat, await contents_of(tx, point))
    if at is not None:
        moment = await find_moment(tx, at)
        if chat is None:
            return None
        check_not_purged(chat, moment)
        shape = await shape_at(tx, chat, moment)
        if shape is None or shape.after is None:
            return None
        state = await state_record(tx, chat, await contents_at(tx, chat, moment))
        state["revision"] = moment.revision
        return state
    if chat is None or chat.deleted:
        return None
    return await state_record(tx, chat, await contents_now(tx, chat))


async def origin_record(tx: RowReader, chat: ChatRow) -> Origin | None:
    """Return where a branch left its parent, and what it began with."""
    if chat.origin is None:
        return None
    stored: dict[str, Any] = orjson.loads(chat.origin)
    origin: Any = {"chatId": await tx.chat_id(chat.parent), **stored}
    shown: Origin = origin
    return shown


async def state_record(tx: RowReader, chat: ChatRow, contents: Contents) -> ChatState:
    return {
        "chatId": chat.id,
        "revision": chat.revision,
        "parent": await tx.chat_id(chat.parent),
        "origin": await origin_record(tx, chat),
        "data": contents.spaces["chat"],
        "instances": contents.instances,
        "series": {
            name: {"currentVersion": series.current, "count": len(series.versions)}
            for name, series in parse_series(contents.spaces["series"]).items()
        },
        "processed": {
            name: len(ids) for name, ids in processed_sets(contents.spaces["processed"]).items()
        },
        "checkpoints": [row.summary() for row in await list_checkpoint_rows(tx, chat)],
        "operations": await count_operations(tx, chat),
        "warnings": [],
    }
