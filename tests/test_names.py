"""The rules for ids, keys and names."""

from __future__ import annotations

import pytest

from valuetracker.errors import InvalidExtensionId, InvalidId, InvalidKey, InvalidName
from valuetracker.names import (
    CHAT_ID_LENGTH,
    EXTENSION_ID_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    NAME_LENGTH,
    WINDOWS_DEVICES,
    check_extension_id,
    check_id,
    check_key,
    check_name,
)

# C0, DEL and C1, with the first and last of each range.
CONTROL = ["\x00", "\t", "\n", "\r", "\x1b", "\x1f", "\x7f", "\x80", "\x85", "\x9f"]
BLANKS = [" ", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000"]
ODD = [
    "/",
    "a b",
    "..",
    "%2F",
    "?#",
    "é",
    "e\u0301",
    "日本語",
    "🗡️",
    "\u200b",
    "\ufeff",
    "__proto__",
]


@pytest.mark.parametrize("text", ["a", "Z", "0", "-", "_", "A-b_9", "x" * EXTENSION_ID_LENGTH])
def test_a_valid_extension_id_is_returned(text: str) -> None:
    assert check_extension_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "a b", "a.b", "a/b", "é", "\u0660", "a\n", "x" * (EXTENSION_ID_LENGTH + 1), *CONTROL],
)
def test_an_extension_id_with_other_characters_is_refused(text: str) -> None:
    with pytest.raises(InvalidExtensionId):
        check_extension_id(text)


@pytest.mark.parametrize("text", sorted(each for each in WINDOWS_DEVICES if each.isalnum()))
def test_the_name_of_a_windows_device_is_refused_in_upper_and_lower_case(text: str) -> None:
    for spelling in (text, text.upper(), text.title()):
        with pytest.raises(InvalidExtensionId, match="device on Windows"):
            check_extension_id(spelling)


@pytest.mark.parametrize("text", ["com", "com10", "nul-", "auxiliary", "_con"])
def test_a_name_that_only_resembles_a_device_is_valid(text: str) -> None:
    assert check_extension_id(text) == text


@pytest.mark.parametrize("text", [*ODD, "Seraphina.png", "x" * ID_LENGTH, "🗡" * ID_LENGTH])
def test_a_valid_id_is_returned(text: str) -> None:
    assert check_id(text, "character") == text


@pytest.mark.parametrize("control", CONTROL)
def test_an_id_holds_no_control_character(control: str) -> None:
    with pytest.raises(InvalidId, match="The chat id holds a control character"):
        check_id(f"a{control}b", "chat")


@pytest.mark.parametrize("blank", BLANKS)
def test_an_id_has_no_blanks_around_it_but_may_have_some_inside(blank: str) -> None:
    for text in (blank, blank + "a", "a" + blank):
        with pytest.raises(InvalidId, match="begins or ends with a blank"):
            check_id(text, "instance")
    assert check_id(f"a{blank}b", "instance") == f"a{blank}b"


@pytest.mark.parametrize("letter", ["x", "é", "🗡"])
@pytest.mark.parametrize("length", [ID_LENGTH, CHAT_ID_LENGTH])
def test_the_length_of_an_id_is_counted_in_characters(letter: str, length: int) -> None:
    assert check_id(letter * length, "chat", length) == letter * length
    for text in ("", letter * (length + 1)):
        with pytest.raises(InvalidId, match=f"must have 1 to {length} characters"):
            check_id(text, "chat", length)


@pytest.mark.parametrize("text", [*ODD, *BLANKS, " a ", "x" * KEY_LENGTH, "🗡" * KEY_LENGTH])
def test_a_valid_key_is_returned(text: str) -> None:
    assert check_key(text) == text


@pytest.mark.parametrize("text", ["", "x" * (KEY_LENGTH + 1), *CONTROL, "a\x00b"])
def test_a_key_is_neither_empty_nor_too_long_nor_has_control_characters(text: str) -> None:
    with pytest.raises(InvalidKey):
        check_key(text)


@pytest.mark.parametrize("text", ["", " ", "a\nb", "x" * NAME_LENGTH, "🗡" * NAME_LENGTH])
def test_a_name_may_be_anything_that_is_not_too_long(text: str) -> None:
    assert check_name(text) == text


def test_a_name_may_not_be_too_long() -> None:
    with pytest.raises(InvalidName):
        check_name("x" * (NAME_LENGTH + 1))
