"""
The command line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.dataset import SIZES
from bench.peers import PEERS
from bench.workloads import CONNECTIONS, WORKLOADS

FIGURES = "figures"
ROUNDS = 5
SECONDS = 1
QUICK_CONNECTIONS = 16


@dataclass(frozen=True)
class Options:
    rounds: int
    seconds: int
    only: list[str]
    peers: list[str]
    sizes: list[int]
    connections: list[int]
    # True if all is measured: then the results are recorded.
    complete: bool


def parse(description: str | None, ways: Iterable[str]) -> Options:
    parts = [*WORKLOADS, FIGURES, *ways]
    parser = argparse.ArgumentParser(prog="python -m bench", description=description)
    add = parser.add_argument
    add("--rounds", type=_positive, metavar="N", help=f"how often (default {ROUNDS})")
    add("--seconds", type=_positive, metavar="N", help=f"of each measurement (default {SECONDS})")
    add("--only", type=_some_of(parts), metavar="NAMES", help=f"some of {','.join(parts)}")
    add("--peers", type=_some_of(PEERS), metavar="NAMES", help=f"some of {','.join(PEERS)}")
    add("--sizes", type=_numbers_of(SIZES), metavar="MB", help="1 or 100 or 1,100")
    add("--connections", type=_numbers, metavar="N", help="such as 1,16,64")
    add(
        "--quick",
        action="store_true",
        help="one round, 1 MB, 16 connections, workloads only; other options overrule it",
    )
    given = parser.parse_args()
    chosen = (given.only, given.peers, given.sizes, given.connections)
    return Options(
        rounds=given.rounds or (1 if given.quick else ROUNDS),
        seconds=given.seconds or SECONDS,
        only=given.only or (list(WORKLOADS) if given.quick else parts),
        peers=given.peers if given.peers is not None else list(PEERS),
        sizes=given.sizes or ([1] if given.quick else list(SIZES)),
        connections=given.connections
        or ([QUICK_CONNECTIONS] if given.quick else list(CONNECTIONS)),
        complete=not given.quick
        and chosen == (None, None, None, None)
        and (given.rounds or ROUNDS) >= ROUNDS,
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def _some_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    known = list(names)

    def parse_names(text: str) -> list[str]:
        found = [each for each in text.split(",") if each]
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return found

    return parse_names


def _numbers(text: str) -> list[int]:
    return [_positive(each) for each in text.split(",")]


def _numbers_of(known: Iterable[int]) -> Callable[[str], list[int]]:
    allowed = list(known)

    def parse_numbers(text: str) -> list[int]:
        found = _numbers(text)
        if not set(found) <= set(allowed):
            raise argparse.ArgumentTypeError(f"choose from {allowed}")
        return found

    return parse_numbers
