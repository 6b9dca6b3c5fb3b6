"""
The docs page: the content of API.md with a side list and a search.

The page is one file without outside resources. Its style and its script lie beside this module
(`page.css`, `page.js`), and its policy allows those two alone, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable
from functools import cache
from pathlib import Path

from valuetracker import __version__
from valuetracker.http.call import Document
from valuetracker.http.endpoint import Endpoint
from valuetracker.reference.markdown import (
    CONTENTS,
    LAST_SECTIONS,
    endpoint_markdown,
    error_classes,
    introduction,
    marks,
    record_markdown,
    record_schemas,
    slug,
    title,
)
from valuetracker.reference.openapi import Sections
from valuetracker.reference.prose import inline, to_html

FOLDER = Path(__file__).parent


def docs_document(sections: Sections) -> Callable[[], Document]:
    """Return a function that makes the page once, when it is first asked for."""

    @cache
    def make() -> Document:
        style, script = _file("page.css"), _file("page.js")
        page = docs_page(sections, style, script)
        return Document(page.encode(), "text/html; charset=utf-8", policy(style, script))

    return make


def policy(style: str, script: str) -> str:
    """Return a policy under which nothing but the page's own style and script has effect."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def docs_page(sections: Sections, style: str, script: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Value Tracker {__version__}: API</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<p class="name"><a href="#content">Value Tracker</a> <small>{__version__}</small></p>
<search>
<label for="search">Search routes</label>
<input id="search" type="search" placeholder="Search routes, fields, errors" autocomplete="off"
 spellcheck="false" aria-describedby="found" aria-keyshortcuts="/">
<p id="found" role="status"></p>
</search>
<details id="menu" open>
<summary>Contents</summary>
{_side_list(sections)}
</details>
</header>
<main id="content" tabindex="-1">
{_introduction()}
{"".join(_section(name, endpoints) for name, endpoints in sections.items())}
{_records(sections)}
{_errors()}
<p id="nothing" hidden>Nothing matches. Try a part of a path, a word or an error code.</p>
</main>
<script type="module">{script}</script>
</body>
</html>
"""


def _side_list(sections: Sections) -> str:
    groups = ['<li><a href="#ground-rules">Ground rules</a></li>']
    for name, endpoints in sections.items():
        routes = "".join(
            f'<li><a href="#{slug(title(each))}">{_methods(each)} {_path(each)}</a></li>'
            for each in endpoints
        )
        groups.append(
            f'<li><a class="group" href="#{slug(name)}">{html.escape(name)}</a>'
            f"<ul>{routes}</ul></li>"
        )
    groups += [f'<li><a href="#{slug(name)}">{name}</a></li>' for name in LAST_SECTIONS]
    return f'<nav aria-label="Routes"><ul>{"".join(groups)}</ul></nav>'


def _methods(endpoint: Endpoint) -> str:
    return " ".join(f'<b class="{each.lower()}">{each}</b>' for each in endpoint.methods)


def _path(endpoint: Endpoint) -> str:
    """Return the path, which may be broken before each slash."""
    return f"<code>{html.escape(endpoint.path).replace('/', '<wbr>/')}</code>"


def _introduction() -> str:
    # The side list takes the place of the contents.
    start, _, rules = introduction().replace("## Contents\n\n", "").partition(CONTENTS)
    rules = rules.partition("## Ground rules\n")[2]
    return (
        f'<section>{to_html(start)}</section><section id="ground-rules">'
        f"<h2>Ground rules</h2>{to_html(rules)}</section>"
    )


def _section(name: str, endpoints: list[Endpoint]) -> str:
    routes = "\n".join(_route(each) for each in endpoints)
    return f'<section id="{slug(name)}"><h2>{html.escape(name)}</h2>\n{routes}</section>'


def _route(endpoint: Endpoint) -> str:
    found = "".join(f" <small>{each}</small>" for each in marks(endpoint))
    heading = f"{_methods(endpoint)} {_path(endpoint)}{found}"
    return _article(
        slug(title(endpoint)),
        heading,
        endpoint_markdown(endpoint),
        _words_of(endpoint),
        "route",
    )


def _words_of(endpoint: Endpoint) -> list[str]:
    """Return the texts by which a route is found."""
    body = endpoint.body if isinstance(endpoint.body, tuple) else ()
    fields = [each.name for each in (*body, *endpoint.query)]
    codes = [each.code for each in endpoint.raises]
    described = [endpoint.summary, endpoint.description]
    return [*endpoint.methods, endpoint.path, *described, *fields, *codes]


def _article(anchor: str, heading: str, markdown: str, words: list[str], kind: str) -> str:
    found_by = html.escape(" ".join(words).lower())
    return (
        f'<article class="{kind}" id="{anchor}" data-words="{found_by}">'
        f'<h3>{heading} <a class="here" href="#{anchor}" aria-label="Link to this">#</a></h3>'
        f"{to_html(markdown)}</article>"
    )


def _records(sections: Sections) -> str:
    records = "\n".join(
        _article(
            slug(name),
            inline(name),
            record_markdown(schema),
            [name, *schema["properties"]],
            "record",
        )
        for name, schema in record_schemas(sections).items()
    )
    return f'<section id="records"><h2>Records</h2>{records}</section>'


def _errors() -> str:
    rows = "".join(
        f'<tr data-words="{each.status} {each.code}"><td>{each.status}</td>'
        f"<td><code>{each.code}</code></td><td>{inline((each.__doc__ or '').strip())}</td></tr>"
        for each in error_classes()
    )
    return (
        '<section id="errors"><h2>Errors</h2><table><thead><tr><th>Status</th><th>Code</th>'
        f"<th>Message</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )
