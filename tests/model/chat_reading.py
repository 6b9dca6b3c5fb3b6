"""
Send the same requests to a server and to the chat model, and compare what both answer.

`chat_machine.py` chooses the requests.
"""

from __future__ import annotations

import itertools
import json
from typing import Any
from urllib.parse import quote

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.model.chat_branches import BranchModel
from tests.model.chat_log import (
    Change,
    Missing,
    Owner,
    Report,
    Row,
    State,
    Step,
    Values,
    data_of,
    differ,
    processed_of,
    series_of,
)
from tests.support.answers import MOMENT, refused

CHATS = ["den", "hall"]
# The ids that chats may be renamed to; nothing uses them before.
NEW_NAMES = ["den @ 2", "hall/#2"]
# The ids of the first branches.
BRANCHES = ["den ~ 1", "fork", "fork/2"]
MESSAGES = ["m1", "m2", "m3", "m4"]
# One instance has the id of a chat: the server must not confuse them.
IDS = ["sword", "shield", "den"]

NUMBERS = st.integers(0, 10**6)
Anchor = tuple[str, str] | None


def path_of(name: str) -> str:
    return f"/chats/{quote(name, safe='')}"


# Method, the end of the path, body, and steps.
DataRequest = tuple[str, str, Any, list[Step]]


def request_of(kind: str, values: dict[str, Any], keys: list[str], value: Any) -> DataRequest:
    """Return a request to a data route, and its steps for the model."""
    if kind == "set":
        return "PUT", "", {"key": keys[0], "value": value}, [Step("set", keys[0], value)]
    if kind == "delete":
        return "DELETE", f"/{keys[0]}", None, [Step("remove", keys[0])]
    if kind == "clear":
        return "DELETE", "", None, [Step("clear")]
    if kind == "remove":
        steps = [Step("remove", key) for key in dict.fromkeys(keys)]
        return "PUT", "/remove", {"keys": keys}, steps
    if kind == "override":
        return "PUT", "/override", values, [Step("override", operand=values)]
    if kind == "merge":
        return "PUT", "/merge", values, [Step("set", *each) for each in values.items()]
    if kind == "insert":
        body = [{"op": "add", "path": f"/{keys[0]}/x", "value": value}]
        return "PATCH", "", body, [Step("insert", keys[0], ("x", value))]
    return "PATCH", "", values, [Step("merge_patch", *each) for each in values.items()]


def operation_of(step: Step, anchor: Anchor) -> dict[str, Any]:
    """Return a step as an operation of a batch."""
    body: dict[str, Any] = {"op": step.op}
    if step.instance is not None:
        body["instanceId"] = step.instance
    if step.op != "clear":
        body["key"] = step.key
    if step.op not in ("clear", "remove"):
        body["by" if step.op == "increment" else "value"] = step.operand
    if anchor is not None:
        body["anchor"] = {"messageId": anchor[0], "swipe": anchor[1]}
    return body


class ChatReading(RuleBasedStateMachine):
    """Sends requests, and compares the state of the server with that of the model."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__()
        self.client = client
        self.model = BranchModel()
        self.writes = itertools.count()

    def teardown(self) -> None:
        self.end()
        self.client.close()

    def end(self) -> None:
        """Compare once more at the end of a story."""
        for revision in range(0, self.model.revision + 1, 7):
            self.read_the_past(revision)
        for number, message in enumerate(MESSAGES):
            self.look_back(number, message)

    def name(self, number: int) -> str:
        """Return the id of a chat: one of the two, or a present or former one."""
        names = self.names()
        return names[number % len(names)]

    def names(self) -> list[str]:
        known = self.model.now.names
        return [*CHATS, *(name for name in (*NEW_NAMES, *BRANCHES) if name in known)]

    def instance_or_copy(self, number: int, id: str) -> str:
        """Return the id of an instance, or of one that a branch has copied from it."""
        found = [id]
        for new, old in self.model.instance_copies().items():
            if old in found:
                found.append(new)
        return found[number // 11 % len(found)]

    def ids(self) -> list[str]:
        return [*IDS, *self.model.instance_copies()]

    # Sending

    def write(
        self, method: str, path: str, body: Any = None, anchor: Anchor = None, **headers: str
    ) -> httpx.Response:
        """Send a write, and every third one again, which must change nothing more."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        named["prefer"] = "return=representation"
        number = next(self.writes)
        if anchor is not None:
            named["x-message-id"] = anchor[0]
            if anchor[1] != "0" or number % 2:
                named["x-swipe-id"] = anchor[1]
        if number % 3 == 0:
            named["idempotency-key"] = f"key-{number}"
        given: dict[str, Any] = {"headers": named}
        if body is not None:
            given["json"] = body
        answer = self.client.request(method, path, **given)
        if number % 3 == 0 and answer.is_success:
            again = self.client.request(method, path, **given)
            assert again.headers["idempotency-replayed"] == "true"
            assert (again.status_code, again.content) == (answer.status_code, answer.content)
            for name in ("x-live", "x-superseded"):
                assert again.headers.get(name) == answer.headers.get(name)
        return answer

    def agree(self, answer: httpx.Response, body: Any = None, status: int = 200) -> None:
        """Check that a write succeeded, and that its answer is the model's."""
        assert answer.status_code == status, answer.text
        assert int(answer.headers["x-revision"]) == self.model.revision
        assert answer.headers.get("x-live") == ("false" if self.model.dormant else None)
        superseded = "true" if self.model.superseded else None
        assert answer.headers.get("x-superseded") == superseded
        if body is not None:
            assert not differ(answer.json(), body), (answer.text, body)

    def missing(self, answer: httpx.Response, *codes: str) -> None:
        status, code, _ = refused(answer)
        assert (status, code in codes) == (404, True)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    # Comparing

    @invariant()
    def compare_present(self) -> None:
        now = self.model.now
        for name in self.names():
            self.compare_state(self.get(f"{path_of(name)}/state"), name, now)
        for id in self.ids():
            found = self.get(f"/instances/{id}/data") if now.instances.get(id) is None else {}
            if id not in now.instances:
                assert found == {}
            elif now.instances[id] is None:
                self.compare_values(found, now, id)

    @rule(number=NUMBERS, message=st.sampled_from(MESSAGES))
    def look_back(self, number: int, message: str) -> None:
        self.read_the_past(number)
        self.read_as_of_message(number, message)
        self.compare_history()

    def read_the_past(self, number: int) -> None:
        revision = number % (self.model.revision + 1)
        then = self.model.past[revision]
        for id in self.ids():
            self.compare_values(self.get(f"/instances/{id}/data", at=revision), then, id)
        for name in [*CHATS, *(name for name in self.names() if name in BRANCHES)]:
            self.compare_state(self.get(f"{path_of(name)}/state", at=revision), name, then)
            chat = self.model.now.names.get(name, -1)
            self.compare_values(self.get(f"{path_of(name)}/data", at=revision), then, chat)

    def compare_state(self, found: Any, name: str, state: State) -> None:
        """Compare the whole state of a chat, now or at a revision; ids are the present ones."""
        chat = self.model.now.names.get(name, -1)
        if chat not in state.titles:
            assert found is None
            return
        titles = self.model.now.titles
        assert found["chatId"] == titles[chat]
        origin = self.model.origins.get(chat)
        assert found["parent"] == (None if origin is None else titles[origin.parent])
        self.compare_values(found["data"], state, chat)
        listed = {each["instance"]["id"]: each["data"] for each in found["instances"]}
        assert set(listed) == set(state.members(chat))
        for id, values in listed.items():
            self.compare_values(values, state, id)
        self.compare_counts(found, state.values, chat)

    def compare_values(self, found: dict[str, Any], state: State, owner: Owner) -> None:
        wanted = data_of(state.values, owner)
        assert found == wanted
        assert not differ(found, {key: wanted[key] for key in found})
        created = [state.created[Row("data", owner, key)] for key in found]
        assert created == sorted(created), "keys are not in the order of their creation"

    def compare_counts(self, found: dict[str, Any], values: Values, chat: int) -> None:
        series = series_of(values, chat).items()
        sets = processed_of(values, chat).items()
        assert found["series"] == {
            name: {"currentVersion": current, "count": len(versions)}
            for name, (current, versions) in series
        }
        assert found["processed"] == {name: len(ids) for name, ids in sets}

    def read_as_of_message(self, number: int, message: str) -> None:
        name = self.name(number)
        if name not in self.model.now.names:
            return None
        chat = self.model.now.names[name]
        answer = self.client.get(f"{path_of(name)}/state", params={"at": f"message:{message}"})
        try:
            members, values = self.model.as_of(name, message)
        except Missing:
            return self.missing(answer, "message_not_found")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["data"] == data_of(values, chat)
        listed = {each["instance"]["id"]: each["data"] for each in found["instances"]}
        assert listed == {id: data_of(values, id) for id in members}
        at = f"message:{message}"
        assert self.get(f"{path_of(name)}/data", at=at) == found["data"]
        for series, (current, versions) in series_of(values, chat).items():
            read = self.get(f"{path_of(name)}/series/{series}", at=at)
            assert read["currentVersion"] == current
            assert [each["version"] for each in read["versions"]] == sorted(versions)
        return self.compare_counts(found, values, chat)

    def versions_of(self, name: str, series: str) -> tuple[int | None, dict[int, Any]]:
        now = self.model.now
        return series_of(now.values, now.names.get(name, -1)).get(series, (None, {}))

    def current_of(self, name: str, series: str) -> int | None:
        return self.versions_of(name, series)[0]

    def compare_series(self, name: str, series: str) -> None:
        current, versions = self.versions_of(name, series)
        records = [
            {"version": version, "createdAt": MOMENT, **versions[version]}
            for version in sorted(versions)
        ]
        found = self.get(f"{path_of(name)}/series/{series}")
        assert found == {"currentVersion": current, "versions": records}

    def compare_processed(self, name: str, set: str) -> None:
        now = self.model.now
        wanted = processed_of(now.values, now.names.get(name, -1)).get(set, [])
        found = self.get(f"{path_of(name)}/processed/{set}")
        assert sorted(found["ids"]) == sorted(wanted)

    def compare_history(self) -> None:
        """Check that history has each source change once, live or dormant, and none taken over."""
        now = self.model.now
        for id in now.instances:
            self.compare_live_flags(self.history(f"/instances/{id}/history"), id)
        for name in now.titles.values():
            items = self.history(f"{path_of(name)}/history")
            own = [each for each in items if each["instanceId"] is None and "space" not in each]
            self.compare_live_flags(own, now.names[name])

    def history(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": None}
        while not items or page["next"] is not None:
            cursor = {"cursor": page["next"]} if page["next"] is not None else {}
            page = self.get(path, limit=100, **cursor)
            items += page["items"]
            if not page["items"]:
                break
        return items

    def compare_live_flags(self, items: list[dict[str, Any]], owner: Owner) -> None:
        found = [
            (each["revision"], each["key"], each["live"])
            for each in items
            if each["key"] is not None and each["op"] not in ("reconcile", "branch")
        ]
        wanted = [
            (each.revision, each.row.key, self.model.is_live(each))
            for each in self.model.log
            if each.row[:2] == ("data", owner) and not each.taken and not each.kept
        ]
        assert sorted(found) == sorted(wanted), (owner, set(found) ^ set(wanted))
        branched = self.model.branched_at(owner)
        values = {} if branched is None else data_of(self.model.past[branched].values, owner)
        derived = [each for each in items if each["op"] == "branch"]
        assert {each["key"]: each["after"] for each in derived} == values
        assert [each["revision"] for each in derived] == [branched] * len(values)

    def compare_report(self, found: dict[str, Any], report: Report) -> None:
        """Compare the answer to a reconcile; series and processed ids are compared by reads."""
        changed = [
            {"instanceId": instance_of(row), "key": row.key}
            | ({} if before is ... else {"before": before})
            | ({} if after is ... else {"after": after})
            for row, before, after in report.changed
            if row.space == "data"
        ]
        own = [each for each in found["changed"] if each.get("space", "data") == "data"]
        assert in_any_order(own) == in_any_order(changed)
        self.compare_conflicts(found["conflicts"], report.conflicts)
        assert found["revision"] == self.model.revision
        assert (found["dormant"], found["revived"]) == (report.dormant, report.revived)
        assert sorted(found["stale"]) == sorted(report.stale)

    def compare_conflicts(self, found: list[dict[str, Any]], conflicts: list[Change]) -> None:
        wanted = [
            {"instanceId": instance_of(each.row), "key": each.row.key, "op": shown_op(each)}
            | {"revision": each.revision}
            for each in conflicts
        ]
        assert in_any_order(found, "reason") == in_any_order(wanted)


def shown_op(change: Change) -> str:
    return "patch" if change.op == "insert" else change.op


def instance_of(row: Row) -> str | None:
    return row.owner if isinstance(row.owner, str) else None


def in_any_order(items: list[dict[str, Any]], *without: str) -> list[str]:
    """Return items as sorted texts, without some of their fields."""
    left = [{name: each[name] for name in sorted(each) if name not in without} for each in items]
    return sorted(json.dumps(each) for each in left)
