"""Routes of operations: the queue of work of a chat."""

from __future__ import annotations

from typing import Any

from valuetracker.api.series import LEASE
from valuetracker.errors import (
    IllegalMove,
    InvalidBody,
    InvalidId,
    InvalidQuery,
    NumberOutOfRange,
    OperationExists,
    OperationNotFound,
    StaleClaim,
    TooDeep,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import OBJECT, TEXT, Kind, choice_kind
from valuetracker.names import ID_LENGTH, check_id
from valuetracker.records import Cleanup, Operation
from valuetracker.runtime.extension import Read
from valuetracker.store import operations
from valuetracker.store.operations import DAY_MS
from valuetracker.store.rows.operations import STATUSES
from valuetracker.store.tx.jobs import Written

LARGEST_PRIORITY = 2**31 - 1
LONGEST_AGE_MS = 3650 * DAY_MS


async def add_operation(call: Call) -> Written:
    """Add an operation to the queue of a chat."""
    body = call.body
    return await call.write(
        operations.add_operation,
        call.path["chat"],
        body.get("id"),
        body["type"],
        body.get("data", "{}"),
        body.get("priority", 0),
    )


async def list_operations(call: Call) -> Read[Any]:
    """List the operations of a chat, oldest first."""
    return await call.read(operations.list_operations, call.path["chat"], call.query.get("status"))


async def get_operation(call: Call) -> Read[Any]:
    """Read an operation; it is pending again if its lease has run out."""
    return await call.read(operations.get_operation, call.path["chat"], call.path["operation"])


async def update_operation(call: Call) -> Written:
    """
    Change the status, the stage or the data of an operation that has not ended.

    `data` is merged key by key. A `claim` that is out of date is refused.
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
    Claim the next pending operation: the oldest one of the highest priority.

    The operation is `in_progress` and has a `claim`, which the worker sends with its updates.
    If the operation has not ended after `leaseMs`, it returns to the queue. The answer is `204`
    if no operation waits.
    """
    return await call.write(operations.claim_operation, call.path["chat"], call.body["leaseMs"])


async def complete_operation(call: Call) -> Any:
    """End an operation as completed."""
    return await _end(call, "completed", call.body.get("claim"))


async def fail_operation(call: Call) -> Any:
    """End an operation as failed."""
    return await _end(call, "failed", call.body.get("claim"))


async def cancel_operation(call: Call) -> Any:
    """End an operation as cancelled, whoever has claimed it."""
    return await _end(call, "cancelled", None)


async def _end(call: Call, status: str, claim: str | None) -> Any:
    update = operations.Update(status, (), call.body.get("data"), claim)
    return await call.write(
        operations.update_operation, call.path["chat"], call.path["operation"], update
    )


async def clean_up(call: Call) -> Written:
    """
    Remove active operations that have not been updated for some time; defaults to a day.

    The server also does so every hour and when the chat is opened. Operations that have ended
    are removed after a day.
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


ENDPOINTS = [
    Endpoint(
        ("POST",),
        ALL,
        add_operation,
        returns=Operation,
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
        ),
        raises=(*VALUES, OperationExists),
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
        body=(Field("leaseMs", LEASE, "How long the claim lasts, in milliseconds."),),
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
    ),
    Endpoint(
        ("GET",), ONE, get_operation, returns=Operation, raises=(InvalidId, OperationNotFound)
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
]
