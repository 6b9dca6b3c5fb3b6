"""
A server that is running and stores values: how the benchmark asks it outside of measurements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx

from bench.children import Child, Failure
from bench.dataset import Size
from bench.wrk import Load

# Long enough to adopt a large file.
PATIENCE_SECONDS = 600.0
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "peers"


@dataclass(frozen=True)
class Place:
    """The core a server runs on, the folder it keeps its data in, and how much data it gets."""

    core: int
    folder: Path
    size: Size


class Server:
    """A server that is running; this one answers every request alike."""

    dialect: ClassVar[str] = "hello"

    def __init__(self, child: Child) -> None:
        self.child = child

    def load(self, workload: str, size: Size) -> Load:
        return Load(self.dialect, workload, instances=size.instances)


class Store(Server, ABC):
    """A server that is running and stores values."""

    def __init__(self, child: Child, headers: dict[str, str] | None = None) -> None:
        super().__init__(child)
        self._client = httpx.Client(
            base_url=child.url, headers=headers or {}, timeout=PATIENCE_SECONDS
        )

    def call(self, method: str, path: str, body: Any = None, text: str | None = None) -> Any:
        """Send JSON or text, and return the JSON of the answer."""
        answer = self._client.request(method, path, json=body, content=text)
        if answer.status_code not in (200, 201):
            raise Failure(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    @abstractmethod
    def read_one(self, instance: str, key: str) -> Any: ...

    @abstractmethod
    def read_all(self, instance: str) -> dict[str, Any]: ...

    @abstractmethod
    def read_character(self, character: str) -> dict[str, dict[str, Any]]:
        """Return the values of each of its instances."""

    @abstractmethod
    def write_one(self, instance: str, key: str, value: Any) -> None: ...

    @abstractmethod
    def merge(self, instance: str, values: dict[str, Any]) -> None: ...

    @abstractmethod
    def check_durability(self) -> None:
        """Fail unless writes are synced, or not, as the peer's description says."""

    def close(self) -> None:
        self._client.close()


class Rest(Store):
    """A server with the paths of the original plugin."""

    dialect = "rest"
    prefix = ""

    def _path(self, instance: str) -> str:
        return f"{self.prefix}/instances/{instance}/data"

    def read_one(self, instance: str, key: str) -> Any:
        return self.call("GET", f"{self._path(instance)}/{key}").get(key)

    def read_all(self, instance: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", self._path(instance))
        return found

    def read_character(self, character: str) -> dict[str, dict[str, Any]]:
        whole = self.call("GET", f"{self.prefix}/characters/{character}")
        return {each["instance"]["id"]: each["data"] for each in whole["instances"]}

    def write_one(self, instance: str, key: str, value: Any) -> None:
        self.call("POST", self._path(instance), {"key": key, "value": value})

    def merge(self, instance: str, values: dict[str, Any]) -> None:
        self.call("PUT", f"{self._path(instance)}/merge", values)


@dataclass(frozen=True)
class Kind:
    """A server that is compared."""

    name: str
    title: str
    # Starts one and gives it its rows.
    start: Callable[[Place], AbstractContextManager[Server]]
    # Says if a write is on the disk before it is answered.
    durability: str
    version: Callable[[], str]
