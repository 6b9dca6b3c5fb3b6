"""
The origins that may be fetched: loopback, and the configured ones.

An origin is parsed strictly and compared as a whole. Forms that only a lenient parser
accepts (a user name, an address written as one number, an IPv4 address mapped into IPv6) are
refused.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from valuetracker.bridge.configuration import Configuration
from valuetracker.errors import OriginNotAllowed

ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]{1,253}|\[[0-9a-f:]{2,45}\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?/?\Z"
)
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
# Resolvers read these as addresses: 127.1, 0x7f000001, 017700000001.
NUMERIC = re.compile(r"([0-9]+|0x[0-9a-f]*)\Z")
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Origin:
    """A scheme, a host and a port; `host` is a name or an address, without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as an address; None if it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """True if the host is this machine. A name must still be looked up (see `upstream`)."""
        if self.address is not None:
            return self.address.is_loopback
        return self.is_local_name

    @property
    def is_local_name(self) -> bool:
        return self.host == "localhost" or self.host.endswith(".localhost")


def parse_origin(text: str) -> Origin | None:
    """Return the origin that a text names; None if the text is not exactly an origin."""
    match = ORIGIN.match(text.lower())
    if match is None or not text.isascii():
        return None
    host, scheme = match["host"], match["scheme"]
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return None
        if address.ipv4_mapped is not None or address.sixtofour or address.teredo:
            return None
        host = str(address)
    elif NUMERIC.match(host.rpartition(".")[2]):
        try:
            host = str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    elif not all(LABEL.match(label) for label in host.split(".")):
        return None
    port = int(match["port"]) if match["port"] else PORTS[scheme]
    return Origin(scheme, host, port) if port <= 65_535 else None


def allowed_origin(text: str, configuration: Configuration) -> Origin:
    """Return the origin, or refuse it if it may not be fetched."""
    origin = parse_origin(text)
    if origin is not None:
        configured = (configuration.base_url, *configuration.allowed_origins)
        if origin.is_loopback or any(parse_origin(each) == origin for each in configured):
            return origin
    raise OriginNotAllowed(
        "Only loopback and configured origins are fetched.",
        hint="Send an origin such as http://127.0.0.1:8000, or allow yours with "
        "`--st-allow-origin`.",
    )
