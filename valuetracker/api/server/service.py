"""Routes that describe the server itself."""

from __future__ import annotations

from typing import Any

from valuetracker import __version__, integers, names, values
from valuetracker.api.batch import OPERATIONS_PER_BATCH
from valuetracker.api.feed import LONGEST_WAIT_SECONDS
from valuetracker.api.series import IDS_PER_CLAIM, LONGEST_LEASE_MS
from valuetracker.errors import InvalidBody
from valuetracker.http.call import Call, Document
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import EXTENSIONS_PER_FEED, LARGEST_PAGE, TEXT
from valuetracker.http.limits import HEADER_BYTES, HEADER_COUNT
from valuetracker.records import CallerInfo, Health, Limits, PluginHealth, Pong
from valuetracker.store.batch import RESULT_BYTES
from valuetracker.store.history import PAGE_BYTES
from valuetracker.store.log.json_patch import COPIED_BYTES, PATCH_OPERATIONS


async def probe(call: Call) -> None:
    """Answer without a body, to show that the plugin is there."""
    return


async def ping(call: Call) -> Pong:
    """Answer with the message that was sent."""
    return {"message": f"Pong! {call.body['message']}"}


async def healthz(call: Call) -> Health:
    """Read the state and the versions of the server; also served without the prefix."""
    extensions, service, user = call.extensions, call.service, call.caller.user
    growth = service.growth
    return {
        "status": "ok",
        "version": __version__,
        "engine": extensions.engine.name,
        "engineVersion": extensions.engine.version,
        "extensions": len(extensions.registry.list_registered()),
        "openDatabases": extensions.open_count,
        "large": growth.count_large(user),
        "full": growth.count_full(user),
        "backup": {**service.backups.health(), "overdue": service.nightly.is_overdue()},
    }


async def get_caller(call: Call) -> CallerInfo:
    """
    Read who asks, and what they may do.

    `bridge` is true for a page of SillyTavern. `tokenNeeded` is true if tokens are in use and the
    request has none. `extensions` lists those that the caller may write: those of the token, or
    those of the user; an admin may write all of them.
    """
    caller = call.caller
    token = caller.token
    if token is not None and not token.admin:
        extensions = list(token.extensions)
    elif caller.needs_token and token is None:
        extensions = []
    else:
        extensions = [each.id for each in call.extensions.registry.list_registered()]
    return {
        "user": caller.user,
        "admin": caller.admin,
        "bridge": caller.is_bridge,
        "tokenNeeded": caller.needs_token and token is None,
        "readOthers": token is None or token.admin or token.read_others,
        "extensions": extensions,
    }


async def health(call: Call) -> PluginHealth:
    """Read the version of the plugin."""
    return {"ok": True, "plugin": "valuetracker", "version": __version__}


async def limits(call: Call) -> Limits:
    """Read the limits: how much a request may hold."""
    return {
        "bodyBytes": values.BODY_BYTES,
        "valueBytes": values.VALUE_BYTES,
        "valueDepth": values.VALUE_DEPTH,
        "keysPerRequest": values.KEYS_PER_REQUEST,
        "batchOperations": OPERATIONS_PER_BATCH,
        "batchResultBytes": RESULT_BYTES,
        "patchOperations": PATCH_OPERATIONS,
        "patchCopiedBytes": COPIED_BYTES,
        "chainMessages": names.CHAIN_LENGTH,
        "processedIds": IDS_PER_CLAIM,
        "leaseMs": LONGEST_LEASE_MS,
        "pageItems": LARGEST_PAGE,
        "pageBytes": PAGE_BYTES,
        "waitSeconds": LONGEST_WAIT_SECONDS,
        "extensionIdLength": names.EXTENSION_ID_LENGTH,
        "characterIdLength": names.ID_LENGTH,
        "instanceIdLength": names.ID_LENGTH,
        "chatIdLength": names.CHAT_ID_LENGTH,
        "messageIdLength": names.CHAT_ID_LENGTH,
        "swipeLength": names.CHAT_ID_LENGTH,
        "processedIdLength": names.CHAT_ID_LENGTH,
        "clientLength": names.ID_LENGTH,
        "seriesNameLength": names.ID_LENGTH,
        "setNameLength": names.ID_LENGTH,
        "operationIdLength": names.ID_LENGTH,
        "checkpointNameLength": names.ID_LENGTH,
        "keyLength": names.KEY_LENGTH,
        "nameLength": names.NAME_LENGTH,
        "hashLength": names.HASH_LENGTH,
        "headerTextLength": names.HEADER_TEXT_LENGTH,
        "integerMinimum": integers.SMALLEST_INTEGER,
        "integerMaximum": integers.LARGEST_INTEGER,
        "headerBytes": HEADER_BYTES,
        "headerCount": HEADER_COUNT,
        "connections": call.service.settings.connections,
        "feedExtensions": EXTENSIONS_PER_FEED,
        "feedReaders": call.service.settings.feed_readers,
        "allFeedReaders": call.service.settings.all_feed_readers,
    }


async def openapi(call: Call) -> Document:
    """Describe all routes as OpenAPI 3.1."""
    return call.service.documents["openapi"]()


async def docs(call: Call) -> Document:
    """Describe all routes as a page with a search."""
    return call.service.documents["docs"]()


# Everybody who can reach the server may read its state and its documentation.
PUBLIC: dict[str, Any] = {"extension": "none", "access": "public"}

ENDPOINTS = [
    Endpoint(("GET",), "/probe", probe, returns=None, status=204, **PUBLIC),
    Endpoint(
        ("POST",),
        "/ping",
        ping,
        returns=Pong,
        body=(Field("message", TEXT, "The message to send back."),),
        raises=(InvalidBody,),
        **PUBLIC,
    ),
    Endpoint(("GET",), "/health", health, returns=PluginHealth, **PUBLIC),
    Endpoint(("GET",), "/healthz", healthz, returns=Health, at_root=True, **PUBLIC),
    Endpoint(("GET",), "/caller", get_caller, returns=CallerInfo, **PUBLIC),
    Endpoint(("GET",), "/limits", limits, returns=Limits, **PUBLIC),
    Endpoint(("GET",), "/openapi.json", openapi, returns=Document, **PUBLIC),
    Endpoint(("GET",), "/docs", docs, returns=Document, **PUBLIC),
]
