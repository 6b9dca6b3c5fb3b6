"""
A cache of finished answers, kept as the bytes that are sent, limited by bytes.

Each answer is stored with the extension it was read from and the tags of the rows it depends
on. A commit that changes any of those rows removes the answer. `Extension.read` decides which
answers may be cached. Only the event loop uses the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from valuetracker.store.rows.tags import Tag

Answer = TypeVar("Answer")
Key = tuple[str, bytes, bytes]

# The memory an answer takes beside its bytes: the entry, its key and the index of its tags.
OVERHEAD_BYTES = 1_000


@dataclass(slots=True)
class Entry(Generic[Answer]):
    """One cached answer, the extension it was read from and the tags it depends on."""

    answer: Answer
    size: int
    owner: object
    tags: frozenset[Tag]


class AnswerCache(Generic[Answer]):
    """The most recently used answers, as many as fit into `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The least recently used entry comes first.
        self._entries: OrderedDict[Key, Entry[Answer]] = OrderedDict()
        self._by_tag: dict[object, dict[Tag, set[Key]]] = {}
        self.size = 0

    def get(self, key: Key) -> Answer | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.answer

    def keep(
        self, key: Key, answer: Answer, size: int, owner: object, tags: frozenset[Tag]
    ) -> None:
        size += OVERHEAD_BYTES
        # One answer must not push out everything else.
        if size > self._limit // 4:
            return
        self._drop(key)
        self._entries[key] = Entry(answer, size, owner, tags)
        self.size += size
        index = self._by_tag.setdefault(owner, {})
        for tag in tags:
            index.setdefault(tag, set()).add(key)
        while self.size > self._limit:
            self._drop(next(iter(self._entries)))

    def invalidate(self, owner: object, tags: set[Tag]) -> None:
        """Remove the answers that were read from `owner` and depend on any of these tags."""
        index = self._by_tag.get(owner)
        if index:
            for tag in tags:
                for key in tuple(index.get(tag, ())):
                    self._drop(key)

    def invalidate_all(self, owner: object) -> None:
        for keys in tuple(self._by_tag.get(owner, {}).values()):
            for key in tuple(keys):
                self._drop(key)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.size -= entry.size
        index = self._by_tag[entry.owner]
        for tag in entry.tags:
            keys = index[tag]
            keys.discard(key)
            if not keys:
                del index[tag]
        if not index:
            del self._by_tag[entry.owner]
