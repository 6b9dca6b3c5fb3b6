"""
The model of characters, instances and values that the server is compared with.

`Model` is an extension in plain Python: dictionaries that keep the order of their keys, and a copy
of everything for every revision.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.support.answers import character, instance, refused, same
from valuetracker.store.tx import leaving_out


def merged(current: Any, patch: Any) -> Any:
    """Apply a merge patch, as the pseudo-code of RFC 7396 does."""
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def is_member(one: Any, scalar: Any) -> bool:
    """True if two items of a list are the same; numbers compare by value, but `true` is not 1."""
    return isinstance(one, bool) == isinstance(scalar, bool) and bool(one == scalar)


def operate(values: dict[str, Any], key: str, op: str, operand: Any) -> dict[str, Any]:
    """Do one batch operation to values, and return its result; raise `TypeError` on a conflict."""
    if op == "clear":
        count = len(values)
        values.clear()
        return {"removedCount": count}
    if op == "remove":
        return {"removed": values.pop(key, ...) is not ...}
    if op == "set":
        values[key] = operand
        return {"value": operand}
    if op == "patch":
        values[key] = _patched(values.get(key), operand)
        return {"value": values[key]}
    kinds: dict[str, Any] = {"merge": {}, "increment": 0}
    current = values.get(key, kinds.get(op, []))
    wanted: Any = {"merge": dict, "increment": (int, float)}.get(op, list)
    if not isinstance(current, wanted) or isinstance(current, bool):
        raise TypeError(f"{op} of {current!r}")
    if op == "merge":
        values[key] = merged(current, operand)
    elif op == "increment":
        values[key] = current + operand
    elif op == "append":
        values[key] = [*current, operand]
    elif op == "pull":
        values[key] = [each for each in current if not is_member(each, operand)]
    else:
        added = not any(is_member(each, operand) for each in current)
        values[key] = [*current, operand] if added else current
        return {"added": added}
    return {"value": values[key]}


def _patched(current: Any, operand: Any) -> Any:
    """Return a value after a patch that adds one member; raise `TypeError` if it does not fit."""
    [addition] = operand
    member = addition["path"].removeprefix("/")
    if isinstance(current, dict):
        return {**current, member: addition["value"]}
    if isinstance(current, list) and member == "-":
        return [*current, addition["value"]]
    raise TypeError(f"patch of {current!r}")


@dataclass
class InstanceState:
    character_id: str
    name: str | None = None
    chat_id: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """The state of an extension at one revision, everything in the order of its creation."""

    characters: dict[str, str | None] = field(default_factory=dict)
    instances: dict[str, InstanceState] = field(default_factory=dict)

    def instances_of(self, character_id: str) -> list[str]:
        return [id for id, each in self.instances.items() if each.character_id == character_id]

    def record(self, id: str) -> dict[str, Any]:
        each = self.instances[id]
        return instance(id, each.character_id, each.name, each.chat_id)

    def full_instance(self, id: str) -> dict[str, Any]:
        return {"instance": self.record(id), "data": self.instances[id].values}

    def full_character(self, id: str) -> dict[str, Any]:
        return {
            "character": character(id, self.characters[id]),
            "instances": [self.full_instance(each) for each in self.instances_of(id)],
        }


class Model:
    """An extension: its present, its past, and when each thing last changed."""

    def __init__(self) -> None:
        self.revision = 0
        self.oldest = 0
        self.now = State()
        self.past: dict[int, State] = {0: State()}
        # The revisions that `If-Match` is compared with, also of deleted things.
        self.changed: dict[tuple[str, ...], int] = {}

    def commit(self, *touched: tuple[str, ...]) -> None:
        """Make a revision of the present state, if anything was touched."""
        if touched:
            self.revision += 1
            self.past[self.revision] = copy.deepcopy(self.now)
            for each in touched:
                self.changed[each] = self.revision

    def touches(self, id: str, *keys: str) -> list[tuple[str, ...]]:
        return [("instance", id), *(("data", id, key) for key in keys)] if keys else []

    def etag_of_instance(self, id: str) -> int:
        return self.changed.get(("instance", id), 0)

    def etag_of_character(self, id: str) -> int:
        own = self.changed.get(("character", id), 0)
        return max([own, *(self.etag_of_instance(each) for each in self.now.instances_of(id))])

    def put_character(self, id: str, name: str | None) -> None:
        if id not in self.now.characters or (name and name != self.now.characters[id]):
            self.now.characters[id] = name or self.now.characters.get(id)
            self.commit(("character", id))

    def put_instance(self, id: str, character_id: str, name: str | None, **chat: Any) -> None:
        touched: list[tuple[str, ...]] = []
        if character_id not in self.now.characters:
            self.now.characters[character_id] = None
            touched.append(("character", character_id))
        old = self.now.instances.get(id)
        new = copy.deepcopy(old) if old is not None else InstanceState(character_id)
        new.character_id = character_id
        new.name = name or new.name
        new.chat_id = chat.get("chatId", new.chat_id)
        if new != old:
            touched += self._put(id, new)
        self.commit(*touched)

    def _put(self, id: str, new: InstanceState) -> list[tuple[str, ...]]:
        old = self.now.instances.get(id)
        self.now.instances[id] = new
        homes = {new.character_id, old.character_id if old is not None else new.character_id}
        return [("instance", id), *(("character", each) for each in homes)]

    def delete_instances(self, *ids: str) -> None:
        self.commit(*(each for id in ids for each in self._drop(id)))

    def delete_character(self, id: str) -> None:
        touched = [each for one in self.now.instances_of(id) for each in self._drop(one)]
        del self.now.characters[id]
        self.commit(("character", id), *touched)

    def _drop(self, id: str) -> list[tuple[str, ...]]:
        old = self.now.instances.pop(id)
        keys = [("data", id, key) for key in old.values]
        return [("instance", id), ("character", old.character_id), *keys]

    def set_values(self, id: str, values: dict[str, Any], removed: list[str]) -> int:
        """Remove some keys and set others; return how many were removed."""
        present = self.now.instances[id].values
        found = [key for key in dict.fromkeys(removed) if key in present]
        for key in found:
            del present[key]
        present.update(values)
        self.commit(*self.touches(id, *found, *values))
        return len(found)

    def merge_patch(self, id: str, patch: dict[str, Any]) -> None:
        present = self.now.instances[id].values
        touched = [key for key, value in patch.items() if value is not None or key in present]
        self.now.instances[id].values = merged(present, patch)
        self.commit(*self.touches(id, *touched))

    def restore(self, revision: int, ids: list[str], character_id: str = "") -> tuple[int, int]:
        """Restore instances, or a character with its instances; return (changed, warnings)."""
        then = self.past[revision]
        touched: list[tuple[str, ...]] = []
        changed = warnings = 0
        if character_id:
            if self.now.characters.get(character_id, ...) != then.characters[character_id]:
                self.now.characters[character_id] = then.characters[character_id]
                touched.append(("character", character_id))
            ids = then.instances_of(character_id)
            for id in self.now.instances_of(character_id):
                if id in ids:
                    continue
                if id in then.instances:
                    warnings += self._return_home(id, then, touched)
                else:
                    changed += len(self.now.instances[id].values)
                    touched += self._drop(id)
        for id in ids:
            warnings += self._return_home(id, then, touched)
            changed += self._restore_values(id, revision, touched)
        self.commit(*touched)
        return changed, warnings

    def _return_home(self, id: str, then: State, touched: list[tuple[str, ...]]) -> int:
        former, present = then.instances[id], self.now.instances.get(id)
        home = former.character_id
        if home not in self.now.characters:
            self.now.characters[home] = then.characters[home]
            touched.append(("character", home))
        stays = present is not None and present.chat_id != former.chat_id
        chat_id = present.chat_id if present is not None else former.chat_id
        values = present.values if present is not None else {}
        new = InstanceState(home, former.name, chat_id, values)
        if new != present:
            touched += self._put(id, new)
        return int(stays)

    def _restore_values(self, id: str, revision: int, touched: list[tuple[str, ...]]) -> int:
        then, present = self.past[revision].instances[id].values, self.now.instances[id].values
        changed = 0
        # Every key that was changed since, also those that were removed again.
        known = [name[2] for name in self.changed if name[:2] == ("data", id)]
        for key in [key for key in known if key not in then]:
            if self.changed["data", id, key] > revision:
                changed += key in present
                present.pop(key, None)
                touched += self.touches(id, key)
        for key, value in then.items():
            if self.changed.get(("data", id, key), 0) > revision:
                changed += key not in present or not same(present[key], value)
                present[key] = copy.deepcopy(value)
                touched += self.touches(id, key)
        return changed

    def compact(self, keep: int) -> None:
        self.oldest = max(self.oldest, self.revision - keep)


def assert_conflict(answer: httpx.Response, index: int, op: str) -> None:
    """Check that a batch was refused because this operation does not fit the value."""
    status, code, details = refused(answer)
    assert (status, details) == (409, {"index": index})
    assert code == "type_conflict" or (op, code) == ("patch", "patch_failed")


def leave_values_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the log leave out small values, too, and hold each again soon."""
    monkeypatch.setattr(leaving_out, "LARGE_CHARACTERS", 0)
    monkeypatch.setattr(leaving_out, "OPERAND_SHARE", 0)
    monkeypatch.setattr(leaving_out, "LONGEST_WITHOUT_WHOLE", 3)
