"""Routes of the past: history, differences, restoring, compaction."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    CharacterNotFound,
    Compacted,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidKey,
    InvalidQuery,
    RevisionConflict,
    RevisionUnknown,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import DRY_RUN_FIELD, PAST, Endpoint, Field
from valuetracker.http.kinds import AT, CURSOR, KEY, PAGE_SIZE, REVISION, Kind, choice_kind
from valuetracker.records import Compaction, Difference, History, Restored
from valuetracker.runtime.extension import Read
from valuetracker.store import compaction, history, restore
from valuetracker.store.tx.jobs import Written


async def list_history(call: Call) -> Read[Any]:
    """
    List the changes of an instance, or of one of its keys, newest first.

    The instance may have been deleted. `after` and `before` in the query limit the revisions;
    both limits are excluded. A time stands for the newest revision at or before that time. A
    change has `live: false` if it is anchored to a message or swipe that was not visible; it
    has no effect, and `value` is its operand. A page with large values may have fewer items
    than `limit` (see `pageBytes` of `/limits`).
    """
    return await call.read(history.list_history, call.path["instance"], read_page(call))


def read_page(call: Call) -> history.Page:
    query = call.query
    return history.Page(
        key=query.get("key"),
        after=query.get("after"),
        before=query.get("before"),
        limit=query.get("limit", 100),
        descending=query.get("order", "desc") == "desc",
        cursor=query.get("cursor"),
    )


async def diff_instance(call: Call) -> Read[Any]:
    """
    List the keys of an instance that differ between two revisions or times.

    Without `to`, the instance is compared with its current state.
    """
    return await call.read(
        history.diff_instance, call.path["instance"], call.query["from"], call.query.get("to")
    )


async def restore_instance(call: Call) -> Written:
    """
    Restore an instance and its values to their state at a revision.

    A deleted instance is created again, with its character. The restore is a new revision and
    can itself be undone. `changed` counts the values that have changed. An instance that has
    moved to another chat since stays there, with a warning. With `dryRun` nothing changes, and
    `changes` lists what would.
    """
    return await call.write(
        restore.restore_instance,
        call.path["instance"],
        call.body["revision"],
        call.body.get("dryRun", False),
    )


async def restore_character(call: Call) -> Any:
    """
    Restore a character, its instances and their values to their state at a revision.

    Instances that were deleted since are created again, and instances that were created since
    are deleted. Instances that came from another character since return to it. With `dryRun`
    nothing changes, and `changes` lists what would.
    """
    return await call.write(
        restore.restore_character,
        call.path["character"],
        call.body["revision"],
        call.body.get("dryRun", False),
    )


async def compact(call: Call) -> Written:
    """
    Fold the old part of the log: keep the state at its end, and remove the changes before.

    `keep` says which part stays readable: `{"revisions": 1000}` or `{"days": 30}`. What a
    checkpoint needs stays readable as well. Compaction makes no revision. Later requests for
    the folded part answer `410 compacted`.
    """
    return await call.write(compaction.compact, call.body["keep"])


def _parse_keep(value: Any) -> compaction.Keep:
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidBody("`keep` must be an object with either `revisions` or `days`.")
    revisions, days = value.get("revisions"), value.get("days")
    if type(revisions) is int and revisions >= 0:
        return compaction.Keep(revisions=revisions)
    if isinstance(days, int | float) and not isinstance(days, bool) and days >= 0:
        return compaction.Keep(days=float(days))
    raise InvalidBody("`revisions` must be a whole number and `days` a number, not below 0.")


KEEP = Kind(
    {
        "type": "object",
        "properties": {
            "revisions": {"type": "integer", "minimum": 0},
            "days": {"type": "number", "minimum": 0},
        },
        "minProperties": 1,
        "maxProperties": 1,
    },
    _parse_keep,
)

RESTORE_BODY = (
    Field("revision", REVISION, "The revision to restore."),
    DRY_RUN_FIELD,
)

HISTORY_QUERY = (
    Field("key", KEY, "Only changes of this key.", required=False),
    Field("after", AT, "Only changes after this revision or time.", required=False),
    Field("before", AT, "Only changes before this revision or time.", required=False),
    Field("limit", PAGE_SIZE, "The largest number of changes; defaults to 100.", required=False),
    Field(
        "order",
        choice_kind("desc", "asc"),
        "`desc`: newest first, the default; `asc`: oldest first.",
        required=False,
    ),
    Field("cursor", CURSOR, "The `next` of the previous page.", required=False),
)
DIFF_QUERY = (
    Field("from", AT, "The first revision or time."),
    Field("to", AT, "The second revision or time; defaults to now.", required=False),
)

ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/instances/{instance}/history",
        list_history,
        returns=History,
        query=HISTORY_QUERY,
        raises=(InvalidId, InvalidKey, InvalidQuery, *PAST),
    ),
    Endpoint(
        ("GET",),
        "/instances/{instance}/diff",
        diff_instance,
        returns=list[Difference],
        query=DIFF_QUERY,
        raises=(InvalidId, InvalidQuery, *PAST),
    ),
    Endpoint(
        ("POST",),
        "/instances/{instance}/restore",
        restore_instance,
        returns=Restored,
        body=RESTORE_BODY,
        raises=(
            InvalidBody,
            InvalidId,
            RevisionUnknown,
            InstanceNotFound,
            Compacted,
            RevisionConflict,
        ),
    ),
    Endpoint(
        ("POST",),
        "/characters/{character}/restore",
        restore_character,
        returns=Restored,
        body=RESTORE_BODY,
        raises=(
            InvalidBody,
            InvalidId,
            RevisionUnknown,
            CharacterNotFound,
            Compacted,
            RevisionConflict,
        ),
    ),
    Endpoint(
        ("POST",),
        "/compact",
        compact,
        returns=Compaction,
        body=(Field("keep", KEEP, "The part of the log that stays readable."),),
        raises=(InvalidBody,),
        conditional=False,
        beyond_quota=True,
    ),
]
