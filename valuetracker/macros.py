"""
The macro `{{vt::…}}`, as the SillyTavern extension resolves it.

`sillytavern/extension/values/paths.js`, `typed.js` and `tavern/macros.js` are the model: a template
must read the same here and there. Keys and names may contain dots: the longest existing name wins,
and the values without an owner's name come first. A name in other letters (HP for hp) means the
same value, unless there is one with exactly these letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from valuetracker.errors import InvalidBody, ValueTooLarge

TEMPLATE_LENGTH = 100_000
MACROS_PER_TEMPLATE = 1_000
# Macros may stand inside macros; those that are deeper stay as they are.
DEEPEST_MACRO = 16
# A longer path leads to no value.
PATH_LENGTH = 4_096
# The longest text that may come of a template.
RENDERED_LENGTH = 16 * 1024 * 1024

# Of three braces the last two begin a macro.
BRACES = re.compile(r"\{\{(?!\{)|\}\}")
SEPARATOR = re.compile("::")
NAME = re.compile(r"\s*vt\s*::", re.IGNORECASE)
# The first of two braces: a value must not bring macros with it.
BEGINS_MACRO = re.compile(r"\{(?=\{)")
INDEX = re.compile(r"(0|[1-9]\d{0,9})\Z")


@dataclass
class Owner:
    """Who owns values, and the names by which a path may begin; the first owner has none."""

    names: list[str]
    data: dict[str, Any]


class Absent:
    """Marks a missing value; None is a value."""


ABSENT = Absent()


@dataclass
class Rendering:
    """Resolves the macros of one template."""

    owners: list[Owner]
    # Paths without a value, in the order of the template.
    missing: dict[str, None] = field(default_factory=dict)
    _length: int = 0
    _macros: int = 0
    _found: dict[str, Any] = field(default_factory=dict)
    # The keys of an object in small letters; by its identity.
    _folded: dict[int, dict[str, str]] = field(default_factory=dict)

    def render(self, template: str) -> str:
        if len(template) > TEMPLATE_LENGTH:
            raise InvalidBody(f"A template may have {TEMPLATE_LENGTH} characters at the most.")
        return self._render(template, 0)

    def _render(self, text: str, depth: int) -> str:
        parts: list[str] = []
        end = 0
        for start, stop in _macros_in(text):
            inner = text[start + 2 : stop - 2]
            parts.append(text[end:start])
            parts.append(self._macro(inner, depth))
            end = stop
        parts.append(text[end:])
        return "".join(parts)

    def _macro(self, inner: str, depth: int) -> str:
        """Return what comes of the text between two pairs of braces."""
        named = NAME.match(inner)
        if depth >= DEEPEST_MACRO:
            return "{{" + inner + "}}"
        if named is None:
            # It is SillyTavern's, but there may be one of ours in it.
            return "{{" + self._render(inner, depth + 1) + "}}"
        self._macros += 1
        if self._macros > MACROS_PER_TEMPLATE:
            raise InvalidBody(f"A template may have {MACROS_PER_TEMPLATE} macros at the most.")
        arguments = _split(inner[named.end() :])
        path, *otherwise = [self._render(each, depth + 1).strip() for each in arguments]
        # The name of a value may contain `::`.
        whole = "::".join([path, *otherwise])
        value = self.look_up(whole)
        if value is ABSENT and otherwise:
            value = self.look_up(path)
        if value is ABSENT:
            self.missing[path] = None
            return self._counted("::".join(otherwise))
        return self._counted(BEGINS_MACRO.sub("{ ", as_text(value)))

    def _counted(self, text: str) -> str:
        self._length += len(text)
        if self._length > RENDERED_LENGTH:
            raise ValueTooLarge("The text that comes of the template is too long.")
        return text

    # Finding values

    def look_up(self, path: str) -> Any:
        """Return the value at a path, or ABSENT."""
        if path not in self._found:
            self._found[path] = self._look_up(path) if len(path) <= PATH_LENGTH else ABSENT
        return self._found[path]

    def _look_up(self, path: str) -> Any:
        readings = list(self._readings(path))
        for exact in (True, False):
            for owner, rest in readings:
                found = self._inside(owner.data, rest, exact, set())
                if found is not ABSENT:
                    return found
        return ABSENT

    def _readings(self, path: str) -> Iterator[tuple[Owner, str]]:
        """Return whose value a path may mean, and the path without the name."""
        for owner in self.owners:
            if not owner.names:
                yield owner, path
            for name in owner.names:
                length = len(name)
                begins = path[length : length + 1] == "." and path[:length].lower() == name.lower()
                if name and begins and len(path) > length + 1:
                    yield owner, path[length + 1 :]

    def _inside(self, container: Any, path: str, exact: bool, tried: set[tuple[int, int]]) -> Any:
        """Return the value at a path inside an object or a list; the longest key wins."""
        # The same rest of a path is looked for once in each object.
        mark = (id(container), len(path))
        if not isinstance(container, dict | list) or mark in tried:
            return ABSENT
        tried.add(mark)
        whole = self._field(container, path, exact)
        if whole is not ABSENT:
            return whole
        dot = path.rfind(".")
        while dot > 0:
            inner = self._field(container, path[:dot], exact)
            if inner is not ABSENT:
                found = self._inside(inner, path[dot + 1 :], exact, tried)
                if found is not ABSENT:
                    return found
            dot = path.rfind(".", 0, dot)
        return ABSENT

    def _field(self, container: dict[str, Any] | list[Any], key: str, exact: bool) -> Any:
        if isinstance(container, list):
            if INDEX.match(key) and int(key) < len(container):
                return container[int(key)]
            # As in JavaScript, a list knows its length.
            return len(container) if key == "length" else ABSENT
        if key in container:
            return container[key]
        if exact:
            return ABSENT
        folded = self._folded.get(id(container))
        if folded is None:
            folded = self._folded[id(container)] = {}
            for each in container:
                folded.setdefault(each.lower(), each)
        name = folded.get(key.lower())
        return ABSENT if name is None else container[name]


def _macros_in(text: str) -> Iterator[tuple[int, int]]:
    """Return where the outermost macros begin and end; one without an end is none."""
    begun: list[int] = []
    found: list[tuple[int, int]] = []
    for match in BRACES.finditer(text):
        if match[0] == "{{":
            begun.append(match.start())
        elif begun:
            start = begun.pop()
            # The macros inside it are looked for later.
            while found and found[-1][0] > start:
                found.pop()
            found.append((start, match.end()))
    return iter(found)


def _split(text: str) -> list[str]:
    """Split the arguments of a macro at each `::` that is not inside another macro."""
    parts: list[str] = []
    start = begin = end = 0
    inner = _macros_in(text)
    for match in SEPARATOR.finditer(text):
        while end <= match.start():
            begin, end = next(inner, (len(text), len(text) + 1))
        if match.start() < begin:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


# Values as text


def as_text(value: Any) -> str:
    """Return text unchanged, and everything else as JSON, written as JavaScript writes it."""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_json(key)}:{_json(value[key])}" for key in _ordered(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False)


def _ordered(value: dict[str, Any]) -> list[str]:
    """Return the keys of an object in the order of JavaScript: those that are numbers first."""
    numbers = [key for key in value if INDEX.match(key) and int(key) < 2**32 - 1]
    if not numbers:
        return list(value)
    return [*sorted(numbers, key=int), *(key for key in value if key not in set(numbers))]


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)), "f")
    return re.sub(r"e([+-])0*", r"e\1", repr(value)).replace(".0e", "e")
