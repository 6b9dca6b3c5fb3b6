"""
Provisioning: choosing, creating, adopting and discarding the database of an extension.

The callers hold the lock of the extension and the lock of all registrations.
"""

from __future__ import annotations

from dataclasses import replace

from valuetracker.engine import Engine, Transaction
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

# The registry saves the revision of an extension when its database is closed and each time
# this many revisions were written, so the saved revision lags behind by little more than this.
SAVED_EVERY = 1_000


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
        floor = known.revision if known is not None else 0
        if known is not None and known.location == location:
            identity = await self._reuse(location, known)
        else:
            identity = await self._create_or_adopt(extension_id, location, floor, at)
        head = await self._continue_above(location, identity, floor)
        (stamp,) = await self._engine.stamps([location])
        record = Record(extension_id, location, identity, floor, True, at)
        return record.closed(head.revision, head, stamp)

    async def _reuse(self, location: str, known: Record) -> str:
        """Return the identity of a database that was registered before; it must be the same."""
        identity, _ = await self._engine.identity(location)
        if identity != known.identity:
            raise DatabaseDamaged("The file is not the one that was registered.")
        return identity

    async def _create_or_adopt(self, extension_id: str, location: str, floor: int, at: str) -> str:
        """Create the database, or take the one that is there, and return its identity."""

        async def setup(transaction: Transaction) -> None:
            await make_head(transaction, floor)

        if not await self._engine.exists(location):
            return await self._engine.create(location, extension_id, at, setup)
        if await self._engine.can_adopt(location, original_file.recognise):
            progress = adoption.Progress(extension_id)
            convert = adoption.conversion(floor, progress)
            identity = await self._engine.adopt(location, extension_id, at, convert)
            progress.end()
            return identity
        identity, name = await self._engine.identity(location)
        if name != extension_id or any(
            other.identity == identity for other in self._registry.others(extension_id)
        ):
            raise PathInUse("That file is the database of another extension.")
        return identity

    async def _continue_above(self, location: str, identity: str, floor: int) -> Head:
        """
        Raise the revision of the database to `floor` if it is lower, and return its head.

        An older copy of the file must not give out numbers that were given out before.
        """
        database = await self._engine.open(location, identity)
        try:
            head = await database.read(load_head)
            if head.revision < floor:
                await database.verified()
                await database.write(WriteJob(skip_to, (floor,)))
                head = await database.read(load_head)
            return head
        finally:
            await database.close()

    async def purge(self, record: Record, location: str) -> Record:
        """Discard the database of a known extension, and return the row that is left of it."""
        # The file first: if the process dies in between, the extension has a missing file,
        # and a second purge finishes the first.
        revision = await self._last_revision(record, location)
        await self._engine.discard(location, record.id)
        return replace(record, location=None, identity=None, revision=revision, stamp=None)

    async def _last_revision(self, record: Record, location: str) -> int:
        try:
            assert record.identity is not None
            head = await self._continue_above(location, record.identity, record.revision)
            return head.revision
        except ValueTrackerError:
            # The file cannot be read any more. The saved revision lags behind by less than this.
            return record.revision + 2 * SAVED_EVERY

    async def purge_unknown(self, extension_id: str) -> None:
        """Discard a database that lies where this extension's would, if nobody registered it."""
        location = self._engine.locate(extension_id, None)
        if await self._engine.exists(location) and not self._belongs_to_another(
            extension_id, location
        ):
            await self._engine.discard(location, extension_id)


async def skip_to(tx: Ledger, revision: int) -> None:
    await tx.apply([UpdateHead(revision=revision)])
