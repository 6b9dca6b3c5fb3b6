"""
Integers: which of them are stored, and how others are found in a text.

The parser silently makes a float of an integer beyond 64 bits. Such a value could not be returned
as it was sent, so it is refused.
"""

from __future__ import annotations

import re

from valuetracker.errors import NumberOutOfRange

SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**64 - 1
# Integers of up to 18 digits always fit. To translate all digits to `0` and search for a run of
# them is quicker than a regular expression.
DIGITS_AS_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
MANY_DIGITS = b"0" * 19
# No number needs as many.
TOO_MANY_DIGITS = b"0" * 1_000
LONG_INTEGER = re.compile(rb"(?<![\d.eE+-])-?\d{19,}+(?![.eE])")


def may_be_beyond(text: bytes) -> bool:
    """Return False if no number in a text has so many digits that it may not fit."""
    return MANY_DIGITS in text.translate(DIGITS_AS_ZERO)


def check_integers(text: bytes) -> None:
    """Refuse integers beyond 64 bits in a text that has no strings."""
    digits = text.translate(DIGITS_AS_ZERO)
    if MANY_DIGITS not in digits:
        return
    if TOO_MANY_DIGITS in digits:
        raise NumberOutOfRange("A number has too many digits.")
    for found in LONG_INTEGER.finditer(text):
        # int() refuses very long runs of digits; 21 characters are already too many.
        if len(found[0]) > 21 or not SMALLEST_INTEGER <= int(found[0]) <= LARGEST_INTEGER:
            raise NumberOutOfRange()
