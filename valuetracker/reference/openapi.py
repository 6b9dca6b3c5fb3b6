"""
OpenAPI 3.1, made from the route table, the types of the records and the examples.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import orjson

from valuetracker import __version__, errors
from valuetracker.api import data
from valuetracker.errors import ValueTrackerError
from valuetracker.http.call import Document, Download, Stream
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint, Field
from valuetracker.http.kinds import PATH_KINDS
from valuetracker.records import Error
from valuetracker.reference.examples import Example, examples_of
from valuetracker.settings import PREFIX

Sections = dict[str, list[Endpoint]]

# The handlers that serve the values of instances and of chats.
VALUE_HANDLERS = {endpoint.handler for endpoint in data.ENDPOINTS}

# The media types of documents that are not JSON.
DOCUMENTS = {"/docs": "text/html", "/metrics": "text/plain"}

# Headers that every writing request may have.
WRITE_HEADERS = {
    "if-match": 'Write only if the addressed thing has not changed after this revision: `"42"`.',
    "idempotency-key": "A key that makes it safe to send the request again.",
    "prefer": "`return=representation`: a patch or batch answers the values as they are after it.",
    "x-actor": "Who makes the change: `extension` (the default), or `user` for a person.",
    "x-chat-id": "The chat of the caller; writes to something of another chat are refused.",
    "x-session": "The session that `open` answered; refused after its end, or for another chat.",
    "x-message-id": "The message that the change is anchored to.",
    "x-swipe-id": "The swipe of that message; defaults to `0`.",
}

# Errors that every route may answer.
COMMON: tuple[type[ValueTrackerError], ...] = (
    errors.MalformedRequest,
    errors.InvalidHost,
    errors.InvalidHeader,
    errors.InvalidUser,
    errors.InvalidPath,
    errors.TokenInvalid,
    errors.HostNotAllowed,
    errors.OriginNotAllowed,
    errors.CrossSite,
    errors.RouteNotFound,
    errors.MethodNotAllowed,
    errors.RequestTimeout,
    errors.BodyTooLarge,
    errors.ExpectationFailed,
    errors.RateLimited,
    errors.HeadersTooLarge,
    errors.TooManyConnections,
)
# Errors of the gate, by the access that a route needs.
GUARDED: dict[str, tuple[type[ValueTrackerError], ...]] = {
    "public": (),
    "extension": (errors.TokenRequired, errors.ScopeMissing),
    "registration": (errors.TokenRequired, errors.AdminRequired),
    "own": (errors.TokenRequired, errors.AdminRequired),
    "admin": (errors.TokenRequired, errors.AdminRequired),
}
WITH_BODY: tuple[type[ValueTrackerError], ...] = (errors.UnsupportedMediaType,)
WITH_HEADER: tuple[type[ValueTrackerError], ...] = (
    errors.ExtensionIdRequired,
    errors.InvalidExtensionId,
    errors.ExtensionNotRegistered,
)
WRITING: tuple[type[ValueTrackerError], ...] = (
    errors.InvalidHeader,
    errors.StaleSession,
    errors.ChatMismatch,
    errors.ChatArchived,
    errors.IdempotencyMismatch,
)
WITH_DATABASE: tuple[type[ValueTrackerError], ...] = (
    errors.DatabaseDamaged,
    errors.DatabaseTooNew,
    errors.DatabaseTooOld,
    errors.DatabaseUnavailable,
)


def refusals(endpoint: Endpoint) -> list[type[ValueTrackerError]]:
    """Return all errors that an endpoint may answer, by status, its own first."""
    found = [*endpoint.raises]
    if endpoint.extension in ("header", "either"):
        found += WITH_HEADER
    if endpoint.writes:
        found += WRITING
    if endpoint.extension != "none" or "extension" in endpoint.path or "register" in endpoint.path:
        found += WITH_DATABASE
        if endpoint.methods != ("GET",):
            found.append(errors.StorageFull)
            if endpoint.grows:
                found.append(errors.QuotaExceeded)
    if endpoint.body:
        found += WITH_BODY
    found += GUARDED[endpoint.access]
    found += COMMON
    return sorted(dict.fromkeys(found), key=lambda each: each.status)


def openapi_document(sections: Sections) -> Callable[[], Document]:
    """Return a function that makes the description once, when it is first asked for."""

    @cache
    def make() -> Document:
        return Document(orjson.dumps(openapi(sections)), "application/json")

    return make


def openapi(sections: Sections) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    schema_of(Error, schemas)
    paths: dict[str, Any] = {}
    for section, endpoints in sections.items():
        for endpoint in endpoints:
            for method in endpoint.methods:
                for path in [PREFIX + endpoint.path] + [endpoint.path] * endpoint.at_root:
                    item = paths.setdefault(path, {})
                    item[method.lower()] = _operation(section, endpoint, method, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Value Tracker",
            "version": __version__,
            "description": "Keeps the state of SillyTavern extensions.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(
    section: str, endpoint: Endpoint, method: str, path: str, schemas: dict[str, Any]
) -> dict[str, Any]:
    name = endpoint.handler.__name__
    if "/{chat}" in endpoint.path and endpoint.handler in VALUE_HANDLERS:
        name = f"chat_{name}"
    if endpoint.extension == "path":
        name = f"cross_extension_{name}"
    if len(endpoint.methods) > 1:
        name = f"{name}_{method.lower()}"
    if endpoint.at_root and not path.startswith(PREFIX):
        name = f"root_{name}"
    operation: dict[str, Any] = {
        "operationId": name,
        "tags": [section],
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.body:
        operation["requestBody"] = {
            "required": True,
            "content": body_content(endpoint.body),
        }
    for number, example in enumerate(examples_of(endpoint), start=1):
        if example.method == method:
            _add_example(operation, f"example_{number}", example)
    return operation


def _add_example(operation: dict[str, Any], name: str, example: Example) -> None:
    """Put an example beside the schemas of the request and of the answer."""
    request, answer = example.request, example.answer
    media_type = request.headers.get("content-type", "application/json")
    if request.body is not None:
        content = operation["requestBody"]["content"][media_type]
        content.setdefault("examples", {})[name] = {
            "summary": example.title,
            "value": request.body,
        }
    # A shortened answer would not be what its schema says.
    content = operation["responses"][str(example.status)].get("content", {})
    if "application/json" in content and not example.shortened:
        content["application/json"].setdefault("examples", {})[name] = {
            "summary": example.title,
            "value": answer.body,
        }


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if endpoint.extension in ("header", "optional"):
        parameters.append(
            {
                "name": "x-extension-id",
                "in": "header",
                "required": endpoint.extension == "header",
                "description": "The extension whose database the request uses.",
                "schema": PATH_KINDS["extension"].schema,
            }
        )
    if endpoint.writes:
        parameters += [
            {
                "name": name,
                "in": "header",
                "required": False,
                "description": description,
                "schema": {"type": "string"},
            }
            for name, description in WRITE_HEADERS.items()
            if name != "if-match" or endpoint.conditional
        ]
    for name in path_parameters(endpoint):
        parameters.append(
            {"name": name, "in": "path", "required": True, "schema": PATH_KINDS[name].schema}
        )
    for each in endpoint.query:
        parameters.append(
            {
                "name": each.name,
                "in": "query",
                "required": each.required,
                "description": each.description,
                "schema": each.kind.schema,
            }
        )
    return parameters


def path_parameters(endpoint: Endpoint) -> list[str]:
    return [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status != 204:
        if endpoint.returns is Stream:
            success["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        elif endpoint.returns is Download:
            success["content"] = {
                name: {"schema": {}}
                for name in ("application/x-ndjson", "text/csv", "application/json")
            }
        elif endpoint.returns is Document:
            media_type = DOCUMENTS.get(endpoint.path, "application/json")
            success["content"] = {media_type: {"schema": {}}}
        else:
            schema = schema_of(endpoint.returns, schemas)
            success["content"] = {"application/json": {"schema": schema}}
    responses: dict[str, Any] = {str(endpoint.status): success}
    for status, kind in endpoint.also.items():
        responses[str(status)] = {"description": endpoint.summary}
        if kind is not None:
            schema = schema_of(kind, schemas)
            responses[str(status)]["content"] = {"application/json": {"schema": schema}}
    if endpoint.methods == ("GET",) and endpoint.extension in ("header", "path"):
        responses["304"] = {
            "description": "Nothing has changed since the revision that `If-None-Match` names."
        }
    by_status: dict[int, list[type[ValueTrackerError]]] = {}
    for each in refusals(endpoint):
        by_status.setdefault(each.status, []).append(each)
    for status, classes in by_status.items():
        responses[str(status)] = {
            "description": " ".join(f"`{code}`" for code in dict.fromkeys(c.code for c in classes)),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    return responses


def body_content(body: tuple[Field, ...] | AnyKeys | AnyDocument) -> dict[str, Any]:
    if isinstance(body, AnyDocument):
        return {name: {"schema": schema} for name, schema in body.media_types.items()}
    return {"application/json": {"schema": body_schema(body)}}


def body_schema(body: tuple[Field, ...] | AnyKeys) -> dict[str, Any]:
    if isinstance(body, AnyKeys):
        return {"type": "object", "description": body.description, "additionalProperties": True}
    return {
        "type": "object",
        "properties": {each.name: _field_schema(each) for each in body},
        "required": [each.name for each in body if each.required],
    }


def _field_schema(each: Field) -> dict[str, Any]:
    schema = dict(each.kind.schema)
    schema["description"] = each.description
    return {"anyOf": [schema, {"type": "null"}]} if each.nullable else schema


SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and collect the schemas of records in `schemas`."""
    if kind in SCALARS:
        return SCALARS[kind]
    if is_typeddict(kind):
        if kind.__name__ not in schemas:
            schemas[kind.__name__] = {}
            schemas[kind.__name__] = _record_schema(kind, schemas)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], schemas)}
    if origin is types.UnionType or origin is typing.Union:
        return {"anyOf": [schema_of(each, schemas) for each in arguments]}
    raise TypeError(f"There is no schema for {kind!r}.")


def _record_schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, hint in hints.items():
        if get_origin(hint) is NotRequired:
            properties[name] = schema_of(get_args(hint)[0], schemas)
        else:
            properties[name] = schema_of(hint, schemas)
            required.append(name)
    return {
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "properties": properties,
        "required": required,
    }
