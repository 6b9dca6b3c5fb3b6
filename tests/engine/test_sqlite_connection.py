"""The contract with aiosqlite, because `Connection.run` uses internals of it."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from valuetracker.engine.sqlite_connection import (
    Connection,
    SQLiteTransaction,
    connect,
    drive,
    translate,
)
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    InstanceNotFound,
    StorageFull,
)


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    connection = await connect(lambda: sqlite3.connect(":memory:", isolation_level=None))
    yield connection
    await connection.close()


async def test_run_changes_to_the_thread_once_for_a_whole_function(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    hop = loop.call_soon_threadsafe
    hops: list[Any] = []
    threads: list[int] = []

    def counted(*arguments: Any, **named: Any) -> asyncio.Handle:
        hops.append(arguments)
        return hop(*arguments, **named)

    def several_statements(raw: sqlite3.Connection) -> list[tuple[Any, ...]]:
        for statement in ("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"):
            threads.append(threading.get_ident())
            raw.execute(statement)
        threads.append(threading.get_ident())
        return raw.execute("SELECT a FROM t").fetchall()

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    rows = await connection.run(several_statements)

    assert rows == [(1,)]
    assert len(hops) == 1
    assert len(threads) == 3
    assert set(threads) == {connection._thread.ident}
    assert connection._thread.ident != threading.get_ident()


async def test_run_calls_the_function_with_the_connection_itself(connection: Connection) -> None:
    raw = await connection.run(lambda raw: raw)

    assert isinstance(raw, sqlite3.Connection)
    assert raw is connection._conn


async def test_run_raises_the_exceptions_of_the_function(connection: Connection) -> None:
    def fail(raw: sqlite3.Connection) -> None:
        raw.execute("SELECT * FROM absent")

    with pytest.raises(sqlite3.OperationalError, match="no such table: absent") as caught:
        await connection.run(fail)

    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_ERROR
    assert await connection.run(lambda raw: "still there") == "still there"


async def test_runs_happen_in_the_order_of_the_calls(
    connection: Connection,
) -> None:
    order: list[int] = []

    await asyncio.gather(
        *(connection.run(lambda raw, number=number: order.append(number)) for number in range(200))  # type: ignore[misc]
    )

    assert order == list(range(200))


async def test_a_cancelled_run_ends_on_its_thread_before_the_next_begins(
    connection: Connection,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(raw: sqlite3.Connection) -> None:
        begun.set()
        assert go_on.wait(60)
        order.append("slow")

    task = asyncio.create_task(connection.run(slow))
    assert await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await connection.run(lambda raw: order.append("next"))

    assert order == ["slow", "next"]


async def test_close_ends_the_thread_and_later_runs_are_refused() -> None:
    connection = await connect(lambda: sqlite3.connect(":memory:"))
    thread = connection._thread

    await connection.close()

    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    with pytest.raises(ValueError, match="no active connection"):
        await connection.run(lambda raw: None)


async def test_close_waits_for_earlier_runs() -> None:
    connection = await connect(lambda: sqlite3.connect(":memory:"))
    order: list[str] = []
    asked = asyncio.create_task(connection.run(lambda raw: order.append("ran")))
    await asyncio.sleep(0)

    await connection.close()
    order.append("closed")

    await asked
    assert order == ["ran", "closed"]


async def test_an_open_connection_does_not_keep_the_process_alive(connection: Connection) -> None:
    assert connection._thread.daemon


async def test_connect_translates_errors(tmp_path: Path) -> None:
    missing = (tmp_path / "missing.db").as_uri()
    before = set(threading.enumerate())

    with pytest.raises(DatabaseUnavailable):
        await connect(lambda: sqlite3.connect(f"{missing}?mode=rw", uri=True))

    # The thread ends by itself, and must have ended before the event loop ends.
    for thread in set(threading.enumerate()) - before:
        while thread.is_alive():
            await asyncio.sleep(0.01)


async def test_a_transaction_runs_statements_without_an_event_loop(
    connection: Connection,
) -> None:
    class Row:
        def __init__(self, a: int, b: str) -> None:
            self.a, self.b = a, b

    insert = Statement("INSERT INTO t (b, a) VALUES (:b, :a)")

    async def verb(tx: SQLiteTransaction) -> Any:
        await tx.execute(Statement("CREATE TABLE t (a, b)"))
        await tx.execute(insert, a=1, b="one")
        await tx.execute_many(insert, [Row(2, "two"), Row(3, "three")])
        return (
            await tx.fetch_one(Statement("SELECT a FROM t WHERE b = :b"), b="two"),
            await tx.fetch_one(Statement("SELECT a FROM t WHERE b = :b"), b="four"),
            await tx.fetch_all(Statement("SELECT a, b FROM t ORDER BY a")),
        )

    found = await connection.run(lambda raw: drive(verb(SQLiteTransaction(raw))))

    assert found == ((2,), None, [(1, "one"), (2, "two"), (3, "three")])


def test_drive_refuses_a_verb_that_awaits_anything_else() -> None:
    ended: list[str] = []

    async def verb() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("ended")

    with pytest.raises(RuntimeError, match="awaited something other than its transaction"):
        drive(verb())

    assert ended == ["ended"]


def test_drive_raises_the_exceptions_of_the_verb() -> None:
    async def verb() -> None:
        raise InstanceNotFound()

    with pytest.raises(InstanceNotFound):
        drive(verb())


def sqlite_error(code: int | None, text: str = "words") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), StorageFull),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), DatabaseDamaged),
        (sqlite_error(sqlite3.SQLITE_CORRUPT_INDEX), DatabaseDamaged),
        (sqlite_error(sqlite3.SQLITE_NOTADB), DatabaseDamaged),
        (sqlite_error(sqlite3.SQLITE_IOERR_SHORT_READ), DatabaseDamaged),
        (sqlite_error(sqlite3.SQLITE_IOERR_FSYNC), DatabaseUnavailable),
        (sqlite_error(sqlite3.SQLITE_BUSY), DatabaseUnavailable),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), DatabaseUnavailable),
        (sqlite_error(sqlite3.SQLITE_READONLY), DatabaseUnavailable),
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such table: data"), DatabaseDamaged),
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such column: place"), DatabaseDamaged),
        (sqlite_error(None, "Could not decode to UTF-8 column 'value'"), DatabaseDamaged),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), DatabaseDamaged),
        (OSError(errno.ENOSPC, "No space left on device"), StorageFull),
        (OSError(errno.EACCES, "Permission denied"), DatabaseUnavailable),
        (InstanceNotFound(), InstanceNotFound),
        (ZeroDivisionError(), ZeroDivisionError),
    ],
    ids=lambda each: str(each)[:40] if isinstance(each, Exception) else each.__name__,
)
def test_an_error_is_translated(error: Exception, meaning: type[Exception]) -> None:
    assert type(translate(error)) is meaning
