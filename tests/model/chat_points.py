"""
Compare the checkpoints and branches of the server with those of the model.

A branch is a chat like any other, so `chat_machine.py` also writes to branches and to what
they hold.
"""

from __future__ import annotations

from typing import Any

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.chat_log import (
    Missing,
    Owner,
    Point,
    Values,
    data_of,
    differ,
    processed_of,
    series_of,
)
from tests.model.chat_machine import KEYS, TARGETS, ChatComparison
from tests.model.chat_reading import BRANCHES, MESSAGES, NUMBERS, in_any_order, path_of
from tests.support.answers import refused

LABELS = st.sampled_from(["start", "later / #2"])
STARTS = st.sampled_from(["now", "revision", "message", "message", "checkpoint", "checkpoint"])


class PointComparison(ChatComparison):
    """Checkpoints, restores to them, and branches."""

    def end(self) -> None:
        self.validate_all()
        super().end()

    # Checkpoints

    @rule(number=NUMBERS, label=LABELS, message=st.none() | st.sampled_from(MESSAGES))
    def make_checkpoint(self, number: int, label: str, message: str | None) -> None:
        name = self.name(number)
        if message is not None:
            message = self.visible(number, message)
        body = {"name": label} | ({} if message is None else {"messageId": message})
        answer = self.write("POST", f"{path_of(name)}/checkpoints", body)
        try:
            made = self.model.checkpoint(name, label, message)
        except Missing:
            return self.missing(answer, "chat_not_found", "message_not_found")
        if not made:
            assert refused(answer)[:2] == (409, "checkpoint_exists")
            return None
        self.agree(answer, status=201)
        found = answer.json()
        point = self.model.checkpoints[self.model.now.names[name], label]
        assert (found["revision"], found["messageId"]) == (self.model.revision, message)
        return self.compare_rows(found["rows"], point.chat, self.model.values_at(point), point)

    @precondition(lambda self: self.model.checkpoints)
    @rule(number=NUMBERS, what=st.sampled_from(["restore", "restore", "rehearse", "delete"]))
    def use_checkpoint(self, number: int, what: str) -> None:
        chat, label = self.any_checkpoint(number)
        point = self.model.checkpoints[chat, label]
        path = self.path_of_checkpoint(chat, label)
        self.validate(chat, label)
        self.compare_diff(self.get(f"{path}/diff"), point)
        self.compare_contents(self.get(f"{path}/state"), point)
        if what == "delete":
            answer = self.write("DELETE", path)
            assert answer.json() == {"success": True}
            del self.model.checkpoints[chat, label]
            return
        if what == "rehearse":
            before = self.model.revision
            rehearsed = self.write("POST", f"{path}/restore", {"dryRun": True}).json()
            assert rehearsed.pop("revision") == before
            assert len(rehearsed.pop("changes")) == rehearsed["changed"]
        answer = self.write("POST", f"{path}/restore")
        changed, warnings = self.model.restore(point)
        self.agree(answer)
        found = answer.json()
        assert found.pop("revision") == self.model.revision
        assert what != "rehearse" or rehearsed == found
        assert (found["success"], found["errors"]) == (True, [])
        assert len(found["warnings"]) == warnings
        if not any(change.row.space == "series" for change in self.model.log):
            assert found["changed"] == changed

    @rule()
    def validate_all(self) -> None:
        for chat, label in self.model.checkpoints:
            self.validate(chat, label)
        for branch in self.model.origins:
            # Its beginning is still what it was, whatever happened since.
            path = path_of(self.model.now.titles[branch])
            self.is_valid(self.client.post(f"{path}/validate"))

    def validate(self, chat: int, label: str) -> None:
        """Check that the log still has the state at a checkpoint, whatever happened since."""
        self.is_valid(self.client.post(f"{self.path_of_checkpoint(chat, label)}/validate"))

    def is_valid(self, answer: httpx.Response) -> None:
        assert answer.json() == {"success": True, "validated": True, "errors": [], "warnings": []}

    def compare_contents(self, found: dict[str, Any], point: Point) -> None:
        """Compare everything that a chat held at a point."""
        values = self.model.values_at(point)
        assert found["data"] == data_of(values, point.chat)
        listed = {each["instance"]["id"]: each["data"] for each in found["instances"]}
        assert listed == {id: data_of(values, id) for id in self.model.members(point)}
        numbers = {
            name: (each["currentVersion"], [one["version"] for one in each["versions"]])
            for name, each in found["series"].items()
        }
        series = series_of(values, point.chat).items()
        assert numbers == {name: (current, sorted(each)) for name, (current, each) in series}
        sets = processed_of(values, point.chat).items()
        assert {name: set(ids) for name, ids in found["processed"].items()} == {
            name: set(ids) for name, ids in sets
        }

    def any_checkpoint(self, number: int) -> tuple[int, str]:
        return list(self.model.checkpoints)[number // 5 % len(self.model.checkpoints)]

    def visible(self, number: int, message: str) -> str:
        """Choose a message, mostly one of the visible chain if it has any."""
        chain = list(self.chain_of(number))
        return chain[number // 5 % len(chain)] if chain and number % 8 else message

    def path_of_checkpoint(self, chat: int, label: str) -> str:
        name = path_of(self.model.now.titles[chat])
        return f"{name}/checkpoints/{path_of(label).removeprefix('/chats/')}"

    def compare_diff(self, items: list[dict[str, Any]], point: Point) -> None:
        now = self.model.now
        then = self.model.values_at(point)
        wanted = []
        owners: list[Owner] = [point.chat, *self.model.members(point), *now.members(point.chat)]
        for owner in dict.fromkeys(owners):
            before = data_of(then, owner)
            is_here = owner == point.chat or now.instances.get(str(owner)) == point.chat
            after = data_of(now.values, owner) if is_here else {}
            for key in before | after:
                if differ(before.get(key, ...), after.get(key, ...)):
                    item = {"key": key, "instanceId": owner if isinstance(owner, str) else None}
                    item |= {"before": before[key]} if key in before else {}
                    item |= {"after": after[key]} if key in after else {}
                    wanted.append(item)
        found = [each for each in items if "space" not in each]
        assert in_any_order(found) == in_any_order(wanted)

    def compare_rows(
        self, found: dict[str, int], chat: int, values: Values, point: Point | None
    ) -> None:
        """Compare the numbers of rows at a point, or now."""
        members = self.model.now.members(chat) if point is None else self.model.members(point)
        assert found == {
            "data": len(data_of(values, chat)),
            "instances": len(members),
            "values": sum(len(data_of(values, id)) for id in members),
            "series": sum(len(each) for _, each in series_of(values, chat).values()),
            "processed": sum(len(each) for each in processed_of(values, chat).values()),
        }

    # One key

    @rule(number=NUMBERS, id=TARGETS, key=KEYS)
    def restore_key(self, number: int, id: str | None, key: str) -> None:
        name = self.name(number)
        now = self.model.now
        revision = number // 5 % (self.model.revision + 1)
        if id is not None:
            id = self.instance_or_copy(number, id)
        path = path_of(name) if id is None else f"/instances/{id}"
        answer = self.write("POST", f"{path}/data/{key}/restore", {"revision": revision})
        owner: Owner | None = now.names.get(name) if id is None else id
        if owner is None or (isinstance(owner, str) and owner not in now.instances):
            return self.missing(answer, "chat_not_found", "instance_not_found")
        try:
            changed = self.model.restore_key(owner, key, revision)
        except Missing:
            return self.missing(answer, "data_key_not_found")
        body = {"revision": self.model.revision, "changed": changed, "warnings": []}
        return self.agree(answer, body)

    # Branches

    @rule(number=NUMBERS, start=STARTS, message=st.sampled_from(MESSAGES))
    def branch(self, number: int, start: str, message: str) -> None:
        name = self.name(number)
        given: dict[str, Any] = {}
        if start == "revision":
            given["revision"] = number // 5 % (self.model.revision + 1)
        elif start == "message":
            given["messageId"] = self.visible(number, message)
        elif start == "checkpoint" and self.model.checkpoints:
            chat, given["checkpoint"] = self.any_checkpoint(number)
            name = self.model.now.titles[chat] if number % 8 else name
        self.branch_off(name, given)

    def branch_off(self, name: str, given: dict[str, Any]) -> None:
        free = [each for each in BRANCHES if each not in self.model.now.names]
        new = (free or BRANCHES)[0]
        body = {"chatId": new} | ({"from": given} if given else {})
        answer = self.write("POST", f"{path_of(name)}/branches", body)
        if not free:
            codes = [(409, "chat_exists"), (404, "chat_not_found")]
            assert refused(answer)[:2] in codes
            return None
        point = self.point_of(name, given, answer)
        if point is None:
            return None
        assert answer.status_code == 201, answer.text
        found = answer.json()
        self.model.branch(point, new, found["instances"])
        self.agree(answer, status=201)
        now = self.model.now
        assert (found["chatId"], found["parent"]) == (new, now.titles[point.chat])
        assert found["parentRevision"] == point.then.revision
        return self.compare_rows(found["rows"], now.names[new], now.values, None)

    def point_of(self, name: str, given: dict[str, Any], answer: httpx.Response) -> Point | None:
        """Return the point a branch begins at; None if it was rightly refused."""
        chat = self.model.now.names.get(name)
        if chat is not None and "checkpoint" in given:
            point = self.model.checkpoints.get((chat, given["checkpoint"]))
            if point is None:
                self.missing(answer, "checkpoint_not_found")
            return point
        try:
            return self.model.point(name, given.get("revision"), given.get("messageId"))
        except Missing:
            self.missing(answer, "chat_not_found", "message_not_found")
            return None
