"""
Finished answers, kept as the bytes they are sent as, bounded by bytes.

An answer is kept under the extension it was read from and what it depends on; a commit
that touches any of that drops it. When an answer may be kept at all is decided by
`Extension.read`. Everything here happens on the event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from valuetracker.store.rows.tags import Tag

Answer = TypeVar("Answer")
Key = tuple[str, bytes, bytes]

# What an answer costs beyond its bytes: the entry, its key, its places in the tag index.
OVERHEAD_BYTES = 1_000


@dataclass(slots=True)
class Kept(Generic[Answer]):
    answer: Answer
    size: int
    owner: object
    tags: frozenset[Tag]


class Memory(Generic[Answer]):
    """The answers used last, as many as fit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Key, Kept[Answer]] = OrderedDict()
        self._by_tag: dict[object, dict[Tag, set[Key]]] = {}
        self.size = 0

    def get(self, key: Key) -> Answer | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept.answer

    def keep(
        self, key: Key, answer: Answer, size: int, owner: object, tags: frozenset[Tag]
    ) -> None:
        size += OVERHEAD_BYTES
        # One answer must not push out everything else.
        if size > self._limit // 4:
            return
        self._drop(key)
        self._kept[key] = Kept(answer, size, owner, tags)
        self.size += size
        index = self._by_tag.setdefault(owner, {})
        for tag in tags:
            index.setdefault(tag, set()).add(key)
        while self.size > self._limit:
            self._drop(next(iter(self._kept)))

    def forget(self, owner: object, tags: set[Tag]) -> None:
        """Drop what was read from `owner` and depends on any of these."""
        index = self._by_tag.get(owner)
        if index:
            for tag in tags:
                for key in tuple(index.get(tag, ())):
                    self._drop(key)

    def forget_all(self, owner: object) -> None:
        for keys in tuple(self._by_tag.get(owner, {}).values()):
            for key in tuple(keys):
                self._drop(key)

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self.size -= kept.size
        index = self._by_tag[kept.owner]
        for tag in kept.tags:
            keys = index[tag]
            keys.discard(key)
            if not keys:
                del index[tag]
        if not index:
            del self._by_tag[kept.owner]
