"""
The route table: one module per noun, each with its handlers and its rows; `server` has those about
the server as a whole.

A handler reads its call, runs one verb in one transaction, and returns a record. It shares
its name with the verb, so a search for `set_value` shows the whole feature.
"""

from __future__ import annotations

from valuetracker.api import (
    batch,
    branches,
    characters,
    chats,
    checkpoints,
    cross_extension,
    data,
    extensions,
    feed,
    history,
    instances,
    lorebooks,
    operations,
    render,
    series,
    sessions,
    sillytavern,
    transfer,
)
from valuetracker.api.server import backups, jobs, metrics, service, settings, tokens
from valuetracker.http.endpoint import Endpoint

# By noun, in the order of API.md.
SECTIONS: dict[str, list[Endpoint]] = {
    "Extensions": extensions.ENDPOINTS,
    "Characters": characters.ENDPOINTS,
    "Instances": instances.ENDPOINTS,
    "Data": data.ENDPOINTS,
    "Batches": batch.ENDPOINTS,
    "Chats": chats.ENDPOINTS,
    "Data of a chat": data.CHAT_ENDPOINTS,
    "Series and processed ids": series.ENDPOINTS,
    "Operations": operations.ENDPOINTS,
    "Checkpoints and branches": [*checkpoints.ENDPOINTS, *branches.ENDPOINTS],
    "Templates": render.ENDPOINTS,
    "The past": history.ENDPOINTS,
    "The feed": feed.ENDPOINTS,
    "Export and import": transfer.ENDPOINTS,
    "Reading other extensions": cross_extension.ENDPOINTS,
    "SillyTavern": [
        *sillytavern.ENDPOINTS,
        *sessions.ENDPOINTS,
        *lorebooks.ENDPOINTS,
    ],
    "Keeping data safe": [*backups.ENDPOINTS, *jobs.ENDPOINTS],
    "The server": [
        *service.ENDPOINTS,
        *settings.ENDPOINTS,
        *metrics.ENDPOINTS,
        *tokens.ENDPOINTS,
    ],
}

ENDPOINTS: list[Endpoint] = [endpoint for section in SECTIONS.values() for endpoint in section]
