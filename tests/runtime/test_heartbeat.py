"""The heartbeat: which uptime a server counts on from, and when it trusts its clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import database_for
from tests.support.clock import DAY_MS, HOUR_MS, SettableClock
from valuetracker.app import create_engine
from valuetracker.clock import Clock
from valuetracker.failpoints import Failpoint
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.heartbeat import Heartbeat
from valuetracker.runtime.users import Users
from valuetracker.settings import Settings
from valuetracker.store.compaction import Keep
from valuetracker.store.data import set_value
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.leases import LeaseTime
from valuetracker.store.rows.spaces import Address


@pytest.fixture
def settings(tmp_path: Path, engine_name: str, request: pytest.FixtureRequest) -> Settings:
    return Settings(data_dir=tmp_path, database=database_for(engine_name, request))


@asynccontextmanager
async def running(settings: Settings, clock: SettableClock) -> AsyncIterator[Users]:
    """Run a server that keeps the history of a day, without HTTP."""
    engine = create_engine(settings, clock)
    users = Users(engine, AnswerCache(0), Capacity(4), [Keep(days=1)], clock)
    await users.start()
    try:
        yield users
    finally:
        await users.stop()


async def write(users: Users) -> None:
    """Register an extension, and make two revisions."""
    await users.default.register("demo", None)
    extension = await users.default.acquire("demo")
    for value in ("1", "2"):
        await extension.write(set_value, Address("chat", "chat"), "hp", value)
    users.default.release(extension)


async def oldest(users: Users) -> int:
    """Compact as the server does every hour, and return the oldest revision that is left."""
    await users.default.compact_all()
    extension = await users.default.acquire("demo")
    head = await extension.database.read(load_head)
    users.default.release(extension)
    return head.oldest


async def test_history_is_folded_when_it_is_old_enough(settings: Settings) -> None:
    clock = SettableClock()
    async with running(settings, clock) as users:
        await write(users)
        clock.run_for(DAY_MS // 2)
        assert await oldest(users) == 0
        clock.run_for(DAY_MS)

        assert await oldest(users) == 2


async def test_a_clock_that_is_set_forward_folds_nothing_for_a_day(settings: Settings) -> None:
    clock = SettableClock()
    async with running(settings, clock) as users:
        await write(users)
        clock.set_forward(30 * DAY_MS)
        assert await oldest(users) == 0
        clock.run_for(DAY_MS - HOUR_MS)
        assert await oldest(users) == 0

        clock.run_for(HOUR_MS)

        assert await oldest(users) == 2


async def test_a_clock_that_is_ahead_at_the_start_folds_nothing_for_a_day(
    settings: Settings,
) -> None:
    async with running(settings, SettableClock()) as users:
        await write(users)
    for _ in range(2):
        clock = SettableClock()
        clock.set_forward(30 * DAY_MS)
        async with running(settings, clock) as users:
            assert await oldest(users) == 0
            clock.run_for(DAY_MS - HOUR_MS)
            assert await oldest(users) == 0

    clock = SettableClock()
    clock.set_forward(30 * DAY_MS)
    async with running(settings, clock) as users:
        clock.run_for(DAY_MS)
        assert await oldest(users) == 2


async def test_a_clock_that_is_put_right_is_trusted_at_once(settings: Settings) -> None:
    clock = SettableClock()
    async with running(settings, clock) as users:
        await write(users)
        clock.run_for(2 * DAY_MS)
        clock.set_forward(30 * DAY_MS)
        assert await oldest(users) == 0

        clock.set_forward(-30 * DAY_MS)

        assert await oldest(users) == 2


async def test_a_night_without_the_server_raises_no_doubt(settings: Settings) -> None:
    clock = SettableClock()
    for _ in range(10):
        async with running(settings, clock) as users:
            await write(users)
        clock.set_forward(DAY_MS - HOUR_MS)

    async with running(settings, clock) as users:
        assert await oldest(users) > 0


def test_a_clock_that_is_set_again_is_doubted_for_another_day() -> None:
    clock = SettableClock()
    heartbeat = Heartbeat(clock)
    clock.set_forward(3 * DAY_MS)
    assert not heartbeat.trusts_clock
    clock.run_for(DAY_MS - HOUR_MS)
    assert not heartbeat.trusts_clock
    clock.set_forward(3 * DAY_MS)
    assert not heartbeat.trusts_clock
    clock.run_for(DAY_MS - HOUR_MS)
    assert not heartbeat.trusts_clock

    clock.run_for(HOUR_MS)

    assert heartbeat.trusts_clock


async def test_the_uptime_goes_on_after_a_restart(settings: Settings) -> None:
    clock = SettableClock()
    async with running(settings, clock):
        clock.run_for(HOUR_MS)
    before = clock.uptime

    later = SettableClock()
    async with running(settings, later):
        assert HOUR_MS <= later.uptime < HOUR_MS + before
    assert later.began != clock.began


async def test_a_server_stops_although_its_heartbeat_cannot_be_saved(settings: Settings) -> None:
    async with running(settings, SettableClock()) as users:
        assert users.default.registry.heartbeat is None
        database: Any = users.default.registry._database
        database.failpoint = Failpoint("before_commit:raise")

    async with running(settings, SettableClock()) as users:
        assert users.default.registry.heartbeat is None
    async with running(settings, SettableClock()) as users:
        assert users.default.registry.heartbeat is not None


def test_a_lease_of_another_run_begins_with_this_one() -> None:
    clock, earlier = Clock(), Clock()
    time = LeaseTime(clock.began + 500, clock.began, 0)

    for since in (earlier.began, earlier.run_time, clock.began + 501, 0):
        assert time.holds(since, 501)
        assert not time.holds(since, 500)
    assert time.holds(clock.began + 499, 2)
    assert not time.holds(clock.began + 499, 1)
