"""
Provisioning: choosing, creating, adopting and discarding the database of an extension.

The callers hold the lock of the extension and the lock of all registrations.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from valuetracker.engine import Database, Engine, Transaction
from valuetracker.errors import (
    DatabaseDamaged,
    PathDiffers,
    PathInUse,
    ValueTrackerError,
)
from valuetracker.runtime.registry import Record, Registry
from valuetracker.store import adoption, original_file
from valuetracker.store.rows.head import Head, load_head, make_head
from valuetracker.store.tx.changes import UpdateHead
from valuetracker.store.tx.jobs import WriteJob
from valuetracker.store.tx.ledger import Ledger

logger = logging.getLogger(__name__)

# The registry saves the revision of an extension when its database is closed and each time
# this many revisions were written, so the saved revision lags behind by little more than this.
# It saves a new incarnation soon after that was committed.
SAVED_EVERY = 500
# So many numbers are left out where the registry may lag behind: more than were ever given out.
SKIPPED = 1_000


class Provisioning:
    """The databases of one user's extensions, wherever the engine keeps them."""

    def __init__(self, engine: Engine, registry: Registry) -> None:
        self._engine = engine
        self._registry = registry

    def location(self, extension_id: str, path: str | None, known: Record | None) -> str:
        """Return where the database is or will be; refuse a path that is in use."""
        if path is None and known is not None and known.location is not None:
            return known.location
        location = self._engine.locate(extension_id, path)
        if known is not None and known.registered and known.location != location:
            raise PathDiffers()
        if self._belongs_to_another(extension_id, location):
            raise PathInUse("That file belongs to another extension.")
        return location

    def _belongs_to_another(self, extension_id: str, location: str) -> bool:
        # Two spellings may name one file; better to refuse one name too many.
        folded = location.casefold()
        return any(
            other.location is not None and other.location.casefold() == folded
            for other in self._registry.others(extension_id)
        )

    async def prepare(
        self, extension_id: str, location: str, known: Record | None, at: str
    ) -> Record:
        """Create, adopt or reuse the database at `location`, and return its registry row."""
        before = known or Record(extension_id, None, None, 0, False, at)
        if before.location == location:
            identity = await self._reuse(location, before)
        else:
            identity = await self._create_or_adopt(before, location, at)
        record = replace(
            before, location=location, identity=identity, registered=1, registered_at=at
        )
        database, head, record = await self.open(record)
        await database.close()
        (stamp,) = await self._engine.stamps([location])
        return record.closed(head, stamp)

    async def open(self, record: Record) -> tuple[Database, Head, Record]:
        """
        Open a database, and compare it with what the registry knows of it.

        If it is older than that, somebody has put a copy in its place, or its log was lost: then a
        new incarnation begins, above all revisions that may have been given out. The registry
        saves that first. Returns the row of the registry as it should be from now on.
        """
        record = await self.identified(record)
        assert record.location is not None
        assert record.identity is not None
        database = await self._engine.open(record.location, record.identity)
        try:
            head = await database.read(load_head)
            reason = why_older(record, head, database)
            if reason is None:
                return database, head, record.settled(head.revision, head.incarnation)
            logger.error(
                "a new incarnation of a database begins",
                extra={"extension": record.id, "reason": reason, "revision": head.revision},
            )
            skipped = _skipped(record)
            record = record.settled(
                max(record.revision, head.revision) + skipped,
                max(record.incarnation, head.incarnation) + skipped + 1,
            )
            await database.verified()
            await self._registry.save(record)
            await database.write(WriteJob(begin_incarnation, (record.revision, record.incarnation)))
            return database, await database.read(load_head), record
        except BaseException:
            await database.close()
            raise

    async def identified(self, record: Record) -> Record:
        """
        Return the row of a database with its identity.

        A registry that was rebuilt does not know it if the file could not be read then: so it is
        that of the file, if that says the name of the extension.
        """
        if record.identity != "" or record.location is None:
            return record
        identity, name = await self._engine.identity(record.location)
        if name != record.id or self._is_of_another(record.id, identity):
            raise DatabaseDamaged("The file is not the one that was registered.")
        return replace(record, identity=identity)

    def _is_of_another(self, extension_id: str, identity: str) -> bool:
        return any(other.identity == identity for other in self._registry.others(extension_id))

    async def _reuse(self, location: str, known: Record) -> str:
        """Return the identity of a database that was registered before; it must be the same."""
        known = await self.identified(known)
        identity, _ = await self._engine.identity(location)
        if identity != known.identity:
            raise DatabaseDamaged("The file is not the one that was registered.")
        return identity

    async def _create_or_adopt(self, before: Record, location: str, at: str) -> str:
        """Create the database, or take the one that is there, and return its identity."""
        extension_id, floor, incarnation = before.id, before.revision, before.incarnation

        async def setup(transaction: Transaction) -> None:
            await make_head(transaction, floor, incarnation)

        if not await self._engine.exists(location):
            return await self._engine.create(location, extension_id, at, setup)
        if await self._engine.can_adopt(location, original_file.recognise):
            progress = adoption.Progress(extension_id)
            convert = adoption.conversion(floor, incarnation, progress)
            identity = await self._engine.adopt(location, extension_id, at, convert)
            progress.end()
            return identity
        identity, name = await self._engine.identity(location)
        if name != extension_id or self._is_of_another(extension_id, identity):
            raise PathInUse("That file is the database of another extension.")
        return identity

    async def purge(self, record: Record, location: str) -> Record:
        """Discard the database of a known extension, and return the row that is left of it."""
        # The file first: if the process dies in between, the extension has a missing file,
        # and a second purge finishes the first.
        record = await self.highest_known(record)
        await self._engine.discard(location, record.id)
        return replace(record, location=None, identity=None)

    async def highest_known(self, record: Record) -> Record:
        """Return the row above whose numbers another database can go on; nobody has it open."""
        try:
            database, head, record = await self.open(record)
            await database.close()
            return record.settled(head.revision, head.incarnation)
        except ValueTrackerError:
            # The file cannot be read any more.
            return record.settled(record.revision + SKIPPED, record.incarnation + _skipped(record))

    async def purge_unknown(self, extension_id: str) -> None:
        """Discard a database that lies where this extension's would, if nobody registered it."""
        location = self._engine.locate(extension_id, None)
        if await self._engine.exists(location) and not self._belongs_to_another(
            extension_id, location
        ):
            await self._engine.discard(location, extension_id)


def _skipped(record: Record) -> int:
    """Return how many numbers must be left out, because the registry may lag behind."""
    return SKIPPED if record.opening is not None else 0


def why_older(record: Record, head: Head, database: Database) -> str | None:
    """Return why a database cannot be the one that the registry knows; None if it can."""
    if head.revision < record.revision or head.incarnation < record.incarnation:
        return "It is older than what was last known of it."
    if record.opening is None:
        return None
    # It was not closed since it was last opened for writing.
    if database.opening != record.opening:
        return "It is not the file that was open when the server last ran."
    return None if database.had_log else "Its log is lost."


async def begin_incarnation(tx: Ledger, revision: int, incarnation: int) -> None:
    await tx.apply([UpdateHead(revision=revision, incarnation=incarnation)])
