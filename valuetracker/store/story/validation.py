"""
Validating a checkpoint: its state is computed again from the log and compared with the record.

What the log and the record say must agree, and so must the versions of series that the caller
finds: else the checkpoint is not what it was, and using it is refused. All else that the caller
finds may differ, with a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import CheckpointInvalid
from valuetracker.records import Validation
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.story.contents import (
    Contents,
    contents_of_checkpoint,
    digest_of,
    measure,
    text_in,
)


@dataclass(slots=True, frozen=True)
class Check:
    """The facts and wishes that a request has about the checkpoint it uses."""

    # What the caller finds outside the log: the versions of series, and other state.
    actual: dict[str, Any] | None = None
    # True if it is to be used although it does not validate.
    force: bool = False
    # What the server has found outside the log.
    warnings: tuple[str, ...] = ()


async def compare(tx: RowReader, chat: ChatRow, row: CheckpointRow, check: Check) -> Validation:
    """Compute the state again from the log, and compare it with the record."""
    expect = orjson.loads(row.expect) if row.expect is not None else {}
    actual = check.actual or {}
    state = orjson.loads(row.state)
    recorded = state.get("series")
    errors = _actual_errors(recorded, actual) if recorded is not None else []
    if row.digest:
        contents = await contents_of_checkpoint(tx, chat, row)
        series, rows, digest = await measure(tx, chat, contents)
        errors += _series_errors(state["series"], series)
        errors += _capture_errors(state["capture"], contents)
        if rows != state["rows"]:
            errors.append("The numbers of rows differ from the record.")
        if digest != row.digest:
            errors.append("The digest of the values differs from the record.")
    return {
        "success": not errors,
        "validated": bool(row.digest),
        "errors": errors,
        "warnings": [*_differences(expect, actual), *check.warnings],
    }


def refuse_invalid(report: Validation, check: Check) -> None:
    if report["errors"] and not check.force:
        raise CheckpointInvalid(errors=report["errors"], warnings=report["warnings"])


def _actual_errors(recorded: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return an error for each series that the caller finds at another version."""
    errors: list[str] = []
    for name, version in actual.get("series", {}).items():
        then = recorded.get(name)
        found = "has no version" if version is None else f"is at version {version}"
        if then is None:
            errors.append(f"Series {name} {found} and was not recorded.")
        elif version != then["currentVersion"]:
            errors.append(
                f"Series {name} {found} and was recorded at version {then['currentVersion']}."
            )
    return errors


def _series_errors(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    errors: list[str] = []
    for name, then in recorded.items():
        now = found.get(name)
        if now is None:
            errors.append(f"Series {name} is missing.")
            continue
        versions = {each["version"]: each for each in now["versions"]}
        for each in then["versions"]:
            if each["version"] not in versions:
                errors.append(f"Version {each['version']} of series {name} is missing.")
            elif versions[each["version"]] != each:
                errors.append(
                    f"Version {each['version']} of series {name} differs from the record."
                )
        if then["currentVersion"] != now["currentVersion"]:
            errors.append(
                f"Series {name} is at version {now['currentVersion']}"
                f" and was recorded at version {then['currentVersion']}."
            )
    return errors


def _capture_errors(captured: list[dict[str, Any]], contents: Contents) -> list[str]:
    errors: list[str] = []
    for each in captured:
        text = text_in(contents, each["instanceId"], each["key"])
        if text is None:
            errors.append(f"Key {each['key']} is missing.")
        elif digest_of(text) != each["digest"]:
            errors.append(f"Key {each['key']} differs from the record.")
    return errors


def _differences(expect: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return a warning for each thing that differs from what was expected."""
    warnings: list[str] = []
    for name, value in actual.items():
        if name == "series" or name not in expect:
            continue
        if name == "messageCount" and isinstance(expect[name], int) and expect[name] <= 0:
            # Nobody had counted.
            continue
        if expect[name] != value:
            expected, found = _as_text(expect[name]), _as_text(value)
            warnings.append(f"{name} was expected to be {expected} and is {found}.")
    return warnings


def _as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
