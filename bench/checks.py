"""
Check that a server gives the right answers: a wrong one is often quick.
"""

from __future__ import annotations

from random import Random
from typing import Any

from bench.children import Failure
from bench.dataset import (
    KEYS,
    MERGED_KEYS,
    Size,
    character_id,
    character_of,
    instance_id,
    instances_of,
    key_id,
    value_of,
    values_of,
)
from bench.peers.store import Store
from bench.workloads import Workload
from bench.wrk import Measurement

SAMPLES = 5


def check_store(name: str, store: Store, size: Size) -> None:
    """Check the stored values, that what is written reads back, and when writes are synced."""
    store.check_durability()
    random = Random(2)
    sample = random.sample(range(1, size.instances + 1), SAMPLES)
    for instance in (1, size.instances, *sample):
        id, key, character = instance_id(instance), random.randint(1, KEYS), character_of(instance)
        _expect(name, store.read_one(id, key_id(key)), value_of(instance, key))
        _expect(name, store.read_all(id), values_of(instance))
        wanted = {instance_id(each): values_of(each) for each in instances_of(character)}
        _expect(name, store.read_character(character_id(character)), wanted)
    _check_writes(name, store, sample[0])


def _check_writes(name: str, store: Store, instance: int) -> None:
    id, before = instance_id(instance), values_of(instance)
    store.write_one(id, "k1", "written")
    _expect(name, store.read_one(id, "k1"), "written")
    _expect(name, store.read_all(id), {**before, "k1": "written"})
    merged = {key_id(key): f"merged-{key}" for key in range(1, MERGED_KEYS + 1)}
    store.merge(id, merged)
    _expect(name, store.read_all(id), {**before, **merged})
    store.merge(id, {key: before[key] for key in merged})
    _expect(name, store.read_character(character_id(character_of(instance)))[id], before)


def check_run(name: str, store: Store, workload: Workload, found: Measurement) -> None:
    """Check that the answers of a run were long enough, and that its first writes read back."""
    if found.bytes_per_request < workload.least_bytes:
        raise Failure(
            f"{name}, {workload.name}: answers of {found.bytes_per_request:.0f} bytes do not hold "
            f"{workload.answered_values} values."
        )
    if workload.writes and not found.written:
        raise Failure(f"{name}, {workload.name}: nothing was written.")
    for instance, key in found.written:
        value = store.read_one(instance, key)
        if not isinstance(value, str) or not value.startswith(found.mark):
            raise Failure(
                f"{name}, {workload.name}: {instance} {key} was written as {found.mark}… and "
                f"reads {value!r}."
            )


def _expect(name: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Failure(f"{name} answers {str(found)[:500]} instead of {str(wanted)[:500]}.")
