"""
Errors of characters, instances, their values, and the revisions of those.
"""

from __future__ import annotations

from valuetracker.errors.base import (
    BadRequest,
    Conflict,
    NotFound,
    TooLarge,
    ValueTrackerError,
)


class InvalidId(BadRequest):
    """The id is not valid."""

    code = "invalid_id"
    hint = "Use text without control characters and without blanks at either end."


class InvalidKey(BadRequest):
    """The key is not valid."""

    code = "invalid_key"
    hint = "Use 1 to 1024 characters and no control characters."


class InvalidName(BadRequest):
    """The name is not valid."""

    code = "invalid_name"
    hint = "Use text of at most 1024 characters."


class NumberOutOfRange(BadRequest):
    """A number is outside the range that can be stored exactly."""

    code = "number_out_of_range"
    hint = "Integers go from -2^63 to 2^64-1; send larger ones as strings."


class TooDeep(BadRequest):
    """A value is nested too deeply."""

    code = "too_deep"
    hint = "`GET /limits` says how deep a value may be."


class TooManyKeys(BadRequest):
    """The request names too many keys."""

    code = "too_many_keys"
    hint = "Split the request; `GET /limits` says how many keys a request may name."


class ValueTooLarge(TooLarge):
    """A value is too large."""

    code = "value_too_large"
    hint = "`GET /limits` says how large a value may be."


class InvalidOperation(BadRequest):
    """An operation of the batch is not valid."""

    code = "invalid_operation"
    hint = "API.md lists the operations and their fields."


class InvalidPatch(BadRequest):
    """The patch is not valid."""

    code = "invalid_patch"
    hint = (
        "Send a JSON Patch (RFC 6902) whose paths begin with the key: `/hp`, or, in a batch, in the"
        " value of the key."
    )


class CharacterNotFound(NotFound):
    """Character not found"""

    code = "character_not_found"


class InstanceNotFound(NotFound):
    """Instance not found"""

    code = "instance_not_found"
    hint = "Create it first with `POST /instances`."


class DataKeyNotFound(NotFound):
    """Data key not found"""

    code = "data_key_not_found"


class TypeConflict(Conflict):
    """This operator does not apply to a value of this type."""

    code = "type_conflict"
    hint = "Read the value; nothing was changed."


class NumberLeftRange(Conflict):
    """The result is outside the range that can be stored exactly."""

    code = "number_out_of_range"
    hint = "Integers go from -2^63 to 2^64-1; nothing was changed."


class PatchFailed(Conflict):
    """The patch names a path that does not exist."""

    code = "patch_failed"
    hint = "Read the values and name existing paths only; nothing was changed."


class PatchTestFailed(Conflict):
    """A test of the patch failed."""

    code = "test_failed"
    hint = "Read the values again; nothing was changed."


class RevisionConflict(ValueTrackerError):
    """This was changed since you last read it."""

    status = 412
    code = "revision_conflict"
    hint = "Read it again and retry with its current revision."


class InvalidAt(BadRequest):
    """This is neither a revision nor a time."""

    code = "invalid_at"
    hint = "Send a revision in digits, or an ISO 8601 time such as 2026-01-31T12:00:00Z."


class RevisionUnknown(BadRequest):
    """There is no such revision yet."""

    code = "revision_unknown"
    hint = "The answer to a write names the latest revision in `x-revision`."


class CursorMismatch(BadRequest):
    """The cursor is that of another feed."""

    code = "cursor_mismatch"
    hint = "Send a cursor that the same feed has given, or leave it out to begin now."


class IncarnationEnded(ValueTrackerError):
    """The database was restored since this cursor was given."""

    status = 410
    code = "incarnation_ended"
    hint = "Read the values again, and go on with the cursor or ETag that comes with them."


class Compacted(ValueTrackerError):
    """The log was compacted and no longer reaches back that far."""

    status = 410
    code = "compacted"
    hint = "`details.oldest` is the oldest revision that can be read."
