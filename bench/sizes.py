"""
Compare the cost of a write in a large database and in a small one.

Both are extensions of one server, written to in turns, with the same writes to as many
instances, so that they differ only in their size. The small one is created anew for each
round, because its own log would soon make it large. The report also has the cost of writes to
all instances of the large one, where each write of a group touches another page.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.children import Child
from bench.workloads import Api, measure_checked
from bench.wrk import Load

SMALL_BYTES = 1_000_000
LARGE_BYTES = 100_000_000
CONNECTIONS = 16
# The most a write may cost in the large database, as a multiple of one in the small database.
GOAL = 1.5

# One instance of about half a megabyte; the log has as much again.
FILLERS = 250
FILLER_BYTES = 2_000
SETTLE_SECONDS = 0.5


@dataclass
class Sizes:
    """Rates of one-key writes, by round, and how large the files were before them."""

    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    # Rates of writes to all instances of the large database.
    scattered: list[float] = field(default_factory=list)
    small_bytes: int = 0
    large_bytes: int = 0

    @staticmethod
    def _times(quick: list[float], slow: list[float]) -> list[float]:
        return [one / other for one, other in zip(quick, slow, strict=True)]

    @property
    def costs(self) -> list[float]:
        """Return how many times as long a write takes in the large database, by round."""
        return self._times(self.small, self.large)

    @property
    def scattered_costs(self) -> list[float]:
        return self._times(self.small, self.scattered)


def database_bytes(data_dir: Path, extension: str) -> int:
    return sum(path.stat().st_size for path in data_dir.glob(f"{extension}.db*"))


def fill(api: Api, data_dir: Path, size: int) -> int:
    """Add instances full of large values until the files are of this size."""
    instances = 0
    while database_bytes(data_dir, api.extension) < size:
        instances += 1
        filler = f"{instances}-" + "x" * FILLER_BYTES
        api.add_instance(instances, {f"f{key}": f"{key}-{filler}" for key in range(FILLERS)})
    return instances


def compare(
    core: int,
    child: Child,
    data_dir: Path,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> Sizes:
    sizes = Sizes()

    def write(api: Api, instances: int) -> float:
        time.sleep(SETTLE_SECONDS)
        load = Load("w3", api.extension, instances)
        return measure_checked(core, api, load, CONNECTIONS, seconds, writes=True).rate

    with closing(Api(child, "large")) as large:
        large.register()
        large_instances = fill(large, data_dir, LARGE_BYTES)
        sizes.large_bytes = database_bytes(data_dir, "large")
        for number in range(1, rounds + 1):
            with closing(Api(child, f"small-{number}")) as small:
                small.register()
                small_instances = fill(small, data_dir, SMALL_BYTES)
                sizes.small_bytes = database_bytes(data_dir, small.extension)
                sizes.small.append(write(small, small_instances))
            sizes.large.append(write(large, small_instances))
            sizes.scattered.append(write(large, large_instances))
            say(
                f"sizes {number}/{rounds}  small {sizes.small[-1]:,.0f}/s"
                f"  large {sizes.large[-1]:,.0f}/s  scattered {sizes.scattered[-1]:,.0f}/s"
            )
    return sizes
