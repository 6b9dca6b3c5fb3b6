"""
The reference, made from the route table: API.md and the docs page.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable
from types import UnionType
from typing import Any, get_args, get_origin

from valuetracker import __version__
from valuetracker.errors import ValueTrackerError
from valuetracker.http.call import Document, Stream
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint, Field
from valuetracker.reference.openapi import Sections, schema_of
from valuetracker.settings import PREFIX

INTRODUCTION = f"""\
# API

All routes stand under `{PREFIX}`; `/healthz` and `/st/*` are at the root, too. JSON in, JSON out.
This page is made from the server's own route table (`valuetracker docs --write API.md`);
the same table is served as OpenAPI 3.1 at `{PREFIX}/openapi.json` and as a page at
`{PREFIX}/docs`.

## Ground rules

**Which extension.** The `x-extension-id` header names the extension whose database a
request is about. Routes marked *no header* do without it. In SillyTavern all extensions
share one page, so the header identifies an extension; it does not prove anything.

**Who may ask.** The server answers requests that name it by a loopback address or an allowed
host; a page may use it from its own origin, or from one that was allowed with
`--allow-origin` (CORS). Requests that another site's page made are refused, on every method.
Once there is a token (`valuetracker token create`), every route but those that say that the
server is there needs one, as `Authorization: Bearer <token>`: the extension's for its own
routes, one that may read others for reading, an admin's for `/register` and what is marked
*admin*. Inside SillyTavern the bridge says who asks; each user has extensions and data of
their own.

**Values** are any JSON, and what was sent is what is read: `"5"` stays a string, `null` is
not absent, `{{"b":1,"a":2}}` keeps its order, `__proto__` is a key like any other. Integers
from -2^63 to 2^64-1 are exact, other numbers are kept by value (as 64-bit floats). Larger
integers, `NaN`, lone surrogates, a byte order mark and trailing text are refused. Of a key
that stands twice in one object the last one counts.

**Ids** are compared byte for byte and never normalised. Extension ids are 1 to 128 of
`A-Z a-z 0-9 _ -`, unique regardless of case. Character and instance ids are 1 to 256
characters, chat ids 1 to 512, without control characters or blanks at either end. Keys are
1 to 1024 characters without control characters. In a path, encode each with
`encodeURIComponent`: `%2F` in an id or key is data, not a separator.

**Bodies** are one JSON document in UTF-8, uncompressed, with `Content-Type:
application/json` (or any `application/…+json`, or no content type at all). Fields nobody
knows are ignored. `GET /limits` lists how much a request may hold.

**Writes** are all or nothing, and answered only when they are on the disk: a `2xx` survives
a killed process and a power cut. Every write answers `x-revision`: the number of the state
it led to. Each request that changes something makes the next revision; one that changes
nothing (setting a name it already has) makes none. Setting a key is a change even if the
value is equal.

**Revisions.** One counter per extension, one number per request that changes something,
never reused. Reads answer an `ETag`, the revision at which what was read last changed (the
key, the instance with its values, the character with its instances, the chat with all that
it holds; of lists, the latest revision); with `If-None-Match` they answer `304` while that
has not moved. `?at=` reads the state at a revision or a time. Every change is
kept until `POST /compact` folds it.

**Writing headers.** Text in them is percent-encoded UTF-8, like a path segment.

- `If-Match: "42"` writes only if what the request addresses (the key for single-key writes,
  else the instance, the character or the chat) has not changed after revision 42; else `412
  revision_conflict` with `details {{expected, current}}`. Not on batches, `open` and
  `/compact`.
- `Idempotency-Key` makes it safe to send a request again: the same key and request get the
  first answer, with `idempotency-replayed: true` and no new revision; the same key with
  another request is `422 idempotency_mismatch`. A request is its method, path with query,
  content type, body, anchor and actor. Kept for a day at least. Refused requests are not
  remembered.
- `x-actor` says who makes the change: `extension`, or `user` for a person's edit.
- `x-message-id` and `x-swipe-id` (`0` if not said) anchor the change to a place in a chat:
  the one the instance is bound to, else the one `x-chat-id` names. With neither the anchor is
  recorded and has no effect.
- `x-session` is what `open` gave. Once it has ended, writes with it are `409 stale_session`;
  to what belongs to another chat, `409 chat_mismatch`. `x-chat-id` guards in the same way.
  What belongs to no chat takes writes from anywhere.

**Chats.** A chat comes into being with the first write to it, or when it is opened; reads of
an unknown one are empty. Its own data, its series and its processed ids are kept apart, and
instances can be bound to it. Its id is free text and may change: the old one goes on finding
it. An archived chat and its instances take no writes (`409 chat_archived`).

**Values that follow the story.** An anchored change counts while its message is visible with
that swipe. `POST /chats/:chat/reconcile` says what is visible. Changes elsewhere go dormant
and come back when their place does; the values are then what the changes make that are
left, in the order in which they were written: increments are counted again, a person's edit
without an anchor stays. Before the first reconcile the chain is the messages in the order in
which they were first written to. A write to a message nobody has seen puts it at the end; to
a swipe nobody has seen, makes that swipe the visible one; to a place that is hidden now, is
kept without effect and answered with `x-live: false`. All places a request names are seen
before any of it is applied, and only if it changes something. Of the keys that one reconcile
brings back, each stands behind those that were there.

**Times** are ISO 8601 in UTC with milliseconds. Order never depends on the clock: lists
are in the order in which things were created.

**Paths** may end with one slash. There are no redirects, except from `/` to the docs.
`HEAD` works wherever `GET` does.

**Errors** always have this shape; `error` is a sentence for people, `code` is for programs
and does not change:

```json
{{"error": "Instance not found", "code": "instance_not_found",
 "hint": "Create it first with `POST /instances`.", "details": {{}}}}
```

Checks are made in this order: the header, then path and body, then whether the extension is
registered, then `Idempotency-Key`, the session, the chat, then whether what is addressed
exists, `If-Match`, and last what is asked for.

A database that is damaged, missing or not the one it was answers `503 database_damaged`,
for its extension only. The file is left as it is. Put a good copy in its place and it is
found at the next request; or give it up with `DELETE /register` and `purge`.
"""

# API.md


def api_markdown(sections: Sections) -> str:
    parts = [INTRODUCTION]
    for section, endpoints in sections.items():
        parts.append(f"## {section}\n")
        parts += [_endpoint_markdown(endpoint) for endpoint in endpoints]
    parts.append(_records_markdown(sections))
    parts.append(_errors_markdown())
    return "\n".join(parts)


def _endpoint_markdown(endpoint: Endpoint) -> str:
    title = f"### {' · '.join(endpoint.methods)} `{endpoint.path}`"
    marks = ["no header"] * (endpoint.extension != "header") + ["admin"] * (
        endpoint.access == "admin"
    )
    lines = [title + (f" *({', '.join(marks)})*" if marks else ""), ""]
    lines += [endpoint.summary, ""]
    if endpoint.description:
        lines += [endpoint.description, ""]
    if isinstance(endpoint.body, AnyKeys):
        lines += [f"Body: an object. {endpoint.body.description}", ""]
    elif isinstance(endpoint.body, AnyDocument):
        lines += [f"Body: {endpoint.body.description}", ""]
    elif endpoint.body:
        lines += ["Body:", "", *(_field_markdown(each) for each in endpoint.body), ""]
    if endpoint.query:
        lines += ["Query:", "", *(_field_markdown(each) for each in endpoint.query), ""]
    answers = {endpoint.status: endpoint.returns, **endpoint.also}
    told = (f"`{status}` {_type_name(kind)}" for status, kind in answers.items())
    lines += [f"Answers {', or '.join(told)}.", ""]
    if endpoint.raises:
        refused = ", ".join(f"`{each.status} {each.code}`" for each in endpoint.raises)
        lines += [f"Refuses with {refused}.", ""]
    return "\n".join(lines)


def _field_markdown(each: Field) -> str:
    marks = ["optional"] * (not each.required) + ["may be null"] * each.nullable
    kind = each.kind.schema.get("type", "any JSON")
    return f"- `{each.name}` ({', '.join([kind, *marks])}): {each.description}"


def _type_name(kind: Any) -> str:
    if kind is None:
        return "without a body"
    if kind is Document:
        return "with a document"
    if kind is Stream:
        return "with a stream of events, each a [`FeedEvent`](#feedevent)"
    if get_origin(kind) is UnionType:
        return f"{_type_name(get_args(kind)[0])} or null"
    if get_origin(kind) is list:
        return f"with a list of {_type_name(get_args(kind)[0]).removeprefix('with ')}"
    if get_origin(kind) is dict:
        return "with an object of keys and values"
    return f"with [`{kind.__name__}`](#{kind.__name__.lower()})"


def _records_markdown(sections: Sections) -> str:
    schemas: dict[str, Any] = {}
    for endpoints in sections.values():
        for endpoint in endpoints:
            for kind in (endpoint.returns, *endpoint.also.values()):
                if kind not in (None, Document, Stream):
                    schema_of(kind, schemas)
    lines = ["## Records", ""]
    for name in sorted(schemas):
        schema = schemas[name]
        lines += [f"### {name}", "", schema["description"], ""]
        for field, each in schema["properties"].items():
            optional = "" if field in schema["required"] else ", may be absent"
            lines.append(f"- `{field}`: {_schema_text(each)}{optional}")
        lines.append("")
    return "\n".join(lines)


def _schema_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_schema_text(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_schema_text(schema['items'])}"
    return str(schema.get("type", "any JSON"))


def _errors_markdown() -> str:
    lines = ["## Errors", "", "| status | code | what it says |", "|---|---|---|"]
    for each in error_classes():
        text = (each.__doc__ or "").strip().replace("|", "\\|")
        lines.append(f"| {each.status} | `{each.code}` | {text} |")
    return "\n".join(lines) + "\n"


def error_classes() -> list[type[ValueTrackerError]]:
    """Every class a caller may meet: the leaves of the family, and `internal_error`."""

    def leaves(family: type[ValueTrackerError]) -> list[type[ValueTrackerError]]:
        children = family.__subclasses__()
        return [leaf for child in children for leaf in leaves(child)] if children else [family]

    return sorted([*leaves(ValueTrackerError), ValueTrackerError], key=lambda e: (e.status, e.code))


# The page


def docs_document(sections: Sections) -> Callable[[], Document]:
    def make() -> Document:
        return Document(docs_page(sections).encode(), "text/html; charset=utf-8", POLICY)

    return make


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{background:#8882;padding:.1em .3em;border-radius:3px}
pre{background:#8882;padding:1em;overflow:auto}
h3{margin-bottom:.2em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}a{color:#8cf}}
"""
# Its one style, named by its digest, and nothing else.
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


def docs_page(sections: Sections) -> str:
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>Value Tracker</title>",
        f"<style>{STYLE}</style><h1>Value Tracker {__version__}</h1>",
        f"<p>All routes stand under <code>{PREFIX}</code>. ",
        "<a href=openapi.json>OpenAPI 3.1</a></p>",
    ]
    for section, endpoints in sections.items():
        parts.append(f"<h2>{html.escape(section)}</h2>")
        parts += [_endpoint_html(endpoint) for endpoint in endpoints]
    return "\n".join(parts)


def _endpoint_html(endpoint: Endpoint) -> str:
    methods = " · ".join(endpoint.methods)
    parts = [f"<h3>{methods} <code>{html.escape(endpoint.path)}</code></h3>"]
    parts.append(f"<p>{_prose(endpoint.summary)}</p>")
    if endpoint.description:
        parts += [f"<p>{_prose(each)}</p>" for each in endpoint.description.split("\n\n")]
    body = endpoint.body if isinstance(endpoint.body, tuple) else ()
    fields = body + endpoint.query
    if fields:
        items = "".join(f"<li>{_prose(_field_markdown(each)[2:])}</li>" for each in fields)
        parts.append(f"<ul>{items}</ul>")
    if endpoint.raises:
        refused = ", ".join(f"<code>{each.status} {each.code}</code>" for each in endpoint.raises)
        parts.append(f"<p>Refuses with {refused}.</p>")
    return "".join(parts)


def _prose(text: str) -> str:
    """Escaped text in which what stands in backticks is code."""
    pieces = html.escape(text).split("`")
    return "".join(
        f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces)
    )
