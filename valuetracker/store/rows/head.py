"""The head: one row that says where the log begins and ends, and how much there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.row import Row, arrays, insert, names


class KnownRevision(NamedTuple):
    """A revision of one incarnation, as a client knows it from an ETag or a cursor."""

    revision: int
    incarnation: int = 0

    @property
    def tag(self) -> int | str:
        return marked(self.revision, self.incarnation)


def marked(tag: int | str, incarnation: int) -> int | str:
    """Return an ETag or cursor with its incarnation; the first one is not named."""
    return f"{tag}.{incarnation}" if incarnation else tag


@dataclass(slots=True)
class Head(Row, table="head"):
    """Where the log begins and ends, the numbers given out, and counts of what there is."""

    revision: int
    # The oldest revision that can still be read.
    oldest: int
    # The revision at which values were adopted; 0 if none were, or they are folded.
    adopted: int = 0
    number: int = 0
    ordinal: int = 0
    # Counts of what is not deleted.
    characters: int = 0
    instances: int = 0
    keys: int = 0
    # How often an older state, or another one, was put in the place of this one.
    incarnation: int = 0
    checksum: int = 0
    # The identity of the database, so that pages of another one are noticed.
    identity: str = ""

    def _sum(self) -> int:
        return crc32(
            f"{self.identity}\0{self.revision}\0{self.oldest}\0{self.adopted}\0{self.number}\0"
            f"{self.ordinal}\0{self.characters}\0{self.instances}\0{self.keys}\0"
            f"{self.incarnation}".encode()
        )

    @property
    def tag(self) -> int | str:
        """
        Return the ETag of a list: the revision, and the oldest one once that is not 0.

        A new database goes on with the numbers of a purged one, and a folded log says less at
        the same revision: both begin later.
        """
        tag = f"{self.revision}-{self.oldest}" if self.oldest else self.revision
        return marked(tag, self.incarnation)

    def next_number(self) -> int:
        """Return the number of a new character, instance, space, chat or place."""
        self.number += 1
        return self.number

    def next_ordinal(self) -> int:
        self.ordinal += 1
        return self.ordinal


SELECT_HEAD = Statement(
    f"SELECT {names(Head.columns)}, (SELECT identity FROM {{schema}}.file) FROM {{schema}}.head"
)
# For writers. On PostgreSQL it takes the lock that puts the writers of one extension, on any
# server, one after the other. SQLite's writers have their lock already.
LOCK_HEAD = Statement(SELECT_HEAD.postgres, postgres=SELECT_HEAD.postgres + " FOR UPDATE")
SELECT_IDENTITY = Statement("SELECT identity FROM {schema}.file")
INSERT_HEAD = insert(Head)
UPDATE_HEAD = Statement(
    f"UPDATE {{schema}}.head SET {', '.join(f'{name} = :{name}' for name in Head.columns)}",
    postgres="UPDATE {schema}.head SET"
    f" {', '.join(f'{name} = new.{name}' for name in Head.columns)}"
    f" FROM unnest({arrays(Head.columns)}) AS new ({names(Head.columns)})",
)


async def load_head(transaction: Transaction, statement: Statement = SELECT_HEAD) -> Head:
    row = await transaction.fetch_one(statement)
    if row is None:
        raise DatabaseDamaged()
    return Head(*row).verify()


async def make_head(transaction: Transaction, revision: int, incarnation: int = 0) -> None:
    """Begin the log of a new database; `revision` is the last one given out before."""
    row = await transaction.fetch_one(SELECT_IDENTITY)
    assert row is not None, "not identified"
    head = Head(revision, oldest=revision, incarnation=incarnation, identity=row[0])
    head.seal()
    await transaction.execute_many(INSERT_HEAD, [head])
