from __future__ import annotations

import asyncio

from valuetracker.runtime.locks import NamedLocks


async def test_a_lock_exists_only_while_somebody_holds_it_or_waits_for_it() -> None:
    locks = NamedLocks()
    inside: list[int] = []

    async def enter(number: int) -> None:
        async with locks["name"]:
            inside.append(number)
            assert inside == [number]
            await asyncio.sleep(0)
            inside.remove(number)
            assert len(locks) == 1

    await asyncio.gather(*(enter(number) for number in range(10)))

    assert len(locks) == 0


async def test_locks_of_other_names_are_not_waited_for() -> None:
    locks = NamedLocks()

    async with locks["one"], locks["other"]:
        assert len(locks) == 2

    assert len(locks) == 0


async def test_a_wait_that_is_cancelled_leaves_nothing() -> None:
    locks = NamedLocks()

    async def enter() -> None:
        async with locks["name"]:
            pass

    async with locks["name"]:
        waiting = asyncio.create_task(enter())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    del waiting
    assert len(locks) == 0
