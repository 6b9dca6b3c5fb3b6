"""
Compare the server with the chat model: both get random stories and must agree at every step.

There are few ids, so that the same places, keys and instances are used again and again.
"""

from __future__ import annotations

from dataclasses import replace
from types import EllipsisType
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.model.chat_log import Conflict, Missing, Step, data_of, differ
from tests.model.chat_reading import (
    BRANCHES,
    CHATS,
    IDS,
    MESSAGES,
    NEW_NAMES,
    NUMBERS,
    Anchor,
    ChatReading,
    operation_of,
    path_of,
    request_of,
)
from tests.model.values_model import assert_conflict
from tests.support.answers import JSON_PATCH, MERGE_PATCH, refused

INSTANCES = st.sampled_from(IDS)
# The holder that is written to; half of the time the chat itself.
TARGETS = st.none() | INSTANCES
KEYS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["recap", "outfit"])
PLACES = st.tuples(st.sampled_from(MESSAGES), st.sampled_from(["0", "1", "2"]))
ANCHORS = st.none() | PLACES | PLACES
SCALARS = st.sampled_from([None, True, 0, 1, 1.0, 0.5, "x"])
OBJECTS = st.dictionaries(KEYS, SCALARS | st.dictionaries(KEYS, SCALARS, max_size=1), max_size=2)
VALUES = SCALARS | st.integers(1, 99) | st.lists(SCALARS, max_size=2) | OBJECTS
MANY = st.dictionaries(KEYS, VALUES, max_size=3)
ADDENDS = st.sampled_from([1, -2, 0.5])
PATCHES = st.builds(
    lambda member, value: [{"op": "add", "path": f"/{member}", "value": value}],
    st.sampled_from(["a", "-"]),
    SCALARS,
)
OPERATIONS = st.one_of(
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.sampled_from(["remove", "clear"]), st.none()),
    st.tuples(st.just("merge"), OBJECTS),
    st.tuples(st.just("increment"), ADDENDS),
    st.tuples(st.just("increment"), ADDENDS),
    st.tuples(st.sampled_from(["append", "addToSet", "pull"]), SCALARS),
    st.tuples(st.just("patch"), PATCHES),
)
BATCHES = st.lists(st.tuples(TARGETS, KEYS, OPERATIONS, ANCHORS), min_size=1, max_size=5)
CHAINS = st.lists(PLACES, unique_by=lambda place: place[0], max_size=4)
TEXTS = st.sampled_from(["hash 1", "hash 1", "hash 2"])
HASHES = st.dictionaries(st.sampled_from(MESSAGES), TEXTS)
KINDS = st.sampled_from(
    ["set", "set", "merge", "override", "delete", "remove", "clear", "patch", "insert"]
)
MESSAGE = "Instance data {} successfully"


class ChatComparison(ChatReading):
    """Writes to chats, instances and values, as people, models and SillyTavern make them."""

    @initialize(values=st.lists(MANY, min_size=2, max_size=2))
    def begin(self, values: list[dict[str, Any]]) -> None:
        for number, (id, each) in enumerate(zip(IDS, values, strict=False)):
            self.write_values(number, None, "merge", {"a": 50, **each}, None, ["a"], None, False)
            self.put_instance(id, self.name(number))
            self.write_values(number, id, "merge", {"a": 50, **each}, None, ["a"], None, False)

    # Instances and chats

    @rule(
        number=NUMBERS,
        id=INSTANCES,
        what=st.sampled_from(["bind", "bind", "unbind", "keep", "delete", "rename"]),
        new=st.sampled_from([*NEW_NAMES, *CHATS]),
    )
    def rearrange(self, number: int, id: str, what: str, new: str) -> None:
        id = self.instance_or_copy(number, id)
        if what == "delete" and id in IDS:
            # A deleted instance of a branch is still shown as of a message, so none is deleted.
            self.delete_instance(id)
        elif what == "rename":
            self.rename_chat(self.name(number), new)
        elif what == "keep":
            self.put_instance(id, ...)
        elif id in IDS or self.name(number) in BRANCHES:
            # In another chat, a copy would be shown beside the instance it was copied from.
            self.put_instance(id, self.name(number) if what == "bind" else None)

    def put_instance(self, id: str, name: str | EllipsisType | None) -> None:
        given: dict[str, Any] = {} if name is ... else {"chat": name}
        body: dict[str, Any] = {"id": id, "characterId": "arthur"}
        if name is not ...:
            body["chatId"] = name
        answer = self.write("POST", "/instances", body)
        self.model.put_instance(id, **given)
        self.agree(answer)
        chat = self.model.now.instances[id]
        title = None if chat is None else self.model.now.titles[chat]
        assert answer.json()["chatId"] == title

    def delete_instance(self, id: str) -> None:
        answer = self.write("DELETE", f"/instances/{id}")
        try:
            self.model.delete_instance(id)
        except Missing:
            return self.missing(answer, "instance_not_found")
        return self.agree(answer, {"success": True})

    def rename_chat(self, name: str, new: str) -> None:
        answer = self.write("PATCH", path_of(name), {"chatId": new})
        try:
            done = self.model.rename(name, new)
        except Missing:
            return self.missing(answer, "chat_not_found")
        if not done:
            assert refused(answer)[:2] == (409, "chat_exists")
            return None
        self.agree(answer)
        assert answer.json()["chatId"] == new
        return None

    # Values

    @rule(
        number=NUMBERS,
        id=TARGETS,
        kind=KINDS,
        values=MANY,
        value=VALUES,
        keys=st.lists(KEYS, min_size=1, max_size=3),
        anchor=ANCHORS,
        said=st.booleans(),
    )
    def write_values(
        self,
        number: int,
        id: str | None,
        kind: str,
        values: dict[str, Any],
        value: Any,
        keys: list[str],
        anchor: Anchor,
        said: bool,
    ) -> None:
        """Take every data route; requests for instances sometimes send `x-chat-id`."""
        name = self.name(number)
        id = self.instance_or_copy(number, id) if id is not None else None
        self.ensure_instance(id, name, number)
        method, end, body, steps = request_of(kind, values, keys, value)
        path = f"{path_of(name)}/data" if id is None else f"/instances/{id}/data"
        headers = {"x_chat_id": quote(name, safe="")} if said and id is not None else {}
        if kind in ("patch", "insert"):
            headers["content_type"] = MERGE_PATCH if kind == "patch" else JSON_PATCH
        chat = name if said or id is None else None
        answer = self.write(method, path + end, body, anchor, **headers)
        now = self.model.now
        home = now.instances.get(id or "")
        if said and home is not None and now.names.get(name) != home:
            assert refused(answer)[:2] == (409, "chat_mismatch")
            return None
        if id is not None and id not in now.instances:
            return self.missing(answer, "instance_not_found", "data_key_not_found")
        steps = [replace(step, chat=chat, instance=id, anchor=anchor) for step in steps]
        try:
            results = self.model.write(*steps)
        except Conflict:
            assert refused(answer)[:2] == (409, "patch_failed")
            return None
        if kind == "delete" and not self.model.touched:
            return self.missing(answer, "data_key_not_found")
        self.agree(answer)
        return self.agree_on_values(answer.json(), kind, results, name if id is None else None, id)

    def ensure_instance(self, id: str | None, name: str, number: int) -> None:
        """Make the instance that is written to, mostly in a chat; leave it missing now and then."""
        if id is not None and id not in self.model.now.instances and number % 8:
            self.put_instance(id, name if number % 4 else None)

    def agree_on_values(
        self, found: Any, kind: str, results: list[Any], name: str | None, id: str | None
    ) -> None:
        now = self.model.now
        if kind not in ("patch", "insert"):
            self.compare_conflicts(found.pop("conflicts", []), self.model.conflicts)
        if kind in ("patch", "insert"):
            owner = id if id is not None else now.names.get(name or "", -1)
            assert found == data_of(now.values, owner)
        elif kind == "remove":
            count = sum(result["removed"] for result in results)
            assert found == {"success": True, "removedCount": count}
        elif kind in ("merge", "override"):
            done = MESSAGE.format("merged" if kind == "merge" else "overridden")
            assert found == {"success": True, "message": done}
        elif kind == "set":
            assert found.keys() - {"success", "key"} == results[0].keys() - {"superseded"}
            assert not differ(found.get("value"), results[0].get("value"))
        else:
            assert found == {"success": True}

    @rule(number=NUMBERS, batch=BATCHES, anchor=ANCHORS, confined=st.booleans())
    def run_batch(self, number: int, batch: list[Any], anchor: Anchor, confined: bool) -> None:
        """Run a batch on instances, or within a chat; mostly on instances of that chat."""
        name = self.name(number)
        now = self.model.now
        there = [
            id for id, chat in now.instances.items() if not confined or chat == now.names.get(name)
        ]
        open_to = [None, *there] if confined else there or IDS
        steps: list[Step] = []
        body: list[dict[str, Any]] = []
        for each, key, (op, operand), own in batch:
            id = self.instance_or_copy(number, each) if each is not None else None
            target = id if id in open_to or (id and number % 8 == 0) else open_to[-1]
            chat = name if confined else None
            steps.append(Step(op, key, operand, chat, target, own or anchor))
            body.append(operation_of(steps[-1], own))
        path = f"{path_of(name)}/batch" if confined else "/batch"
        answer = self.write("POST", path, {"operations": body}, anchor)
        wrong = [
            (index, "chat_mismatch" if step.instance in now.instances else "instance_not_found")
            for index, step in enumerate(steps)
            if step.instance not in (None, *there)
        ]
        if wrong:
            _, code, details = refused(answer)
            assert code in ("type_conflict", "patch_failed") or (details["index"], code) in wrong
            return
        try:
            results = self.model.write(*steps)
        except Conflict as conflict:
            assert_conflict(answer, conflict.index, steps[conflict.index].op)
            return
        self.agree(answer)
        found = answer.json()
        self.compare_conflicts(found.pop("conflicts", []), self.model.conflicts)
        wanted = {"revision": self.model.revision, "results": results}
        assert not differ(found, wanted), (answer.text, wanted)

    @rule(number=NUMBERS, id=TARGETS, key=KEYS, operation=OPERATIONS, place=PLACES)
    def write_at_message(
        self, number: int, id: str | None, key: str, operation: tuple[str, Any], place: Anchor
    ) -> None:
        """Change one value at one message, which is what extensions do most."""
        self.ensure_instance(id, self.name(number), number)
        self.run_batch(number, [(id, key, operation, None)], place, id is None)

    # The story

    @rule(
        number=NUMBERS, chain=CHAINS, hashes=HASHES, numeral=st.booleans(), rehearse=st.booleans()
    )
    def reconcile(
        self,
        number: int,
        chain: list[tuple[str, str]],
        hashes: dict[str, str],
        numeral: bool = False,
        rehearse: bool = False,
    ) -> None:
        """Reconcile a chat with a chain; with `rehearse`, ask first with `dryRun`."""
        name = self.name(number)
        anchors: list[dict[str, Any]] = []
        for message, swipe in chain:
            anchors.append({"messageId": message, "swipe": int(swipe) if numeral else swipe})
            if message in hashes:
                anchors[-1]["hash"] = hashes[message]
        sent = {message: hashes[message] for message, _ in chain if message in hashes}
        for dry_run in [True, False] if rehearse else [False]:
            body: dict[str, Any] = {"anchors": anchors}
            if dry_run:
                body["dryRun"] = True
            answer = self.write("POST", f"{path_of(name)}/reconcile", body)
            try:
                report = self.model.reconcile(name, dict(chain), sent, dry_run)
            except Missing:
                return self.missing(answer, "chat_not_found")
            self.agree(answer)
            self.compare_report(answer.json(), report)
        return None

    @rule(number=NUMBERS, text=TEXTS)
    def swipe(self, number: int, text: str) -> None:
        """Show another swipe of a message, or show a hidden message again at the end."""
        now = self.model.now
        chat = now.names.get(self.name(number))
        places = sorted(place[1:] for place in now.registered if place.chat == chat)
        if places:
            message, swipe = places[number // 7 % len(places)]
            chain = self.chain_of(number) | {message: swipe}
            self.reconcile(number, list(chain.items()), dict.fromkeys(chain, text))

    @rule(number=NUMBERS, count=st.integers(1, 3), text=TEXTS)
    def delete_messages(self, number: int, count: int, text: str) -> None:
        chain = self.chain_of(number)
        if chain:
            self.reconcile(number, list(chain.items())[:-count], dict.fromkeys(chain, text))

    @rule(number=NUMBERS, hidden=st.sets(st.sampled_from(MESSAGES), min_size=1))
    def hide_and_show(self, number: int, hidden: set[str]) -> None:
        """Hide messages and show the same chain again: the values are the same."""
        chain = self.chain_of(number)
        before = self.model.now.values
        self.reconcile(number, [each for each in chain.items() if each[0] not in hidden], {})
        self.reconcile(number, list(chain.items()), {})
        after = self.model.now.values
        assert before.keys() == after.keys()
        assert not any(differ(before[row], after[row]) for row in before)

    def chain_of(self, number: int) -> dict[str, str]:
        now = self.model.now
        return now.chains.get(now.names.get(self.name(number), -1), {})

    @rule(number=NUMBERS, id=TARGETS)
    def restore(self, number: int, id: str | None) -> None:
        name = self.name(number)
        id = self.instance_or_copy(number, id) if id is not None else None
        revision = number // 5 % (self.model.revision + 1)
        path = path_of(name) if id is None else f"/instances/{id}"
        answer = self.write("POST", f"{path}/restore", {"revision": revision})
        try:
            if id is None:
                changed, warnings = self.model.restore_chat(name, revision)
            else:
                changed, warnings = self.model.restore_instance(id, revision)
        except Missing:
            return self.missing(answer, "chat_not_found" if id is None else "instance_not_found")
        self.agree(answer)
        found = answer.json()
        assert (found["revision"], len(found["warnings"])) == (self.model.revision, warnings)
        # The model does not know how many rows the server keeps for a series.
        if not any(change.row.space == "series" for change in self.model.log):
            assert found["changed"] == changed
        return None

    # Series and processed ids

    @rule(
        number=NUMBERS,
        series=NAMES,
        what=st.sampled_from(["add", "add", "choose", "delete", "clear"]),
        version=st.integers(1, 4),
        anchor=ANCHORS,
    )
    def write_series(
        self, number: int, series: str, what: str, version: int, anchor: Anchor
    ) -> None:
        name = self.name(number)
        path = f"{path_of(name)}/series/{series}"
        step = Step("remove", series, None, name, None, anchor, "series")
        one = replace(step, key=f"{series}/{version}")
        if what == "add":
            answer = self.write("POST", path, {"content": number, "tone": "dry"}, anchor)
            content = {"content": number, "tone": "dry"}
            added = self.model.add_version(replace(step, op="set", operand=content))
            self.agree(answer, {"version": added}, 201)
        elif what == "clear":
            answer = self.write("DELETE", path, None, anchor)
            keys = self.model.versions(step)
            results = self.model.write(*(replace(step, key=key) for key in keys))
            self.agree(answer, {"clearedCount": sum(each["removed"] for each in results)})
        elif what == "choose":
            answer = self.write("PUT", f"{path}/current", {"version": version}, anchor)
            pointer = replace(step, op="set", key=f"{series}/current", operand=version)
            try:
                self.model.write(replace(one, op="require"), pointer)
            except Missing:
                return self.missing(answer, "version_not_found")
            self.agree(answer, {"currentVersion": self.current_of(name, series)})
        else:
            answer = self.write("DELETE", f"{path}/{version}", None, anchor)
            self.model.write(one)
            if not self.model.touched:
                return self.missing(answer, "version_not_found")
            self.agree(answer, {"success": True, "currentVersion": self.current_of(name, series)})
        return self.compare_series(name, series)

    @rule(
        number=NUMBERS,
        set=NAMES,
        what=st.sampled_from(["claim", "claim", "mark", "forget"]),
        ids=st.lists(KEYS, min_size=1, max_size=3, unique=True),
        anchor=ANCHORS,
    )
    def write_processed(
        self, number: int, set: str, what: str, ids: list[str], anchor: Anchor
    ) -> None:
        name = self.name(number)
        path = f"{path_of(name)}/processed/{set}"
        step = Step("claim", f"{set}/{ids[0]}", None, name, None, anchor, "processed")
        if what == "claim":
            answer = self.write("POST", path, {"ids": ids}, anchor)
            results = self.model.write(*(replace(step, key=f"{set}/{id}") for id in ids))
            new = [id for id, result in zip(ids, results, strict=True) if result["new"]]
            self.agree(answer, {"new": new, "seen": [id for id in ids if id not in new]})
        elif what == "mark":
            answer = self.write("PUT", f"{path}/{ids[0]}", None, anchor)
            (result,) = self.model.write(step)
            self.agree(answer)
            assert answer.json()["already"] is not result["new"]
        else:
            answer = self.write("DELETE", f"{path}/{ids[0]}", None, anchor)
            self.model.write(replace(step, op="remove"))
            if not self.model.touched:
                return self.missing(answer, "processed_not_found")
            self.agree(answer, {"success": True})
        return self.compare_processed(name, set)
