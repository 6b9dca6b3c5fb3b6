"""The transaction of reading verbs: one consistent state, on a connection that cannot write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from valuetracker.clock import Clock
from valuetracker.engine import Transaction
from valuetracker.store.rows.head import Head, load_head, marked
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row_cache import RowCache
from valuetracker.store.rows.spaces import Address
from valuetracker.store.rows.tags import Tag, chat_tag

Verb = TypeVar("Verb", bound=Callable[..., Any])

# How many numbers of instances are kept from one read to the next.
KEPT_NUMBERS = 32_768


def quick(verb: Verb) -> Verb:
    """Say that a verb reads few rows, or calls `reads` before it reads many."""
    verb.is_quick = True  # type: ignore[attr-defined]
    return verb


class Snapshot(RowReader):
    """
    A reading verb's `tx`.

    A verb says with `depends_on` what its answer depends on, so that the answer can be kept
    in memory until a commit touches that; an answer that names nothing depends on everything.
    It says in `etag` at which revision what it read changed last; otherwise that is the head.
    """

    # False if the clock, too, can make the answer untrue.
    keepable = True
    # The key whose value is the whole answer, or the empty one for all values of a holder: then a
    # commit can bring a kept answer up to date.
    shows: str | None = None
    # True if the answer is a list, whose ETag is that of the head.
    is_list = False

    def __init__(
        self,
        transaction: Transaction,
        head: Head,
        clock: Clock | None = None,
        cache: RowCache | None = None,
        numbers: dict[str, int] | None = None,
    ) -> None:
        super().__init__(transaction, RowCache() if cache is None else cache, clock)
        self.cache.head = self.head = head
        # The numbers of instances by id, as far as they are known.
        self._numbers = {} if numbers is None else numbers
        # The space and id of subjects of the log, by number.
        self.names: dict[int, tuple[str, str]] = {}
        self.tags: set[Tag] = set()
        self.etag: int | str | None = head.tag

    @classmethod
    async def take(cls, transaction: Transaction, clock: Clock | None = None) -> Snapshot:
        # Reading the head first fixes the snapshot, so its revision is the answer's.
        return cls(transaction, await load_head(transaction), clock)

    @property
    def marked_etag(self) -> int | str | None:
        """Return the ETag with its incarnation."""
        etag, head = self.etag, self.head
        # That of a list has it already.
        if not head.incarnation or etag is None or isinstance(etag, str):
            return etag
        return marked(etag, head.incarnation)

    def depends_on(self, tag: Tag) -> None:
        self.tags.add(tag)

    def lists(self, *tags: Tag) -> None:
        """Say that the answer is a list, which commits that touch none of these do not change."""
        self.tags.update(tags)
        self.is_list = True

    def takes_no_revision(self) -> None:
        """Say that the answer can change without a revision: it has no ETag and is not kept."""
        self.etag = None
        self.keepable = False

    async def find_number(self, instance_id: str) -> int | None:
        """Return the number of an instance, also of a deleted one."""
        number = self._numbers.get(instance_id)
        if number is None:
            holder = await self.find_any_instance(instance_id)
            if holder is None:
                return None
            if len(self._numbers) >= KEPT_NUMBERS:
                self._numbers.clear()
            number = self._numbers[instance_id] = holder.number
        return number

    async def find_addressed(self, address: Address) -> HolderRow | None:
        """Return the holder of an address, also a deleted one; the ETag is then of its end."""
        if address.space == "instance":
            return await self.find_any_instance(address.id)
        chat = await self.find_any_chat(address.id)
        if chat is None:
            self.etag = 0
            return None
        self.depends_on(chat_tag(chat.number))
        self.etag = chat.revision
        return await self.find_space(chat, address.space)
