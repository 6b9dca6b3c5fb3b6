"""
The gate: who may speak, and about what. Every request passes it, whatever adapter it came by.

Two questions, asked apart:

- `admit`: who is this? Looks at `Host`, `Origin`, Fetch metadata, the token and the bridge's
  proof, and nothing else; its answer, a `Caller`, is remembered for requests that say the same.
- `permit`: may that caller do this? Looks at the row of the route table and the extension.

A browser lets any page send requests to any address, loopback included; what a page cannot
do is lie about `Origin`, `Host` and `Sec-Fetch-Site`. So those are checked on every method:
a GET that is answered to a foreign page is a leak, and one to a rebound name is readable.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from valuetracker.errors import (
    AdminRequired,
    CrossSite,
    HostNotAllowed,
    InvalidHost,
    OriginNotAllowed,
    ScopeMissing,
    TokenInvalid,
    TokenRequired,
)
from valuetracker.http.tokens import Token, TokenFile
from valuetracker.names import DEFAULT_USER, check_user

# What `admit` looks at, in this order.
LOOKED_AT = (
    b"host",
    b"origin",
    b"sec-fetch-site",
    b"authorization",
    b"x-vt-secret",
    b"x-vt-user",
    b"x-vt-admin",
)
Credentials = tuple[bytes | None, ...]
REMEMBERED = 1_024

# `none` is a person who typed the address; `same-origin` our own page.
OWN_SITE = frozenset({None, b"same-origin", b"none"})
AUTHORITY = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z")
LOOPBACK_NAMES = frozenset({b"localhost", b"localhost."})


class Purpose(Protocol):
    """What `permit` asks of a row of the route table."""

    @property
    def access(self) -> str: ...
    @property
    def changes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who speaks, as far as it is known."""

    user: str = DEFAULT_USER
    admin: bool = True
    # What the token says; None where none is needed.
    token: Token | None = None
    # Whether tokens are in use here, and this caller is not the bridge.
    needs_token: bool = False
    is_bridge: bool = False
    # The foreign origin that may read the answer.
    origin: bytes | None = None
    # Whose answers in memory this one may be given.
    scope: str = DEFAULT_USER


class Gate:
    """What is configured, and whom it lets through."""

    def __init__(
        self,
        tokens: TokenFile,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        secret: str = "",
        bridge_only: bool = False,
    ) -> None:
        self._tokens = tokens
        self._bridge_only = bridge_only
        self._hosts = frozenset(each.lower().encode() for each in hosts)
        self._origins = frozenset(each.lower().rstrip("/").encode() for each in origins)
        self._secret = secret.encode()
        self._known: dict[Credentials, Caller] = {}
        tokens.refresh()

    def refresh(self) -> None:
        """Hear of tokens that were made or revoked meanwhile."""
        if self._tokens.refresh():
            self._known.clear()

    def admit(self, given: dict[bytes, bytes]) -> Caller:
        """Who sends these headers, none of which is there twice; raises if nobody may."""
        get = given.get
        credentials = (
            get(b"host"),
            get(b"origin"),
            get(b"sec-fetch-site"),
            get(b"authorization"),
            get(b"x-vt-secret"),
            get(b"x-vt-user"),
            get(b"x-vt-admin"),
        )
        caller = self._known.get(credentials)
        if caller is None:
            caller = self._examine(*credentials)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[credentials] = caller
        return caller

    def still_admits(self, caller: Caller) -> bool:
        """Whether whoever was let in when an answer began still would be."""
        if caller.token is None:
            return caller.is_bridge or caller.needs_token or not self._tokens_needed
        return self._tokens.has(caller.token)

    def _examine(
        self,
        host: bytes | None,
        origin: bytes | None,
        site: bytes | None,
        authorization: bytes | None,
        secret: bytes | None,
        user: bytes | None,
        admin: bytes | None,
    ) -> Caller:
        if self._is_bridge(secret):
            # It has looked at host and origin itself, where the browser's are known.
            handle = DEFAULT_USER if user is None else check_user(user.decode("latin-1"))
            return Caller(handle, admin == b"true", is_bridge=True, scope=handle)
        self._check_host(host)
        allowed = self.allowed_origin(host, origin)
        if allowed is None and site not in OWN_SITE:
            raise CrossSite()
        token = self._token(authorization)
        if token is None and not self._tokens_needed:
            return Caller(origin=allowed)
        return Caller(
            admin=token is not None and token.admin,
            token=token,
            needs_token=True,
            origin=allowed,
            scope=f"{DEFAULT_USER} {token.id if token is not None else '-'}",
        )

    @property
    def _tokens_needed(self) -> bool:
        return self._bridge_only or self._tokens.in_use

    def _is_bridge(self, secret: bytes | None) -> bool:
        return (
            bool(self._secret) and secret is not None and hmac.compare_digest(secret, self._secret)
        )

    def _check_host(self, host: bytes | None) -> None:
        match = AUTHORITY.match(host or b"")
        if match is None:
            raise InvalidHost()
        name = match[1].lower()
        if name in LOOPBACK_NAMES or name in self._hosts or match[0].lower() in self._hosts:
            return
        try:
            address = ipaddress.ip_address(name.strip(b"[]").decode("ascii"))
        except ValueError:
            raise HostNotAllowed() from None
        # An address mapped into IPv6 is not loopback, whatever it is mapped from.
        if not address.is_loopback or getattr(address, "ipv4_mapped", None):
            raise HostNotAllowed()

    def allowed_origin(self, host: bytes | None, origin: bytes | None) -> bytes | None:
        """The foreign origin that may read the answer; None is our own, or no page at all."""
        if origin is None:
            return None
        scheme, separator, authority = origin.lower().partition(b"://")
        if separator and scheme in (b"http", b"https") and authority == (host or b"").lower():
            return None
        if origin.lower() in self._origins:
            return origin
        raise OriginNotAllowed()

    def _token(self, authorization: bytes | None) -> Token | None:
        if authorization is None:
            return None
        scheme, _, text = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            raise TokenInvalid("The Authorization header must be `Bearer <token>`.")
        token = self._tokens.find(text.strip().decode("latin-1"))
        if token is None:
            raise TokenInvalid()
        return token

    def permit(self, caller: Caller, purpose: Purpose, extension_id: str) -> None:
        """Refuse what this caller may not do; the names are those of `Endpoint.access`."""
        access = purpose.access
        if (
            access == "admin"
            or (access == "registration" and caller.needs_token)
            or (access == "own" and not caller.is_bridge)
        ):
            self._require_admin(caller)
        elif caller.needs_token and access != "public":
            self._require_scope(caller, purpose, extension_id)

    @staticmethod
    def _require_admin(caller: Caller) -> None:
        if not caller.admin:
            if caller.needs_token and caller.token is None:
                raise TokenRequired()
            raise AdminRequired()

    @staticmethod
    def _require_scope(caller: Caller, purpose: Purpose, extension_id: str) -> None:
        token = caller.token
        if token is None:
            raise TokenRequired()
        if token.admin or extension_id in token.extensions:
            return
        if purpose.changes:
            raise ScopeMissing()
        if not token.read_others:
            raise ScopeMissing(
                "The token is neither for this extension nor for reading others.",
                hint="Make a token with `--extension ID`, or with `--read-others`.",
            )
