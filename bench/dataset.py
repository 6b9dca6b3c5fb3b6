"""
The rows that every server is given: characters, their instances, and the values of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

KEYS = 20
INSTANCES_OF_CHARACTER = 10
MERGED_KEYS = 10
# Without its quotes; with them a value is 100 bytes of JSON.
VALUE_CHARACTERS = 98

# Words, because zeros or noise would compress better or worse than what people store. None of
# them needs escaping in JSON or in a URL.
WORDS = (
    "amber arrow ashen autumn beacon bitter bramble bridge candle canyon castle cinder cloud "
    "copper crimson dagger dusk ember fable falcon feather fern forest frost gate ghost glass "
    "golden grove harbor hollow honey iron ivory jade lantern laurel lily marble meadow mirror "
    "mist moon moss night oak ocean opal orchard pearl pine quartz raven ridge river rose "
    "saffron sage shadow silver sparrow storm summit thorn tide velvet violet willow winter"
)
FILLERS = 1_000


@dataclass(frozen=True)
class Size:
    """How many instances there are, and about how large a file of the original plugin gets."""

    megabytes: int
    instances: int

    @property
    def characters(self) -> int:
        return self.instances // INSTANCES_OF_CHARACTER

    @property
    def title(self) -> str:
        return f"{self.megabytes} MB"


SIZES = {1: Size(1, 240), 100: Size(100, 24_300)}


def _fillers() -> list[str]:
    random, words = Random(1), WORDS.split()
    return ["-".join(random.choices(words, k=VALUE_CHARACTERS // 3)) for _ in range(FILLERS)]


_FILLERS = _fillers()


def instance_id(number: int) -> str:
    return f"i{number}"


def key_id(number: int) -> str:
    return f"k{number}"


def character_of(instance: int) -> int:
    return (instance - 1) // INSTANCES_OF_CHARACTER + 1


def character_id(number: int) -> str:
    return f"c{number}"


def instances_of(character: int) -> range:
    first = (character - 1) * INSTANCES_OF_CHARACTER + 1
    return range(first, first + INSTANCES_OF_CHARACTER)


def value_of(instance: int, key: int) -> str:
    """Return the value a key has before anything is measured."""
    filler = _FILLERS[(instance * KEYS + key) * 7 % FILLERS]
    return f"i{instance}-k{key}-{filler}"[:VALUE_CHARACTERS]


def values_of(instance: int) -> dict[str, str]:
    return {key_id(key): value_of(instance, key) for key in range(1, KEYS + 1)}


def all_characters(size: Size) -> Iterator[tuple[str]]:
    return ((character_id(number),) for number in range(1, size.characters + 1))


def all_instances(size: Size) -> Iterator[tuple[str, str]]:
    """Yield each instance and its character."""
    for number in range(1, size.instances + 1):
        yield instance_id(number), character_id(character_of(number))


def all_values(size: Size) -> Iterator[tuple[int, int, str]]:
    """Yield instance, key and value of every row."""
    for instance in range(1, size.instances + 1):
        for key in range(1, KEYS + 1):
            yield instance, key, value_of(instance, key)
