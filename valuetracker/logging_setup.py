"""
Logs: one line of JSON per entry, on standard error.

JSON escapes control characters, so text from the network can neither begin a new line nor
control a terminal. Values are never logged, and long texts are cut.
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
    """Formats a log record as one line of JSON, with a field for each item of `extra`."""

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
        # Everything beyond ASCII is escaped, and so is DEL: C1 codes control terminals too.
        return json.dumps(entry).replace("\x7f", "\\u007f")


def bounded(value: Any) -> Any:
    """Return a field of an entry: a number unchanged, anything else as text of limited length."""
    return value if isinstance(value, int | float | None) else str(value)[:LINE_LENGTH]


def configure_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At info, uvicorn logs nothing that the ready line does not say.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for name in ("asyncio", "filelock", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
