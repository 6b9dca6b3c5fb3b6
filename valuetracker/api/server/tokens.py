"""Routes of tokens: listing, making and revoking them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from valuetracker import durable
from valuetracker.errors import (
    AdminTokenFirst,
    DatabaseUnavailable,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidName,
    StartupError,
    StorageFull,
    TokenNotFound,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import EXTENSION_ID, FLAG, NAME, Kind
from valuetracker.records import NewToken, Success, TokenRecord

T = TypeVar("T")

EXTENSIONS_PER_TOKEN = 128


async def list_tokens(call: Call) -> list[TokenRecord]:
    """
    List the tokens: whom each is for and what it may do.

    The text that clients send is not kept, so nobody can read it again.
    """
    return [each.record() for each in await _on_file(call.service.gate.tokens.load)]


async def create_token(call: Call) -> NewToken:
    """
    Make a token. Its text is in `token`, and nowhere else later.

    From the first token on every client needs one, so the first must be an admin's. It is valid at
    once.
    """
    gate, body = call.service.gate, call.body
    extensions = tuple(dict.fromkeys(body.get("extensions", ())))
    read_others, admin = body.get("readOthers", False), body.get("admin", False)
    if not (extensions or read_others or admin):
        raise InvalidBody("Say what it is for: `extensions`, `readOthers` or `admin`.")
    gate.refresh()
    if not admin and not gate.tokens.in_use and not call.caller.is_bridge:
        raise AdminTokenFirst()
    token, text = await _on_file(
        lambda: gate.tokens.create(body["name"], extensions, read_others, admin)
    )
    gate.refresh()
    return {**token.record(), "token": text}


async def revoke_token(call: Call) -> Success:
    """Revoke a token. It is refused at once, and feeds that were opened with it end."""
    gate = call.service.gate
    if not await _on_file(lambda: gate.tokens.revoke(call.path["token"])):
        raise TokenNotFound()
    gate.refresh()
    return {"success": True}


async def _on_file(work: Callable[[], T]) -> T:
    """Read or change the file of tokens in a thread, because the disk may take its time."""
    try:
        return await asyncio.to_thread(work)
    except StartupError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in durable.FULL:
            raise StorageFull() from error
        raise DatabaseUnavailable("The tokens cannot be read or changed.") from error


def _parse_extensions(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > EXTENSIONS_PER_TOKEN:
        raise InvalidBody(f"`extensions` must be a list of {EXTENSIONS_PER_TOKEN} ids at the most.")
    return [EXTENSION_ID.parse(each) for each in value]


EXTENSIONS = Kind(
    {"type": "array", "items": EXTENSION_ID.schema, "maxItems": EXTENSIONS_PER_TOKEN},
    _parse_extensions,
)
ADMIN: dict[str, Any] = {"extension": "none", "access": "admin"}

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/tokens",
        list_tokens,
        returns=list[TokenRecord],
        raises=(DatabaseUnavailable,),
        **ADMIN,
    ),
    Endpoint(
        ("POST",),
        "/tokens",
        create_token,
        returns=NewToken,
        body=(
            Field("name", NAME, "The person or program it is for."),
            Field("extensions", EXTENSIONS, "What it may read and write.", required=False),
            Field("readOthers", FLAG, "It may read all other extensions.", required=False),
            Field("admin", FLAG, "It may do everything, on all extensions.", required=False),
        ),
        raises=(
            InvalidBody,
            InvalidName,
            InvalidExtensionId,
            AdminTokenFirst,
            DatabaseUnavailable,
            StorageFull,
        ),
        **ADMIN,
    ),
    Endpoint(
        ("DELETE",),
        "/tokens/{token}",
        revoke_token,
        returns=Success,
        raises=(InvalidId, TokenNotFound, DatabaseUnavailable, StorageFull),
        **ADMIN,
    ),
]
