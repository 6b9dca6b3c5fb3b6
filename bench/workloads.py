"""
The six workloads; `load.lua` makes their requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.dataset import INSTANCES_OF_CHARACTER, KEYS, MERGED_KEYS, VALUE_CHARACTERS

CONNECTIONS = (1, 16, 64)


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    # How many values each answer holds at least.
    answered_values: int = 0
    writes: bool = False

    @property
    def least_bytes(self) -> int:
        """Return the least size of an answer that holds the values."""
        return self.answered_values * VALUE_CHARACTERS


# Reads come before writes, so that work left over from a write disturbs no read.
WORKLOADS = {
    each.name: each
    for each in (
        Workload("read", "read one key", 1),
        Workload("read20", f"read {KEYS} keys", KEYS),
        Workload(
            "character",
            f"read a character, {INSTANCES_OF_CHARACTER} x {KEYS} keys",
            INSTANCES_OF_CHARACTER * KEYS,
        ),
        Workload("write", "write one key", writes=True),
        Workload("merge", f"merge {MERGED_KEYS} keys", writes=True),
        Workload("mix", "80 % read one key, 20 % write one", writes=True),
    )
}
