"""
Rebuilding the registry from the databases that are there.

A registry that is lost is made anew of what each database says of itself: so no extension gets an
empty database beside its real one. What only the registry knew is gone: which extensions were
deregistered (they count as registered again), and the numbers of those that were purged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from valuetracker.engine import FoundDatabase, Job, Transaction
from valuetracker.names import EXTENSION_ID
from valuetracker.runtime.registry import UPSERT_RECORD, Record
from valuetracker.store.rows.head import Head

logger = logging.getLogger(__name__)


def rebuilt_rows(found: Sequence[FoundDatabase[Head]], at: str) -> list[Record]:
    """
    Return the rows of the registry for these databases.

    Of several that say the same name the newest counts. A database that cannot be read counts by
    the name of its file, so that it is reported as damaged, not replaced by an empty one.
    """
    chosen: dict[str, tuple[FoundDatabase[Head], Record]] = {}
    for each in sorted(found, key=_age):
        name, head = each.name, each.content
        if not EXTENSION_ID.match(name):
            continue
        record = Record(name, each.location, each.identity, 0, 1, at)
        if head is not None:
            record = record.settled(head.revision, head.incarnation)
        other = chosen.get(name.lower())
        if other is not None:
            logger.warning(
                "two databases have the same name; the newer one is used",
                extra={"extension": name, "used": each.location, "unused": other[0].location},
            )
        chosen[name.lower()] = each, record
    return [record for _, record in chosen.values()]


def _age(found: FoundDatabase[Head]) -> tuple[int, int, bool]:
    head = found.content
    is_usual = found.location == f"{found.name}.db"
    return (head.incarnation, head.revision, is_usual) if head is not None else (-1, -1, is_usual)


def rebuild(found: Sequence[FoundDatabase[Head]], at: str) -> Job[None]:
    """Return the job that writes the first rows of a registry that was not there."""
    records = rebuilt_rows(found, at)
    if records:
        names = ", ".join(record.id for record in records)
        logger.warning("the registry was lost and is rebuilt", extra={"extensions": names})

    async def job(transaction: Transaction) -> None:
        for record in records:
            record.seal()
        if records:
            await transaction.execute_many(UPSERT_RECORD, records)

    return job
