"""Run a coroutine up to its first wait: what needs no wait needs no task."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def start(coroutine: Coroutine[Any, Any, T]) -> T | Awaitable[T]:
    """
    Return the result of a coroutine that does not wait; else what waits for the rest of it.

    Until its first wait the coroutine runs outside of any task. What needs one (a timeout, a
    database driver) awaits `in_task` first.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return _continue(coroutine, awaited)


@types.coroutine
def _continue(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Wait for what the coroutine waits for, until its end."""
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def in_task() -> None:
    """Make sure that the caller runs in a task from here on."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)
