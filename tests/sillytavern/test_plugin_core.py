"""
The tests of the API once more, through SillyTavern: its log-in, its CSRF token, its body
parser, its compression, the plugin.

They are the same functions; only the server that they speak to is another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests import test_original_client
from tests.api import (
    test_batch,
    test_bodies,
    test_characters,
    test_compaction,
    test_conditional,
    test_cross_extension,
    test_data,
    test_extensions,
    test_feed,
    test_history,
    test_http,
    test_idempotency,
    test_instances,
    test_limits,
    test_odd_names,
    test_patch,
    test_paths,
    test_point_in_time,
    test_restore,
    test_values_over_http,
    test_write_headers,
)
from tests.conftest import PATIENCE_SECONDS
from tests.sillytavern.host import SillyTavern
from valuetracker.settings import PREFIX

# As extensions send them: `application/json`, which SillyTavern parses.
AS_JSON: tuple[ModuleType, ...] = (
    test_characters,
    test_conditional,
    test_cross_extension,
    test_extensions,
    test_feed,
    test_history,
    test_http,
    test_instances,
    test_limits,
    test_original_client,
    test_paths,
    test_point_in_time,
)
# JavaScript rounds numbers and moves names, and SillyTavern has its own words for what is not
# JSON. Under a type that it does not parse, everything arrives as it was sent.
EXACTLY: tuple[ModuleType, ...] = (
    test_batch,
    test_bodies,
    test_compaction,
    test_data,
    test_idempotency,
    test_odd_names,
    test_patch,
    test_restore,
    test_values_over_http,
    test_write_headers,
)
# What a function becomes that is a fixture.
FIXTURE = type(test_original_client.original)

EXACT_TYPE = "application/vnd.valuetracker+json"
EXACT_PATCH = "application/merge-patch+json"

# What is not the same behind SillyTavern, and why.
DIFFERENT = {
    # They turn the clock of the process that they run in, or look into its folder.
    "test_days_are_counted_from_now",
    "test_order_does_not_come_from_the_clock",
    "test_ids_of_extensions_may_not_be",
    # SillyTavern says how long each answer took, and compresses some.
    "test_head_is_get_without_the_body",
    # SillyTavern answers OPTIONS itself.
    "test_a_method_a_route_does_not_take_is_refused",
    # A write without a CSRF token.
    "test_readers_of_a_deregistered_extension_are_told",
    # SillyTavern's parser takes other encodings and has its own words for forms.
    "test_these_media_types_are_taken",
    "test_other_media_types_and_encodings_change_nothing",
    # Waits for three of the feed's signs of life; they come no sooner here.
    "test_a_quiet_feed_shows_that_it_is_alive",
}


@dataclass
class ThroughSillyTavern:
    """What the tests ask of a server, answered by a SillyTavern with the plugin."""

    tavern: SillyTavern
    headers: dict[str, str]
    exactly: bool

    @property
    def url(self) -> str:
        return self.tavern.url

    def client(self, extension_id: str | None = None) -> httpx.Client:
        named = {"x-extension-id": extension_id} if extension_id is not None else {}
        return httpx.Client(
            base_url=self.url + PREFIX,
            headers=self.headers | named,
            event_hooks={"request": [send_exactly] if self.exactly else []},
            timeout=PATIENCE_SECONDS,
            # Without this each client would read all certificates of the system.
            verify=False,
        )

    def register(self, extension_id: str) -> None:
        with self.client() as client:
            answer = client.post("/register", json={"extensionId": extension_id})
            assert answer.status_code == 200, answer.text


def send_exactly(request: httpx.Request) -> None:
    if request.headers.get("content-type") == "application/json":
        request.headers["content-type"] = EXACT_PATCH if request.method == "PATCH" else EXACT_TYPE


@pytest.fixture(scope="module")
def credentials(tavern: SillyTavern) -> dict[str, str]:
    """The cookies and the token as headers: some tests take those of one client to another."""
    with tavern.session() as session:
        cookies = "; ".join(f"{name}={value}" for name, value in session.cookies.items())
        return {"cookie": cookies, "x-csrf-token": session.headers["x-csrf-token"]}


@pytest.fixture
def shared_server(
    tavern: SillyTavern, credentials: dict[str, str], request: pytest.FixtureRequest
) -> ThroughSillyTavern:
    exactly = request.function.__module__ in {suite.__name__ for suite in EXACTLY}
    return ThroughSillyTavern(tavern, credentials, exactly)


def collect(suite: ModuleType) -> dict[str, Any]:
    """The tests and fixtures of a module; each test says in its name where it is from."""
    area = suite.__name__.rpartition(".")[2]
    found: dict[str, Any] = {}
    for name, each in vars(suite).items():
        if name.startswith("test_") and name not in DIFFERENT:
            found[f"{area}__{name.removeprefix('test_')}"] = each
        elif isinstance(each, FIXTURE):
            found[name] = each
    return found


for module in (*AS_JSON, *EXACTLY):
    globals().update(collect(module))
