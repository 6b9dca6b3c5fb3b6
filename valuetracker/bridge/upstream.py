"""
HTTP requests to SillyTavern: one client with its cookies, one deadline, bounded answers.

No redirect is followed and no proxy of the environment is used. A local name is looked up
here, so the connection goes to the address that was checked.
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson

from valuetracker.bridge.origins import Origin
from valuetracker.errors import OriginNotAllowed, UpstreamFailed, ValueTrackerError
from valuetracker.values import VALUE_DEPTH, depth_exceeds, parse

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES = 8 * 1024 * 1024
CSRF_PATH = "/csrf-token"


@dataclass(frozen=True)
class Answer:
    """The answer of SillyTavern."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def document(self) -> Any:
        """Return the JSON of the answer; invalid JSON is an error of SillyTavern's side."""
        try:
            document = parse(self.body)
        except ValueTrackerError as error:
            raise UpstreamFailed(f"The answer is not usable JSON: {error.message}") from None
        if depth_exceeds(document, VALUE_DEPTH):
            raise UpstreamFailed("The answer is nested too deeply.")
        return document


class Upstream:
    """A client for several requests, which together may take the given number of seconds."""

    def __init__(self, origin: Origin, token: str, seconds: float) -> None:
        self.origin = origin
        self._headers = {"accept": "application/json", "accept-encoding": "identity"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._deadline = time.monotonic() + seconds
        self._client: httpx.AsyncClient | None = None
        self._base = ""

    async def __aenter__(self) -> Upstream:
        # Not at the top: most servers never fetch anything, and importing httpx takes long.
        import httpx

        self._client = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=None,
            verify=self.origin.scheme == "https",
            limits=httpx.Limits(max_connections=1),
            headers=self._headers,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    async def fetch(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request; every failure is raised as `UpstreamFailed`."""
        import httpx

        try:
            async with asyncio.timeout(self.seconds_left):
                return await self._fetch(method, path, body, headers or {})
        except TimeoutError:
            raise UpstreamFailed(f"{self.origin.url} did not answer in time.") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, OSError) as error:
            why = str(error) or type(error).__name__
            raise UpstreamFailed(f"{self.origin.url} cannot be reached: {why[:200]}") from None

    async def _fetch(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        if not self._base:
            return await self._fetch_first(method, path, body, headers)
        assert self._client is not None
        sent = {**headers, "host": self.origin.authority}
        if body is not None:
            sent["content-type"] = "application/json"
        url = self._base + path
        async with self._client.stream(method, url, content=body, headers=sent) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise UpstreamFailed("The answer is compressed, but no compression was requested.")
            received = bytearray()
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > ANSWER_BYTES:
                    raise UpstreamFailed(f"The answer takes more than {ANSWER_BYTES} bytes.")
            return Answer(response.status_code, bytes(received))

    async def _fetch_first(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        """Send the first request, and keep the first address of a local name that accepts it."""
        import httpx

        bases = await self._bases()
        for base in bases:
            self._base = base
            try:
                return await self._fetch(method, path, body, headers)
            except httpx.ConnectError:
                if base == bases[-1]:
                    self._base = ""
                    raise
        raise UpstreamFailed(f"{self.origin.url} has no address.")

    async def _bases(self) -> list[str]:
        origin = self.origin
        if not origin.is_local_name:
            return [origin.url]
        found = await asyncio.get_running_loop().getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        )
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if not all(ip_address(each).is_loopback for each in addresses):
            raise OriginNotAllowed(f"{origin.host} is not this machine.")
        return [Origin(origin.scheme, each, origin.port).url for each in addresses]

    async def post(self, path: str, document: Any) -> Answer:
        """Send JSON with the CSRF token and cookies that SillyTavern requires except for GET."""
        headers: dict[str, str] = {}
        answer = await self.fetch("GET", CSRF_PATH)
        if answer.is_success:
            token = answer.document()
            if isinstance(token, dict) and isinstance(token.get("token"), str):
                headers["x-csrf-token"] = token["token"]
        return await self.fetch("POST", path, orjson.dumps(document), headers)
