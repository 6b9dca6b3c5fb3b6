"""The rate limit: one user cannot keep the server from others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.support.answers import refused
from valuetracker.errors import RateLimited
from valuetracker.http.gate import Caller
from valuetracker.http.rates import SECONDS_AT_ONCE, RateLimit
from valuetracker.http.tokens import TokenFile


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def taken(rates: RateLimit, caller: Caller, address: str = "a", most: int = 1000) -> int:
    """Return how many requests a caller can send now."""
    for number in range(most):
        try:
            rates.take(caller, address)
        except RateLimited:
            return number
    return most


def test_a_bucket_empties_and_fills_up() -> None:
    time = Time()
    rates = RateLimit(2, time)
    caller = Caller()

    assert taken(rates, caller) == 2 * SECONDS_AT_ONCE
    time.now += 1.0
    assert taken(rates, caller) == 2
    time.now += 0.25
    with pytest.raises(RateLimited) as refusal:
        rates.take(caller, "a")
    assert refusal.value.details == {"retryAfter": 1}
    time.now += 1000.0
    assert taken(rates, caller) == 2 * SECONDS_AT_ONCE


def test_each_user_token_and_address_has_a_bucket() -> None:
    rates = RateLimit(1, Time())
    callers = [Caller("ada", is_bridge=True), Caller("bob", is_bridge=True), Caller()]

    assert [taken(rates, each) for each in callers] == [SECONDS_AT_ONCE] * 3
    assert taken(rates, Caller(), "another address") == SECONDS_AT_ONCE
    # A user is the same from every address.
    assert taken(rates, callers[0], "another address") == 0


def test_the_number_of_buckets_is_limited() -> None:
    time = Time()
    rates = RateLimit(1, time, most=100)
    for number in range(1000):
        time.now += 0.001
        rates.take(Caller(), f"address {number}")
    assert len(rates._buckets) <= 100
    time.now += 60.0
    rates.take(Caller(), "late")
    for number in range(99):
        rates.take(Caller(), f"new {number}")

    assert taken(rates, Caller(), "late") == SECONDS_AT_ONCE - 1


@pytest.mark.parametrize("http", ["fast", "asgi"])
def test_who_is_too_quick_is_told_when_to_come_back(tmp_path: Path, http: str) -> None:
    _, one = TokenFile(tmp_path).create("one", (), read_others=True, admin=True)
    _, two = TokenFile(tmp_path).create("two", (), read_others=True, admin=False)

    def with_headers(client: httpx.Client, **headers: str) -> Callable[[], httpx.Response]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return lambda: client.get("/limits", headers=given)

    with (
        running_server(
            tmp_path, http=http, rate_per_second=1, bridge_secret="s", bridge_only=True
        ) as server,
        server.client() as client,
    ):
        first = with_headers(client, authorization=f"Bearer {one}")
        answers = [first() for _ in range(60)]
        others: list[Any] = [
            with_headers(client, authorization=f"Bearer {two}")(),
            with_headers(client, x_vt_secret="s", x_vt_user="ada")(),
            with_headers(client)(),
        ]

    assert [each.status_code for each in answers[:SECONDS_AT_ONCE]] == [200] * SECONDS_AT_ONCE
    refusal = next(each for each in answers if each.status_code != 200)
    assert refused(refusal)[:2] == (429, "rate_limited")
    assert refusal.headers["retry-after"] == str(refusal.json()["details"]["retryAfter"]) == "1"
    assert [each.status_code for each in others] == [200, 200, 200]


def test_a_page_of_another_origin_behind_the_bridge_is_told_the_same(tmp_path: Path) -> None:
    """The bridge has checked the origin, which the server does not know."""
    headers = {"x-vt-secret": "s", "x-vt-user": "ada", "origin": "https://tavern.example"}
    with (
        running_server(tmp_path, rate_per_second=1, bridge_secret="s") as server,
        server.client() as client,
    ):
        client.headers.update(headers)
        answers = [client.get("/limits") for _ in range(60)]

    assert {each.status_code for each in answers} == {200, 429}


def test_without_the_setting_there_is_no_limit(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        assert {client.get("/health").status_code for _ in range(100)} == {200}
