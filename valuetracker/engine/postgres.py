"""
The PostgreSQL engine: one schema per database, one of them the registry.

- Statements are fully qualified and never cross schemas, so pooling, and sharding by
  schema, need no support from us.
- The lock on the head row of a database makes its writers run one after the other, so
  revisions have no gaps and become visible in their order.
- Only one server at a time uses the database: it holds a lock (`postgres_lock.py`). No revision
  depends on that, but answers that are kept in memory do.
- Reads run in the role `valuetracker_reader`, which may select and nothing else.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg

from valuetracker.engine import (
    Conversion,
    FirstRows,
    FoundDatabase,
    Job,
    NewRunnerFactory,
    Stamp,
    mark,
)
from valuetracker.engine.migrations import (
    Migration,
    check_version,
    load_migrations,
    migrations_directory,
)
from valuetracker.engine.no_files import NoFiles
from valuetracker.engine.plain_runner import PlainRunner
from valuetracker.engine.postgres_database import (
    Pools,
    PostgresDatabase,
    PostgresTransaction,
    translate,
)
from valuetracker.engine.postgres_lock import LOCK_SPACE, REGISTERING, ServerLock
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseTooOld,
    PathNotAllowed,
    StartupError,
    ValueTrackerError,
)
from valuetracker.failpoints import Failpoint

T = TypeVar("T")

READER_ROLE = "valuetracker_reader"
REGISTRY_SCHEMA = "valuetracker"
OLDEST_VERSION = (13, 0)


class PostgresEngine(NoFiles):
    """Databases that are schemas of one PostgreSQL database."""

    name = "postgresql"
    has_stamps = False
    copies_files = False

    def __init__(
        self,
        url: str,
        new_runner_factory: NewRunnerFactory,
        *,
        pool_size: int,
        timeout: float,
        user: str | None = None,
    ) -> None:
        self.version = "unknown"
        # None is the default user, whose schemas have no user name in them.
        self._user = user
        self._url = url
        self._new_runner_factory = new_runner_factory
        self._pool_size = max(1, pool_size)
        self._timeout = timeout
        migrations = migrations_directory() / "postgres"
        self._migrations = load_migrations(migrations)
        self._registry_migrations = load_migrations(migrations / "registry")
        self._pools: Pools | None = None
        # False lets other servers use the database as well, for tests of what needs no lock.
        self.alone = True
        self._lock: ServerLock | None = None

    @property
    def pools(self) -> Pools:
        assert self._pools is not None, "not started"
        return self._pools

    def for_user(self, handle: str) -> PostgresEngine:
        # The engine of another user shares the connections.
        engine = PostgresEngine(
            self._url,
            self._new_runner_factory,
            pool_size=self._pool_size,
            timeout=self._timeout,
            user=handle,
        )
        engine.version = self.version
        engine._pools = self.pools
        return engine

    @property
    def _registry(self) -> str:
        # Three names, where a database has one or two: so it cannot be that of a database.
        return REGISTRY_SCHEMA if self._user is None else self._schema("registry", "of", self._user)

    def _schema(self, *names: str) -> str:
        """Return the name of a schema: readable, and unique by its digest."""
        readable = re.sub(r"[^a-z0-9]", "_", "_".join(names).lower())[:40]
        digest = hashlib.sha256("/".join(names).encode()).hexdigest()[:12]
        return f"vt_{readable}_{digest}"

    def lock(self) -> None:
        """Do nothing: `start` takes the lock, because that needs a connection."""

    async def users(self) -> list[str]:
        found: list[str] = []
        async with self._looking() as connection:
            schemas = await connection.fetch(
                "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'vt\\_registry\\_of\\_%'"
            )
            for (schema,) in schemas:
                _, handle, *_ = await _read_mark(connection, schema)
                # An extension may have such a name, too.
                if schema == self._schema("registry", "of", handle):
                    found.append(handle)
        return sorted(found)

    # Starting

    async def start(self, at: str, first_rows: FirstRows[Any] | None = None) -> PostgresDatabase:
        if self._user is not None:
            async with self._writing() as connection:
                await self._prepare_registry(connection, at, first_rows)
            return PostgresDatabase(self.pools, self._registry, lambda: PlainRunner)
        writers: Any = None
        try:
            if self.alone:
                self._lock = ServerLock(self._connect, _address(self._url))
                await self._lock.start()
            writers = await self._pool(None)
            await self._prepare(writers, at, first_rows)
            self._pools = Pools(writers, await self._pool(READER_ROLE), self._lock)
        except Exception as error:
            if writers is not None:
                writers.terminate()
            if self._lock is not None:
                await self._lock.stop()
            if isinstance(error, StartupError):
                raise
            raise StartupError(self._reason(error)) from error
        return PostgresDatabase(self.pools, REGISTRY_SCHEMA, lambda: PlainRunner)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, ValueTrackerError):
            return str(error)
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return (
                f"The database user may not prepare the database: {error}. It needs the right "
                f"to create schemas, and the role {READER_ROLE}, which an administrator may have "
                "to create once."
            )
        return (
            f"The database {_address(self._url)} cannot be used: {error or type(error).__name__}."
        )

    async def _connect(self, settings: dict[str, str]) -> Any:
        return await asyncpg.connect(
            self._url,
            timeout=self._timeout,
            command_timeout=self._timeout,
            server_settings=settings,
        )

    async def _pool(self, role: str | None) -> Any:
        async def prepare(connection: Any) -> None:
            if role is not None:
                await connection.execute(f"SET ROLE {role}")

        return await asyncpg.create_pool(
            self._url,
            min_size=1,
            max_size=self._pool_size,
            timeout=self._timeout,
            command_timeout=self._timeout,
            statement_cache_size=512,
            init=prepare,
            # We leave no state on a connection, and a reset would cost every request a round trip.
            reset=_no_reset,
        )

    async def _prepare(self, writers: Any, at: str, first_rows: FirstRows[Any] | None) -> None:
        async with writers.acquire() as connection:
            version = connection.get_server_version()
            self.version = f"{version.major}.{version.minor}"
            if (version.major, version.minor) < OLDEST_VERSION:
                raise StartupError(
                    f"PostgreSQL {self.version} is too old: {OLDEST_VERSION[0]} is the oldest."
                )
            async with connection.transaction(), _locked(connection):
                await _make_reader_role(connection)
            await self._prepare_registry(connection, at, first_rows)

    async def _prepare_registry(
        self, connection: Any, at: str, first_rows: FirstRows[Any] | None
    ) -> None:
        migrations = self._registry_migrations
        async with connection.transaction(), _locked(connection):
            if not await _schema_exists(connection, self._registry):
                name = self._user or "registry"
                await self._make(connection, self._registry, name, at, migrations)
                if first_rows is not None:
                    found = await self._find_databases(connection, first_rows.read)
                    transaction = PostgresTransaction(connection, self._registry)
                    await first_rows.write(found)(transaction)
                    await transaction.flush()
            else:
                await self._migrate(connection, self._registry, migrations)

    async def _find_databases(self, connection: Any, read: Job[T]) -> list[FoundDatabase[T]]:
        """Return all databases of this user."""
        found: list[FoundDatabase[T]] = []
        schemas = await connection.fetch(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'vt\\_%' ORDER BY nspname"
        )
        for (schema,) in schemas:
            try:
                async with connection.transaction():
                    identity, name, *_ = await _read_mark(connection, schema)
                    if schema == self.locate(name, None):
                        content = await read(PostgresTransaction(connection, schema))
                        found.append(FoundDatabase(schema, identity, name, content))
            except (ValueTrackerError, asyncpg.PostgresError):
                # It has no name that is known: to register it finds it, and reports the damage.
                continue
        return found

    async def discard_registry(self) -> bool:
        raise StartupError("On PostgreSQL an administrator has to drop the schema of the registry.")

    async def stop(self) -> None:
        # The engines of other users share these connections; only their owner closes them.
        if self._pools is not None and self._user is None:
            await self._pools.readers.close()
            await self._pools.writers.close()
            if self._lock is not None:
                await self._lock.stop()

    # Databases

    def locate(self, name: str, wanted: str | None) -> str:
        if wanted is not None:
            raise PathNotAllowed("On PostgreSQL there are no files: leave dbPath out.")
        return self._schema(name) if self._user is None else self._schema(self._user, name)

    async def exists(self, location: str) -> bool:
        async with self._looking() as connection:
            return await _schema_exists(connection, location)

    async def stamps(self, locations: Sequence[str]) -> list[Stamp | None]:
        return [None] * len(locations)

    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str:
        async with self._writing() as connection, connection.transaction(), _locked(connection):
            identity = await self._make(connection, location, name, at, self._migrations)
            transaction = PostgresTransaction(connection, location)
            await setup(transaction)
            await transaction.flush()
        return identity

    async def identity(self, location: str) -> tuple[str, str]:
        async with self._looking() as connection:
            if not await _schema_exists(connection, location):
                raise DatabaseDamaged("The schema is missing.")
            identity, name, *_ = await _read_mark(connection, location)
        return identity, name

    async def open(self, location: str, identity: str) -> PostgresDatabase:
        async with self._looking() as connection:
            if not await _schema_exists(connection, location):
                raise DatabaseDamaged("The schema is missing.")
            found, _, _, version = await _read_mark(connection, location)
            if found != identity:
                raise DatabaseDamaged("The schema is not the one that was registered.")
            await _check_layout(connection, location, self._migrations)
        if version != self._migrations[-1].number:
            async with self._writing() as connection, connection.transaction(), _locked(connection):
                await self._migrate(connection, location, self._migrations)
        return PostgresDatabase(self.pools, location, self._new_runner_factory)

    async def can_adopt(self, location: str, recognise: Job[bool]) -> bool:
        return False

    async def adopt(self, location: str, name: str, at: str, convert: Conversion) -> str:
        raise PathNotAllowed("On PostgreSQL there are no files to adopt.")

    async def discard(self, location: str, label: str) -> bool:
        async with self._writing() as connection, connection.transaction(), _locked(connection):
            if not await _schema_exists(connection, location):
                return False
            number = 1
            while await _schema_exists(connection, target := f"trash_{number}_{location}"[:63]):
                number += 1
            await connection.execute(f'ALTER SCHEMA "{location}" RENAME TO "{target}"')
        return True

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Any]:
        try:
            async with self.pools.writer() as connection:
                yield connection
        except Exception as error:
            raise translate(error) from error

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[Any]:
        try:
            async with self.pools.looker() as connection:
                yield connection
        except Exception as error:
            raise translate(error) from error

    # Schemas

    async def _make(
        self, connection: Any, schema: str, name: str, at: str, migrations: Sequence[Migration]
    ) -> str:
        identity = secrets.token_hex(16)
        await connection.execute(f'CREATE SCHEMA "{schema}"')
        for migration in migrations:
            await _apply(connection, schema, migration)
        await connection.execute(
            f'INSERT INTO "{schema}".file VALUES ($1, $2, $3, $4, $5)',
            *mark.seal(identity, name, at, migrations[-1].number),
        )
        await _grant(connection, schema)
        return identity

    async def _migrate(self, connection: Any, schema: str, migrations: Sequence[Migration]) -> None:
        # Read the version again: another server may have migrated the schema meanwhile.
        identity, name, at, version = await _read_mark(connection, schema)
        check_version(version, migrations)
        for migration in migrations:
            if migration.number > version:
                await _apply(connection, schema, migration)
                *_, number, checksum = mark.seal(identity, name, at, migration.number)
                await connection.execute(
                    f'UPDATE "{schema}".file SET version = $1, checksum = $2', number, checksum
                )
        await _grant(connection, schema)


async def _check_layout(connection: Any, schema: str, migrations: Sequence[Migration]) -> None:
    """Refuse a schema that has other tables in place of those the migrations create."""
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    present = {row[0] for row in rows}
    expected = set().union(*(migration.tables for migration in migrations))
    if present - expected and migrations[0].tables - present:
        raise DatabaseTooOld()


def _address(url: str) -> str:
    """Return the address in a URL, without user and password, which must not be logged."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    address = parts.netloc.rpartition("@")[2]
    if "host" in query:
        address = ":".join(query[name][0] for name in ("host", "port") if name in query)
    return address + parts.path


async def _no_reset(connection: Any) -> None:
    return None


async def _apply(connection: Any, schema: str, migration: Migration) -> None:
    failpoint = Failpoint.from_environment()
    for statement in migration.statements:
        await connection.execute(statement.replace("{schema}", schema))
        failpoint.reach("mid_migration")


async def _grant(connection: Any, schema: str) -> None:
    await connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {READER_ROLE}')
    await connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {READER_ROLE}')


async def _read_mark(connection: Any, schema: str) -> tuple[Any, ...]:
    columns = "identity, name, created_at, version, checksum"
    return mark.verify(await connection.fetchrow(f'SELECT {columns} FROM "{schema}".file'))


async def _schema_exists(connection: Any, schema: str) -> bool:
    return bool(
        await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema)
    )


async def _make_reader_role(connection: Any) -> None:
    if await _role_exists(connection):
        return
    try:
        async with connection.transaction():
            await connection.execute(f"CREATE ROLE {READER_ROLE} NOLOGIN")
            await connection.execute(f"GRANT {READER_ROLE} TO CURRENT_USER")
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        # Roles are shared by all databases of a server: another server made it meanwhile.
        return


async def _role_exists(connection: Any) -> bool:
    return bool(
        await connection.fetchval("SELECT count(*) FROM pg_roles WHERE rolname = $1", READER_ROLE)
    )


@asynccontextmanager
async def _locked(connection: Any) -> AsyncIterator[None]:
    # Held until the transaction ends: two servers must not make or change a schema at once.
    await connection.execute("SELECT pg_advisory_xact_lock($1, $2)", LOCK_SPACE, REGISTERING)
    yield
