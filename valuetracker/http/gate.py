"""
The gate: who may call the server, and for what. Every request passes it, by any adapter.

Two questions are asked apart:

- `admit`: who is this? It checks `Host`, `Origin`, Fetch metadata, the token and the secret of
  the bridge, and nothing else. Its answer, a `Caller`, is kept for requests with the same
  headers.
- `permit`: may this caller do this? It checks the row of the route table and the extension.

A browser lets any page send requests to any address, loopback included. But a page cannot
forge `Origin`, `Host` and `Sec-Fetch-Site`. So these are checked on every method: a GET that is
answered to a foreign page leaks data, and with a rebound host name the page can read the answer.

The gate knows nothing of bodies, paths and queries.
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

# The headers that `admit` checks, in the order of `Credentials`.
CREDENTIAL_HEADERS = (
    b"host",
    b"origin",
    b"sec-fetch-site",
    b"authorization",
    b"x-vt-secret",
    b"x-vt-user",
    b"x-vt-admin",
)
Credentials = tuple[bytes | None, ...]
KEPT_CALLERS = 1_024

# `none`: a person typed the address. `same-origin`: a page of this server.
OWN_SITE = frozenset({None, b"same-origin", b"none"})
AUTHORITY = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z")
LOOPBACK_NAMES = frozenset({b"localhost", b"localhost."})


class Purpose(Protocol):
    """The part of a row of the route table that `permit` checks."""

    @property
    def access(self) -> str: ...
    @property
    def changes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as far as it is known."""

    user: str = DEFAULT_USER
    admin: bool = True
    # The token that was sent; None if none was.
    token: Token | None = None
    # True if tokens are in use, and this caller is not the bridge.
    needs_token: bool = False
    is_bridge: bool = False
    # The allowed origin of the page that sends it; None for the server's own pages and for
    # clients that are not pages.
    origin: bytes | None = None
    # Callers of the same scope may be given the same answers of the answer cache.
    scope: str = DEFAULT_USER


class Gate:
    """Admits callers and permits calls, as the server is configured."""

    def __init__(
        self,
        tokens: TokenFile,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        secret: str = "",
        bridge_only: bool = False,
    ) -> None:
        self.tokens = tokens
        self._bridge_only = bridge_only
        self._hosts = frozenset(each.lower().encode() for each in hosts)
        self._origins = frozenset(each.lower().rstrip("/").encode() for each in origins)
        self._secret = secret.encode()
        self._known: dict[Credentials, Caller] = {}
        tokens.refresh()

    def refresh(self) -> None:
        """Read the tokens again if they have changed."""
        if self.tokens.refresh():
            self._known.clear()

    def admit(self, headers: dict[bytes, bytes]) -> Caller:
        """Return the caller who sends these headers; raise if nobody may send them."""
        get = headers.get
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
            caller = self._identify(*credentials)
            if len(self._known) >= KEPT_CALLERS:
                self._known.clear()
            self._known[credentials] = caller
        return caller

    def still_admits(self, caller: Caller) -> bool:
        """Return True if a caller who was admitted before would be admitted now."""
        if caller.token is None:
            return caller.is_bridge or caller.needs_token or not self._tokens_needed
        return self.tokens.has(caller.token)

    def _identify(
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
            # The bridge has checked host and origin itself: it knows those of the browser.
            handle = DEFAULT_USER if user is None else check_user(user.decode("latin-1"))
            return Caller(handle, admin == b"true", is_bridge=True, scope=handle)
        self._check_host(host)
        allowed = self.allowed_origin(host, origin)
        if allowed is None and site not in OWN_SITE:
            raise CrossSite()
        token = self._token(authorization)
        if token is None and not self._tokens_needed:
            return Caller(origin=allowed)
        handle = DEFAULT_USER
        if token is not None and user is not None and self.tokens.is_of_run(token):
            # The command line of this machine works for any user, as the bridge does.
            handle = check_user(user.decode("latin-1"))
        return Caller(
            handle,
            admin=token is not None and token.admin,
            token=token,
            needs_token=True,
            origin=allowed,
            scope=f"{handle} {token.id if token is not None else '-'}",
        )

    @property
    def _tokens_needed(self) -> bool:
        return self._bridge_only or self.tokens.in_use

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
        # An IPv4 address mapped into IPv6 does not count as loopback.
        if not address.is_loopback or getattr(address, "ipv4_mapped", None):
            raise HostNotAllowed()

    def allowed_origin(self, host: bytes | None, origin: bytes | None) -> bytes | None:
        """Return the origin if it is an allowed one, None if it is the server's own or absent."""
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
        token = self.tokens.find(text.strip().decode("latin-1"))
        if token is None:
            raise TokenInvalid()
        return token

    def permit(self, caller: Caller, purpose: Purpose, extension_id: str) -> None:
        """Raise if this caller may not do this; `Endpoint.access` explains the names."""
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
