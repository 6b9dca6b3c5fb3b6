"""
The workloads compared with hello, the data they need, and the checks that they were done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from bench.children import Child, Failure
from bench.wrk import Load, Measurement, measure
from valuetracker.settings import PREFIX

INSTANCES = 10
KEYS = 20
EXTENSION = "bench"
CONNECTIONS = (16, 64)


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    # The least share of hello's requests per second.
    goal: float | None = None
    writes: bool = False


HELLO = Workload("hello", "bare ASGI application")

# Reads come before writes, so that work left over from a write disturbs no read.
WORKLOADS = (
    Workload("w1", "read one key", 0.5),
    Workload("w2", "read 20 keys", 0.5),
    Workload("w5", "read a character, 10 x 20 keys", 0.5),
    Workload("w3", "write one key", 0.25, writes=True),
    Workload("w4", "merge 10 keys", 0.15, writes=True),
    Workload("w6", "80 % w1, 20 % w3", writes=True),
)


@dataclass
class Api:
    """Calls to the server as one extension, for everything that is not measured."""

    child: Child
    extension: str

    def __post_init__(self) -> None:
        self._client = httpx.Client(
            base_url=self.child.url + PREFIX,
            headers={"x-extension-id": self.extension},
            timeout=60.0,
        )

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self._client.request(method, path, json=body)
        if answer.status_code not in (200, 201):
            raise Failure(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer

    def register(self) -> None:
        self.call("POST", "/register", {"extensionId": self.extension})

    def add_instance(self, number: int, values: dict[str, Any]) -> None:
        self.call("POST", "/instances", {"id": f"i{number}", "characterId": "c1"})
        self.call("PUT", f"/instances/i{number}/data/merge", values)

    def revision(self) -> int:
        """Write something, and return the revision of that write."""
        body = {"key": "k1", "value": "bench"}
        return int(self.call("POST", "/instances/i1/data", body).headers["x-revision"])

    def close(self) -> None:
        self._client.close()


def seed(api: Api) -> None:
    for number in range(1, INSTANCES + 1):
        api.add_instance(number, {f"k{key}": f"seed-{key}" for key in range(1, KEYS + 1)})


def check_reads(api: Api) -> None:
    """Check that everything the reading workloads ask for exists."""
    one = api.call("GET", "/instances/i1/data/k1").json()
    twenty = api.call("GET", "/instances/i1/data").json()
    character = api.call("GET", "/characters/c1").json()
    sizes = [len(each["data"]) for each in character["instances"]]
    if list(one) != ["k1"] or len(twenty) != KEYS or sizes != [KEYS] * INSTANCES:
        raise Failure("The server does not have the data the workloads are to read.")


def measure_workload(
    core: int, api: Api, workload: Workload, connections: int, seconds: float
) -> Measurement:
    load = Load(workload.name, api.extension, INSTANCES)
    return measure_checked(core, api, load, connections, seconds, workload.writes)


def measure_checked(
    core: int, api: Api, load: Load, connections: int, seconds: float, writes: bool
) -> Measurement:
    """Measure a workload; if it writes, check that every answered write made a revision."""
    if not writes:
        return measure(core, api.child, load, connections, seconds)
    before = api.revision()
    found = measure(core, api.child, load, connections, seconds)
    # In the mix, about every fifth request of each connection is a write.
    least = found.requests // 5 - connections if load.workload == "w6" else found.requests
    made = api.revision() - before - 1
    if made < least:
        raise Failure(f"{load.workload}: {found.requests} were answered, {made} were written.")
    return found
