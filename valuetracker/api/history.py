"""The past over HTTP: history, differences, restoring, folding."""

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
from valuetracker.http.endpoint import PAST, Endpoint, Field
from valuetracker.http.kinds import AT, CURSOR, KEY, PAGE_SIZE, REVISION, Kind, choice_kind
from valuetracker.records import Compaction, Difference, History, Restored
from valuetracker.store import compaction, history, restore


async def list_history(call: Call) -> Any:
    """
    List the changes of an instance, or of one of its keys, newest first.

    Also of an instance that has been deleted. `before` and `after` (in the query) bound the
    revisions on either side, both excluded; a time stands for the highest revision recorded
    at or before it. A change that has not taken effect, because the place it is anchored to
    was not visible, has `live: false` and its operand in `value`. A page of large values
    (`pageBytes` of `/limits`) ends before it has as many items as were asked for.
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


async def diff_instance(call: Call) -> Any:
    """
    List the keys of an instance that differ between two revisions or times.

    Without `to`, it is compared with now.
    """
    return await call.read(
        history.diff_instance, call.path["instance"], call.query["from"], call.query.get("to")
    )


async def restore_instance(call: Call) -> Any:
    """
    Set an instance and its values to what they were at a revision.

    Also one that has been deleted since; its character comes back with it. This is a new
    revision, and can itself be undone. `changed` counts the values that differ now. An
    instance that is in another chat now stays there, with a warning.
    """
    return await call.write(restore.restore_instance, call.path["instance"], call.body["revision"])


async def restore_character(call: Call) -> Any:
    """
    Set a character, its instances and their values to what they were at a revision.

    What was deleted since comes back; instances made since are deleted, and those that came
    from another character return to it.
    """
    return await call.write(
        restore.restore_character, call.path["character"], call.body["revision"]
    )


async def compact(call: Call) -> Any:
    """
    Fold the log below a cutoff: the state there is kept, how it came about is not.

    `keep` says what stays readable: `{"revisions": 1000}`, or `{"days": 30}`. Takes no
    revision. Asking for what was folded answers `410 compacted` from then on.
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

REVISION_FIELD = Field("revision", REVISION, "The revision to go back to.")

HISTORY_QUERY = (
    Field("key", KEY, "Only changes of this key.", required=False),
    Field("after", AT, "Only changes after this revision or time.", required=False),
    Field("before", AT, "Only changes before this revision or time.", required=False),
    Field("limit", PAGE_SIZE, "How many; 100 if not said.", required=False),
    Field(
        "order",
        choice_kind("desc", "asc"),
        "Newest first (desc, the default) or oldest first (asc).",
        required=False,
    ),
    Field("cursor", CURSOR, "The `next` of the page before.", required=False),
)
DIFF_QUERY = (
    Field("from", AT, "The one revision or time."),
    Field("to", AT, "The other; now, if not said.", required=False),
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
        body=(REVISION_FIELD,),
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
        body=(REVISION_FIELD,),
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
        body=(Field("keep", KEEP, "What stays readable."),),
        raises=(InvalidBody,),
        conditional=False,
    ),
]
