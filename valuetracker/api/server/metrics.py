"""
The route that shows counts and sizes to Prometheus.

Everything shown here is counted or measured anyway: a request for it adds up, and nothing else
pays for it.
"""

from __future__ import annotations

from valuetracker.http.call import Call, Document
from valuetracker.http.endpoint import Endpoint


async def get_metrics(call: Call) -> Document:
    """
    Read counts, durations and sizes, in the text format of Prometheus.

    `valuetracker_requests_total` counts all answers by route, method (HEAD as GET) and class of the
    status; requests that come to no route have an empty one. Kept answers are in it, and in
    `valuetracker_cache_hits_total`; `valuetracker_request_seconds` is about the others, from the
    last byte of the request until the answer is ready. `valuetracker_commit_seconds` and
    `valuetracker_commit_writes` are about transactions, each of which commits a group of writes.
    `valuetracker_database_bytes` is what each database takes, measured every few seconds.
    On Linux, `process_resident_memory_bytes` is the memory of the server.
    """
    from valuetracker.api.server.collector import metrics_document

    await call.service.growth.measure()
    return metrics_document(call.service)


ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/metrics",
        get_metrics,
        returns=Document,
        extension="none",
        access="admin",
        at_root=True,
    ),
]
