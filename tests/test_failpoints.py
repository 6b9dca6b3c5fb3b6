from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from valuetracker.failpoints import POINTS, Failpoint


def test_nothing_happens_when_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VALUETRACKER_FAIL", raising=False)
    failpoint = Failpoint.from_environment()

    for point in POINTS:
        failpoint.reach(point)


@pytest.mark.parametrize("point", POINTS)
def test_only_the_named_point_raises(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    monkeypatch.setenv("VALUETRACKER_FAIL", f"{point}:raise")
    failpoint = Failpoint.from_environment()

    for other in POINTS:
        if other != point:
            failpoint.reach(other)
    with pytest.raises(RuntimeError, match=point):
        failpoint.reach(point)


def test_a_number_selects_the_time_at_which_it_fails_once() -> None:
    failpoint = Failpoint("before_commit:raise:3")

    failpoint.reach("before_commit")
    failpoint.reach("before_commit")
    with pytest.raises(RuntimeError, match="before_commit"):
        failpoint.reach("before_commit")
    failpoint.reach("before_commit")


def test_an_unknown_point_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        Failpoint("nowhere:raise")


def test_kill_ends_the_process_abruptly() -> None:
    program = (
        "import atexit\n"
        "from valuetracker.failpoints import Failpoint\n"
        "atexit.register(print, 'tidied up', flush=True)\n"
        "Failpoint('after_commit:kill').reach('after_commit')\n"
        "print('went on', flush=True)\n"
    )

    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)

    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout == b""
