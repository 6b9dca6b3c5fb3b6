"""Values: parsed without loss, stored as canonical text."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuetracker.errors import InvalidBody, NumberOutOfRange, TooDeep, ValueTooLarge
from valuetracker.integers import LARGEST_INTEGER, SMALLEST_INTEGER
from valuetracker.values import VALUE_DEPTH, canonical, depth_exceeds, parse


def nested(depth: int) -> Any:
    value: Any = []
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("number", [SMALLEST_INTEGER, -1, 0, 10**18, 2**63, LARGEST_INTEGER])
@pytest.mark.parametrize("around", [b"%d", b"[%d]", b'{"a":{"b":[1,%d]}}', b'["%d",%d]'])
def test_integers_in_range_are_exact(number: int, around: bytes) -> None:
    body = around.replace(b"%d", str(number).encode())

    assert parse(body) == json.loads(body)


@pytest.mark.parametrize(
    "digits", [LARGEST_INTEGER + 1, SMALLEST_INTEGER - 1, 10**19 * 9, -(10**19), 10**400]
)
@pytest.mark.parametrize("around", [b"%d", b"[%d]", b'{"a":{"b":[1,%d]}}', b'["text",%d]'])
def test_integers_out_of_range_are_refused(digits: int, around: bytes) -> None:
    with pytest.raises(NumberOutOfRange):
        parse(around.replace(b"%d", str(digits).encode()))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'"99999999999999999999999"', "99999999999999999999999"),
        (b'{"99999999999999999999999":1}', {"99999999999999999999999": 1}),
        (b"99999999999999999999999.0", 1e23),
        (b"0.99999999999999999999999", 1.0),
        (b"1e22", 1e22),
        (b"12345678901234567890e-5", 123456789012345.67),
    ],
)
def test_long_digits_outside_integers_are_accepted(body: bytes, value: Any) -> None:
    assert parse(body) == value


@pytest.mark.parametrize("body", [b"1e400", b"-1e400", b"[1e309]"])
def test_a_number_beyond_every_float_is_refused(body: bytes) -> None:
    with pytest.raises(NumberOutOfRange):
        parse(body)


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b"[1] x", b"NaN", b"\xef\xbb\xbf1", b'"\xff"', b'"\\ud800"', b"01"]
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        parse(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000 + b"18446744073709551615" + b"]" * 1_000,
        b"[" * 1_000_000 + b"18446744073709551615" + b"]" * 1_000_000,
    ],
)
def test_a_very_deep_document_is_refused(body: bytes) -> None:
    with pytest.raises((InvalidBody, TooDeep)):
        canonical(parse(body))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, "5", None, True]}, '{"b":1,"a":[1.0,"5",null,true]}'),
        (-0.0, "-0.0"),
        ("é\u0000🗡", '"é\\u0000🗡"'),
        (LARGEST_INTEGER, "18446744073709551615"),
    ],
)
def test_a_value_is_stored_as_canonical_text(value: Any, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize(("largest", "fits"), [(6, False), (7, True), (8, True)])
def test_a_value_is_measured_by_the_bytes_of_its_text(largest: int, fits: bool) -> None:
    if fits:
        assert canonical(["éx"], largest) == '["éx"]'
    else:
        with pytest.raises(ValueTooLarge):
            canonical(["éx"], largest)


@pytest.mark.parametrize("depth", [1, 2, VALUE_DEPTH - 1, VALUE_DEPTH])
def test_a_value_may_be_as_deep_as_the_limit(depth: int) -> None:
    assert orjson.loads(canonical(nested(depth))) == nested(depth)


@pytest.mark.parametrize("depth", [VALUE_DEPTH + 1, 900])
def test_a_value_may_not_be_deeper_than_the_limit(depth: int) -> None:
    with pytest.raises(TooDeep):
        canonical(nested(depth))


@pytest.mark.parametrize(
    ("value", "depth"),
    [(1, 0), ("x", 0), ([], 1), ({}, 1), ([[], {}], 2), ({"a": 1, "b": [{"c": []}]}, 4)],
)
def test_depth_counts_the_containers(value: Any, depth: int) -> None:
    assert not depth_exceeds(value, depth)
    assert depth == 0 or depth_exceeds(value, depth - 1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_every_parsed_value_is_stored_and_read_without_loss(value: Any) -> None:
    body = json.dumps(value).encode()

    try:
        parsed = parse(body)
    except (InvalidBody, NumberOutOfRange):
        assert not can_be_kept(value)
    else:
        assert can_be_kept(value)
        assert repr(orjson.loads(canonical(parsed))) == repr(value)


def can_be_kept(value: Any) -> bool:
    if isinstance(value, dict):
        return all(can_be_kept(key) and can_be_kept(each) for key, each in value.items())
    if isinstance(value, list):
        return all(can_be_kept(each) for each in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return SMALLEST_INTEGER <= value <= LARGEST_INTEGER
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return True
