"""
Stand-ins: fixed, readable texts for all that differs each time a walk is taken.

They replace text, not parsed values, so that answers can be compared byte for byte.
"""

from __future__ import annotations

import re

from valuetracker import __version__

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
# Random values that a later request sends back.
TOKENS = {
    "session": "6f1e0c92b7a54d38",
    "claim": "c3a9417be05d2f86",
    "prompt": "0b7d52c8e1f94a63",
    "job": "e27c90d41b5a6f38",
    "backup": "2026-02-14T20-15-00-000Z-manual",
    "token": "vt_4be19c07d3f2_Yk3qPz8…",
    "tokenId": "4be19c07d3f2",
}
PATTERNS: list[tuple[str, str]] = [
    (TIME, "2026-02-14T20:15:00.000Z"),
    (rf'"leaseUntil":"{TIME}"', '"leaseUntil":"2026-02-14T20:16:00.000Z"'),
    (r'"session":"[^"]*"', f'"session":"{TOKENS["session"]}"'),
    (r'"claim":"[^"]*"', f'"claim":"{TOKENS["claim"]}"'),
    # A digest covers values, among which are times.
    (r'"digest":"[0-9a-f]{64}"', '"digest":"5b2d…"'),
    (r'"sha256":"[0-9a-f]{64}"', '"sha256":"9d07…"'),
    (r'"at":1[6-9]\d{11}\b', '"at":1771100100000'),
    # The ids that a branch gives to its instances.
    (r"~[0-9a-f]{8}", "~7c41d0a9"),
    (r'"bytes":\d+', '"bytes":118784'),
    (r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z-manual", TOKENS["backup"]),
    (r'"location":"(vt_\w+|[\w-]+\.db)"', '"location":"story-stats.db"'),
    (r'"file":"default-user/([^".]*)\.[a-z]+"', r'"file":"default-user/\1.db"'),
    (r'"path":"[^"]*","registeredAt"', '"path":"/home/you/db/story-stats.db","registeredAt"'),
    (r'"engine":"[^"]*"', '"engine":"sqlite"'),
    (r'"engineVersion":"[^"]*"', '"engineVersion":"3.45.1"'),
    (r'"latency_ms":[0-9.e-]+', '"latency_ms":3.2'),
    # Lorebook entries are numbered by the clock.
    (r'"(\d)":1[6-9]\d{11}\b', r'"\1":177110010000\1'),
    # How many files there are to copy, and the interpreter that runs the server.
    (r'"(created|skipped|files_processed)":[1-9]\d*', r'"\1":40'),
    (r'"dirs_created":[1-9]\d*', '"dirs_created":8'),
    (r'"python":"[^"]*"', '"python":"/home/you/.venv/bin/python"'),
    (re.escape(f'"{__version__}"'), '"1.0.0"'),
    # Metrics that are measured.
    (r"(?m)^((?:process|valuetracker)_(?!requests)[^ ]*) [0-9.e+-]+$", r"\1 1.0"),
    # Settings that depend on how the walk is taken.
    (
        r'"name":"http","value":"\w+"([^}]*)"isSet":\w+',
        r'"name":"http","value":"fast"\1"isSet":false',
    ),
    (r'("name":"database",[^}]*"isSet":)\w+', r"\1false"),
]


class StandIns:
    """The stand-ins of one walk: the fixed ones, and those for values met on the way."""

    def __init__(self, texts: dict[str, str]) -> None:
        """`texts` names what is known before: folders and addresses."""
        # The longest first: one folder may lie inside another.
        self._texts = dict(sorted(texts.items(), key=lambda each: -len(each[0])))
        self._patterns = [(re.compile(pattern), text) for pattern, text in PATTERNS]

    def learn(self, name: str, value: str) -> None:
        """Replace a token wherever it is met from now on."""
        self._texts[value] = TOKENS[name]

    def apply(self, text: str) -> str:
        for found, readable in self._texts.items():
            text = text.replace(found, readable)
        for pattern, readable in self._patterns:
            text = pattern.sub(readable, text)
        return text
