"""
Markdown to HTML, as far as the reference uses it.

Blocks are headings, paragraphs, lists without nesting, and fences. In a line there are
code, bold, emphasis and links. Everything else is text, and all text is escaped.
"""

from __future__ import annotations

import html
import re

# Code comes first: a star or a bracket inside it is text.
INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>.+?)\*\*"
    r"|\*(?P<em>[^*]+)\*"
    r"|\[(?P<text>[^\]]+)\]\((?P<link>[^)\s]+)\)",
    re.DOTALL,
)
FENCE = re.compile(r"^```\w*\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"(#{1,6}) (.+)")


def to_html(markdown: str) -> str:
    """Return the HTML of a text that may have several blocks."""
    parts: list[str] = []
    # Splitting by a pattern with one group gives texts and fences in turn.
    for index, piece in enumerate(FENCE.split(markdown)):
        if index % 2:
            parts.append(f"<pre><code>{html.escape(piece, quote=False)}</code></pre>")
        else:
            parts += [_block(each) for each in re.split(r"\n{2,}", piece.strip("\n")) if each]
    return "\n".join(parts)


def _block(text: str) -> str:
    if heading := HEADING.fullmatch(text):
        level = len(heading[1])
        return f"<h{level}>{inline(heading[2])}</h{level}>"
    if text.startswith("- "):
        items = re.split(r"\n(?=- )", text)
        return f"<ul>{''.join(f'<li>{inline(each[2:])}</li>' for each in items)}</ul>"
    return f"<p>{inline(text)}</p>"


def inline(text: str) -> str:
    """Return the HTML of a text within a block."""
    parts: list[str] = []
    end = 0
    for found in INLINE.finditer(text):
        parts.append(html.escape(text[end : found.start()], quote=False))
        parts.append(_span(found))
        end = found.end()
    return "".join([*parts, html.escape(text[end:], quote=False)])


def _span(found: re.Match[str]) -> str:
    if code := found["code"]:
        return f"<code>{html.escape(code, quote=False)}</code>"
    for tag in ("strong", "em"):
        if found[tag]:
            return f"<{tag}>{inline(found[tag])}</{tag}>"
    return f'<a href="{html.escape(found["link"])}">{inline(found["text"])}</a>'
