"""API.md is made from the route table, the records, the errors and the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.http.endpoint import Endpoint
from valuetracker.reference.markdown import (
    api_markdown,
    contents_markdown,
    error_classes,
    slug,
    title,
)
from valuetracker.settings import PREFIX

RUN = "API.md is not up to date: run `make docs`."
API_MD = Path(__file__).parent.parent.parent / "API.md"


@pytest.fixture(scope="module")
def text() -> str:
    return API_MD.read_text(encoding="utf-8")


def test_api_md_is_up_to_date(text: str) -> None:
    assert text == api_markdown(SECTIONS), RUN


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_route_has_a_section_and_a_line_in_the_contents(
    endpoint: Endpoint, text: str
) -> None:
    methods = " · ".join(endpoint.methods)

    assert f"### {methods} `{endpoint.path}`" in text, RUN
    assert f"  - [{methods} `{endpoint.path}`](#{slug(title(endpoint))})" in text, RUN


def test_every_section_of_a_route_has_an_example(text: str) -> None:
    sections = re.split(r"^(?=#{2,3} )", text, flags=re.MULTILINE)

    without = [
        each.splitlines()[0]
        for each in sections
        if each.startswith("### ") and "\nExample: " not in each
    ]

    assert without == [], (
        f"No example: {', '.join(without)}. Add a step with a title to "
        "tests/support/walk/story.py or chat_story.py, then run `make docs`."
    )


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.code)
def test_every_code_is_in_api_md(kind: Any, text: str) -> None:
    row = rf"^\| {kind.status} \| `{kind.code}` \| .+ \|$"

    assert re.search(row, text, re.MULTILINE), RUN


def test_every_link_leads_to_a_heading(text: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    anchors = [slug(each) for each in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)]

    links = set(re.findall(r"\]\(#([^)]+)\)", prose))

    assert links <= set(anchors)
    # GitHub numbers headings of the same words, and links to them would go wrong.
    assert sorted(anchors) == sorted(set(anchors))


def test_the_introduction_is_filled_in(text: str) -> None:
    assert f"All routes begin with `{PREFIX}`." in text, RUN
    assert contents_markdown(SECTIONS) in text, RUN
    assert "<!--" not in text


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Ground rules", "ground-rules"),
        ("POST `/register` *(no header)*", "post-register-no-header"),
        ("POST · PUT `/chats/{chat}/data`", "post--put-chatschatdata"),
        ("GET `/openapi.json` *(no header)*", "get-openapijson-no-header"),
        ("POST `/cross-extension/x_y`", "post-cross-extensionx_y"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
