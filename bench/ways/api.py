"""
Our server as one extension: calls, a little data, and writes that are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from bench.children import Child, Failure
from bench.dataset import KEYS
from bench.wrk import Load, Measurement, measure
from valuetracker.settings import PREFIX

INSTANCES = 10
EXTENSION = "bench"
DIALECT = "rest"


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

    def load(self, workload: str, instances: int = INSTANCES, **more: str) -> Load:
        return Load(DIALECT, workload, PREFIX, self.extension, instances, **more)

    def close(self) -> None:
        self._client.close()


def seed(api: Api) -> None:
    for number in range(1, INSTANCES + 1):
        api.add_instance(number, {f"k{key}": f"seed-{key}" for key in range(1, KEYS + 1)})


def check_reads(api: Api) -> None:
    """Check that everything the reading workloads ask for exists."""
    one = api.call("GET", "/instances/i1/data/k1").json()
    twenty = api.call("GET", "/instances/i1/data").json()
    if list(one) != ["k1"] or len(twenty) != KEYS:
        raise Failure("The server does not have the data the workloads are to read.")


def measure_writes(core: int, api: Api, load: Load, connections: int, seconds: int) -> Measurement:
    """Measure writes, and check that every answered one made a revision."""
    before = api.revision()
    found = measure(core, api.child, load, connections, seconds)
    made = api.revision() - before - 1
    if made < found.requests:
        raise Failure(f"{load.workload}: {found.requests} were answered, {made} were written.")
    return found
