"""
A cache of finished answers, kept as the bytes that are sent, limited by bytes.

Each answer is stored with the extension it was read from and the tags of the rows it depends
on. A commit that changes any of those rows brings the answer up to date if it can, and else
removes it:

- the answer that is one value, or all values of an instance, is made anew from the committed rows
  when it is next asked for;
- a list that the commit did not touch only gets the ETag of the new revision.

A full cache takes an answer only when it is asked for the second time: an answer that nobody asks
for again must not push out one that many ask for.

`Extension.read` decides which answers may be cached. Only the event loop uses the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, Protocol, Self, TypeVar

import orjson

from valuetracker.store.rows.holders import DataRow
from valuetracker.store.rows.tags import Tag
from valuetracker.store.tx.jobs import Commit

Key = tuple[str, bytes, bytes]

# The memory an answer takes beside its bytes: the entry, its key, its headers, and the index of
# its tags. A test compares what is counted with what is taken.
OVERHEAD_BYTES = 1_700
# The memory a noted row takes beside its value.
ROW_BYTES = 300
# How many keys a full cache remembers that it has no answer for.
NOTED_KEYS = 16_384
# An answer of which more than this has changed since it was made is dropped.
NOTED_BYTES = 32 * 1024


class KeptAnswer(Protocol):
    """An answer as far as the cache has to know it."""

    body: bytes
    etag: bytes | None

    def updated(self, body: bytes, etag: bytes) -> Self:
        """Return the same answer with another body and ETag."""
        ...


class Owner(Protocol):
    """The extension that answers were read from: it knows the ETag of lists."""

    @property
    def etag(self) -> bytes: ...

    def etag_of(self, revision: int) -> bytes: ...


Answer = TypeVar("Answer", bound=KeptAnswer)


class Entry(Generic[Answer]):
    """One cached answer, the extension it was read from and the tags it depends on."""

    __slots__ = (
        "answer",
        "changed",
        "is_list",
        "owner",
        "row",
        "row_size",
        "shows",
        "size",
        "tags",
    )

    def __init__(
        self,
        answer: Answer,
        size: int,
        owner: Owner,
        tags: frozenset[Tag],
        shows: str | None,
        is_list: bool,
    ) -> None:
        self.answer = answer
        self.size = size
        self.owner = owner
        self.tags = tags
        # See `Snapshot`.
        self.shows = shows
        self.is_list = is_list
        # Of an answer that is one value: its row, if that has changed since, and the memory of it.
        self.row: DataRow | None = None
        self.row_size = 0
        # Of an answer that is all values: what has changed since, and the revision it has now.
        self.changed: Changed | None = None


class Changed:
    """Values that have changed since an answer was made."""

    __slots__ = ("created", "revision", "rows", "size")

    def __init__(self) -> None:
        self.revision = 0
        self.size = 0
        self.rows: dict[str, DataRow] = {}
        # Keys that were created, perhaps after they were removed: they come after all others.
        self.created: set[str] = set()


class AnswerCache(Generic[Answer]):
    """The most recently used answers, as many as fit into `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The least recently used entry comes first.
        self._entries: OrderedDict[Key, Entry[Answer]] = OrderedDict()
        self._by_tag: dict[object, dict[Tag, set[Key]]] = {}
        # Hashes of keys that were asked for while the cache was full.
        self._asked: set[int] = set()
        self.size = 0

    def get(self, key: Key) -> Answer | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        if entry.row is not None:
            self._make_value_anew(entry, entry.row)
        elif entry.changed is not None:
            self._make_anew(entry, entry.changed)
        elif entry.is_list and entry.answer.etag != entry.owner.etag:
            entry.answer = entry.answer.updated(entry.answer.body, entry.owner.etag)
        return entry.answer

    def keep(
        self,
        key: Key,
        answer: Answer,
        owner: Owner,
        tags: frozenset[Tag],
        shows: str | None = None,
        is_list: bool = False,
    ) -> None:
        size = len(answer.body) + len(key[1]) + len(key[2]) + OVERHEAD_BYTES
        # One answer must not push out everything else.
        if size > self._limit // 4:
            return
        if self.size + size > self._limit and not self._was_asked_for(key):
            return
        self._drop(key)
        answer.body = exact(answer.body)
        self._entries[key] = Entry(answer, size, owner, tags, shows, is_list)
        self.size += size
        index = self._by_tag.setdefault(owner, {})
        for tag in tags:
            index.setdefault(tag, set()).add(key)
        self._evict()

    def _was_asked_for(self, key: Key) -> bool:
        """Return True if this answer was asked for not long ago, and note that it is now."""
        asked = hash(key)
        if asked in self._asked:
            return True
        if len(self._asked) >= NOTED_KEYS:
            self._asked.clear()
        self._asked.add(asked)
        return False

    def apply(self, owner: Owner, commit: Commit) -> None:
        """Bring the answers that were read from `owner` up to date, or remove them."""
        index = self._by_tag.get(owner)
        if not index:
            return
        if commit.tags is None:
            self.remove_all(owner)
            return
        for tag in commit.tags:
            for key in tuple(index.get(tag, ())):
                self._drop(key)
        for holder, touched in commit.holders.items():
            space, id = holder
            for name, row in touched.rows.items():
                keys = index.get((space, id, name))
                if keys is not None:
                    self._note_value(tuple(keys), row)
            keys = index.get(holder)
            if keys is not None:
                for key in tuple(keys):
                    self._note(key, touched.rows, touched.revision, commit.ordinal)
        self._evict()

    def _note_value(self, keys: Iterable[Key], row: DataRow) -> None:
        """Note that the value has changed which is the whole of these answers."""
        size = ROW_BYTES + len(row.value or "")
        for key in keys:
            entry = self._entries[key]
            if entry.shows is None:
                self._drop(key)
                continue
            self.size += size - entry.row_size
            entry.row, entry.row_size = row, size

    def _note(self, key: Key, rows: dict[str, DataRow], revision: int, ordinal: int) -> None:
        """Note what has changed of an answer that is all values of a holder."""
        entry = self._entries[key]
        if entry.shows is None:
            self._drop(key)
            return
        if entry.changed is None:
            entry.changed = Changed()
        changed = entry.changed
        changed.revision = revision
        for name, row in rows.items():
            noted = changed.rows.get(name)
            if noted is None:
                changed.size += len(name) + OVERHEAD_BYTES
            elif noted.value is not None:
                changed.size -= len(noted.value)
            changed.size += len(row.value or "")
            changed.rows[name] = row
            if row.ordinal > ordinal:
                changed.created.add(name)
        if changed.size > NOTED_BYTES:
            # Nobody asks for it, while it is changed again and again.
            self._drop(key)

    def _make_value_anew(self, entry: Entry[Answer], row: DataRow) -> None:
        self.size -= entry.row_size
        entry.row, entry.row_size = None, 0
        body = b"{}" if row.value is None else b"{%b}" % value_bytes(row)
        self._replace(entry, body, row.revision)

    def _make_anew(self, entry: Entry[Answer], changed: Changed) -> None:
        entry.changed = None
        values = orjson.loads(entry.answer.body)
        for name in changed.created:
            values.pop(name, None)
        for row in sorted(changed.rows.values(), key=_ordinal):
            if row.value is None:
                values.pop(row.key, None)
            else:
                values[row.key] = orjson.Fragment(row.value)
        self._replace(entry, exact(orjson.dumps(values)), changed.revision)

    def _replace(self, entry: Entry[Answer], body: bytes, revision: int) -> None:
        more = len(body) - len(entry.answer.body)
        entry.size += more
        self.size += more
        entry.answer = entry.answer.updated(body, entry.owner.etag_of(revision))

    def remove_all(self, owner: Owner) -> None:
        """Remove all answers that were read from `owner`."""
        for keys in tuple(self._by_tag.get(owner, {}).values()):
            for key in tuple(keys):
                self._drop(key)

    def _evict(self) -> None:
        while self.size > self._limit:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.size -= entry.size + entry.row_size
        index = self._by_tag[entry.owner]
        for tag in entry.tags:
            keys = index[tag]
            keys.discard(key)
            if not keys:
                del index[tag]
        if not index:
            del self._by_tag[entry.owner]


def exact(body: bytes) -> bytes:
    """Return the same bytes without spare room: orjson leaves up to 4 KB behind its own."""
    return b"%b" % body


def value_bytes(row: DataRow) -> bytes:
    """Return a key with its value as they stand in a JSON object."""
    assert row.value is not None
    return b"%b:%b" % (orjson.dumps(row.key), row.value.encode())


def _ordinal(row: DataRow) -> int:
    return row.ordinal
