"""API.md, made from the route table, the records, the errors and the examples."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from valuetracker.errors import ValueTrackerError
from valuetracker.http.call import Document, Download, Stream
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint, Field
from valuetracker.reference.examples import example_text, examples_of
from valuetracker.reference.openapi import SCALARS, Sections, schema_of

# Its title, a place for the contents, and the ground rules.
INTRODUCTION = Path(__file__).with_name("introduction.md")
CONTENTS = "<!-- contents -->\n"
# The sections that follow those of the route table.
LAST_SECTIONS = ("Records", "Errors")


def api_markdown(sections: Sections) -> str:
    parts = [introduction().replace(CONTENTS, contents_markdown(sections))]
    for section, endpoints in sections.items():
        parts.append(f"## {section}\n")
        parts += [f"### {title(each)}\n\n{endpoint_markdown(each)}" for each in endpoints]
    parts.append(f"## Records\n\n{records_markdown(sections)}")
    parts.append(f"## Errors\n\n{errors_markdown()}")
    return "\n".join(parts)


def introduction() -> str:
    return INTRODUCTION.read_text(encoding="utf-8")


def contents_markdown(sections: Sections) -> str:
    """Return a list of all sections, with one line a route."""
    lines = ["- [Ground rules](#ground-rules)"]
    for section, endpoints in sections.items():
        lines.append(f"- [{section}](#{slug(section)})")
        lines += [
            f"  - [{' · '.join(each.methods)} `{each.path}`](#{slug(title(each))}): {each.summary}"
            for each in endpoints
        ]
    lines += [f"- [{section}](#{slug(section)})" for section in LAST_SECTIONS]
    return "\n".join(lines) + "\n"


def title(endpoint: Endpoint) -> str:
    """Return the heading of a route, with marks for what is special about it."""
    words = f"{' · '.join(endpoint.methods)} `{endpoint.path}`"
    return words + (f" *({', '.join(found)})*" if (found := marks(endpoint)) else "")


def marks(endpoint: Endpoint) -> list[str]:
    needs_header = endpoint.extension == "header"
    return ["no header"] * (not needs_header) + ["admin"] * (endpoint.access == "admin")


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def endpoint_markdown(endpoint: Endpoint) -> str:
    """Describe a route: everything below its heading."""
    lines = [endpoint.summary, ""]
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
    for example in examples_of(endpoint):
        lines += [f"Example: {example.title}", "", "```http", example_text(example), "```", ""]
    return "\n".join(lines)


def _field_markdown(each: Field) -> str:
    words = ["optional"] * (not each.required) + ["may be null"] * each.nullable
    kind = each.kind.schema.get("type", "any JSON")
    return f"- `{each.name}` ({', '.join([kind, *words])}): {each.description}"


def _type_name(kind: Any) -> str:
    if kind is None:
        return "without a body"
    if kind is NoneType:
        return "null"
    if kind is Document:
        return "with a document"
    if kind is Download:
        return "with a file"
    if kind is Stream:
        return "with a stream of events, each a [`FeedEvent`](#feedevent)"
    if get_origin(kind) is UnionType:
        return " or ".join(_type_name(member) for member in get_args(kind))
    if get_origin(kind) is list:
        (member,) = get_args(kind)
        of = f"{SCALARS[member]['type']}s" if member in SCALARS else _type_name(member)
        return f"with a list of {of.removeprefix('with ')}"
    if get_origin(kind) is dict:
        return "with an object of keys and values"
    return f"with [`{kind.__name__}`](#{kind.__name__.lower()})"


def records_markdown(sections: Sections) -> str:
    """Describe every record that a route answers with."""
    lines: list[str] = []
    for name, schema in record_schemas(sections).items():
        # One level lower than routes: every section of the third level has an example.
        lines += [f"#### {name}", "", record_markdown(schema)]
    return "\n".join(lines)


def record_schemas(sections: Sections) -> dict[str, Any]:
    """Return the schemas of all records, by name."""
    schemas: dict[str, Any] = {}
    for endpoints in sections.values():
        for endpoint in endpoints:
            for kind in (endpoint.returns, *endpoint.also.values()):
                if kind not in (None, Document, Download, Stream):
                    schema_of(kind, schemas)
    return dict(sorted(schemas.items()))


def record_markdown(schema: dict[str, Any]) -> str:
    lines = [schema["description"], ""]
    for field, each in schema["properties"].items():
        optional = "" if field in schema["required"] else ", may be absent"
        lines.append(f"- `{field}`: {_schema_text(each)}{optional}")
    return "\n".join([*lines, ""])


def _schema_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_schema_text(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_schema_text(schema['items'])}"
    return str(schema.get("type", "any JSON"))


def errors_markdown() -> str:
    lines = ["| status | code | what it says |", "|---|---|---|"]
    for each in error_classes():
        text = (each.__doc__ or "").strip().replace("|", "\\|")
        lines.append(f"| {each.status} | `{each.code}` | {text} |")
    return "\n".join(lines) + "\n"


def error_classes() -> list[type[ValueTrackerError]]:
    """Return every class a caller may meet: the leaves of the family, and `internal_error`."""

    def leaves(family: type[ValueTrackerError]) -> list[type[ValueTrackerError]]:
        children = family.__subclasses__()
        return [leaf for child in children for leaf in leaves(child)] if children else [family]

    return sorted([*leaves(ValueTrackerError), ValueTrackerError], key=lambda e: (e.status, e.code))
