"""Large documents: cut into pieces, they are what they are as a whole."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuetracker import large_json, values
from valuetracker.errors import (
    BodyTooLarge,
    InvalidBody,
    NumberOutOfRange,
    TooDeep,
    ValueTrackerError,
)
from valuetracker.integers import LARGEST_INTEGER, SMALLEST_INTEGER
from valuetracker.large_json import PIECE_BYTES, LargeDocument
from valuetracker.values import load_text

TEXT = st.text(st.sampled_from('ab,:[]{}"\\é\n 1'), max_size=5)
DOCUMENT: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, -7, 1.5, 10**18, LARGEST_INTEGER, SMALLEST_INTEGER])
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)
# Each is put into a text in place of one of its bytes.
CHANGES = st.sampled_from(
    [b"", b",", b"[", b"]", b"{", b"}", b'"', b":", b"\\", b" ", b"1", b"9" * 19, b"9" * 25]
)


def in_pieces(text: bytes, size: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "PIECE_BYTES", size)
        return LargeDocument(text).parse(values.load)


def write(document: Any, blanks: bytes, twice: bool) -> bytes:
    """Return a document as text, with blanks, and if so with members of objects twice."""
    if isinstance(document, list):
        return b"[" + (blanks + b",").join(write(each, blanks, twice) for each in document) + b"]"
    if isinstance(document, dict):
        members = [
            orjson.dumps(key) + blanks + b":" + write(each, blanks, twice)
            for key, each in document.items()
        ]
        members += members[:1] if twice else []
        return b"{" + (b"," + blanks).join(members) + blanks + b"}"
    return orjson.dumps(document)


@given(DOCUMENT, st.sampled_from([b"", b" ", b"\n\t "]), st.booleans(), st.integers(1, 30))
def test_a_document_in_pieces_is_the_whole_document(
    document: Any, blanks: bytes, twice: bool, size: int
) -> None:
    text = write(document, blanks, twice)

    assert orjson.dumps(in_pieces(text, size)) == orjson.dumps(orjson.loads(text))


@given(DOCUMENT, CHANGES, st.integers(0, 10_000), st.integers(0, 2), st.integers(1, 30))
def test_pieces_are_valid_exactly_if_the_whole_is(
    document: Any, change: bytes, place: int, removed: int, size: int
) -> None:
    text = write(document, b"", False)
    place %= len(text)
    text = text[:place] + change + text[place + removed :]

    try:
        expected = orjson.dumps(values.parse(text))
    except ValueTrackerError:
        expected = None
    try:
        found = orjson.dumps(in_pieces(text, size))
    except ValueTrackerError:
        found = None

    assert found == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"[1,2", InvalidBody),
        (b"[1,,2]", InvalidBody),
        (b"[1,]", InvalidBody),
        (b'{"a":1,}', InvalidBody),
        (b"[1,2},3]", InvalidBody),
        (b"[1],[2]", InvalidBody),
        (b'["a', InvalidBody),
        (b'["a\\"]', InvalidBody),
        (b"[[1,2],[3,4]]]", InvalidBody),
        (b"[1,1e999,2]", NumberOutOfRange),
        (b"[1,18446744073709551616]", NumberOutOfRange),
        (b"[1,-9223372036854775809,2]", NumberOutOfRange),
        (b"[0." + b"1" * 2_000 + b"]", NumberOutOfRange),
        (b"[" * 2_000 + b"]" * 2_000, TooDeep),
    ],
)
def test_refusals(text: bytes, error: type[ValueTrackerError]) -> None:
    with pytest.raises(error):
        in_pieces(text, 2)


def test_numbers_that_fit_and_digits_in_strings_are_accepted() -> None:
    text = b'[1e0000000000000000000001,18446744073709551615,"99999999999999999999999",0.5]'

    assert in_pieces(text, 5) == orjson.loads(text)


def test_parts_are_counted_outside_of_strings_only() -> None:
    many = b"a,{[:" * 2_000_000
    LargeDocument(b'{"value":"%b"}' % many)
    LargeDocument(b'{"value":"\\"%b"}' % many)

    with pytest.raises(BodyTooLarge):
        LargeDocument(b'{"value":[%b0]}' % (b'{"":0},' * 2_000_000))


@given(DOCUMENT, st.integers(1, 30))
def test_a_large_text_that_was_stored_is_parsed_in_pieces(document: Any, size: int) -> None:
    text = orjson.dumps([document, "a text", document]).decode()

    with pytest.MonkeyPatch.context() as patch:
        for module in (large_json, values):
            patch.setattr(module, "PIECE_BYTES", size)
        assert orjson.dumps(load_text(text)).decode() == text


@pytest.mark.parametrize("text", ["[" + "1," * PIECE_BYTES, "[" * 10 + " " * PIECE_BYTES, "1,2"])
def test_a_stored_text_that_is_no_json_is_an_error_of_the_parser(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        load_text(text)
