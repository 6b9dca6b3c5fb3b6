"""
Logs: one line of JSON per entry, on standard error.

JSON escapes control characters, so nothing that came over the network can begin a line of
its own or talk to a terminal. Values never get here; long texts are cut.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from valuetracker.records import moment

LINE_LENGTH = 4_000
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "color_message"}


class JSONLines(logging.Formatter):
    """A log record as one line of JSON; what is passed as `extra` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": moment(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:LINE_LENGTH],
        }
        entry.update(
            (name, bounded(value)) for name, value in vars(record).items() if name not in STANDARD
        )
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)[-LINE_LENGTH:]
        # Everything beyond ASCII is escaped, and so is DEL: C1 controls steer terminals too.
        return json.dumps(entry).replace("\x7f", "\\u007f")


def bounded(value: Any) -> Any:
    """A field of an entry: numbers as they are, anything else as text that has an end."""
    return value if isinstance(value, int | float | None) else str(value)[:LINE_LENGTH]


def configure_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # uvicorn's own lines say nothing at info that the ready line does not.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for name in ("asyncio", "filelock", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
