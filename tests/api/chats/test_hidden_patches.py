"""JSON Patches at a hidden place: they need not fit the values there, and their tests count."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import JSON_PATCH, refused
from tests.support.chat import Values


def hide_a_place(values: Values) -> None:
    """Set hp to 50, to 45 at m1, and hide m1: it reads 50."""
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.chat.reconcile()


def patched(values: Values, operations: list[Any], message: str) -> httpx.Response:
    """Patch all values."""
    headers = {"content-type": JSON_PATCH}
    return values.send("PATCH", "/data", operations, message, **headers)


def patch(
    values: Values, key: str, operations: list[dict[str, Any]], message: str, batched: bool
) -> httpx.Response:
    """Patch one key, whose operations are given: in a batch, or by PATCH."""
    if batched:
        return values.run({"op": "patch", "key": key, "value": operations}, message=message)
    places = [
        {name: f"/{key}{text}" for name, text in each.items() if name in ("path", "from")}
        for each in operations
    ]
    named = [{**each, **place} for each, place in zip(operations, places, strict=True)]
    return patched(values, named, message)


@pytest.mark.parametrize(
    ("operation", "shown"),
    [
        ({"op": "replace", "path": "/bag/0", "value": "rope"}, {"bag": ["rope"]}),
        ({"op": "remove", "path": "/bag/1"}, None),
        ({"op": "add", "path": "/belt/buckle", "value": 1}, None),
        ({"op": "move", "from": "/bag/0", "path": "/top"}, {"bag": [], "top": "torch"}),
        ({"op": "move", "from": "/bag/0", "path": "/belt/knife"}, None),
        ({"op": "copy", "from": "/belt", "path": "/bag/-"}, None),
        ({"op": "move", "from": "/bag", "path": "/bag/0"}, None),
    ],
)
@pytest.mark.parametrize("batched", [True, False])
def test_a_patch_need_not_fit_the_values_at_a_hidden_place(
    values: Values, batched: bool, operation: dict[str, Any], shown: Any
) -> None:
    values.set("outfit", "rags")
    values.set("outfit", {"bag": ["torch"]}, "m1")
    values.set("hp", 45, "m2")
    values.chat.reconcile()

    answer = patch(values, "outfit", [operation], "m2", batched)

    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert values.data() == {"outfit": "rags"}
    found = values.chat.reconcile("m1", "m2")
    assert found["revived"] == 3
    assert len(found["conflicts"]) == (0 if shown else 1)
    assert values.data() == {"outfit": shown or {"bag": ["torch"]}, "hp": 45}


@pytest.mark.parametrize("batched", [True, False])
def test_a_test_of_a_patch_counts_at_a_hidden_place(values: Values, batched: bool) -> None:
    values.set("outfit", {"top": "rags"})
    values.set("outfit", {"top": "cape"}, "m1")
    values.chat.reconcile()
    replace = {"op": "replace", "path": "/top", "value": "coat"}
    unfit = {"op": "move", "from": "/top", "path": "/belt/knife"}

    def tested(top: str) -> httpx.Response:
        test = {"op": "test", "path": "/top", "value": top}
        return patch(values, "outfit", [unfit, test, replace], "m1", batched)

    refusal = tested("rags")
    assert refusal.status_code == 409
    assert refusal.json()["code"] == "test_failed"
    assert "x-live" not in refusal.headers
    revision = values.set("hp", 1)
    # The value that the patch will meet when its message is shown.
    answer = tested("cape")

    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert answer.headers["x-revision"] == str(revision + 1)


@pytest.mark.parametrize("batched", [True, False])
def test_a_test_of_an_absent_value_fails_at_a_hidden_place(values: Values, batched: bool) -> None:
    hide_a_place(values)
    test = {"op": "test", "path": "/top", "value": "cape"}

    answer = patch(values, "outfit", [test], "m1", batched)

    assert refused(answer)[:2] == (409, "test_failed")


def test_what_a_patch_takes_from_another_key_must_be_there(values: Values) -> None:
    values.set("outfit", {"top": "rags"})
    hide_a_place(values)
    unfit = [
        {"op": "copy", "from": "/bag/0", "path": "/outfit/top"},
        {"op": "move", "from": "/bag", "path": "/chest"},
        {"op": "copy", "from": "/outfit/belt", "path": "/outfit"},
    ]

    answers = [patched(values, [operation], "m1") for operation in unfit]

    assert [refused(each)[:2] for each in answers] == [(409, "patch_failed")] * 3
    # A key that the patch itself has removed will not be there when it is shown, either.
    removing = [
        {"op": "remove", "path": "/outfit"},
        {"op": "replace", "path": "/outfit", "value": 1},
    ]
    assert refused(patched(values, removing, "m1")) == (409, "patch_failed", {"index": 1})
    # It is there, and what it is put into is not: the key it comes from loses it all the same.
    answer = patched(values, [{"op": "move", "from": "/outfit", "path": "/bag/0"}], "m1")
    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert [each["key"] for each in values.chat.reconcile("m1")["conflicts"]] == ["bag"]
    assert values.data() == {"hp": 45}


def test_keys_as_a_whole_are_patched_at_a_hidden_place(values: Values) -> None:
    hide_a_place(values)
    operations = [
        {"op": "replace", "path": "/mp", "value": 7},
        {"op": "remove", "path": "/none"},
        {"op": "add", "path": "/xp", "value": {"level": 1}},
        {"op": "replace", "path": "/xp/level", "value": 2},
        {"op": "remove", "path": "/hp"},
    ]

    answer = patched(values, operations, "m1")

    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert values.data() == {"hp": 50}
    assert values.chat.reconcile("m1")["conflicts"] == []
    assert values.data() == {"mp": 7, "xp": {"level": 2}}


@pytest.mark.parametrize("batched", [True, False])
def test_a_malformed_patch_is_refused_at_a_hidden_place(values: Values, batched: bool) -> None:
    hide_a_place(values)

    answer = patch(values, "hp", [{"op": "replace", "path": "no pointer"}], "m1", batched)

    assert refused(answer)[:2] == (400, "invalid_patch")
