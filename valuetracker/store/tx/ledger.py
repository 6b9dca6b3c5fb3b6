"""
The transaction of writing verbs.

A `Ledger` is what a writing verb is given as `tx`. It lives for one group of verbs, which
is one transaction. Rows that a verb loads are kept in the cache, and `apply` changes them
there, so a later verb of the group sees what an earlier one did although nothing has been
written yet. `finish` then writes the rows as they ended up, table by table:

    verb 1:  load → refuse? → apply ┐
    verb 2:  load → refuse? → apply ├─ rows in memory ─→ finish: a few statements ─→ commit
    verb 3:  load → refuse? → apply ┘

Only the last state of a row is written, so the order of the statements does not matter, and
their number does not grow with the number of verbs. The log has every change. A verb that
asks the database something else (`fetch_all`) has what is pending written first. All that
one verb applies is one revision.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import orjson

from valuetracker.clock import Clock
from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    ChatArchived,
    ChatMismatch,
    RevisionConflict,
    StaleSession,
)
from valuetracker.records import time_text
from valuetracker.store.log.replay import Conflict
from valuetracker.store.rows.chats import SELECT_SESSION, ChatRow, SessionRow
from valuetracker.store.rows.entries import INSERT_ENTRY, INSERT_KEYFRAME
from valuetracker.store.rows.head import LOCK_HEAD, Head, KnownRevision, load_head
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row_cache import RowCache
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import Address
from valuetracker.store.tx.apply import Applier
from valuetracker.store.tx.changes import AddSpace, Change, ChangeChat, UpdateQuietly
from valuetracker.store.tx.context import NO_CONTEXT, RenewLorebook
from valuetracker.store.tx.idempotency import RememberedRequests, ShownValue, answer_bytes
from valuetracker.store.tx.jobs import Answer, Commit, NothingChanged, Notice, WriteJob, Written

# Runs after a verb by which messages or swipes became visible or hidden.
AfterFlips = Callable[["Ledger", list[PlaceRow]], Coroutine[Any, Any, None]]


class Ledger(RowReader):
    """A writing verb's `tx`."""

    changes_rows = True

    def __init__(
        self,
        transaction: Transaction,
        cache: RowCache,
        clock: Clock | None = None,
        after_flips: AfterFlips | None = None,
        renew_lorebook: RenewLorebook | None = None,
    ) -> None:
        super().__init__(transaction, cache, clock)
        self._after_flips = after_flips
        self.renew_lorebook = renew_lorebook
        self._requests = RememberedRequests(transaction, self.clock.uptime)
        self._applier = Applier(self)
        touched = self._applier.touched
        self._commit = Commit(0, touched.tags, touched.holders)
        self._begun = False
        self._has_pending = False
        # True if the verb has a revision of its own already.
        self._revised = False
        # True if the verb has changed nothing yet, so that the group need not be rolled back.
        self.clean = True
        # When the group was begun, in milliseconds since 1970; all its verbs have this time,
        # because they are committed together.
        self._at = self.clock.time_of_day()
        self.context = NO_CONTEXT

    @property
    def now(self) -> str:
        """Return the time of the group, as the API writes times."""
        return time_text(self._at)

    # Called by the engine

    async def prepare(self, jobs: Sequence[WriteJob]) -> None:
        """Load what the jobs say they will ask for, in as few statements as possible."""
        await self.load_head()
        wanted: list[tuple[str, list[str]]] = []
        for job in jobs:
            loads = getattr(job.verb, "loads", None)
            if loads is not None:
                address, keys = loads(*job.arguments)
                if address.space == "instance":
                    wanted.append((address.id, keys))
        await self.load_instances({id: None for id, _ in wanted})
        pairs: dict[tuple[int, str], None] = {}
        for id, keys in wanted:
            holder = await self.find_any_instance(id)
            if holder is not None:
                for key in keys:
                    pairs[holder.number, key] = None
        await self.load_values(pairs)

    async def perform(self, job: WriteJob) -> Written:
        """Run one verb, or give back the answer its request got before."""
        self.clean = True
        self.context = context = job.context
        self._revised = False
        self._read_entries = self.read_time = None
        self._applier.begin(context, self._at)
        # Every write comes through here: nothing is awaited that has nothing to do.
        if not self._begun:
            await self.load_head()
        if context.idempotency_key is not None:
            before = await self._requests.find(context)
            if before is not None:
                head = await self.load_head()
                return Written(
                    before.status, before.body.encode(), before.revision, True,
                    bool(before.live), bool(before.superseded), head.incarnation,
                )  # fmt: skip
        result = await job.verb(self, *job.arguments)
        if self._applier.log.open is not None:
            await self._applier.log.close()
        head = self.cache.head or await self.load_head()
        status = job.status
        if isinstance(result, Answer):
            status, result = result.status, result.body
        body = answer_bytes(result) if result is not None else b""
        if self._applier.changed_nothing:
            raise NothingChanged(body)
        if self._applier.flipped and self._after_flips is not None:
            # Only now: what follows a flip must find all that the verb has written.
            await self._after_flips(self, self._applier.flipped)
        values = self._applier.values
        superseded = values.superseded > 0
        written = Written(
            status, body, head.revision, False, values.live, superseded, head.incarnation
        )
        if context.idempotency_key is not None:
            self._requests.remember(context, written, result)
        return written

    async def finish(self) -> Commit:
        """Write what is pending; return what the group changed."""
        await self.settle()
        await self._requests.finish()
        head = await self.load_head()
        self._commit.revision, self._commit.tag = head.revision, head.tag
        self._commit.incarnation = head.incarnation
        return self._commit

    # Reading

    async def load_head(self) -> Head:
        if not self._begun:
            head = await load_head(self._transaction, LOCK_HEAD)
            self.cache.begin(head)
            self._commit.ordinal = head.ordinal
            self._begun = True
        return await super().load_head()

    async def snapshot(self) -> Snapshot:
        """Return what a reading verb is given, as the group has left it so far."""
        await self.settle()
        return await Snapshot.take(self._transaction, self.clock)

    async def settle(self) -> None:
        if not self._has_pending:
            return
        await self._applier.log.close()
        await self.cache.write(self._transaction)
        entries, keyframes = self._applier.log.take()
        if entries:
            await self._transaction.write_many(INSERT_ENTRY, entries)
        if keyframes:
            await self._transaction.write_many(INSERT_KEYFRAME, keyframes)
        self._commit.entries += entries
        self._has_pending = False

    # Answering

    def shown(self, holder: HolderRow | None, key: str, text: str, later: int = 0) -> Any:
        """Return a value as a part of the answer; see `ShownValue` for `later`."""
        if holder is None or self.context.idempotency_key is None:
            return orjson.Fragment(text)
        return ShownValue(text, holder.number, key, later)

    def values_record(self, rows: list[DataRow]) -> dict[str, Any]:
        if self.context.idempotency_key is None:
            return super().values_record(rows)
        return {
            row.key: ShownValue(row.value, row.holder, row.key)
            for row in rows
            if row.value is not None
        }

    # Refusing

    async def authorize(
        self, chat: ChatRow | None, unknown: bool = False, archived: bool = False
    ) -> None:
        """
        Refuse a write by somebody who is not in this chat, or to an archived chat.

        None stands for no chat, where anybody may write. `unknown` says that the request names
        a chat that does not exist, `archived` that an archived one may be written to.
        """
        context = self.context
        if context.session is not None:
            row = await self._transaction.fetch_one(SELECT_SESSION, session=context.session)
            if row is None:
                raise StaleSession()
            session = SessionRow(*row).verify()
            if unknown or (chat is not None and chat.number != session.chat):
                raise ChatMismatch("The session is of another chat.")
        if context.chat_id is not None and chat is not None:
            own = await self.find_any_chat(context.chat_id)
            if own is None or own.number != chat.number:
                raise ChatMismatch("This belongs to another chat than the x-chat-id header says.")
        if chat is not None and chat.archived_at is not None and not archived:
            raise ChatArchived()

    async def authorize_holder(self, holder: HolderRow | None) -> None:
        """Refuse a write to a holder in the same way; None for one that does not exist."""
        if holder is not None and holder.chat is not None:
            await self.authorize(await self.get_chat(holder.chat))
        elif self.context.session is not None:
            await self.authorize(None)

    def check_if_match(self, current: int) -> None:
        """Refuse if what is addressed changed after the revision of `If-Match`."""
        expected = self.context.expected
        head = self.cache.head
        if expected is None or head is None:
            return
        # One above the head was never given out here: it was seen in another database. The same
        # number of another incarnation was another revision.
        if (
            current > expected.revision
            or expected.revision > head.revision
            or expected.incarnation != head.incarnation
        ):
            present = KnownRevision(current, head.incarnation)
            raise RevisionConflict(expected=expected.tag, current=present.tag)

    # Writing

    def set_at_once(self, address: Address, values: dict[str, str]) -> bool:
        """
        Set values where there is nothing to check, without awaiting anything.

        Returns False, and has done nothing, if there is anything to check: then the verb goes on
        and calls `apply`.
        """
        holder = self.cache.holders.rows.get(address)
        head = self.cache.head
        if (
            holder is None
            or head is None
            or holder.chat is not None
            or holder.deleted
            or not self.context.is_plain
            or not self._applier.values.set_at_once(holder, values, head)
        ):
            return False
        self.clean = False
        self._has_pending = self._revised = True
        self._commit.revisions += 1
        return True

    async def apply(self, changes: Sequence[Change]) -> int:
        """Make these changes part of the verb's revision; return the revision it is at now."""
        head = await self.load_head()
        if not changes:
            return head.revision
        if any(change.takes_revision for change in changes):
            await self.revise()
        elif not self._revised and any(isinstance(each, UpdateQuietly) for each in changes):
            # Other servers keep rows, too: that the head has changed tells them to read again.
            head.next_ordinal()
        self.clean = False
        chat = None
        if self.context.chat_id is not None:
            chat = await self.find_chat(self.context.chat_id)
        self._has_pending = True
        await self._applier.apply(changes, head, chat)
        # What it asked the log had written what was pending by then.
        self._has_pending = True
        return head.revision

    async def revise(self) -> int:
        """Return the verb's revision; take one if it has none yet."""
        head = await self.load_head()
        self.clean = False
        self._has_pending = True
        if not self._revised:
            self._revised = True
            head.revision += 1
            self._commit.revisions += 1
        return head.revision

    async def get_or_create_chat(self, chat_id: str) -> ChatRow:
        chat = await self.find_any_chat(chat_id)
        if chat is not None and not chat.deleted:
            return chat
        head = await self.load_head()
        if chat is None:
            chat = ChatRow(head.next_number(), 0, chat_id, None, None, "", "")
        chat.ordinal, chat.deleted, chat.archived_at = head.next_ordinal(), 0, None
        chat.paused = 0
        chat.created_at = chat.updated_at = self.now
        chat.parent = chat.origin = None
        await self.apply([ChangeChat(chat, "create_chat")])
        return chat

    async def get_or_create_space(self, chat: ChatRow, space: str) -> HolderRow:
        holder = await self.find_space(chat, space)
        if holder is None:
            head = await self.load_head()
            holder = HolderRow(
                head.next_number(), head.next_ordinal(), space, str(chat.number), None,
                chat.number, None, None, self.now, self.now,
            )  # fmt: skip
            await self.apply([AddSpace(holder)])
        return holder

    @property
    def superseded(self) -> int:
        """Return how many changes of the verb were superseded."""
        return self._applier.values.superseded

    @property
    def conflicts(self) -> list[tuple[HolderRow, Conflict]]:
        """Return the later changes that no longer apply after those of the verb."""
        return self._applier.values.conflicts

    async def final_revision(self) -> int:
        """Return the revision after this verb, if it changes nothing more."""
        return (await self.load_head()).revision - int(self._applier.changed_nothing)

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        """Run a statement on a table that `apply` does not know."""
        self.clean = False
        await self.settle()
        await self._transaction.execute(statement, **parameters)

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        self.clean = False
        await self.settle()
        await self._transaction.execute_many(statement, rows)

    def tell(self, notice: Notice) -> None:
        """Have readers of the feed told of something that takes no revision."""
        self._commit.notices.append(notice)

    def invalidate_everything(self) -> None:
        """Say that no kept answer is known to be true any more."""
        self._commit.tags = None

    async def reload_rows(self) -> None:
        """Have all rows read again, because statements have changed them."""
        await self.settle()
        self.clean = False
        self.forget_entries()
        self.cache.forget()
        self._begun = False
        self.invalidate_everything()

    async def forget_written(self) -> None:
        """Write what is pending, and keep nothing of it in memory: the feed finds it in the log."""
        await self.reload_rows()
        self._commit.entries.clear()
        self._commit.holders.clear()
        # To load the head forgets all rows, so it is the first one that is read again.
        await self.load_head()


def ledgers(
    clock: Clock | None = None,
    after_flips: AfterFlips | None = None,
    renew_lorebook: RenewLorebook | None = None,
) -> Callable[[Transaction], Ledger]:
    """Return what makes the ledgers of one database: they share a cache."""
    cache, clock = RowCache(), clock or Clock()
    return lambda transaction: Ledger(transaction, cache, clock, after_flips, renew_lorebook)
