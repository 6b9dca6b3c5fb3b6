"""
The rules for ids, keys and names.

Ids are compared byte for byte and never normalised, so these checks only refuse; they
never repair. Lengths count characters (code points), not bytes. Each `check_` function
returns its text or raises the error that says what is wrong.
"""

from __future__ import annotations

import re

from valuetracker.errors import (
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidName,
    InvalidUser,
)

EXTENSION_ID_LENGTH = 128
ID_LENGTH = 256
CHAT_ID_LENGTH = 512
KEY_LENGTH = 1024
NAME_LENGTH = 1024
HEADER_TEXT_LENGTH = 512
HASH_LENGTH = 512
# The number of messages a chain may have.
CHAIN_LENGTH = 100_000

EXTENSION_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{EXTENSION_ID_LENGTH}}}\Z")
# Handles of SillyTavern's users: lower-case letters, digits and hyphens.
USER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
# The user of a request that names none: the only user of a single-user SillyTavern, or
# the user of a server that runs on its own.
DEFAULT_USER = "default-user"
# C0, DEL and C1: a terminal, a log or a header would interpret them.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Windows opens the device instead of a file, whatever the suffix: `nul.db` is nul.
WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"com{digit}" for digit in range(10)]
    + [f"lpt{digit}" for digit in range(10)]
)


def check_extension_id(text: str) -> str:
    if not EXTENSION_ID.match(text):
        raise InvalidExtensionId()
    if text.lower() in WINDOWS_DEVICES:
        raise InvalidExtensionId(f"{text} is the name of a device on Windows.")
    return text


def check_user(text: str) -> str:
    if not USER.match(text) or text in WINDOWS_DEVICES:
        raise InvalidUser()
    return text


def check_id(text: str, noun: str, length: int = ID_LENGTH) -> str:
    if not 1 <= len(text) <= length:
        raise InvalidId(f"The {noun} id must have 1 to {length} characters.")
    if not text.isprintable() and CONTROL.search(text):
        raise InvalidId(f"The {noun} id holds a control character.")
    if text.strip() != text:
        raise InvalidId(f"The {noun} id begins or ends with a blank.")
    return text


def check_key(text: str) -> str:
    if not 1 <= len(text) <= KEY_LENGTH:
        raise InvalidKey(f"A key must have 1 to {KEY_LENGTH} characters.")
    # Nearly all keys are printable, which is quicker to see.
    if not text.isprintable() and CONTROL.search(text):
        raise InvalidKey("A key holds a control character.")
    return text


def check_printable(text: str) -> str:
    """Check a name that is shown on a terminal."""
    if not text or CONTROL.search(text):
        raise InvalidName("A name must have at least one character and no control characters.")
    return check_name(text)


def check_name(text: str) -> str:
    if len(text) > NAME_LENGTH:
        raise InvalidName()
    return text


# SillyTavern's file names cannot contain these; it removes them without an error.
NOT_IN_FILE_NAMES = re.compile(r'[/\\?<>:*|"\x00-\x1f\x7f-\x9f]')
FILE_NAME_BYTES = 200


def check_lorebook_name(text: str) -> str:
    """Check that a name means exactly one file in SillyTavern's `worlds` folder."""
    stem = text.partition(".")[0].rstrip(" ").lower()
    if (
        not 1 <= len(text.encode("utf-8", "surrogatepass")) <= FILE_NAME_BYTES
        or NOT_IN_FILE_NAMES.search(text)
        or text.startswith(".")
        or text.rstrip(". ") != text
        or text.strip() != text
        or stem in WINDOWS_DEVICES
    ):
        raise InvalidName(
            "The name of the lorebook is not valid.",
            hint=f"Use a file name of at most {FILE_NAME_BYTES} bytes, without the suffix.",
        )
    return text
