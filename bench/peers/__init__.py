"""
The servers that are compared with ours.
"""

from __future__ import annotations

from bench.peers import bare, fastify, ours, pocketbase, redis
from bench.peers.store import Kind

OURS = ours.KIND
PEERS: dict[str, Kind] = {
    kind.name: kind
    for kind in (redis.KIND, fastify.FULL, fastify.NORMAL, pocketbase.KIND, bare.KIND)
}
