from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import orjson
import pytest

from valuetracker.logging_setup import LINE_LENGTH, JSONLines, configure_logging


def line(message: str, *arguments: object, **extra: object) -> str:
    record = logging.getLogger("demo").makeRecord(
        "demo", logging.WARNING, "file.py", 1, message, arguments, None, extra=extra
    )
    record.created = 1767225600.25
    return JSONLines().format(record)


def test_an_entry_is_one_line_of_json_and_extras_are_fields() -> None:
    assert orjson.loads(line("said %s", "so", extension="demo", count=3)) == {
        "at": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "demo",
        "message": "said so",
        "extension": "demo",
        "count": 3,
    }


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\x1b[31mred", "a\u0085b", "\x00", "\x9b31m"])
def test_nothing_in_it_can_begin_a_line_or_talk_to_a_terminal(text: str) -> None:
    written = line(text, path=text)

    assert orjson.loads(written)["message"] == text
    assert not [each for each in written if ord(each) < 32 or 127 <= ord(each) < 160]


def test_a_long_message_is_cut() -> None:
    assert len(orjson.loads(line("x" * 100_000))["message"]) == LINE_LENGTH


def test_text_that_is_no_text_is_written_all_the_same() -> None:
    assert "\n" not in line("lone \ud800 surrogate", path="\udcff")


def test_what_json_has_no_word_for_is_written_as_text() -> None:
    assert orjson.loads(line("words", error=ValueError("why")))["error"] == "why"


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.getLogger("demo").makeRecord(
            "demo", logging.ERROR, "file.py", 1, "failed", (), sys.exc_info()
        )

    written = JSONLines().format(record)

    assert "\n" not in written
    assert orjson.loads(written)["traceback"].endswith("ValueError: why")


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    """Puts back what `configure_logging` changes for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("untouched_logging")
def test_the_level_decides_what_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning")

    logging.getLogger("valuetracker").info("too quiet")
    logging.getLogger("valuetracker").warning("loud enough")

    (entry,) = [orjson.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert entry["message"] == "loud enough"


@pytest.mark.usefixtures("untouched_logging")
def test_the_libraries_that_would_log_values_are_quiet_at_debug(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("debug")

    for name in ("aiosqlite", "asyncio", "uvicorn.error", "filelock"):
        logging.getLogger(name).debug("somebody's value")

    assert capsys.readouterr().err == ""
