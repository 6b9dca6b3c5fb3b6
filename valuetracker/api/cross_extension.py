"""
Routes that read the database of another extension.

The handlers are those of the other modules. No row here takes a writing method, and every read
runs on a connection that cannot write. So a write is impossible, not merely refused.
"""

from __future__ import annotations

from dataclasses import replace

from valuetracker.api import characters, chats, data, history, instances
from valuetracker.errors import ExtensionNotRegistered, InvalidExtensionId
from valuetracker.http.endpoint import Endpoint


def _twin(endpoint: Endpoint, path: str) -> Endpoint:
    return replace(
        endpoint,
        path=path,
        extension="path",
        raises=(InvalidExtensionId, *endpoint.raises, ExtensionNotRegistered),
    )


def _reads(endpoints: list[Endpoint], noun: str) -> list[Endpoint]:
    return [
        _twin(each, f"/cross-extension/{noun}/{{extension}}{each.path.removeprefix('/' + noun)}")
        for each in endpoints
        if each.methods == ("GET",) and each.path.startswith(f"/{noun}")
    ]


ENDPOINTS = [
    *_reads(characters.ENDPOINTS, "characters"),
    *_reads(instances.ENDPOINTS, "characters"),
    *_reads(instances.ENDPOINTS, "instances"),
    *_reads(data.ENDPOINTS, "instances"),
    *_reads(history.ENDPOINTS, "instances"),
    *_reads(chats.ENDPOINTS, "chats"),
    *_reads(data.CHAT_ENDPOINTS, "chats"),
]
