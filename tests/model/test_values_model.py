"""
Compare the server with a dictionary: random writes over every route, compared at every step.

The tests make a short run; with VALUETRACKER_SOAK=1 it is long.
"""

from __future__ import annotations

import copy
import itertools
import os
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import RunningServer
from tests.model.values_model import Model, assert_conflict, leave_values_out, operate
from tests.support.answers import MERGE_PATCH, character, refused, same
from valuetracker.store.tx import log_writer

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
# Fewer on PostgreSQL: the engines differ in how they read and write rows, not in the verbs.
EXAMPLES = {"sqlite": 1_000 if SOAK else 120, "postgresql": 1_000 if SOAK else 30}
SETTINGS = settings(
    stateful_step_count=120 if SOAK else 50,
    derandomize=not SOAK,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

CHARACTERS = st.sampled_from(["arthur", "uther"])
# One instance has the id of a character: the server must not confuse them.
INSTANCES = st.sampled_from(["sword", "shield", "arthur"])
KEYS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from([None, "", "one", "two"])
CHATS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {}, {"chatId": None}, {"chatId": "chat"}]
)
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 0.5, "", "x"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
MANY = st.dictionaries(KEYS, VALUES, max_size=3)
PATCHES = st.builds(
    lambda member, value: [{"op": "add", "path": f"/{member}", "value": value}],
    st.sampled_from(["a", "-"]),
    SCALARS,
)
OPERATIONS = st.one_of(
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.just("remove"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("merge"), MANY),
    st.tuples(st.just("increment"), st.sampled_from([1, -2, 0.5])),
    st.tuples(st.sampled_from(["append", "addToSet", "pull"]), SCALARS),
    st.tuples(st.just("patch"), PATCHES),
)
BATCHES = st.lists(st.tuples(INSTANCES, KEYS, OPERATIONS), min_size=1, max_size=5)
NUMBERS = st.integers(0, 10**6)
# Now and then the instance that is written to does not exist.
BLIND = st.integers(0, 15).map(lambda number: number == 15)
EXTENSIONS = itertools.count()
NOT_FOUND = {"instance_not_found", "character_not_found", "data_key_not_found"}


class Comparison(RuleBasedStateMachine):
    """One extension, written through HTTP and in the model, which must agree."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__()
        name = f"model-{next(EXTENSIONS)}"
        server.register(name)
        self.client = server.client(name)
        self.model = Model()
        self.folded = False
        self.replays = itertools.count()

    def teardown(self) -> None:
        self.compare_everything()
        self.compare_log()
        self.client.close()

    # Sending

    def write(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a write, and every third one again, which must change nothing more."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        named["prefer"] = "return=representation"
        number = next(self.replays)
        if number % 3 == 0:
            named["idempotency-key"] = f"key {number}".replace(" ", "%20")
        given: dict[str, Any] = {"headers": named}
        if body is not None:
            given["json"] = body
        answer = self.client.request(method, path, **given)
        if number % 3 == 0 and answer.status_code == 200:
            again = self.client.request(method, path, **given)
            assert again.headers["idempotency-replayed"] == "true"
            assert again.headers["x-revision"] == answer.headers["x-revision"]
            assert (again.status_code, again.content) == (200, answer.content)
        return answer

    def agree(self, answer: httpx.Response, body: Any) -> None:
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found == body
        assert list(found) == list(body)
        assert int(answer.headers["x-revision"]) == self.model.revision

    def missing(self, answer: httpx.Response) -> None:
        status, code, _ = refused(answer)
        assert (status, code in NOT_FOUND) == (404, True)

    def ensure_instance(self, id: str, blind: bool) -> bool:
        """Mostly make an instance that does not exist; return False if it still does not."""
        if id not in self.model.now.instances and not blind:
            self.put_instance(id, "arthur", None, {})
        return id in self.model.now.instances

    @initialize(values=st.lists(MANY, min_size=3, max_size=3))
    def begin(self, values: list[dict[str, Any]]) -> None:
        for id, each in zip(["sword", "shield", "arthur"], values, strict=True):
            self.merge_values(id, each, False)
        self.compare_everything()

    # Characters and instances

    @rule(id=CHARACTERS, name=NAMES)
    def put_character(self, id: str, name: str | None) -> None:
        answer = self.write("POST", "/characters", {"id": id, "name": name})
        self.model.put_character(id, name)
        self.agree(answer, character(id, self.model.now.characters[id]))

    @rule(id=INSTANCES, character_id=CHARACTERS, name=NAMES, chat=CHATS)
    def put_instance(
        self, id: str, character_id: str, name: str | None, chat: dict[str, Any]
    ) -> None:
        body = {"id": id, "characterId": character_id, "name": name, **chat}
        answer = self.write("POST", "/instances", body)
        self.model.put_instance(id, character_id, name, **chat)
        self.agree(answer, self.model.now.record(id))

    @rule(id=CHARACTERS, instance_id=INSTANCES, what=st.sampled_from(["one", "own", "all"]))
    def delete(self, id: str, instance_id: str, what: str) -> None:
        if what == "one":
            answer = self.write("DELETE", f"/instances/{instance_id}")
            if instance_id not in self.model.now.instances:
                return self.missing(answer)
            self.model.delete_instances(instance_id)
            return self.agree(answer, {"success": True})
        if what == "own":
            answer = self.write("DELETE", f"/characters/{id}/instances")
            ids = self.model.now.instances_of(id)
            self.model.delete_instances(*ids)
            return self.agree(answer, {"success": True, "deletedCount": len(ids)})
        answer = self.write("DELETE", f"/characters/{id}")
        if id not in self.model.now.characters:
            return self.missing(answer)
        self.model.delete_character(id)
        return self.agree(answer, {"success": True})

    # Values

    @rule(
        id=INSTANCES,
        key=KEYS,
        value=VALUES,
        back=st.integers(-1, 3),
        guard=st.booleans(),
        blind=BLIND,
    )
    def set_value(self, id: str, key: str, value: Any, back: int, guard: bool, blind: bool) -> None:
        """Set a key, sometimes with `If-Match` and a former or the present revision."""
        there = self.ensure_instance(id, blind)
        current = self.model.changed.get(("data", id, key), 0)
        seen = max(0, current - back)
        certain = current > self.model.oldest or not self.folded
        headers = {"if_match": f'"{seen}"'} if guard and certain else {}
        body = {"key": key, "value": value}
        answer = self.write("PUT", f"/instances/{id}/data", body, **headers)
        if not there:
            return self.missing(answer)
        # One above the head was never given out.
        if headers and (current > seen or seen > self.model.revision):
            details = {"expected": seen, "current": current}
            assert refused(answer) == (412, "revision_conflict", details)
            return None
        self.model.set_values(id, {key: value}, [])
        return self.agree(answer, {"success": True, "key": key, "value": value})

    @rule(id=INSTANCES, key=KEYS, blind=BLIND)
    def remove_value(self, id: str, key: str, blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        answer = self.write("DELETE", f"/instances/{id}/data/{key}")
        if not there or key not in self.model.now.instances[id].values:
            return self.missing(answer)
        self.model.set_values(id, {}, [key])
        return self.agree(answer, {"success": True})

    @rule(id=INSTANCES, blind=BLIND)
    def clear_values(self, id: str, blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        answer = self.write("DELETE", f"/instances/{id}/data")
        if not there:
            return self.missing(answer)
        self.model.set_values(id, {}, list(self.model.now.instances[id].values))
        return self.agree(answer, {"success": True})

    @rule(id=INSTANCES, values=MANY, stale=st.booleans(), blind=BLIND)
    def override_values(self, id: str, values: dict[str, Any], stale: bool, blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        current = self.model.etag_of_instance(id)
        expected = current - 1 if stale and current else current
        condition = f'"{expected}"'
        answer = self.write("PUT", f"/instances/{id}/data/override", values, if_match=condition)
        if not there:
            return self.missing(answer)
        if expected < current:
            details = {"expected": expected, "current": current}
            assert refused(answer) == (412, "revision_conflict", details)
            return None
        removed = [key for key in self.model.now.instances[id].values if key not in values]
        self.model.set_values(id, values, removed)
        message = "Instance data overridden successfully"
        return self.agree(answer, {"success": True, "message": message})

    @rule(id=INSTANCES, values=MANY, blind=BLIND)
    def merge_values(self, id: str, values: dict[str, Any], blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        answer = self.write("PUT", f"/instances/{id}/data/merge", values)
        if not there:
            return self.missing(answer)
        self.model.set_values(id, values, [])
        return self.agree(answer, {"success": True, "message": "Instance data merged successfully"})

    @rule(id=INSTANCES, keys=st.lists(KEYS, max_size=3), blind=BLIND)
    def remove_values(self, id: str, keys: list[str], blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        answer = self.write("PUT", f"/instances/{id}/data/remove", {"keys": keys})
        if not there:
            return self.missing(answer)
        count = self.model.set_values(id, {}, keys)
        return self.agree(answer, {"success": True, "removedCount": count})

    @rule(id=INSTANCES, patch=MANY, blind=BLIND)
    def merge_patch(self, id: str, patch: dict[str, Any], blind: bool) -> None:
        there = self.ensure_instance(id, blind)
        path = f"/instances/{id}/data"
        answer = self.write("PATCH", path, patch, content_type=MERGE_PATCH)
        if not there:
            return self.missing(answer)
        self.model.merge_patch(id, patch)
        return self.agree(answer, self.model.now.instances[id].values)

    @rule(batch=BATCHES, blind=BLIND)
    def run_batch(self, batch: list[tuple[str, str, tuple[str, Any]]], blind: bool) -> None:
        body = []
        for id, key, (op, operand) in batch:
            self.ensure_instance(id, blind)
            operation: dict[str, Any] = {"op": op, "instanceId": id}
            if op != "clear":
                operation["key"] = key
            if op not in ("clear", "remove"):
                operation["by" if op == "increment" else "value"] = operand
            body.append(operation)
        answer = self.write("POST", "/batch", {"operations": body})
        results: list[Any] = []
        touched: list[tuple[str, ...]] = []
        wanted = copy.deepcopy(self.model.now)
        for index, (id, key, (op, operand)) in enumerate(batch):
            if id not in wanted.instances:
                assert refused(answer) == (404, "instance_not_found", {"index": index})
                return None
            values = wanted.instances[id].values
            keys = list(values) if op == "clear" else [key]
            named = op not in ("clear", "remove") or any(each in values for each in keys)
            try:
                result = operate(values, key, op, copy.deepcopy(operand))
            except TypeError:
                return assert_conflict(answer, index, op)
            results.append(copy.deepcopy(result))
            touched += self.model.touches(id, *keys) if named else []
        self.model.now = wanted
        self.model.commit(*touched)
        return self.agree(answer, {"revision": self.model.revision, "results": results})

    # The past

    def choose(self, number: int) -> int:
        return self.model.oldest + number % (self.model.revision - self.model.oldest + 1)

    @rule(id=INSTANCES, number=NUMBERS)
    def restore_instance(self, id: str, number: int) -> None:
        revision = self.choose(number)
        answer = self.write("POST", f"/instances/{id}/restore", {"revision": revision})
        if id not in self.model.past[revision].instances:
            return self.missing(answer)
        return self.restored(answer, *self.model.restore(revision, [id]))

    @rule(id=CHARACTERS, number=NUMBERS)
    def restore_character(self, id: str, number: int) -> None:
        revision = self.choose(number)
        answer = self.write("POST", f"/characters/{id}/restore", {"revision": revision})
        if id not in self.model.past[revision].characters:
            return self.missing(answer)
        return self.restored(answer, *self.model.restore(revision, [], id))

    def restored(self, answer: httpx.Response, changed: int, warnings: int) -> None:
        found = answer.json()
        assert len(found.pop("warnings")) == warnings
        assert found == {"revision": self.model.revision, "changed": changed}
        assert int(answer.headers["x-revision"]) == self.model.revision

    @rule(number=NUMBERS)
    def read_the_past(self, number: int) -> None:
        revision = self.choose(number)
        then = self.model.past[revision]
        for id in ("sword", "shield", "arthur"):
            answer = self.client.get(f"/instances/{id}", params={"at": revision})
            values = self.client.get(f"/instances/{id}/data", params={"at": revision})
            key = self.client.get(f"/instances/{id}/data/a", params={"at": revision})
            present = then.instances[id].values if id in then.instances else {}
            assert same(values.json(), present)
            assert same(key.json(), {name: present[name] for name in present if name == "a"})
            if id in then.instances:
                assert answer.json() == then.full_instance(id)
                assert same(answer.json()["data"], present)
            else:
                self.missing(answer)
        for id in ("arthur", "uther"):
            answer = self.client.get(f"/characters/{id}", params={"at": revision})
            if id in then.characters:
                assert answer.json() == then.full_character(id)
            else:
                self.missing(answer)

    @precondition(lambda self: self.model.revision > 5)
    @rule(keep=st.integers(2, 30))
    def compact(self, keep: int) -> None:
        answer = self.write("POST", "/compact", {"keep": {"revisions": keep}})
        self.model.compact(keep)
        self.folded = self.model.oldest > 0
        assert answer.json()["oldest"] == self.model.oldest
        assert int(answer.headers["x-revision"]) == self.model.revision
        if self.folded:
            compacted = refused(self.client.get("/characters/arthur", params={"at": 0}))
            assert compacted == (410, "compacted", {"oldest": self.model.oldest})

    # Comparing

    @rule()
    def compare_everything(self) -> None:
        now = self.model.now
        characters = [character(id, name) for id, name in now.characters.items()]
        assert self.client.get("/characters").json() == characters
        assert self.client.get("/instances").json() == [now.record(id) for id in now.instances]
        for id in now.characters:
            answer = self.client.get(f"/characters/{id}")
            assert answer.json() == now.full_character(id)
            assert answer.headers["etag"] == f'"{self.model.etag_of_character(id)}"'
        for id, each in now.instances.items():
            answer = self.client.get(f"/instances/{id}")
            assert same(answer.json()["data"], each.values)
            assert answer.headers["etag"] == f'"{self.model.etag_of_instance(id)}"'

    def compare_log(self) -> None:
        """Check that the events of the feed, applied to the oldest state, give each later one."""
        since = self.model.oldest
        state = {id: each.values for id, each in self.model.past[since].instances.items()}
        state = copy.deepcopy(state)
        page = self.client.get("/changes", params={"since": since, "limit": 1000}).json()
        found = [event["revision"] for event in page["items"]]
        assert found == list(range(since + 1, self.model.revision + 1))
        for event in page["items"]:
            for change in event["changes"]:
                id, key = change["instanceId"], change["key"]
                if change["op"] == "create_instance":
                    state[id] = {}
                elif change["op"] == "delete_instance":
                    assert state.pop(id) == {}
                elif key is not None and "after" in change:
                    state[id][key] = change["after"]
                elif key is not None:
                    state[id].pop(key, None)
            then = self.model.past[event["revision"]].instances
            assert set(state) == set(then)
            for id, values in state.items():
                assert same(values, then[id].values)


def test_the_server_agrees_with_a_dictionary(
    shared_server: RunningServer, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that keyframes are made often.
    monkeypatch.setattr(log_writer, "FRAME_CHANGES", 3)
    leave_values_out(monkeypatch)

    class Here(Comparison):
        def __init__(self) -> None:
            super().__init__(shared_server)

    examples = settings(SETTINGS, max_examples=EXAMPLES[engine_name])
    run_state_machine_as_test(Here, settings=examples)
