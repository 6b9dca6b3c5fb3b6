"""Compare the verbs, in groups of any size, with dictionaries that do the same."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.integrity.recount import order_of
from tests.support.databases import held_writer, waiting
from tests.support.engines import started
from tests.support.postgres import PostgresServer
from valuetracker.errors import ValueTrackerError
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extension import Extension
from valuetracker.store import characters, data, instances
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.spaces import Address, instance
from valuetracker.store.tx.jobs import Written

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"

CHARACTERS = st.sampled_from(["c1", "c2", "c3"])
INSTANCES = st.sampled_from(["i1", "i2", "i3"])
TARGETS = INSTANCES.map(instance)
KEYS = st.sampled_from(["a", "b", "ä", "__proto__"])
VALUES = st.sampled_from(["1", '"5"', "null", '{"b":1,"a":[2]}', "18446744073709551615"])
NAMES = st.sampled_from([None, "", "Name", "Other"])
CHATS = st.sampled_from([instances.KEEP, None, "chat @1"])
MAPS = st.dictionaries(KEYS, VALUES, max_size=4)

JOBS = st.one_of(
    st.tuples(st.just(characters.put_character), CHARACTERS, NAMES),
    st.tuples(st.just(characters.delete_character), CHARACTERS),
    st.tuples(st.just(instances.put_instance), INSTANCES, CHARACTERS, NAMES, CHATS),
    st.tuples(st.just(instances.put_instance), INSTANCES, CHARACTERS, NAMES, CHATS),
    st.tuples(st.just(instances.delete_instance), INSTANCES),
    st.tuples(st.just(instances.delete_instances_of), CHARACTERS),
    st.tuples(st.just(data.set_value), TARGETS, KEYS, VALUES),
    st.tuples(st.just(data.set_value), TARGETS, KEYS, VALUES),
    st.tuples(st.just(data.remove_value), TARGETS, KEYS),
    st.tuples(st.just(data.merge_values), TARGETS, MAPS),
    st.tuples(st.just(data.override_values), TARGETS, MAPS),
    st.tuples(st.just(data.remove_values), TARGETS, st.lists(KEYS, max_size=4)),
    st.tuples(st.just(data.clear_values), TARGETS),
)


class Model:
    """The effect of the verbs in dictionaries, which keep their order."""

    def __init__(self) -> None:
        self.revision = 0
        self.characters: dict[str, str | None] = {}
        self.instances: dict[str, list[str | None]] = {}
        self.data: dict[str, dict[str, str]] = {}

    def perform(self, verb: Callable[..., Any], *arguments: Any) -> Any:
        # The model knows only instances.
        plain = [each.id if isinstance(each, Address) else each for each in arguments]
        answer, changed = getattr(self, verb.__name__)(*plain)
        self.revision += changed
        return answer

    def put_character(self, id: str, name: str | None) -> tuple[Any, bool]:
        new = id not in self.characters
        old = self.characters.get(id)
        self.characters[id] = name or old
        return {"id": id, "name": name or old}, new or bool(name and name != old)

    def delete_character(self, id: str) -> tuple[Any, bool]:
        if id not in self.characters:
            return "character_not_found", False
        self.delete_instances_of(id)
        del self.characters[id]
        return {"success": True}, True

    def put_instance(
        self, id: str, character: str, name: str | None, chat: Any
    ) -> tuple[Any, bool]:
        old = self.instances.get(id)
        was = old or [None, None, None]
        wanted = [
            character,
            was[1] if isinstance(chat, instances.Keep) else chat,
            name or was[2],
        ]
        self.characters.setdefault(character, None)
        self.instances[id] = wanted
        self.data.setdefault(id, {})
        record = {"id": id, "characterId": wanted[0], "chatId": wanted[1], "name": wanted[2]}
        return record, wanted != old

    def delete_instance(self, id: str) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        del self.instances[id], self.data[id]
        return {"success": True}, True

    def delete_instances_of(self, character: str) -> tuple[Any, bool]:
        deleted = [id for id, (owner, _, _) in self.instances.items() if owner == character]
        for id in deleted:
            self.delete_instance(id)
        return {"success": True, "deletedCount": len(deleted)}, bool(deleted)

    def set_value(self, id: str, key: str, value: str) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        self.data[id][key] = value
        return {"success": True, "key": key, "value": orjson.loads(value)}, True

    def remove_value(self, id: str, key: str) -> tuple[Any, bool]:
        if key not in self.data.get(id, {}):
            return "data_key_not_found", False
        del self.data[id][key]
        return {"success": True}, True

    def merge_values(self, id: str, values: dict[str, str]) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        self.data[id].update(values)
        return {"success": True, "message": "Instance data merged successfully"}, bool(values)

    def override_values(self, id: str, values: dict[str, str]) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        old = self.data[id]
        self.data[id] = {key: values[key] for key in old if key in values} | values
        message = {"success": True, "message": "Instance data overridden successfully"}
        return message, bool(values or old)

    def remove_values(self, id: str, keys: list[str]) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        present = [key for key in dict.fromkeys(keys) if key in self.data[id]]
        for key in present:
            del self.data[id][key]
        return {"success": True, "removedCount": len(present)}, bool(present)

    def clear_values(self, id: str) -> tuple[Any, bool]:
        if id not in self.instances:
            return "instance_not_found", False
        had = bool(self.data[id])
        self.data[id].clear()
        return {"success": True}, had

    def state(self) -> dict[str, Any]:
        return {
            "characters": self.characters,
            "instances": self.instances,
            "data": {id: self.data[id] for id in self.instances},
        }


def plain(answer: Any) -> Any:
    """Return an answer without its times, which no model can know; or the code of a refusal."""
    if isinstance(answer, ValueTrackerError):
        return answer.code
    return {key: value for key, value in answer.items() if key not in ("createdAt", "updatedAt")}


class LedgerMachine(RuleBasedStateMachine):
    # None means files.
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.name = f"demo-{secrets.token_hex(6)}"
        self.identity = ""
        self.model = Model()
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.stack = AsyncExitStack()
        self.bench = await self.stack.enter_async_context(started(self.url, Path(self.folder.name)))
        self.identity = self.identity or await self.bench.create(self.name)
        self.database = await self.stack.enter_async_context(
            self.bench.opened(self.identity, self.name)
        )
        head = await self.database.read(load_head)
        assert head.revision == self.model.revision
        self.extension = Extension("demo", self.database, head, lambda *_: None, Capacity(4))
        self.database.on_commit = self.extension.apply_commit

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    @rule(jobs=st.lists(JOBS, min_size=1, max_size=12))
    def write_group(self, jobs: list[tuple[Any, ...]]) -> None:
        expected = []
        for job in jobs:
            expected.append((self.model.perform(*job), self.model.revision))

        found = self.runner.run(self._write_group(jobs))

        for job, answer, (wanted, revision) in zip(jobs, found, expected, strict=True):
            if isinstance(answer, Written):
                assert answer.revision == revision, job
                assert plain(orjson.loads(answer.body)) == wanted, job
            else:
                assert plain(answer) == wanted, job

    async def _write_group(self, jobs: list[tuple[Any, ...]]) -> list[Any]:
        async with held_writer(self.database):
            tasks = await waiting(self.database, *jobs)
        return await asyncio.gather(*tasks, return_exceptions=True)

    @rule()
    def close_and_open(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.run(self._open())

    @rule(holder=TARGETS, key=KEYS)
    def read(self, holder: Address, key: str) -> None:
        all_values = self.runner.run(self.extension.read(data.list_values, holder))
        one = self.runner.run(self.extension.read(data.find_value, holder, key))
        listed = self.runner.run(self.extension.read(instances.list_instances))

        wanted = self.model.data.get(holder.id, {})
        text = ",".join(f"{orjson.dumps(key).decode()}:{value}" for key, value in wanted.items())
        assert orjson.dumps(all_values.result).decode() == f"{{{text}}}"
        assert all_values.revision == self.model.revision
        assert orjson.loads(orjson.dumps(one.result)) == (
            {key: orjson.loads(wanted[key])} if key in wanted else {}
        )
        assert [each["id"] for each in listed.result] == list(self.model.instances)

    @invariant()
    def the_database_is_what_the_model_is(self) -> None:
        state = self.runner.run(self.bench.recount(self.name))

        assert state == self.model.state()
        assert order_of(state) == order_of(self.model.state())


def test_on_files() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=2_000 if SOAK else 60, stateful_step_count=12)
    )


def test_on_postgresql(postgres: PostgresServer) -> None:
    class OnPostgres(LedgerMachine):
        url = postgres.create_database()

    run_state_machine_as_test(
        OnPostgres, settings=settings(max_examples=300 if SOAK else 12, stateful_step_count=8)
    )
