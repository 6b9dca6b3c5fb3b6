"""
Errors of chats and of the things that belong to one: series, operations, checkpoints.
"""

from __future__ import annotations

from valuetracker.errors.base import BadRequest, Conflict, NotFound


class TooManyAnchors(BadRequest):
    """The chain has too many messages."""

    code = "too_many_anchors"
    hint = "`GET /limits` says how many messages a chain may have."


class RepeatedMessage(BadRequest):
    """The chain names a message twice."""

    code = "repeated_message"
    hint = "Message ids are never reused; an array index is not an id."


class ChatNotFound(NotFound):
    """Chat not found"""

    code = "chat_not_found"
    hint = "A chat is created when it is opened or written to."


class MessageNotFound(NotFound):
    """The message is not in the visible chain of the chat."""

    code = "message_not_found"
    hint = "Reconcile the chat first, or choose a visible message."


class VersionNotFound(NotFound):
    """Version not found"""

    code = "version_not_found"


class ProcessedNotFound(NotFound):
    """The id is not marked as processed."""

    code = "processed_not_found"


class OperationNotFound(NotFound):
    """Operation not found"""

    code = "operation_not_found"


class CheckpointNotFound(NotFound):
    """Checkpoint not found"""

    code = "checkpoint_not_found"


class StaleSession(Conflict):
    """The session has ended."""

    code = "stale_session"
    hint = "Open the chat again and use the session of that answer."


class ChatMismatch(Conflict):
    """The write names something that belongs to another chat."""

    code = "chat_mismatch"
    hint = "The user has changed the chat meanwhile: load the chat that is open now."


class ChatArchived(Conflict):
    """The chat is archived and cannot be written to."""

    code = "chat_archived"
    hint = "`POST /chats/:chat/open` takes it out of the archive."


class ChatExists(Conflict):
    """A chat with this id exists already."""

    code = "chat_exists"


class OperationExists(Conflict):
    """An operation with this id exists already."""

    code = "operation_exists"


class IllegalMove(Conflict):
    """The operation has ended."""

    code = "illegal_move"
    hint = "An operation that has ended cannot be changed; add another one."


class MessageHidden(Conflict):
    """The message, or this swipe of it, is hidden."""

    code = "message_hidden"
    hint = "The user has left that telling of the story; reconcile the chat if it is shown again."


class StaleClaim(Conflict):
    """The operation is no longer claimed with this claim."""

    code = "stale_claim"
    hint = "The lease has expired, or another client has claimed the operation. Claim again."


class OperationsPending(Conflict):
    """There are operations in the queue."""

    code = "operations_pending"


class CheckpointExists(Conflict):
    """A checkpoint with this name exists already."""

    code = "checkpoint_exists"


class CheckpointWaiting(Conflict):
    """The checkpoint has not been made yet."""

    code = "checkpoint_waiting"
    hint = "It is made when the last operation of the chat has ended."


class CheckpointFailed(Conflict):
    """The checkpoint could not be made."""

    code = "checkpoint_failed"


class CheckpointInvalid(Conflict):
    """The checkpoint does not validate."""

    code = "checkpoint_invalid"
    hint = "`details.errors` says why. Send `force: true` to use it nevertheless."
