"""
The root of the errors, and one class for each status that several errors share.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ValueTrackerError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    hint: ClassVar[str | None] = None

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, **details: Any
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.advice = hint or type(self).hint
        self.details = details
        super().__init__(self.message)

    def at_index(self, index: int) -> None:
        """Add the index of the batch operation that failed."""
        self.details["index"] = index

    def of_extension(self, extension_id: str) -> None:
        """Add the extension that is refused, in a request that names several."""
        self.details["extensionId"] = extension_id

    def body(self) -> dict[str, Any]:
        """Return the JSON body that every error is answered with."""
        return {
            "error": self.message,
            "code": self.code,
            "hint": self.advice,
            "details": self.details,
        }


class BadRequest(ValueTrackerError):
    """The request is not valid."""

    status = 400
    code = "bad_request"


class Unauthorized(ValueTrackerError):
    """The caller is not identified."""

    status = 401
    hint = "Send `Authorization: Bearer <token>`; `valuetracker token create` makes a token."


class Forbidden(ValueTrackerError):
    """This is not allowed."""

    status = 403
    code = "forbidden"


class NotFound(ValueTrackerError):
    """Not found."""

    status = 404
    code = "not_found"


class Conflict(ValueTrackerError):
    """The request conflicts with the current state."""

    status = 409
    code = "conflict"


class TooLarge(ValueTrackerError):
    """Too large."""

    status = 413
    code = "too_large"


class Unavailable(ValueTrackerError):
    """The database cannot be used at the moment."""

    status = 503
    code = "database_unavailable"
