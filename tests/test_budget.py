"""Shares of a budget of memory, and when they are lost."""

from __future__ import annotations

import time

import pytest

from valuetracker import budget
from valuetracker.budget import Budget


def test_the_time_to_make_an_answer_does_not_count_as_a_time_without_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory is granted before the answer is made, which may take a while."""
    monkeypatch.setattr(budget, "STUCK_SECONDS", 0.0)
    share = Budget(100).try_to_take(100)
    assert share is not None
    granted = time.monotonic()
    while time.monotonic() == granted:
        pass
    made = time.monotonic()
    assert not share.is_stuck(made)

    share.watch(lambda: None)

    assert not share.is_stuck(made)
    while time.monotonic() <= made:
        pass
    assert share.is_stuck(time.monotonic() + 1)
