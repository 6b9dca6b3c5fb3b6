"""
The one place that writes: rows, log, revision, checksums and remembered requests.

A `Ledger` is what a writing verb is given as `tx`. It lives for one group of verbs, which
is one transaction. What a verb loads by key is kept here, and what it applies changes it
here, so a later verb of the group sees what an earlier one did although nothing has been
written yet. `finish` then writes the rows as they ended up, table by table:

    verb 1:  load → refuse? → apply ┐
    verb 2:  load → refuse? → apply ├─ rows in memory ─→ finish: a few statements ─→ commit
    verb 3:  load → refuse? → apply ┘

Only the net state of a row is written, so the order of the statements does not matter,
and their number does not grow with the number of verbs. The log has every change. A verb
that asks something else of the database (`fetch_all`) has what is pending written first.
Whatever one verb applies is one revision.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    ChatArchived,
    ChatMismatch,
    DatabaseDamaged,
    RevisionConflict,
    StaleSession,
)
from valuetracker.records import now
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.loading import Loading
from valuetracker.store.rows.row_cache import WorkingSet
from valuetracker.store.rows.row_types import AliasRow, ChatRow, Head, HolderRow, PlaceRow
from valuetracker.store.rows.tags import Tag
from valuetracker.store.rows.targets import Target
from valuetracker.store.tx.apply import Journal
from valuetracker.store.tx.changes import NO_CONTEXT, Change, Context
from valuetracker.store.tx.idempotency import Requests


@dataclass(slots=True)
class WriteJob:
    """A writing verb on its way to the group that will run it."""

    verb: Callable[..., Coroutine[Any, Any, Any]]
    arguments: tuple[Any, ...] = ()
    context: Context = NO_CONTEXT
    status: int = 200


@dataclass(slots=True)
class Answer:
    """An answer with another status than the usual one; a body that is None is left out."""

    status: int
    body: Any


@dataclass(slots=True)
class Written:
    """What a writing verb is answered with, and the revision its extension is at after it."""

    status: int
    body: bytes
    revision: int
    replayed: bool = False
    # False if any change of it was stored at a hidden place, without effect.
    live: bool = True


class Withdrawn(Exception):
    """A request that named a new place and then had nothing to say there."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.answer = body


async def repeat_answer(tx: Ledger, body: bytes) -> Any:
    """The verb that answers for one that was withdrawn."""
    return orjson.Fragment(body)


@dataclass(slots=True)
class Commit:
    """
    What a group changed: the revision it reached, what it touched, and its log.

    `tags` is None where it is not known what was touched. `revisions` is how many numbers
    the group has taken.
    """

    revision: int
    tags: set[Tag] | None
    revisions: int = 0
    entries: list[EntryRow] = field(default_factory=list)


SELECT_SESSION = Statement("SELECT chat FROM {schema}.sessions WHERE session = :session")

Verb = TypeVar("Verb", bound=Callable[..., Any])


def loading(loads: Callable[..., tuple[Target, list[str]]]) -> Callable[[Verb], Verb]:
    """Say of a verb which target and keys it will load, given its arguments."""

    def mark(verb: Verb) -> Verb:
        verb.loads = loads  # type: ignore[attr-defined]
        return verb

    return mark


def answering(answers: Callable[..., Any]) -> Callable[[Verb], Verb]:
    """Say of a verb that answers a state which verb answers for it when it is withdrawn."""

    def mark(verb: Verb) -> Verb:
        verb.answers = answers  # type: ignore[attr-defined]
        return verb

    return mark


class Ledger(Loading):
    """The transaction of writing verbs."""

    def __init__(self, transaction: Transaction, rows: WorkingSet) -> None:
        super().__init__(transaction, rows)
        self._requests = Requests(transaction)
        self._journal = Journal(rows)
        self._commit = Commit(0, self._journal.tags)
        self._head_moved = False
        # Whether the verb has a revision of its own already.
        self._revised = False
        # Whether it has seen places that nobody had.
        self._saw = False
        self.clean = True
        self.now = ""
        self.context = NO_CONTEXT

    # What the engine calls

    async def prepare(self, jobs: Sequence[WriteJob]) -> None:
        """Load what the jobs say they will ask for, in as few statements as possible."""
        await self.load_head()
        wanted: list[tuple[str, list[str]]] = []
        for job in jobs:
            loads = getattr(job.verb, "loads", None)
            if loads is not None:
                target, keys = loads(*job.arguments)
                if target.space == "instance":
                    wanted.append((target.id, keys))
        await self._rows.load_instances({id: None for id, _ in wanted})
        pairs: dict[tuple[int, str], None] = {}
        for id, keys in wanted:
            holder = await self._rows.find_holder("instance", id)
            if holder is not None:
                for key in keys:
                    pairs[holder.number, key] = None
        await self._rows.load_values(pairs)

    async def perform(self, job: WriteJob) -> Written:
        self.clean = True
        # What is committed together happened together.
        self.now = self.now or now()
        self.context = context = job.context
        self._revised = self._saw = False
        self._read_entries = None
        self._journal.begin(context, self.now)
        # Every write comes through here: nothing is awaited that has nothing to do.
        if not self._begun:
            await self.load_head()
        if context.idempotency_key is not None:
            before = await self._requests.find(context)
            if before is not None:
                return Written(
                    before.status, before.body.encode(), before.revision, True, bool(before.live)
                )
        result = await job.verb(self, *job.arguments)
        if self._journal.is_open:
            await self._journal.close()
        head = self._rows.head or await self.load_head()
        status = job.status
        if isinstance(result, Answer):
            status, result = result.status, result.body
        body = orjson.dumps(result) if result is not None else b""
        live = self._journal.live
        if self._only_looked:
            raise Withdrawn(body)
        if context.idempotency_key is not None:
            self._requests.remember(context, self.now, head.revision, status, live, body)
        return Written(status, body, head.revision, live=live)

    async def finish(self) -> Commit:
        await self._write_pending()
        await self._requests.finish()
        self._commit.revision = (await self.load_head()).revision
        return self._commit

    async def _write_pending(self) -> None:
        if not self._head_moved:
            return
        await self._journal.close()
        await self._rows.write()
        entries, keyframes = self._journal.take()
        if entries:
            await self._transaction.execute_many(sql.INSERT_ENTRY, entries)
        if keyframes:
            await self._transaction.execute_many(sql.INSERT_KEYFRAME, keyframes)
        self._commit.entries += entries
        self._head_moved = False

    # What verbs run by themselves

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        self.clean = False
        await self._write_pending()
        await self._transaction.execute(statement, **parameters)

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        self.clean = False
        await self._write_pending()
        await self._transaction.execute_many(statement, rows)

    # What verbs refuse

    async def enter(
        self, chat: ChatRow | None, unknown: bool = False, archived: bool = False
    ) -> None:
        """
        Refuse a write by somebody who is not in this chat, or to one that is put away.

        None is what belongs to no chat, where anybody may write; `unknown` says that it
        belongs to one that nobody has heard of, `archived` that one put away may be meant.
        """
        context = self.context
        if context.session is not None:
            row = await self._transaction.fetch_one(SELECT_SESSION, session=context.session)
            if row is None:
                raise StaleSession()
            if unknown or (chat is not None and chat.number != row[0]):
                raise ChatMismatch("The session is of another chat.")
        if context.chat_id is not None and chat is not None:
            own = await self._rows.find_chat(context.chat_id)
            if own is None or own.number != chat.number:
                raise ChatMismatch("This belongs to another chat than the x-chat-id header says.")
        if chat is not None and chat.archived_at is not None and not archived:
            raise ChatArchived()

    async def enter_holder(self, holder: HolderRow | None) -> None:
        """The same for what is about to be written, which may not be there."""
        if holder is not None and holder.chat is not None:
            await self.enter(await self._rows.get_chat(holder.chat))
        elif self.context.session is not None:
            await self.enter(None)

    def expect(self, current: int) -> None:
        """Refuse if what is addressed changed after the revision the caller has seen."""
        expected = self.context.expected
        head = self._rows.head
        # One above the head was never given out here: it was seen in another database.
        if expected is not None and (current > expected or (head and expected > head.revision)):
            raise RevisionConflict(expected=expected, current=current)

    # What verbs do

    def set_plainly(self, target: Target, values: dict[str, str]) -> bool:
        """
        Set values where there is nothing to ask: nearly every write is this one.

        The request says nothing beside, the instance belongs to no chat, and all rows are
        known. If anything is otherwise, nothing is done, and `apply` is the way.
        """
        holder = self._rows.holders.rows.get(target)
        head = self._rows.head
        if (
            holder is None
            or head is None
            or holder.chat is not None
            or holder.gone
            or not self.context.is_plain
        ):
            return False
        table = self._rows.values.get(holder.number)
        if table is None or not self._journal.can_set_plainly(holder, table, values):
            return False
        self.clean = False
        self._head_moved = self._revised = True
        head.revision += 1
        self._commit.revisions += 1
        self._journal.set_plainly(holder, table, values, head)
        return True

    async def apply(self, changes: Sequence[Change]) -> int:
        """Make these changes part of the verb's revision. The revision it is at now."""
        head = await self.load_head()
        if not changes:
            return head.revision
        await self.revise()
        chat = None
        if self.context.chat_id is not None:
            chat = await self.find_chat(self.context.chat_id)
        await self._journal.record(changes, head, chat)
        return head.revision

    async def revise(self) -> int:
        """Take a revision for this verb, if it has none yet."""
        head = await self.load_head()
        self.clean = False
        self._head_moved = True
        if not self._revised:
            self._revised = True
            head.revision += 1
            self._commit.revisions += 1
        return head.revision

    def is_over(self, revision: int) -> bool:
        """Whether nothing will be added to a revision: it is not this verb's."""
        head = self._rows.head
        return not self._revised or head is None or revision < head.revision

    @property
    def _only_looked(self) -> bool:
        return self._saw and not self._journal.logged

    async def final_revision(self) -> int:
        """The revision it will be at after this verb, if it changes nothing more."""
        return (await self.load_head()).revision - int(self._only_looked)

    async def see(self) -> int:
        """A place is seen for the first time; that stands only if something is written."""
        self._saw = True
        return await self.revise()

    async def change_chain(self, chat: ChatRow) -> int:
        """The chain of a chat is about to change, as part of the verb's revision."""
        revision = await self.revise()
        self._journal.touch_chat(chat, revision)
        return revision

    async def add_holder(self, space: str, chat: ChatRow) -> HolderRow:
        """A room of a chat that is needed for the first time; the log does not mention it."""
        head = await self.load_head()
        holder = HolderRow(
            head.next_subject(), head.next_place(), space, str(chat.number), None, chat.number,
            None, None, self.now, self.now,
        )  # fmt: skip
        self.put_holder(holder)
        chat.add_room(space)
        self._rows.chats.put(chat.number, chat)
        return holder

    def put_holder(self, holder: HolderRow) -> None:
        """A holder has changed, and the log does not mention it."""
        self.clean = False
        self._head_moved = True
        self._rows.put_holder(holder)
        self._rows.restructured.add(holder.number)

    def put_chat(self, chat: ChatRow) -> None:
        """A chat has changed, and the log says so elsewhere."""
        self.clean = False
        self._head_moved = True
        self._rows.put_chat(chat)
        self._rows.restructured.add(chat.number)

    async def put_chat_quietly(self, chat: ChatRow) -> None:
        """A chat has changed without a revision; whoever keeps its row sees that by the head."""
        (await self.load_head()).next_place()
        self.put_chat(chat)

    async def add_alias(self, alias: AliasRow) -> None:
        """A chat will have another id, and be found by this one, too."""
        alias.seal()
        self.clean = False
        self._head_moved = True
        (await self.load_head()).aliases += 1
        self._rows.aliases.append(alias)

    def put_place(self, place: PlaceRow) -> None:
        """A place has changed without moving."""
        self.clean = False
        self._head_moved = True
        self._rows.places.put(place.place, place)

    @property
    def rows(self) -> WorkingSet:
        return self._rows

    def touched_everything(self) -> None:
        """Nothing that was answered before is known to hold."""
        self._commit.tags = None

    async def forget_rows(self) -> None:
        """Rows were changed beside this: have all of them read anew."""
        await self._write_pending()
        self.clean = False
        self.forget_entries()
        self._rows.forget()
        self._begun = False
        self._commit.tags = None

    async def skip_to(self, revision: int) -> None:
        """Leave out the numbers up to this one; they were given out elsewhere."""
        head = await self.load_head()
        head.revision = max(head.revision, revision)
        self.clean = False
        self._head_moved = True

    async def set_oldest(self, revision: int) -> None:
        """Say how far back the log reaches from now on."""
        (await self.load_head()).oldest = revision
        self.clean = False
        self._head_moved = True


def ledgers() -> Callable[[Transaction], Ledger]:
    """What makes the ledgers of one database: they share the rows they have seen."""
    rows = WorkingSet()
    return lambda transaction: Ledger(transaction, rows)


async def load_head(transaction: Transaction) -> Head:
    row = await transaction.fetch_one(sql.SELECT_HEAD)
    if row is None:
        raise DatabaseDamaged()
    return Head(*row).verify()


async def make_head(transaction: Transaction, revision: int) -> None:
    """Begin the log of a new database; `revision` is the last one given out before."""
    row = await transaction.fetch_one(sql.SELECT_IDENTITY)
    assert row is not None, "not identified"
    head = Head(revision, oldest=revision, identity=row[0])
    head.seal()
    await transaction.execute_many(sql.INSERT_HEAD, [head])
