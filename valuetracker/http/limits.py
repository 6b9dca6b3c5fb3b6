"""
How much and how long the connections of one server may take.

The constants bound what a client may send and how long the server waits for it. A connection
has no timers of its own: the server asks all connections from time to time whether they are
overdue, so a connection that is on time costs nothing.
"""

from __future__ import annotations

# The target and the headers of one request: their bytes, and the number of headers.
HEADER_BYTES = 32 * 1024
HEADER_COUNT = 100
# From the first byte of a request (on a new connection: from its start) to the end of the
# headers.
HEADER_SECONDS = 10.0
# A body may take BODY_GRACE_SECONDS, and one second more for every BODY_BYTES_PER_SECOND
# bytes received, but BODY_SECONDS at the most.
BODY_GRACE_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 4 * 1024
BODY_SECONDS = 600.0
# The most a body may take if it holds budget that other bodies wait for.
CROWDED_SECONDS = 30.0
# Overhead of a chunked body (chunk sizes, chunk extensions and trailers): this many bytes for
# each byte of content, beside HEADER_BYTES.
CHUNK_OVERHEAD_PER_BYTE = 8
# Between two requests. Longer than the bridge keeps its connections, so that the bridge never
# sends a request on a connection that the server is closing.
IDLE_SECONDS = 75.0
# For a client that does not read its answer; longer the more of it the client has read.
STALLED_SECONDS = 60.0
# After a refusal in the middle of a request the rest of the request is read and discarded, for
# this long and this many bytes, so that the client receives the refusal.
LINGER_SECONDS = 5.0
LINGER_BYTES = 64 * 1024 * 1024
# Bodies up to this size need no budget: headers take as much.
SMALL_BODY_BYTES = 16 * 1024
# The most that is received at once, so a body needs memory for as much before it is read further.
RECEIVED_BYTES = 256 * 1024
# A stream writes no more while this much of it waits for its client.
STREAM_BUFFER_BYTES = 8 * 1024
# Answers up to this size are sent in one piece with their headers; larger ones are not copied.
COPIED_BYTES = 64 * 1024
# Requests a client may send ahead on one connection. The next one ends the connection.
QUEUED_REQUESTS = 64
# Connections beyond the limit that receive a refusal; further ones are closed at once.
REFUSED_CONNECTIONS = 256
# How often each connection is asked whether it is overdue.
CHECK_SECONDS = 0.5


def body_seconds(received: int, is_crowded: bool, is_limited: bool = True) -> float:
    """Return how long a body may take, of which so many bytes have been received."""
    allowed = BODY_GRACE_SECONDS + received / BODY_BYTES_PER_SECOND
    if not is_limited:
        return allowed
    return min(allowed, CROWDED_SECONDS if is_crowded else BODY_SECONDS)


def stalled_seconds(read: int) -> float:
    """Return how long an answer may wait for a client that has read so many bytes since."""
    return min(STALLED_SECONDS + read / BODY_BYTES_PER_SECOND, BODY_SECONDS)


def chunk_overhead(received: int) -> int:
    """Return how many bytes of overhead a chunked body may have by now."""
    return HEADER_BYTES + CHUNK_OVERHEAD_PER_BYTE * received
