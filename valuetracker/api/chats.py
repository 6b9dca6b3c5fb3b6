"""Routes of chats: opening, reconciling, the past, renaming, archiving."""

from __future__ import annotations

from typing import Any

from valuetracker.api.batch import CHAT_OPERATIONS, REFUSALS
from valuetracker.api.history import DIFF_QUERY, HISTORY_QUERY, RESTORE_BODY, read_page
from valuetracker.errors import (
    ChatExists,
    ChatNotFound,
    Compacted,
    InvalidBody,
    InvalidId,
    InvalidKey,
    InvalidQuery,
    NumberOutOfRange,
    OperationsPending,
    RepeatedMessage,
    RevisionConflict,
    RevisionUnknown,
    TooDeep,
    TooManyAnchors,
    TooManyKeys,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import (
    CHAT_AT_FIELD,
    CHAT_PAST,
    DRY_RUN_FIELD,
    PAGE_FIELDS,
    PAST,
    Endpoint,
    Field,
)
from valuetracker.http.kinds import CHAT_ID, FLAG, KEY, Kind, check_key_count, choice_kind
from valuetracker.names import CHAIN_LENGTH, CHAT_ID_LENGTH, CONTROL, HASH_LENGTH, check_id
from valuetracker.records import (
    BatchAnswer,
    Chat,
    ChatPage,
    ChatState,
    Difference,
    History,
    OpenedChat,
    Reconciled,
    Restored,
    Success,
)
from valuetracker.runtime.extension import Read
from valuetracker.store import batch, chat_state, chats, history, restore
from valuetracker.store.tx.jobs import Written
from valuetracker.values import canonical


async def list_chats(call: Call) -> Read[Any]:
    """
    List the chats that are not archived, in order of creation.

    With `limit` the answer is a page, as of the list of characters.
    """
    if call.page is None:
        return await call.read(chats.list_chats)
    return await call.read(chats.list_page_of_chats, call.page)


async def find_chat(call: Call) -> Read[Any]:
    """Read the record of a chat; the answer is null for an unknown chat."""
    return await call.read(chats.find_chat, call.path["chat"])


async def open_chat(call: Call) -> Written:
    """
    Open a chat: load everything it holds and begin a session.

    Send the `session` of the answer as `x-session` with every write. `client` names the
    browser tab; opening a chat ends the previous session of that tab, and writes with the old
    session are refused. An unknown chat is created, and an archived chat is active again.
    `defaults` sets the keys that are absent. If `parent` is given and the chat is new, the chat
    becomes a branch of the parent as of `messageId`. After a chat was renamed, its old id still
    finds it; `fresh` creates a new chat with that id instead.
    """
    body = call.body
    opening = chats.Opening(
        body["client"],
        body.get("parent"),
        body.get("messageId"),
        body.get("defaults"),
        body.get("fresh", False),
    )
    return await call.write(chats.open_chat, call.path["chat"], opening)


async def get_state(call: Call) -> Read[Any]:
    """
    Read everything that a chat holds, in the form of `open`.

    `at` reads the state at a revision, at a time, or as of a visible message
    (`at=message:<id>`). The answer is null for an unknown chat.
    """
    return await call.read(chat_state.get_state, call.path["chat"], call.query.get("at"))


async def run_chat_batch(call: Call) -> Written:
    """
    Run up to 1,000 operations on a chat and its instances as one revision.

    The operations are those of `POST /batch`. An operation without `instanceId` changes the
    chat's own data. Instances of other chats are refused. The batch succeeds completely or
    changes nothing.
    """
    return await call.write(batch.run_chat_batch, call.path["chat"], call.body["operations"])


async def reconcile(call: Call) -> Written:
    """
    Tell the server which messages of a chat are visible, oldest first, each with its swipe.

    Changes that are anchored to any other message or swipe of the chat become dormant. Changes
    whose message and swipe are visible again become live. The server computes the values anew.
    Send `If-Match` with the chat's revision to refuse the request of a tab that is out of
    date. `hash` is a hash of the message's text: if it differs from the first hash that was
    sent after the last change, the answer lists the message as `stale`. With `dryRun` nothing
    changes, and the answer says what would change.
    """
    return await call.write(
        chats.reconcile,
        call.path["chat"],
        call.body["anchors"],
        call.body.get("dryRun", False),
    )


async def rename_chat(call: Call) -> Written:
    """Rename a chat; the old id still finds it."""
    return await call.write(chats.rename_chat, call.path["chat"], call.body["chatId"])


async def delete_chat(call: Call) -> Written:
    """
    Archive a chat, or purge it.

    An archived chat is not listed and cannot be written. It can be read, and opening it makes
    it active again. `purge` removes everything the chat held, with its instances and their
    history; only the numbers of its revisions remain.
    """
    purge = call.query.get("purge") == "true"
    return await call.write(chats.delete_chat, call.path["chat"], purge)


async def list_chat_history(call: Call) -> Read[Any]:
    """
    List the changes of a chat and its instances, newest first.

    The query and the items are those of an instance's history. `instanceId` is null for the
    chat's own data. `space` is `series` or `processed` for changes of those.
    """
    return await call.read(history.list_chat_history, call.path["chat"], read_page(call))


async def diff_chat(call: Call) -> Read[Any]:
    """List the differences of a chat and its instances between two revisions or times."""
    return await call.read(
        history.diff_chat, call.path["chat"], call.query["from"], call.query.get("to")
    )


async def restore_chat(call: Call) -> Written:
    """
    Restore a chat, with everything it holds, to its state at a revision.

    The restore is a new revision and can itself be undone. Instances that were created since
    are deleted, and instances that were deleted since are created again. An instance that has
    moved to another chat since stays there, with a warning. The visible messages do not change,
    and restored values continue to follow them. While operations of the chat are active, the
    request is refused. With `dryRun` nothing changes, `changes` lists what would, and operations
    may be active.
    """
    return await call.write(
        restore.restore_chat,
        call.path["chat"],
        call.body["revision"],
        call.body.get("dryRun", False),
    )


def _parse_chain(value: Any) -> chats.VisibleChain:
    # A chain has thousands of messages and is sent with every swipe: as little as possible
    # is done for each, and only what looks wrong is looked at again.
    if not isinstance(value, list):
        raise InvalidBody("`anchors` must be an array.")
    if len(value) > CHAIN_LENGTH:
        raise TooManyAnchors(f"A chain may have {CHAIN_LENGTH} messages.")
    names: list[tuple[str, str]] = []
    hashes: dict[tuple[str, str], str] = {}
    for given in value:
        if type(given) is not dict:
            raise InvalidBody("An anchor must be an object with a `messageId`.")
        message_id, swipe = given.get("messageId"), given.get("swipe", "0")
        # SillyTavern counts swipes; a number is read as its text.
        if type(swipe) is int:
            swipe = str(swipe)
        if type(message_id) is not str or type(swipe) is not str:
            raise InvalidBody("`messageId` must be a string, `swipe` a string or a number.")
        if not 0 < len(message_id) <= CHAT_ID_LENGTH or message_id.strip() != message_id:
            check_id(message_id, "message", CHAT_ID_LENGTH)
        if swipe != "0" and (not 0 < len(swipe) <= CHAT_ID_LENGTH or swipe.strip() != swipe):
            check_id(swipe, "swipe", CHAT_ID_LENGTH)
        names.append((message_id, swipe))
        if given.get("hash") is not None:
            hashes[message_id, swipe] = _parse_hash(given["hash"])
    if CONTROL.search("".join([text for name in names for text in name])):
        raise InvalidId("The id of a message or a swipe holds a control character.")
    if len({message_id for message_id, _ in names}) != len(names):
        raise RepeatedMessage()
    return chats.VisibleChain(names, hashes)


def _parse_hash(text: Any) -> str:
    if not isinstance(text, str) or len(text) > HASH_LENGTH:
        raise InvalidBody(f"`hash` must be a string of {HASH_LENGTH} characters at the most.")
    return text


def _parse_defaults(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidBody("`defaults` must be an object of keys and values.")
    check_key_count(len(value))
    return {KEY.parse(key): canonical(each) for key, each in value.items()}


def _parse_client(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidBody("`client` must be a string.")
    return check_id(value, "client")


CLIENT = Kind({"type": "string", "minLength": 1, "maxLength": 256}, _parse_client)
DEFAULTS = Kind({"type": "object", "description": "Keys and values."}, _parse_defaults)
CHAIN = Kind(
    {
        "type": "array",
        "maxItems": CHAIN_LENGTH,
        "items": {
            "type": "object",
            "properties": {
                "messageId": {"type": "string"},
                "swipe": {"type": ["string", "integer"]},
                "hash": {"type": ["string", "null"]},
            },
            "required": ["messageId"],
        },
    },
    _parse_chain,
)

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/chats",
        list_chats,
        returns=list[Chat] | ChatPage,
        query=PAGE_FIELDS,
        raises=(InvalidQuery,),
    ),
    Endpoint(("GET",), "/chats/{chat}", find_chat, returns=Chat | None, raises=(InvalidId,)),
    Endpoint(
        ("POST",),
        "/chats/{chat}/open",
        open_chat,
        returns=OpenedChat,
        body=(
            Field("client", CLIENT, "The name of the tab that opens the chat."),
            Field(
                "parent",
                CHAT_ID,
                "The chat that this chat is a branch of.",
                required=False,
                nullable=True,
            ),
            Field(
                "messageId",
                CHAT_ID,
                "The last message of the parent that the branch takes over.",
                required=False,
                nullable=True,
            ),
            Field(
                "defaults",
                DEFAULTS,
                "Keys with the values to set where the key is absent.",
                required=False,
            ),
            Field("fresh", FLAG, "Create a new chat with a former id.", required=False),
        ),
        raises=(
            InvalidBody,
            InvalidId,
            InvalidKey,
            NumberOutOfRange,
            TooDeep,
            TooManyKeys,
            ValueTooLarge,
        ),
        conditional=False,
        beyond_quota=True,
    ),
    Endpoint(
        ("GET",),
        "/chats/{chat}/state",
        get_state,
        returns=ChatState | None,
        query=(CHAT_AT_FIELD,),
        raises=(InvalidId, *CHAT_PAST),
    ),
    Endpoint(
        ("POST",),
        "/chats/{chat}/batch",
        run_chat_batch,
        returns=BatchAnswer,
        body=(Field("operations", CHAT_OPERATIONS, "The operations, in order."),),
        raises=REFUSALS,
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        "/chats/{chat}/reconcile",
        reconcile,
        returns=Reconciled,
        body=(
            Field("anchors", CHAIN, "The visible messages, oldest first."),
            DRY_RUN_FIELD,
        ),
        raises=(
            InvalidBody,
            InvalidId,
            TooManyAnchors,
            RepeatedMessage,
            ChatNotFound,
            RevisionConflict,
        ),
        beyond_quota=True,
    ),
    Endpoint(
        ("PATCH",),
        "/chats/{chat}",
        rename_chat,
        returns=Chat,
        body=(Field("chatId", CHAT_ID, "The new id."),),
        raises=(InvalidBody, InvalidId, ChatNotFound, ChatExists, RevisionConflict),
    ),
    Endpoint(
        ("DELETE",),
        "/chats/{chat}",
        delete_chat,
        returns=Success,
        query=(
            Field(
                "purge",
                choice_kind("true", "false"),
                "Remove everything the chat held.",
                required=False,
            ),
        ),
        raises=(InvalidId, InvalidQuery, ChatNotFound, RevisionConflict),
    ),
    Endpoint(
        ("GET",),
        "/chats/{chat}/history",
        list_chat_history,
        returns=History,
        query=HISTORY_QUERY,
        raises=(InvalidId, InvalidKey, InvalidQuery, *PAST),
    ),
    Endpoint(
        ("GET",),
        "/chats/{chat}/diff",
        diff_chat,
        returns=list[Difference],
        query=DIFF_QUERY,
        raises=(InvalidId, InvalidQuery, *PAST),
    ),
    Endpoint(
        ("POST",),
        "/chats/{chat}/restore",
        restore_chat,
        returns=Restored,
        body=RESTORE_BODY,
        raises=(
            InvalidBody,
            InvalidId,
            RevisionUnknown,
            ChatNotFound,
            Compacted,
            OperationsPending,
            RevisionConflict,
        ),
    ),
]
