"""
Every failure a caller can be told about, as one family.

    ValueTrackerError
    ├── BadRequest            400  the request itself is wrong
    │   ├── MalformedRequest, InvalidPath, InvalidQuery, InvalidBody, InvalidHeader
    │   ├── ExtensionIdRequired, InvalidExtensionId, InvalidId, InvalidKey, InvalidName
    │   ├── NumberOutOfRange, TooDeep, TooManyKeys, TooManyAnchors, RepeatedMessage
    │   ├── InvalidAt, RevisionUnknown, InvalidPatch, InvalidOperation
    │   ├── PathNotAllowed, InvalidHost, InvalidUser
    │   └── NoDestination, NotSillyTavern
    ├── Unauthorized          401
    │   └── TokenRequired, TokenInvalid
    ├── Forbidden             403
    │   ├── HostNotAllowed, OriginNotAllowed, CrossSite
    │   ├── ScopeMissing, AdminRequired
    │   └── OutsideRoots, SymlinkRefused
    ├── NotFound              404
    │   ├── RouteNotFound, ExtensionNotRegistered
    │   ├── CharacterNotFound, InstanceNotFound, DataKeyNotFound
    │   ├── ChatNotFound, MessageNotFound, VersionNotFound, ProcessedNotFound
    │   ├── OperationNotFound, CheckpointNotFound
    │   └── SourceNotFound, NotInstalled, LorebookNotFound, PromptNotFound
    ├── MethodNotAllowed      405
    ├── RequestTimeout        408
    ├── Conflict              409
    │   ├── ExtensionExists, PathInUse, PathDiffers
    │   ├── StaleSession, ChatMismatch, ChatArchived, ChatExists
    │   ├── OperationExists, IllegalMove, StaleClaim, OperationsPending
    │   ├── CheckpointExists, CheckpointWaiting, CheckpointFailed, CheckpointInvalid
    │   ├── TypeConflict, NumberLeftRange, PatchFailed, PatchTestFailed
    │   ├── PluginConflict, NewerInstalled, PythonUnusable, NotWritable
    │   └── LorebookExists, LorebookDamaged
    ├── Compacted             410
    ├── RevisionConflict      412
    ├── TooLarge              413
    │   └── BodyTooLarge, ValueTooLarge
    ├── UnsupportedMediaType  415
    ├── ExpectationFailed     417
    ├── IdempotencyMismatch   422
    ├── TooManyReaders        429
    ├── HeadersTooLarge       431
    ├── UpstreamFailed        502
    ├── Unavailable           503
    │   ├── DatabaseDamaged, DatabaseTooNew, DatabaseUnavailable
    │   └── TooManyConnections
    └── StorageFull           507

    StartupError              never answered over HTTP: the server did not start
    └── PortUnusable, DataDirectoryInUse, TokenNeeded

The class is the documentation: its docstring is the default sentence, `code` never
changes once released, `hint` says what to do next. Raise one where you find out;
catch it nowhere. `dispatch` turns it into an answer, once.
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
        """Name the operation of a batch that this is about."""
        self.details["index"] = index

    def body(self) -> dict[str, Any]:
        """The one shape every error is answered in."""
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


class MalformedRequest(BadRequest):
    """This is not valid HTTP."""

    code = "malformed_request"


class InvalidPath(BadRequest):
    """The path holds a malformed escape or bytes that are not UTF-8."""

    code = "invalid_path"
    hint = "Encode each path segment with encodeURIComponent."


class InvalidQuery(BadRequest):
    """The query string is not valid."""

    code = "invalid_query"


class InvalidHeader(BadRequest):
    """A header is not valid."""

    code = "invalid_header"


class InvalidBody(BadRequest):
    """The body is not what this route expects."""

    code = "invalid_body"
    hint = "Send one JSON document with `Content-Type: application/json`."


class ExtensionIdRequired(BadRequest):
    """The x-extension-id header is required."""

    code = "extension_id_required"
    hint = "Name your extension in the `x-extension-id` header."


class InvalidExtensionId(BadRequest):
    """The extension id is not valid."""

    code = "invalid_extension_id"
    hint = "Use 1 to 128 of the characters A-Z, a-z, 0-9, `_` and `-`."


class InvalidId(BadRequest):
    """The id is not valid."""

    code = "invalid_id"
    hint = "Use text without control characters and without blanks at either end."


class InvalidKey(BadRequest):
    """The key is not valid."""

    code = "invalid_key"
    hint = "Use 1 to 1024 characters, none of them a control character."


class InvalidName(BadRequest):
    """The name is not valid."""

    code = "invalid_name"
    hint = "Use text of at most 1024 characters."


class NumberOutOfRange(BadRequest):
    """A number is outside the range that can be kept exactly."""

    code = "number_out_of_range"
    hint = "Integers go from -2^63 to 2^64-1; send larger ones as strings."


class TooDeep(BadRequest):
    """A value is nested too deeply."""

    code = "too_deep"
    hint = "`GET /limits` says how deep a value may be."


class TooManyKeys(BadRequest):
    """The request names too many keys."""

    code = "too_many_keys"
    hint = "Split the request; `GET /limits` says how many keys one may name."


class TooManyAnchors(BadRequest):
    """The chain has too many messages."""

    code = "too_many_anchors"
    hint = "`GET /limits` says how many messages a chain may have."


class RepeatedMessage(BadRequest):
    """The chain names a message twice."""

    code = "repeated_message"
    hint = "Ids of messages are never reused; an array index is not an id."


class PathNotAllowed(BadRequest):
    """The database path is outside the directories this server may use."""

    code = "path_not_allowed"
    hint = "Use a path relative to the data directory, or have the root allowed with --allow-root."


class NoDestination(BadRequest):
    """There is no SillyTavern to copy to."""

    code = "no_destination"
    hint = "Name its folder in SILLYTAVERN_PATH, or with `--st-root`."


class NotSillyTavern(BadRequest):
    """This is not the folder of a SillyTavern."""

    code = "not_sillytavern"
    hint = "Name the folder that holds SillyTavern's `server.js` and `public`."


class InvalidAt(BadRequest):
    """This is neither a revision nor a time."""

    code = "invalid_at"
    hint = "Give a revision in digits, or an ISO 8601 time such as 2026-01-31T12:00:00Z."


class RevisionUnknown(BadRequest):
    """There is no such revision yet."""

    code = "revision_unknown"
    hint = "The answer to any write has the latest one in `x-revision`."


class InvalidPatch(BadRequest):
    """The patch is not valid."""

    code = "invalid_patch"
    hint = "RFC 6902 says what a JSON Patch is; its paths begin with the key: `/hp`."


class InvalidOperation(BadRequest):
    """An operation of the batch is not valid."""

    code = "invalid_operation"
    hint = "API.md lists the operations and their fields."


class NotFound(ValueTrackerError):
    """Not found."""

    status = 404
    code = "not_found"


class RouteNotFound(NotFound):
    """There is no such route."""

    hint = "`GET /api/plugins/valuetracker/docs` lists the routes."


class ExtensionNotRegistered(NotFound):
    """Database not found for extension."""

    code = "extension_not_registered"
    hint = "Register it first with `POST /register`; ids are compared letter by letter."

    def __init__(self, extension_id: str) -> None:
        super().__init__(f"Database not found for extension: {extension_id}")


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


class ChatNotFound(NotFound):
    """Chat not found"""

    code = "chat_not_found"
    hint = "A chat comes into being when it is opened or written to."


class MessageNotFound(NotFound):
    """The message is not in the visible chain of the chat."""

    code = "message_not_found"
    hint = "Reconcile the chat first, or choose a message that is visible."


class VersionNotFound(NotFound):
    """Version not found"""

    code = "version_not_found"


class ProcessedNotFound(NotFound):
    """The id is not among the processed ones."""

    code = "processed_not_found"


class OperationNotFound(NotFound):
    """Operation not found"""

    code = "operation_not_found"


class CheckpointNotFound(NotFound):
    """Checkpoint not found"""

    code = "checkpoint_not_found"


class SourceNotFound(NotFound):
    """The folder to copy from is not there."""

    code = "source_not_found"


class NotInstalled(NotFound):
    """It is not installed there."""

    code = "not_installed"
    hint = "`valuetracker sillytavern install` installs it."


class LorebookNotFound(NotFound):
    """Lorebook not found"""

    code = "lorebook_not_found"


class PromptNotFound(NotFound):
    """Nobody waits for this reply any more."""

    code = "prompt_not_found"


class MethodNotAllowed(ValueTrackerError):
    """This route does not take that method."""

    status = 405
    code = "method_not_allowed"


class Conflict(ValueTrackerError):
    """The request conflicts with what is there."""

    status = 409
    code = "conflict"


class ExtensionExists(Conflict):
    """An extension of that name, written in other case, exists already."""

    code = "extension_exists"
    hint = "Ids are unique regardless of case: use the spelling first registered."


class PathInUse(Conflict):
    """That file belongs to something else."""

    code = "path_in_use"
    hint = "Choose another dbPath, or leave it out."


class PathDiffers(Conflict):
    """The extension is registered with another path."""

    code = "path_differs"
    hint = "Deregister it first, or leave dbPath out."


class StaleSession(Conflict):
    """The session has ended."""

    code = "stale_session"
    hint = "Open the chat again and use the session it gives."


class ChatMismatch(Conflict):
    """What is written to belongs to another chat."""

    code = "chat_mismatch"
    hint = "The chat was changed meanwhile: load the one that is open now."


class ChatArchived(Conflict):
    """The chat is archived and takes no writes."""

    code = "chat_archived"
    hint = "`POST /chats/:chat/open` brings it back."


class ChatExists(Conflict):
    """A chat of that id exists already."""

    code = "chat_exists"


class OperationExists(Conflict):
    """An operation of that id exists already."""

    code = "operation_exists"


class IllegalMove(Conflict):
    """The operation has ended."""

    code = "illegal_move"
    hint = "What has ended stays as it is; add another operation."


class StaleClaim(Conflict):
    """The claim is no longer the operation's."""

    code = "stale_claim"
    hint = "Its lease has run out, or somebody else has it. Claim again."


class OperationsPending(Conflict):
    """There are operations in the queue."""

    code = "operations_pending"


class CheckpointExists(Conflict):
    """A checkpoint of that name exists already."""

    code = "checkpoint_exists"


class CheckpointWaiting(Conflict):
    """The checkpoint has not been made yet."""

    code = "checkpoint_waiting"
    hint = "It will be, when the last operation of the chat has ended."


class CheckpointFailed(Conflict):
    """The checkpoint could not be made."""

    code = "checkpoint_failed"


class CheckpointInvalid(Conflict):
    """The checkpoint does not agree with the log."""

    code = "checkpoint_invalid"


class TypeConflict(Conflict):
    """The value is not of a type this can be done with."""

    code = "type_conflict"
    hint = "Read the value; nothing was changed."


class NumberLeftRange(Conflict):
    """The result is outside the range that can be kept exactly."""

    code = "number_out_of_range"
    hint = "Integers go from -2^63 to 2^64-1; nothing was changed."


class PatchFailed(Conflict):
    """The patch names a place that is not there."""

    code = "patch_failed"
    hint = "Read the values and patch what is there; nothing was changed."


class PatchTestFailed(Conflict):
    """A test of the patch failed."""

    code = "test_failed"
    hint = "Read the values again; nothing was changed."


class PluginConflict(Conflict):
    """Something else is there already."""

    code = "plugin_conflict"
    hint = "Move it out of SillyTavern's folder first; nothing was changed."


class NewerInstalled(Conflict):
    """A newer version is installed."""

    code = "newer_installed"
    hint = "Upgrade Value Tracker, or install the older one over it with `--force`."


class PythonUnusable(Conflict):
    """The Python that runs this could not run the server from another folder."""

    code = "python_unusable"
    hint = "Install the package for it: `python3 -m pip install .` in the checkout."


class NotWritable(Conflict):
    """The file or folder cannot be used."""

    code = "not_writable"
    hint = "Look at who owns it and who may write to it."


class LorebookExists(Conflict):
    """A lorebook of that name exists already."""

    code = "lorebook_exists"


class LorebookDamaged(Conflict):
    """The lorebook's file cannot be read as one."""

    code = "lorebook_damaged"
    hint = "Nothing was changed. Open the lorebook in SillyTavern and save it again."


class Compacted(ValueTrackerError):
    """That far back the log has been folded."""

    status = 410
    code = "compacted"
    hint = "`details.oldest` is the oldest revision that can be read."


class RevisionConflict(ValueTrackerError):
    """It has changed since you last read it."""

    status = 412
    code = "revision_conflict"
    hint = "Read it again and retry with its current revision."


class TooLarge(ValueTrackerError):
    """Too large."""

    status = 413
    code = "too_large"


class BodyTooLarge(TooLarge):
    """The body is too large."""

    code = "body_too_large"
    hint = "`GET /limits` says how large a body may be."


class ValueTooLarge(TooLarge):
    """A value is too large."""

    code = "value_too_large"
    hint = "`GET /limits` says how large a value may be."


class UnsupportedMediaType(ValueTrackerError):
    """The body is of a media type this route does not take."""

    status = 415
    code = "unsupported_media_type"
    hint = "Send JSON in UTF-8, uncompressed, with `Content-Type: application/json`."


class IdempotencyMismatch(ValueTrackerError):
    """This Idempotency-Key was used for another request."""

    status = 422
    code = "idempotency_mismatch"
    hint = "Use a new key for every new request."


class UpstreamFailed(ValueTrackerError):
    """SillyTavern could not be reached, or its answer could not be used."""

    status = 502
    code = "upstream_failed"
    hint = "`GET /st/health` says what can be reached."


class Unavailable(ValueTrackerError):
    """The database cannot be used at the moment."""

    status = 503
    code = "database_unavailable"


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached at the moment."""

    hint = "Try again; the server's log says more."


class DatabaseDamaged(Unavailable):
    """The database of this extension is damaged, missing or not the one it was."""

    code = "database_damaged"
    hint = (
        "The file is kept as it is. Put a good copy in its place, or give it up with "
        "`DELETE /register` and `purge: true`, which moves it to the trash folder."
    )


class DatabaseTooNew(Unavailable):
    """The database was written by a newer version of Value Tracker."""

    code = "database_too_new"
    hint = "Upgrade Value Tracker."


class StorageFull(ValueTrackerError):
    """There is no room left to store this."""

    status = 507
    code = "storage_full"
    hint = "Nothing was changed. Free some space and try again."


class InvalidHost(BadRequest):
    """The request must name one host."""

    code = "invalid_host"
    hint = "Send exactly one `Host` header."


class InvalidUser(BadRequest):
    """The user's handle is not valid."""

    code = "invalid_user"


class Unauthorized(ValueTrackerError):
    """Nobody knows who is asking."""

    status = 401
    hint = "Send `Authorization: Bearer <token>`; `valuetracker token create` makes one."


class TokenRequired(Unauthorized):
    """A token is required here."""

    code = "token_required"


class TokenInvalid(Unauthorized):
    """The token is not known."""

    code = "token_invalid"


class Forbidden(ValueTrackerError):
    """This is not allowed."""

    status = 403
    code = "forbidden"


class HostNotAllowed(Forbidden):
    """The server is not to be addressed by this name."""

    code = "host_not_allowed"
    hint = "Use http://127.0.0.1 or http://localhost, or allow the name with `--allow-host`."


class OriginNotAllowed(Forbidden):
    """Pages of this origin may not use the server."""

    code = "origin_not_allowed"
    hint = "Allow the origin with `--allow-origin`, if its pages are to be trusted."


class CrossSite(Forbidden):
    """Requests that another site's page made are not answered."""

    code = "cross_site"
    hint = "Allow the page's origin with `--allow-origin`, and let it fetch with CORS."


class ScopeMissing(Forbidden):
    """The token is not for this extension."""

    code = "scope_missing"
    hint = "Make a token with `valuetracker token create --extension ID`."


class AdminRequired(Forbidden):
    """Only an admin may do this."""

    code = "admin_required"


class OutsideRoots(Forbidden):
    """The folder lies outside those the bridge may use."""

    code = "outside_roots"
    hint = "Allow a SillyTavern folder with `--st-root`."


class SymlinkRefused(Forbidden):
    """The way there leads through a symbolic link."""

    code = "symlink_refused"
    hint = "Put the folder itself in its place, or do by hand what was to be done."


class RequestTimeout(ValueTrackerError):
    """The request did not arrive in time."""

    status = 408
    code = "request_timeout"


class ExpectationFailed(ValueTrackerError):
    """Nothing but 100-continue can be expected."""

    status = 417
    code = "expectation_failed"


class TooManyReaders(ValueTrackerError):
    """Too many are following the feed already."""

    status = 429
    code = "too_many_readers"
    hint = "Close other readers, or poll `/changes` without `wait`."


class HeadersTooLarge(ValueTrackerError):
    """The headers are too long, or there are too many."""

    status = 431
    code = "headers_too_large"


class TooManyConnections(Unavailable):
    """There are too many connections at the moment."""

    code = "too_many_connections"
    hint = "Close connections that are not needed, and try again."


class StartupError(Exception):
    """The server could not start."""

    exit_code: ClassVar[int] = 1
    hint: ClassVar[str | None] = None


class PortUnusable(StartupError):
    """The server cannot listen there."""

    hint = "Choose another port with `--port`; 0 picks a free one."


class DataDirectoryInUse(StartupError):
    """Another server is using the data directory."""

    exit_code = 3
    hint = "Stop that server first, or give this one a `--data-dir` of its own."


class TokenNeeded(StartupError):
    """Whoever can reach the server could use it."""

    hint = "Make a token first: `valuetracker token create --name me --admin`."
