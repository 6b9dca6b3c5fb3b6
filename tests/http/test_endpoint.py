"""A row of the route table says what is wrong with it as soon as it is made."""

from __future__ import annotations

from typing import Any

import pytest

from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.router import Router


async def find_spell(call: Call) -> Any:
    """
    Read a spell.

    With its cost.
    """


def test_a_path_parameter_without_a_kind_is_refused_with_the_place_to_add_it() -> None:
    with pytest.raises(TypeError, match=r"\{spell\} has no kind.*PATH_KINDS.*http/kinds\.py"):
        Endpoint(("GET",), "/spells/{spell}", find_spell, returns=None)


def test_two_rows_with_the_same_method_and_path_are_refused() -> None:
    row = Endpoint(("GET",), "/spells/{id}", find_spell, returns=None)
    same = Endpoint(("POST", "GET"), "/spells/{key}", find_spell, returns=None)

    with pytest.raises(TypeError, match=r"GET /spells/\{key\} is in the route table twice"):
        Router([row, same])


def test_the_docstring_of_the_handler_is_its_documentation() -> None:
    row = Endpoint(("GET",), "/spells", find_spell, returns=None)

    assert (row.summary, row.description) == ("Read a spell.", "With its cost.")
