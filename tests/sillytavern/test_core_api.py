"""
The tests of the API again, this time through SillyTavern: its session, its CSRF token, its body
parsers, its compression, and the plugin behind them.

They are the same functions, collected here a second time with a `shared_server` that is
SillyTavern. Its clients send JSON as a page does; SillyTavern has parsed that before the plugin
sees it. Where each byte counts (`EXACT`), they send it as a type that SillyTavern leaves alone.
Left out are tests that have a server of their own, and those of `ELSEWHERE`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.api.chats.conftest import chat, queue, values
from tests.conftest import PATIENCE_SECONDS
from tests.sillytavern.host import SillyTavern
from tests.support.events import read_events, take
from tests.test_original_client import original
from valuetracker.settings import PREFIX

MODULES = (
    "test_original_client",
    "api.test_batch",
    "api.test_bodies",
    "api.test_characters",
    "api.test_compaction",
    "api.test_conditional",
    "api.test_cross_extension",
    "api.test_data",
    "api.test_extensions",
    "api.test_feed",
    "api.test_history",
    "api.test_http",
    "api.test_idempotency",
    "api.test_instances",
    "api.test_limits",
    "api.test_odd_names",
    "api.test_patch",
    "api.test_paths",
    "api.test_point_in_time",
    "api.test_restore",
    "api.test_values_over_http",
    "api.test_write_headers",
    "api.chats.test_anchors",
    "api.chats.test_branches",
    "api.chats.test_chat_data",
    "api.chats.test_chat_feed",
    "api.chats.test_checkpoints",
    "api.chats.test_golden_rules",
    "api.chats.test_operations",
    "api.chats.test_processed",
    "api.chats.test_reconcile",
    "api.chats.test_rename",
    "api.chats.test_series",
    "api.chats.test_sessions",
)
# The fixtures that there are here; a test that takes another has a server of its own.
HERE = {"client", "extension_id", "shared_server", "original", "chat", "values", "queue"}

# What parsing and writing anew would change or refuse: numbers as they were written and those
# above 2^53, the order of keys that look like numbers, what is not JSON or is no object.
EXACT_TYPE = "application/vnd.valuetracker+json"
EXACT = {
    "test_batch__if_one_operation_fails_nothing_changes_and_the_error_names_it",
    "test_batch__members_are_compared_as_json",
    "test_batch__numbers_are_added_exactly_where_they_can_be",
    "test_bodies__a_body_is_ignored_where_a_route_takes_none",
    "test_bodies__a_missing_body_changes_nothing",
    "test_bodies__an_array_or_a_scalar_where_an_object_is_expected_changes_nothing",
    "test_bodies__a_body_that_is_not_json_changes_nothing",
    "test_compaction__a_malformed_body_folds_nothing",
    "test_data__keys_that_look_like_numbers_keep_their_order",
    "test_idempotency__the_same_key_for_another_request_is_refused",
    "test_odd_names__odd_keys_do_not_disturb_each_other_in_any_verb",
    "test_reconcile__an_increment_that_leaves_the_range_is_refused_and_in_a_replay_a_conflict",
    "test_restore__a_malformed_revision_is_refused",
    "test_restore__a_future_revision_is_refused",
    "test_series__content_is_any_json",
    "test_values_over_http__a_number_out_of_range_is_refused",
    "test_values_over_http__a_value_comes_back_as_it_was_sent",
    "test_values_over_http__another_spelling_of_a_value_reads_back_in_its_canonical_form",
    "test_values_over_http__any_value_that_is_accepted_reads_back_equal",
    "test_write_headers__a_header_given_twice_is_refused",
}

ELSEWHERE = {
    # These set the clock of a server in this process.
    "test_compaction__days_are_counted_from_now",
    "test_point_in_time__order_does_not_come_from_the_clock",
    # SillyTavern answers forms, other charsets and compressed JSON itself.
    "test_bodies__other_media_types_and_encodings_change_nothing",
    "test_bodies__these_media_types_are_accepted",
    # Asks without a session.
    "test_feed__readers_of_a_deregistered_extension_get_a_last_event",
    # The plugin asks for what no proxy could spoil.
    "test_feed__a_reader_gets_an_encoding_that_it_accepts",
    # OPTIONS is answered by SillyTavern's CORS, `//` cut by its router.
    "test_paths__a_method_a_route_does_not_take_is_refused",
    "test_paths__an_unknown_route_is_not_found",
    # SillyTavern compresses, and notes how long it took.
    "test_paths__head_is_get_without_the_body",
}

__all__ = ["chat", "original", "queue", "values"]


@dataclass
class ThroughSillyTavern:
    """Run the requests of the server's tests through a SillyTavern."""

    tavern: SillyTavern
    headers: dict[str, str]
    exactly: bool

    @property
    def url(self) -> str:
        return self.tavern.url

    @property
    def data_dir(self) -> Path:
        return self.tavern.data / "_valuetracker"

    def client(self, extension_id: str | None = None) -> httpx.Client:
        named = {"x-extension-id": extension_id} if extension_id is not None else {}
        return httpx.Client(
            base_url=self.url + PREFIX,
            headers=self.headers | named,
            event_hooks={"request": [send_exactly] if self.exactly else []},
            timeout=PATIENCE_SECONDS,
            verify=False,
        )

    def register(self, extension_id: str) -> None:
        with self.client() as client:
            answer = client.post("/register", json={"extensionId": extension_id})
            assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def as_page(tavern: SillyTavern) -> dict[str, str]:
    """Return the headers that a page of this SillyTavern sends."""
    with tavern.session() as session:
        token = session.headers["x-csrf-token"]
        cookies = "; ".join(f"{one.name}={one.value}" for one in session.cookies.jar)
    return {"x-csrf-token": token, "cookie": cookies}


@pytest.fixture
def shared_server(
    tavern: SillyTavern, as_page: dict[str, str], request: pytest.FixtureRequest
) -> ThroughSillyTavern:
    return ThroughSillyTavern(tavern, as_page, request.node.originalname in EXACT)


def send_exactly(request: httpx.Request) -> None:
    request.headers = httpx.Headers(
        [
            (name, EXACT_TYPE if value == "application/json" else value)
            for name, value in request.headers.multi_items()
        ]
    )


LEFT_OUT: set[str] = set()


def chosen(path: str) -> Iterator[tuple[str, Callable[..., None]]]:
    module = importlib.import_module(f"tests.{path}")
    noun = path.split(".")[-1].removeprefix("test_")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        named = f"test_{noun}__{name.removeprefix('test_')}"
        if not name.startswith("test_"):
            continue
        if named in ELSEWHERE:
            LEFT_OUT.add(named)
            continue
        if set(inspect.signature(function).parameters) - parametrized(function) <= HERE:
            yield named, function


def parametrized(function: Callable[..., None]) -> set[str]:
    found: set[str] = set()
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            names = mark.args[0]
            found.update(names.replace(" ", "").split(",") if isinstance(names, str) else names)
    return found


for path in MODULES:
    globals().update(chosen(path))


def test_what_is_listed_here_is_there() -> None:
    assert globals().keys() >= EXACT
    assert LEFT_OUT == ELSEWHERE


def test_the_feed_is_not_held_back_where_compression_is_possible(client: httpx.Client) -> None:
    headers = {"accept-encoding": "gzip, deflate, br"}

    with client.stream("GET", "/events", headers=headers) as answer:
        events = read_events(answer)
        assert next(events).name == ":"
        client.post("/instances", json={"id": "sword", "characterId": "arthur"})
        # SillyTavern is waiting for more, and this has come nevertheless.
        first = take(events, 1)
        client.post("/instances/sword/data", json={"key": "edge", "value": "keen"})
        second = take(events, 1)

    assert [event.id for event in first + second] == [1, 2]
    assert "content-encoding" not in answer.headers


def test_a_long_answer_is_compressed_and_the_same(client: httpx.Client) -> None:
    client.post("/instances", json={"id": "sword", "characterId": "arthur"})
    long = "é" * 50_000
    client.post("/instances/sword/data", json={"key": "edge", "value": long})

    compressed = client.get("/instances/sword/data", headers={"accept-encoding": "gzip"})
    plain = client.get("/instances/sword/data", headers={"accept-encoding": "identity"})

    assert compressed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert compressed.json() == plain.json() == {"edge": long}


@pytest.mark.parametrize("given", [{}, {"x-csrf-token": "wrong"}], ids=["no", "a wrong"])
def test_with_such_a_token_nothing_is_written(
    tavern: SillyTavern, client: httpx.Client, extension_id: str, given: dict[str, str]
) -> None:
    headers = {"cookie": client.headers["cookie"], **given}

    with ThroughSillyTavern(tavern, headers, exactly=False).client(extension_id) as stranger:
        answer = stranger.post("/instances", json={"id": "sword", "characterId": "arthur"})

    assert answer.status_code == 403
    assert client.get("/instances").json() == []
