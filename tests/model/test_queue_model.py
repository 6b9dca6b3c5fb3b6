"""
A model of the queue of a chat, and the server compared with it.

The model knows no ids of ended operations and no stored lists: an operation holds those it depends
on as objects, and what follows is computed from them.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.api.chats.queue import ENDED, ENDS, LONG, Queue
from tests.conftest import RunningServer
from tests.support.answers import refused
from tests.support.chat import Chat
from tests.support.clock import SettableClock

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
EXAMPLES = {"sqlite": 500 if SOAK else 60, "postgresql": 500 if SOAK else 15}
EXTENSIONS = itertools.count()
IDS = st.sampled_from(["a", "b", "c", "d", "e"])
# Which of the operations that there are, or one that there is not.
CHOICES = st.integers(0, 11)
TYPES = st.sampled_from(["recap", "voice"])
PLACES = st.tuples(st.sampled_from(["m1", "m2"]), st.sampled_from(["0", "1"]))
STATUSES = st.sampled_from(["pending", "in_progress", "retrying", *ENDED])


@dataclass(eq=False)
class Modelled:
    """One operation."""

    id: str
    type: str
    priority: int
    most: int
    place: tuple[str, str] | None
    before: list[Modelled] = field(default_factory=list)
    status: str = "pending"
    attempts: int = 0
    claim: str | None = None
    # True if it waits for another attempt after a failure.
    failed_once: bool = False
    removed: bool = False

    @property
    def active(self) -> bool:
        return self.status not in ENDED

    @property
    def shown(self) -> tuple[Any, ...]:
        return self.id, self.status, self.attempts, self.most, self.claim

    def move(self, status: str) -> None:
        self.status, self.failed_once = status, False
        if status != "in_progress":
            self.claim = None

    def fail(self) -> None:
        self.attempts += self.claim is None
        self.move("failed" if self.attempts >= self.most else "retrying")
        self.failed_once = self.status == "retrying"

    @property
    def claimable(self) -> bool:
        waits = any(each.status != "completed" for each in self.before)
        return not waits and (self.status == "pending" or self.failed_once)


class QueueComparison(RuleBasedStateMachine):
    """Random requests, to the server and to the model."""

    def __init__(self, server: RunningServer, clock: SettableClock | None) -> None:
        super().__init__()
        name = f"queue-model-{next(EXTENSIONS)}"
        server.register(name)
        self.client = server.client(name)
        self.clock = clock
        self.chat = Chat(self.client, "chat")
        self.queue = Queue(self.chat)
        self.chat.open()
        self.model: list[Modelled] = []
        self.paused = False
        self.visible: dict[str, str] = {}
        self.seen: set[tuple[str, str]] = set()
        for id, before in [("a", []), ("b", ["a"]), ("c", ["a", "b"]), ("d", [])]:
            self.add(id, "recap", 0, 1 + len(before), before, False, None)

    def teardown(self) -> None:
        self.client.close()

    def chosen(self, number: int) -> str:
        """Return the id of an operation, seldom of one that does not exist."""
        if number == 11 or not self.model:
            return "unknown"
        return self.model[number % len(self.model)].id

    def find(self, id: str) -> Modelled | None:
        return next((each for each in self.model if each.id == id), None)

    def agree(self) -> None:
        """End what depends on what has ended, and compare."""
        changed = True
        while changed:
            changed = False
            for each in self.model:
                bad = [one for one in each.before if one.removed or one.status in ENDED[1:]]
                if each.active and bad:
                    each.move(next((one.status for one in bad if not one.removed), "cancelled"))
                    changed = True
        for each in self.model:
            each.before = [
                one for one in each.before if not one.removed and one.status != "completed"
            ]
        fields = ("id", "status", "attempts", "maxAttempts", "claim")
        found = [tuple(each[name] for name in fields) for each in self.queue.listed()]
        assert found == [each.shown for each in self.model]

    @rule(
        id=IDS,
        type=TYPES,
        priority=st.integers(0, 1),
        most=st.integers(1, 3),
        depends_on=st.lists(CHOICES, max_size=2),
        if_absent=st.booleans(),
        place=st.none() | PLACES,
    )
    def add_some(self, depends_on: list[int], **given: Any) -> None:
        before = list(dict.fromkeys(self.chosen(number) for number in depends_on))
        self.add(before=before, **given)

    def add(
        self,
        id: str,
        type: str,
        priority: int,
        most: int,
        before: list[str],
        if_absent: bool,
        place: tuple[str, str] | None,
    ) -> None:
        body = {"id": id, "type": type, "priority": priority, "maxAttempts": most}
        body |= {"dependsOn": before, "ifAbsent": if_absent}
        answer = self.chat.send("POST", "/operations", body, *(place or ()))
        old, wanted = self.find(id), [self.find(each) for each in before]
        if id in before:
            assert refused(answer)[:2] == (400, "invalid_body")
        elif old is not None and old.active:
            if if_absent:
                assert (answer.status_code, answer.json()["created"]) == (200, False)
            else:
                assert refused(answer)[:2] == (409, "operation_exists")
        elif None in wanted:
            assert refused(answer)[:2] == (404, "operation_not_found")
        elif place in self.seen and place is not None and self.visible.get(place[0]) != place[1]:
            assert refused(answer)[:2] == (409, "message_hidden")
        else:
            assert (answer.status_code, answer.json()["created"]) == (200, True)
            if old is not None:
                self.remove(old)
            bound = [each for each in wanted if each is not None]
            self.model.append(Modelled(id, type, priority, most, place, bound))
            statuses = [each.status for each in bound]
            for status in ("cancelled", "failed"):
                if status in statuses:
                    self.model[-1].status = status
        self.agree()

    def remove(self, operation: Modelled) -> None:
        """Take it away; one that had ended cancels nothing more."""
        operation.removed = True
        if not operation.active:
            for each in self.model:
                each.before = [one for one in each.before if one is not operation]
        self.model.remove(operation)

    @rule(types=st.none() | st.lists(TYPES, min_size=1, max_size=2))
    def claim(self, types: list[str] | None) -> None:
        found = self.queue.claim(types=... if types is None else types)
        waiting = [
            each
            for each in self.model
            if each.claimable and (types is None or each.type in types) and not self.paused
        ]
        if not waiting:
            assert found is None
        else:
            first = min(waiting, key=lambda each: -each.priority)
            assert found["id"] == first.id
            first.move("in_progress")
            first.claim = found["claim"]
            first.attempts += 1
        self.agree()

    @rule(choice=CHOICES, status=STATUSES, token=st.sampled_from(["right", "none", "wrong"]))
    def update(self, choice: int, status: str, token: str) -> None:
        old = self.find(id := self.chosen(choice))
        right = old.claim if old is not None else None
        claim = {"right": right, "none": None, "wrong": "wrong"}[token]
        answer = self.queue.patch(id, status=status, claim=claim)
        if old is None:
            assert refused(answer)[:2] == (404, "operation_not_found")
        elif not old.active:
            assert refused(answer)[:2] == (409, "illegal_move")
        elif claim != old.claim:
            assert refused(answer)[:2] == (409, "stale_claim")
        elif status == "failed":
            old.fail()
        else:
            old.move(status)
        self.agree()

    @rule(choice=CHOICES, verb=st.sampled_from([*ENDS, "fail"]), holder=st.booleans())
    def end(self, choice: int, verb: str, holder: bool) -> None:
        old = self.find(id := self.chosen(choice))
        claim = old.claim if holder and old is not None else None
        answer = self.queue.end(id, verb, claim=claim)
        if old is None:
            assert refused(answer)[:2] == (404, "operation_not_found")
        elif not old.active:
            assert refused(answer)[:2] == (409, "illegal_move")
        elif old.claim != claim and verb != "cancel":
            assert refused(answer)[:2] == (409, "stale_claim")
        elif verb == "fail":
            old.fail()
        else:
            old.move(ENDS[verb])
        self.agree()

    @rule(choice=CHOICES)
    def retry(self, choice: int) -> None:
        failed = [each.id for each in self.model if each.status == "failed"]
        id = failed[choice % len(failed)] if failed and choice % 2 else self.chosen(choice)
        old = self.find(id)
        answer = self.queue.send("POST", id, "/retry")
        if old is None:
            assert refused(answer)[:2] == (404, "operation_not_found")
        elif old.status != "failed" or any(not each.active for each in old.before):
            assert refused(answer)[:2] == (409, "illegal_move")
        elif (
            old.place is not None
            and old.place in self.seen
            and self.visible.get(old.place[0]) != old.place[1]
        ):
            assert refused(answer)[:2] == (409, "message_hidden")
        else:
            old.move("pending")
            old.most = max(old.most, old.attempts + 1)
        self.agree()

    @rule(choice=CHOICES)
    def delete(self, choice: int) -> None:
        old = self.find(id := self.chosen(choice))
        answer = self.queue.send("DELETE", id)
        if old is None:
            assert refused(answer)[:2] == (404, "operation_not_found")
        else:
            assert answer.json() == {"success": True}
            self.remove(old)
        self.agree()

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        assert self.queue.pause("pause" if paused else "resume") == {"paused": paused}
        self.paused = paused
        self.agree()

    @rule(chain=st.lists(PLACES, max_size=2, unique_by=lambda place: place[0]))
    def reconcile(self, chain: list[tuple[str, str]]) -> None:
        self.chat.reconcile(*[{"messageId": message, "swipe": swipe} for message, swipe in chain])
        before, self.visible = self.visible, dict(chain)
        hidden = set(before.items()) - set(chain)
        shown = {message for message, swipe in chain if before.get(message) != swipe}
        self.seen |= set(chain)
        for each in self.model:
            if each.place is None or not each.active:
                continue
            if each.place in hidden or (each.place not in self.seen and each.place[0] in shown):
                each.move("cancelled")
        self.agree()

    @rule()
    def let_leases_end(self) -> None:
        # On PostgreSQL the clock of the database counts, which a test cannot set.
        if self.clock is not None:
            self.clock.pass_time(LONG)
            for each in self.model:
                if each.status == "in_progress" and each.claim is not None:
                    each.move("pending")
        self.agree()


def test_the_server_agrees_with_the_model_of_the_queue(
    shared_server: RunningServer, engine_name: str
) -> None:
    clock = shared_server.clock if engine_name == "sqlite" else None

    class Here(QueueComparison):
        def __init__(self) -> None:
            super().__init__(shared_server, clock)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=EXAMPLES[engine_name],
            stateful_step_count=100 if SOAK else 30,
            derandomize=not SOAK,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
