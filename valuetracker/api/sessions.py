"""
Routes of sessions: another program tells a story, shares its values and asks for replies.

`/st/session/sync` sends a session to SillyTavern, where `/session/sync` answers it. A page with
the extension open may reply in the name of the model (`/session/pending`, `/session/reply`).
valuetracker/bridge/DESIGN.md describes the exchange.
"""

from __future__ import annotations

from typing import Any

from valuetracker.api.sillytavern import (
    LONGEST_SECONDS,
    check_place,
    configured,
    place_fields,
    seconds_kind,
    user_of,
)
from valuetracker.bridge.origins import allowed_origin
from valuetracker.bridge.prompts import PromptBoard
from valuetracker.bridge.records import (
    PendingPrompt,
    RecentSyncs,
    ReplyTaken,
    SessionAnswer,
    SessionSync,
)
from valuetracker.bridge.session import (
    Exchange,
    build_context,
    panel_reply,
    scene_source,
    summary,
)
from valuetracker.errors import (
    AdminRequired,
    ChatArchived,
    ExtensionExists,
    ExtensionNotRegistered,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidQuery,
    NumberOutOfRange,
    OriginNotAllowed,
    PromptNotFound,
    TooDeep,
    TooManyKeys,
    UpstreamFailed,
    ValueTooLarge,
    ValueTrackerError,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import (
    CHAT_ID,
    EXTENSION_ID,
    FLAG,
    KEY,
    VALUE,
    Kind,
    check_key_count,
    number_kind,
)
from valuetracker.names import CONTROL
from valuetracker.store import data
from valuetracker.store.rows.spaces import chat
from valuetracker.values import BODY_BYTES, canonical

# The extension of the values if the request names none.
DEFAULT_EXTENSION = "session-sync"
DEFAULT_SECONDS = 2.0
LONGEST_WAIT = 30
MOST_MESSAGES = 100_000


async def sync_session(call: Call) -> SessionSync:
    """
    Send a session to SillyTavern, and answer with the reply.

    The transcript (`messages`, or else `history`) is brought into one form and shortened to the
    last `limit_messages`. `context` is the body that is sent; with `dry_run` it is only shown.
    `panel_reply` is the reply in the form that a chat panel shows. If `chat` is given and
    `variables` is not, the values of that chat are sent. With `store`, the values that come
    back are written to that chat.

    If SillyTavern cannot be reached or its answer cannot be used, the answer is `502`, and its
    `details` have `message_count`, `timeout`, `latency_ms` and `endpoint`.

    A SillyTavern with accounts refuses requests without a login. In that case, send the session
    to `/session/sync` from a page of SillyTavern.
    """
    body = call.body
    config = configured(call)
    check_place(call, config, body)
    origin = allowed_origin(body.get("base_url") or config.base_url, config)
    chat_id = body.get("chat")
    if chat_id is None and body.get("store"):
        raise InvalidBody("`store` needs a `chat` to store in.")
    variables = body.get("variables")
    if chat_id is not None:
        await _enter(call, body.get("extension_id"))
        if variables is None:
            variables = await _values_of(call, chat_id)
    exchange = Exchange(
        config,
        origin,
        body.get("plugin_base") or config.plugin_base,
        build_context(body, variables or {}),
        scene_source(body),
        body.get("timeout", DEFAULT_SECONDS),
        body.get("dry_run", False),
    )
    try:
        sync = await exchange.run()
        returned = sync["received"].get("variables")
        if chat_id is not None and body.get("store") and sync["ok"] and isinstance(returned, dict):
            await _store_returned(call, chat_id, returned)
    except ValueTrackerError as error:
        if isinstance(error, UpstreamFailed):
            error.details |= exchange.measures()
        _board(call).add_sync(user_of(call), exchange.failure(error))
        raise
    _board(call).add_sync(user_of(call), summary(sync))
    return sync


async def _store_returned(call: Call, chat_id: str, returned: dict[str, Any]) -> None:
    try:
        values = _parse_values(returned)
    except ValueTrackerError as error:
        raise UpstreamFailed(f"The variables cannot be stored: {error.message}") from None
    if values:
        await call.write(data.merge_values, chat(chat_id), values)


async def list_syncs(call: Call) -> RecentSyncs:
    """List the latest session syncs of this server, also those that failed, newest first."""
    return {"items": _board(call).recent_syncs(user_of(call))}


async def take_session(call: Call) -> SessionAnswer:
    """
    Receive a session: store its variables, and let a page reply to it.

    The server sets the variables in the chat `session_id`. The chat belongs to the extension
    that the header or `extension_id` names, or else to `session-sync`, which is registered when
    it is first needed. If a page with the extension is open, the server asks the page for a
    reply and waits up to `timeout` seconds. `reply` is null if no reply comes; without an open
    page the answer comes at once. `variables` are all values of the chat.
    """
    body = call.body
    context = build_context({"limit_messages": 0, **body}, body.get("variables") or {})
    session_id = CHAT_ID.parse(context["session_id"])
    values = _parse_values(context["variables"])
    await _enter(call, body.get("extension_id"))
    if values:
        await call.write(data.merge_values, chat(session_id), values)
    seconds = call.query.get("timeout", body.get("timeout", DEFAULT_SECONDS))
    context.pop("extension_id", None)
    reply = await _board(call).ask(user_of(call), call.extension_id, context, seconds)
    return {
        "ok": True,
        "reply": panel_reply(reply),
        "variables": await _values_of(call, session_id),
    }


async def next_prompt(call: Call) -> PendingPrompt:
    """
    Wait, as a page, for the next session that needs a reply.

    Each session is given to one page. With `wait`, the server delays an empty answer until a
    session comes or that many seconds have passed. Ask again at once: sessions wait for a reply
    only while a page asks.
    """
    # A page that has left must not get a session that another page could reply to.
    with call.service.users.waiting():
        return {"prompt": await _board(call).next_prompt(user_of(call), call.query.get("wait", 0))}


async def reply_to_prompt(call: Call) -> ReplyTaken:
    """
    Reply to a session. A null reply declines it, and the session stops waiting.

    A reply that comes too late answers `404`.
    """
    _board(call).reply(user_of(call), call.body["id"], call.body["reply"])
    return {"ok": True}


def _board(call: Call) -> PromptBoard:
    return call.service.prompts


async def _enter(call: Call, named: str | None) -> None:
    """Find the extension of the values; register the one for sessions if it is needed."""
    if call.extension_id and named and call.extension_id != named:
        raise InvalidExtensionId("The header and `extension_id` name different extensions.")
    call.extension_id = call.extension_id or named or DEFAULT_EXTENSION
    extensions = call.extensions
    if (
        call.extension_id == DEFAULT_EXTENSION
        and extensions.registry.find_registered(DEFAULT_EXTENSION) is None
    ):
        await extensions.register(DEFAULT_EXTENSION, None)


async def _values_of(call: Call, chat_id: str) -> dict[str, Any]:
    read = await call.read(data.list_values, chat(chat_id))
    values: dict[str, Any] = read.result
    return values


def _parse_values(values: dict[str, Any]) -> dict[str, str]:
    check_key_count(len(values))
    return {KEY.parse(key): VALUE.parse(value) for key, value in values.items()}


# The fields of these routes


def _json_kind(kind: type, name: str, noun: str) -> Kind:
    def parse(value: Any) -> Any:
        if not isinstance(value, kind):
            raise InvalidBody(f"This must be {noun}.")
        canonical(value, BODY_BYTES)
        return value

    return Kind({"type": name}, parse)


def _parse_label(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 500 or CONTROL.search(value):
        raise InvalidBody("This must be text of 1 to 500 characters on one line.")
    return value


def _parse_limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_MESSAGES:
        raise InvalidBody(f"`limit_messages` must be a whole number from 0 to {MOST_MESSAGES}.")
    return value


def _parse_reply(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise InvalidBody("`reply` must be text, an object with `content`, or null.")
    canonical(value)
    return value


OBJECT = _json_kind(dict, "object", "an object")
LIST = _json_kind(list, "array", "an array")
LABEL = Kind({"type": "string", "minLength": 1, "maxLength": 500}, _parse_label)
LIMIT = Kind({"type": "integer", "minimum": 0, "maximum": MOST_MESSAGES}, _parse_limit)
REPLY = Kind({"anyOf": [{"type": "string"}, {"type": "object"}]}, _parse_reply)


def _optional(name: str, kind: Kind, description: str) -> Field:
    return Field(name, kind, description, required=False, nullable=True)


CONTEXT_FIELDS = (
    _optional(
        "session_id", CHAT_ID, "The id of the session; defaults to one made from the scene or node."
    ),
    _optional("scene_id", LABEL, "The id of the scene."),
    _optional("node_id", LABEL, "The id of the position in the scene."),
    _optional("pov", LABEL, "The character whose point of view is told."),
    _optional("variables", OBJECT, "The values of the story."),
    _optional("messages", LIST, "The transcript: texts, or objects with a role and content."),
    _optional("history", LIST, "The transcript, if `messages` is empty."),
    _optional("metadata", OBJECT, "Any other data."),
    _optional("scene", OBJECT, "The scene itself."),
    _optional("user_id", LABEL, "The user of the session."),
    _optional(
        "extension_id", EXTENSION_ID, "The extension of the values; defaults to `session-sync`."
    ),
)
TIMEOUT = Field(
    "timeout", seconds_kind(InvalidBody), "How many seconds to wait; defaults to 2.", False
)
REFUSALS = (
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    TooDeep,
    TooManyKeys,
    ValueTooLarge,
    InvalidExtensionId,
    ExtensionNotRegistered,
    ExtensionExists,
    ChatArchived,
)

ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/st/session/sync",
        sync_session,
        returns=SessionSync,
        body=(
            *CONTEXT_FIELDS,
            *place_fields(InvalidBody),
            Field("dry_run", FLAG, "Send nothing, and answer what would be sent.", False),
            Field(
                "limit_messages",
                LIMIT,
                "The largest number of turns; defaults to 50; 0 sends all.",
                False,
            ),
            _optional("chat", CHAT_ID, "The chat whose values are sent and stored."),
            Field("store", FLAG, "Write the values that come back to that chat.", False),
        ),
        raises=(InvalidBody, *REFUSALS, OriginNotAllowed, AdminRequired, UpstreamFailed),
        extension="optional",
        at_root=True,
    ),
    Endpoint(
        ("GET",),
        "/st/session/sync",
        list_syncs,
        returns=RecentSyncs,
        extension="none",
        at_root=True,
    ),
    Endpoint(
        ("POST",),
        "/session/sync",
        take_session,
        returns=SessionAnswer,
        body=(*CONTEXT_FIELDS, TIMEOUT),
        query=(
            Field(
                "timeout",
                seconds_kind(InvalidQuery),
                "The time to wait, instead of that in the body.",
                False,
            ),
        ),
        raises=(InvalidBody, InvalidQuery, *REFUSALS),
        extension="optional",
    ),
    Endpoint(
        ("GET",),
        "/session/pending",
        next_prompt,
        returns=PendingPrompt,
        query=(
            Field(
                "wait",
                number_kind(0, LONGEST_WAIT),
                "How many seconds to wait for a session.",
                False,
            ),
        ),
        raises=(InvalidQuery,),
        extension="none",
    ),
    Endpoint(
        ("POST",),
        "/session/reply",
        reply_to_prompt,
        returns=ReplyTaken,
        body=(
            Field("id", LABEL, "The id of the prompt."),
            Field("reply", REPLY, "The reply, or null.", nullable=True),
        ),
        raises=(InvalidBody, TooDeep, ValueTooLarge, PromptNotFound),
        extension="none",
    ),
]
assert LONGEST_WAIT <= LONGEST_SECONDS
