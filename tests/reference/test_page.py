"""The docs page has what API.md has, and runs nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.http.endpoint import Endpoint
from valuetracker.reference.markdown import error_classes, slug, title
from valuetracker.reference.page import docs_document
from valuetracker.reference.prose import to_html

DOCUMENT = docs_document(SECTIONS)()
PAGE = DOCUMENT.body.decode()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_route_is_on_the_page_and_in_the_side_list(endpoint: Endpoint) -> None:
    anchor = slug(title(endpoint))

    assert PAGE.count(f'<article class="route" id="{anchor}"') == 1
    assert f'<li><a href="#{anchor}">' in PAGE


def test_every_error_is_on_the_page() -> None:
    assert all(f"<code>{each.code}</code>" in PAGE for each in error_classes())


def test_every_link_leads_to_an_id() -> None:
    ids = re.findall(r' id="([^"]+)"', PAGE)

    lost = set(re.findall(r' href="#([^"]+)"', PAGE)) - set(ids)
    assert not lost, (
        f"The docs page links to {sorted(lost)}, which it does not have. Probably `returns` of a "
        "row names a type that is no record: see `_type_name` in "
        "valuetracker/reference/markdown.py."
    )
    assert sorted(ids) == sorted(set(ids))


def test_the_page_has_no_outside_resources() -> None:
    outside = re.findall(r"""(?:src|href)=["'](?!#)[^\s>]+|@import|url\(""", PAGE)

    assert outside == []


@pytest.mark.parametrize("tag", ["style", "script"])
def test_the_policy_names_the_style_and_the_script(tag: str) -> None:
    (text,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert DOCUMENT.policy is not None
    assert f"{tag}-src 'sha256-{digest}';" in DOCUMENT.policy
    assert DOCUMENT.policy.startswith("default-src 'none'; ")


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("Two\nlines & <tags>.", "<p>Two\nlines &amp; &lt;tags&gt;.</p>"),
        ("`a*b` and **bold `x`** and *so*", "<p><code>a*b</code> and <strong>bold "
         "<code>x</code></strong> and <em>so</em></p>"),
        ("[`Chat`](#chat)", '<p><a href="#chat"><code>Chat</code></a></p>'),
        ("- one\n  more\n- two", "<ul><li>one\n  more</li><li>two</li></ul>"),
        ("# A\n\ntext", "<h1>A</h1>\n<p>text</p>"),
        ("text\n\n```http\nGET /\n\n<b>\n```", "<p>text</p>\n"
         "<pre><code>GET /\n\n&lt;b&gt;</code></pre>"),
    ],
)  # fmt: skip
def test_markdown_becomes_html(markdown: str, html: str) -> None:
    assert to_html(markdown) == html
