"""Routes of operations: the queue of work of a chat."""

from __future__ import annotations

from typing import Any

from valuetracker.api.series import LEASE, LONGEST_LEASE_MS
from valuetracker.errors import (
    IllegalMove,
    InvalidBody,
    InvalidId,
    InvalidQuery,
    MessageHidden,
    NumberOutOfRange,
    OperationExists,
    OperationNotFound,
    StaleClaim,
    TooDeep,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import FLAG, OBJECT, TEXT, Kind, choice_kind
from valuetracker.names import ID_LENGTH, check_id
from valuetracker.records import AddedOperation, Cleanup, Operation, Paused, Success
from valuetracker.runtime.extension import Read
from valuetracker.store import operations
from valuetracker.store.operations import DAY_MS
from valuetracker.store.rows.operations import STATUSES
from valuetracker.store.tx.jobs import Written

LARGEST_PRIORITY = 2**31 - 1
LONGEST_AGE_MS = 3650 * DAY_MS
MOST_ATTEMPTS = 1_000_000
# The most ids or types that one request names.
MOST_NAMES = 256


async def add_operation(call: Call) -> Written:
    """
    Add an operation to the queue of a chat.

    The id of an operation that has ended can be used again at once. An active one with this id is
    refused, or answered with `created: false` if `ifAbsent` is true.

    An operation cannot be claimed before those that it `dependsOn` have been completed. They are
    bound when it is added: another one that uses an id again later does not count. If one of them
    fails or is cancelled, so is this one. An operation with the anchor headers is cancelled when
    its message or swipe is hidden; the message need not be registered yet.
    """
    body = call.body
    depends_on = tuple(dict.fromkeys(body.get("dependsOn", ())))
    if body.get("id") in depends_on:
        raise InvalidBody("An operation cannot depend on itself.")
    new = operations.NewOperation(
        body.get("id"),
        body["type"],
        body.get("data", "{}"),
        body.get("priority", 0),
        body.get("maxAttempts", 1),
        body.get("retryAfterMs"),
        depends_on,
        body.get("ifAbsent", False),
    )
    return await call.write(operations.add_operation, call.path["chat"], new)


async def list_operations(call: Call) -> Read[Any]:
    """List the operations of a chat, oldest first."""
    return await call.read(operations.list_operations, call.path["chat"], call.query.get("status"))


async def get_operation(call: Call) -> Read[Any]:
    """Read an operation; it is pending again if its lease has run out."""
    return await call.read(operations.get_operation, call.path["chat"], call.path["operation"])


async def update_operation(call: Call) -> Written:
    """
    Change the status, the stage or the data of an operation that has not ended.

    `data` is merged key by key. While an operation is claimed, only who sends its `claim` can
    change it; a `claim` that is out of date is refused.
    """
    body = call.body
    update = operations.Update(
        body.get("status"),
        (body["stage"],) if "stage" in body else (),
        body.get("data"),
        body.get("claim"),
    )
    return await call.write(
        operations.update_operation, call.path["chat"], call.path["operation"], update
    )


async def claim_operation(call: Call) -> Written:
    """
    Claim the next operation that waits: the oldest one of the highest priority.

    An operation waits if it is `pending`, or `retrying` and its `retryAfterMs` has passed, and if
    all that it depends on has been completed. The claimed one is `in_progress` and has a `claim`,
    which the worker sends with its updates. If it has not ended after `leaseMs`, it returns to the
    queue. The answer is `204` if no operation waits, or the queue is paused.

    Leases do not depend on the server's clock: setting it ends none and prolongs none. If the
    server is restarted, the whole lease begins again. On PostgreSQL the clock of the database
    counts.
    """
    return await call.write(
        operations.claim_operation,
        call.path["chat"],
        call.body["leaseMs"],
        call.body.get("types"),
    )


async def renew_operation(call: Call) -> Written:
    """
    Prolong the lease of a claimed operation: it ends `leaseMs` from now.

    A `claim` that is missing or out of date is refused, as is an operation that has ended.
    """
    return await call.write(
        operations.renew_operation,
        call.path["chat"],
        call.path["operation"],
        call.body["leaseMs"],
        call.body.get("claim"),
    )


async def complete_operation(call: Call) -> Any:
    """End an operation as completed."""
    return await _end(call, "completed", call.body.get("claim"))


async def fail_operation(call: Call) -> Any:
    """
    End an operation as failed, or let it wait for another attempt.

    With fewer `attempts` than `maxAttempts` it becomes `retrying`, and can be claimed again when
    `retryAfterMs` have passed. `attempts` counts claims, also those whose lease ran out, and
    failures of an operation that nobody has claimed.
    """
    return await _end(call, "failed", call.body.get("claim"))


async def cancel_operation(call: Call) -> Any:
    """End an operation as cancelled, whoever has claimed it."""
    return await _end(call, "cancelled", None)


async def retry_operation(call: Call) -> Written:
    """
    Return a failed operation to the queue.

    It is `pending` at once and has one more attempt; `attempts` goes on. Those that failed with it
    stay failed. It is refused while an operation that it depends on is failed or cancelled.
    """
    return await call.write(operations.retry_operation, call.path["chat"], call.path["operation"])


async def delete_operation(call: Call) -> Written:
    """
    Delete an operation, whoever has claimed it.

    An active one ends with this, and those that depend on it are cancelled.
    """
    return await call.write(operations.delete_operation, call.path["chat"], call.path["operation"])


async def pause_operations(call: Call) -> Written:
    """
    Pause the queue of a chat: no operation can be claimed until it is resumed.

    Those that are claimed go on. The queue stays paused if the server is restarted.
    """
    return await call.write(operations.pause_operations, call.path["chat"])


async def resume_operations(call: Call) -> Written:
    """Resume the queue of a chat after a pause."""
    return await call.write(operations.resume_operations, call.path["chat"])


async def _end(call: Call, status: str, claim: str | None) -> Any:
    update = operations.Update(
        status, (), call.body.get("data"), claim, by_anybody=status == "cancelled"
    )
    return await call.write(
        operations.update_operation, call.path["chat"], call.path["operation"], update
    )


async def clean_up(call: Call) -> Written:
    """
    Remove active operations that have not been updated for some time; defaults to a day.

    The server also does so every hour and when the chat is opened. Operations that have ended
    are removed after a day. Only time in which the server runs is counted. Removing an operation
    ends it: those that depend on it are cancelled.
    """
    age = call.body.get("maxAgeMs", DAY_MS)
    return await call.write(operations.clean_up, call.path["chat"], age)


def _name_kind(noun: str) -> Kind:
    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidBody(f"The {noun} must be a string.")
        return check_id(value, noun)

    return Kind({"type": "string", "minLength": 1, "maxLength": 256}, parse)


def _whole_kind(name: str, smallest: int, largest: int) -> Kind:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidBody(f"`{name}` must be a whole number.")
        if not smallest <= value <= largest:
            raise InvalidBody(f"`{name}` must be {smallest} to {largest}.")
        return value

    return Kind({"type": "integer", "minimum": smallest, "maximum": largest}, parse)


def _names_kind(name: str, noun: str, fewest: int) -> Kind:
    def parse(value: Any) -> list[str]:
        if not isinstance(value, list) or not fewest <= len(value) <= MOST_NAMES:
            raise InvalidBody(f"`{name}` must be a list of {fewest} to {MOST_NAMES} strings.")
        return [each.parse(text) for text in value]

    each = _name_kind(noun)
    return Kind(
        {"type": "array", "items": each.schema, "minItems": fewest, "maxItems": MOST_NAMES}, parse
    )


def _parse_status(value: Any) -> str:
    if value not in STATUSES:
        raise InvalidBody(f"`status` must be one of {', '.join(STATUSES)}.")
    return str(value)


def _parse_stage(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= ID_LENGTH:
        raise InvalidBody(f"`stage` must be a string of 1 to {ID_LENGTH} characters.")
    return value


STATUS = Kind({"type": "string", "enum": list(STATUSES)}, _parse_status)
NAME = _name_kind("operation")
STAGE = Kind({"type": "string", "minLength": 1, "maxLength": 256}, _parse_stage)
DATA = Field("data", OBJECT, "Any data of the operation.", required=False)
CLAIM = Field("claim", TEXT, "The `claim` that claiming answered.", required=False, nullable=True)
LEASE_MS = Field("leaseMs", LEASE, "How long the claim lasts, in milliseconds.")

ALL = "/chats/{chat}/operations"
ONE = ALL + "/{operation}"
VALUES = (InvalidBody, InvalidId, NumberOutOfRange, TooDeep, ValueTooLarge)
CHANGES = (*VALUES, OperationNotFound, IllegalMove, StaleClaim)


def _ending(what: str, handler: Any) -> Endpoint:
    return Endpoint(
        ("POST",),
        f"{ONE}/{what}",
        handler,
        returns=Operation,
        body=(CLAIM, DATA),
        body_optional=True,
        raises=CHANGES,
        conditional=False,
    )


def _pausing(what: str, handler: Any) -> Endpoint:
    return Endpoint(
        ("POST",),
        f"{ALL}/{what}",
        handler,
        returns=Paused,
        body_optional=True,
        raises=(InvalidId,),
        conditional=False,
    )


ENDPOINTS = [
    Endpoint(
        ("POST",),
        ALL,
        add_operation,
        returns=AddedOperation,
        body=(
            Field("type", NAME, "The kind of work."),
            Field("id", NAME, "The id; defaults to a generated one.", required=False),
            DATA,
            Field(
                "priority",
                _whole_kind("priority", -LARGEST_PRIORITY, LARGEST_PRIORITY),
                "Operations of a higher priority are claimed first; defaults to 0.",
                required=False,
            ),
            Field(
                "dependsOn",
                _names_kind("dependsOn", "operation", 0),
                "The ids of operations of this chat that must be completed before.",
                required=False,
            ),
            Field(
                "maxAttempts",
                _whole_kind("maxAttempts", 1, MOST_ATTEMPTS),
                "How often it is tried before it has failed; defaults to 1.",
                required=False,
            ),
            Field(
                "retryAfterMs",
                _whole_kind("retryAfterMs", 0, LONGEST_LEASE_MS),
                "The time between a failure and the next attempt, in milliseconds.",
                required=False,
                nullable=True,
            ),
            Field(
                "ifAbsent",
                FLAG,
                "Answer an active operation with this id instead of refusing.",
                required=False,
            ),
        ),
        raises=(*VALUES, OperationExists, OperationNotFound, MessageHidden),
        conditional=False,
    ),
    Endpoint(
        ("GET",),
        ALL,
        list_operations,
        returns=list[Operation],
        query=(
            Field(
                "status", choice_kind(*STATUSES), "Only operations of this status.", required=False
            ),
        ),
        raises=(InvalidId, InvalidQuery),
    ),
    Endpoint(
        ("POST",),
        ALL + "/claim",
        claim_operation,
        returns=Operation,
        body=(
            LEASE_MS,
            Field(
                "types",
                _names_kind("types", "type", 1),
                "Only operations of these types.",
                required=False,
            ),
        ),
        raises=(InvalidBody, InvalidId),
        also={204: None},
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        ALL + "/cleanup",
        clean_up,
        returns=Cleanup,
        body=(
            Field(
                "maxAgeMs",
                _whole_kind("maxAgeMs", 0, LONGEST_AGE_MS),
                "The time without an update, in milliseconds; defaults to a day.",
                required=False,
            ),
        ),
        body_optional=True,
        raises=(InvalidBody, InvalidId),
        conditional=False,
        beyond_quota=True,
    ),
    _pausing("pause", pause_operations),
    _pausing("resume", resume_operations),
    Endpoint(
        ("GET",), ONE, get_operation, returns=Operation, raises=(InvalidId, OperationNotFound)
    ),
    Endpoint(
        ("DELETE",),
        ONE,
        delete_operation,
        returns=Success,
        raises=(InvalidId, OperationNotFound),
        conditional=False,
    ),
    Endpoint(
        ("PATCH",),
        ONE,
        update_operation,
        returns=Operation,
        body=(
            Field("status", STATUS, "The new status.", required=False),
            Field(
                "stage",
                STAGE,
                "The new stage: a short text that tells the progress.",
                required=False,
                nullable=True,
            ),
            DATA,
            CLAIM,
        ),
        raises=CHANGES,
        conditional=False,
    ),
    _ending("complete", complete_operation),
    _ending("fail", fail_operation),
    _ending("cancel", cancel_operation),
    Endpoint(
        ("POST",),
        ONE + "/renew",
        renew_operation,
        returns=Operation,
        body=(LEASE_MS, CLAIM),
        raises=(InvalidBody, InvalidId, OperationNotFound, StaleClaim),
        conditional=False,
    ),
    Endpoint(
        ("POST",),
        ONE + "/retry",
        retry_operation,
        returns=Operation,
        body_optional=True,
        raises=(InvalidId, OperationNotFound, IllegalMove, MessageHidden),
        conditional=False,
    ),
]
