"""Values read back as they were sent: types, order, numbers, depth and text."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.answers import make_instance, outcome, refusal, refused_as, values_of
from valuetracker.errors import InvalidBody, NumberOutOfRange, TooDeep


def set_text(client: httpx.Client, text: str) -> httpx.Response:
    """Set a value given as JSON text, so that no client library alters it."""
    return client.post(
        "/instances/sword/data",
        content=f'{{"key":"edge","value":{text}}}',
        headers={"content-type": "application/json"},
    )


# Canonical texts, which must read back unchanged.
EXACT = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "1.0",
    "0.0",
    "-0.0",
    "1.5",
    "0.1",
    '"5"',
    '"1.0"',
    '"null"',
    '"true"',
    '""',
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    '{"":""}',
    '[1,1.0,"1",true,null]',
    '{"b":1,"a":2}',
    '{"b":{"z":1,"a":2},"a":[{"d":1,"c":2}]}',
    '{"10":1,"9":2}',
    '{"__proto__":{"polluted":true},"constructor":null}',
    '{"key":"edge","value":1}',
    "9007199254740991",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "-9223372036854775807",
    "-9223372036854775808",
    "5e-324",
    '"18446744073709551616"',
    '"99999999999999999999999999"',
    r'"\u0000"',
    r'"\u0000\u001f"',
    r'"a\nb\t\"c\"\\"',
    '"/é e\u0301 日本語 🗡️ \u2028\u2029\ufeff\uffff"',
    '{"\\u0000":1,"\\n":2}',
]


@pytest.mark.parametrize("text", EXACT)
def test_a_value_comes_back_as_it_was_sent(client: httpx.Client, text: str) -> None:
    make_instance(client)

    answer = set_text(client, text)

    assert answer.status_code == 200
    assert answer.text == f'{{"success":true,"key":"edge","value":{text}}}'
    assert client.get("/instances/sword/data/edge").text == f'{{"edge":{text}}}'
    assert values_of(client) == f'{{"edge":{text}}}'


# Other ways of writing the same value.
BY_VALUE = [
    ("1e2", 100.0),
    ("1E+2", 100.0),
    ("1.50", 1.5),
    ("0.1e1", 1.0),
    ("1e-400", 0.0),
    ("123456789012345678901234567890.0", 1.2345678901234568e29),
    ("1e22", 1e22),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("0.12345678901234567890123456789", 0.12345678901234568),
    ("-0", 0),
    (r'"\u00e9\/\ud83d\udde1"', "é/🗡"),
    ("[ 1 ,\n2 ]", [1, 2]),
    ('{ "a" : 1 }', {"a": 1}),
    ('{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
]


@pytest.mark.parametrize(("text", "value"), BY_VALUE)
def test_another_spelling_of_a_value_reads_back_in_its_canonical_form(
    client: httpx.Client, text: str, value: Any
) -> None:
    make_instance(client)

    set_text(client, text)

    read = client.get("/instances/sword/data/edge").json()["edge"]
    assert typed(read) == typed(value)


@pytest.mark.parametrize(
    "text",
    [
        "18446744073709551616",
        "-9223372036854775809",
        "99999999999999999999",
        "1" + "0" * 400,
        "-1" + "0" * 5000,
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        "[[18446744073709551616]]",
        '{"a":{"b":-9223372036854775809}}',
    ],
)
def test_a_number_out_of_range_is_refused(client: httpx.Client, text: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    alone = set_text(client, text)
    merged = client.put("/instances/sword/data/merge", content=f'{{"a":1,"b":{text}}}')
    overridden = client.put("/instances/sword/data/override", content=f'{{"a":1,"b":{text}}}')

    assert outcome(alone) == refusal(NumberOutOfRange())
    assert outcome(merged) == refusal(NumberOutOfRange())
    assert outcome(overridden) == refusal(NumberOutOfRange())
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\udfff"', r'"\udc00\ud800"', r'{"\ud800":1}'])
def test_a_lone_surrogate_is_refused(client: httpx.Client, text: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = set_text(client, text)

    assert outcome(answer) == refused_as(answer, InvalidBody)
    assert values_of(client) == '{"edge":"keen"}'


def nested(depth: int, kind: str) -> str:
    if kind == "arrays":
        return "[" * depth + "]" * depth
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("depth", [127, 128])
def test_a_value_may_be_128_levels_deep(client: httpx.Client, kind: str, depth: int) -> None:
    make_instance(client)
    text = nested(depth, kind)

    alone = set_text(client, text)
    merged = client.put("/instances/sword/data/merge", content=f'{{"merged":{text}}}')

    assert (alone.status_code, merged.status_code) == (200, 200)
    assert values_of(client) == f'{{"edge":{text},"merged":{text}}}'


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("depth", [129, 130, 255, 256, 1000])
def test_a_value_may_not_be_deeper(client: httpx.Client, kind: str, depth: int) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    text = nested(depth, kind)

    alone = set_text(client, text)
    merged = client.put("/instances/sword/data/merge", content=f'{{"a":1,"b":{text}}}')

    assert outcome(alone) == refused_as(alone, TooDeep)
    assert outcome(merged) == refused_as(merged, TooDeep)
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize("depth", [1_023, 1_025, 100_000, 5_000_000])
@pytest.mark.parametrize("inside", ["", "18446744073709551615"])
def test_even_extreme_depth_is_refused_without_a_failure(
    client: httpx.Client, depth: int, inside: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = set_text(client, "[" * depth + inside + "]" * depth)

    assert answer.status_code == 400
    assert values_of(client) == '{"edge":"keen"}'


def typed(value: Any) -> Any:
    """Return a value with its types and the order of its keys, to compare those too."""
    if isinstance(value, dict):
        return ["object", [(key, typed(each)) for key, each in value.items()]]
    if isinstance(value, list):
        return ["array", [typed(each) for each in value]]
    return [type(value).__name__, repr(value)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=1024)
# The fixtures are the same for all examples; each example replaces the values before.
IN_ONE_INSTANCE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@IN_ONE_INSTANCE
@given(value=VALUES, ascii_only=st.booleans())
def test_any_value_that_is_accepted_reads_back_equal(
    client: httpx.Client, value: Any, ascii_only: bool
) -> None:
    make_instance(client)

    answer = set_text(client, json.dumps(value, ensure_ascii=ascii_only))

    assert answer.status_code == 200
    assert typed(json.loads(answer.text)["value"]) == typed(value)
    assert typed(json.loads(values_of(client))) == typed({"edge": value})


@IN_ONE_INSTANCE
@given(values=st.dictionaries(KEYS, VALUES, max_size=8))
def test_any_keys_that_are_accepted_read_back_in_their_order(
    client: httpx.Client, values: dict[str, Any]
) -> None:
    make_instance(client)
    client.delete("/instances/sword/data")

    answer = client.put("/instances/sword/data/override", content=json.dumps(values))

    assert answer.status_code == 200
    assert typed(json.loads(values_of(client))) == typed(values)
