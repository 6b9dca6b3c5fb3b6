"""The errors: statuses and codes that never change, messages and hints."""

from __future__ import annotations

import re

import pytest

from valuetracker import errors
from valuetracker.errors import (
    DataDirectoryInUse,
    ExtensionNotRegistered,
    InvalidBody,
    MethodNotAllowed,
    RouteNotFound,
    StartupError,
    ValueTrackerError,
)

# Once released, these never change: programs compare them.
CODES = {
    "InvalidHost": (400, "invalid_host"),
    "InvalidUser": (400, "invalid_user"),
    "TokenRequired": (401, "token_required"),
    "TokenInvalid": (401, "token_invalid"),
    "HostNotAllowed": (403, "host_not_allowed"),
    "OriginNotAllowed": (403, "origin_not_allowed"),
    "CrossSite": (403, "cross_site"),
    "ScopeMissing": (403, "scope_missing"),
    "AdminRequired": (403, "admin_required"),
    "RequestTimeout": (408, "request_timeout"),
    "ExpectationFailed": (417, "expectation_failed"),
    "TooManyReaders": (429, "too_many_readers"),
    "HeadersTooLarge": (431, "headers_too_large"),
    "TooManyConnections": (503, "too_many_connections"),
    "ValueTrackerError": (500, "internal_error"),
    "MalformedRequest": (400, "malformed_request"),
    "InvalidPath": (400, "invalid_path"),
    "InvalidQuery": (400, "invalid_query"),
    "InvalidHeader": (400, "invalid_header"),
    "InvalidBody": (400, "invalid_body"),
    "ExtensionIdRequired": (400, "extension_id_required"),
    "InvalidExtensionId": (400, "invalid_extension_id"),
    "InvalidId": (400, "invalid_id"),
    "InvalidKey": (400, "invalid_key"),
    "InvalidName": (400, "invalid_name"),
    "NumberOutOfRange": (400, "number_out_of_range"),
    "TooDeep": (400, "too_deep"),
    "TooManyKeys": (400, "too_many_keys"),
    "TooManyAnchors": (400, "too_many_anchors"),
    "RepeatedMessage": (400, "repeated_message"),
    "InvalidAt": (400, "invalid_at"),
    "RevisionUnknown": (400, "revision_unknown"),
    "CursorMismatch": (400, "cursor_mismatch"),
    "InvalidPatch": (400, "invalid_patch"),
    "InvalidOperation": (400, "invalid_operation"),
    "PathNotAllowed": (400, "path_not_allowed"),
    "NoDestination": (400, "no_destination"),
    "NotSillyTavern": (400, "not_sillytavern"),
    "OutsideRoots": (403, "outside_roots"),
    "SymlinkRefused": (403, "symlink_refused"),
    "SourceNotFound": (404, "source_not_found"),
    "NotInstalled": (404, "not_installed"),
    "LorebookNotFound": (404, "lorebook_not_found"),
    "PromptNotFound": (404, "prompt_not_found"),
    "PluginConflict": (409, "plugin_conflict"),
    "NewerInstalled": (409, "newer_installed"),
    "PythonUnusable": (409, "python_unusable"),
    "NotWritable": (409, "not_writable"),
    "LorebookExists": (409, "lorebook_exists"),
    "LorebookDamaged": (409, "lorebook_damaged"),
    "UpstreamFailed": (502, "upstream_failed"),
    "RouteNotFound": (404, "not_found"),
    "ExtensionNotRegistered": (404, "extension_not_registered"),
    "CharacterNotFound": (404, "character_not_found"),
    "ChatNotFound": (404, "chat_not_found"),
    "MessageNotFound": (404, "message_not_found"),
    "VersionNotFound": (404, "version_not_found"),
    "ProcessedNotFound": (404, "processed_not_found"),
    "OperationNotFound": (404, "operation_not_found"),
    "CheckpointNotFound": (404, "checkpoint_not_found"),
    "OperationExists": (409, "operation_exists"),
    "IllegalMove": (409, "illegal_move"),
    "MessageHidden": (409, "message_hidden"),
    "StaleClaim": (409, "stale_claim"),
    "OperationsPending": (409, "operations_pending"),
    "CheckpointExists": (409, "checkpoint_exists"),
    "CheckpointWaiting": (409, "checkpoint_waiting"),
    "CheckpointFailed": (409, "checkpoint_failed"),
    "CheckpointInvalid": (409, "checkpoint_invalid"),
    "StaleSession": (409, "stale_session"),
    "ChatMismatch": (409, "chat_mismatch"),
    "ChatArchived": (409, "chat_archived"),
    "ChatExists": (409, "chat_exists"),
    "InstanceNotFound": (404, "instance_not_found"),
    "DataKeyNotFound": (404, "data_key_not_found"),
    "MethodNotAllowed": (405, "method_not_allowed"),
    "ExtensionExists": (409, "extension_exists"),
    "PathInUse": (409, "path_in_use"),
    "PathDiffers": (409, "path_differs"),
    "ExtensionNotEmpty": (409, "extension_not_empty"),
    "IdsClash": (409, "ids_clash"),
    "JobNotFound": (404, "job_not_found"),
    "BackupNotFound": (404, "backup_not_found"),
    "BackupRunning": (409, "backup_running"),
    "TokenNotFound": (404, "token_not_found"),
    "AdminTokenFirst": (409, "admin_token_first"),
    "RateLimited": (429, "rate_limited"),
    "QuotaExceeded": (507, "quota_exceeded"),
    "NotInBackup": (404, "not_in_backup"),
    "RestoreOverwrites": (409, "restore_overwrites"),
    "BackupUnusable": (409, "backup_unusable"),
    "ImportInvalid": (400, "import_invalid"),
    "ImportTooNew": (400, "import_too_new"),
    "TypeConflict": (409, "type_conflict"),
    "NumberLeftRange": (409, "number_out_of_range"),
    "PatchFailed": (409, "patch_failed"),
    "PatchTestFailed": (409, "test_failed"),
    "Compacted": (410, "compacted"),
    "IncarnationEnded": (410, "incarnation_ended"),
    "RevisionConflict": (412, "revision_conflict"),
    "BodyTooLarge": (413, "body_too_large"),
    "ValueTooLarge": (413, "value_too_large"),
    "UnsupportedMediaType": (415, "unsupported_media_type"),
    "IdempotencyMismatch": (422, "idempotency_mismatch"),
    "DatabaseUnavailable": (503, "database_unavailable"),
    "DatabaseDamaged": (503, "database_damaged"),
    "DatabaseTooNew": (503, "database_too_new"),
    "DatabaseTooOld": (503, "database_too_old"),
    "StorageFull": (507, "storage_full"),
}


def family(root: type[ValueTrackerError] = ValueTrackerError) -> list[type[ValueTrackerError]]:
    return [root, *(each for child in root.__subclasses__() for each in family(child))]


def raised() -> list[type[ValueTrackerError]]:
    """Return the classes that are raised: the leaves, and the root for unexpected errors."""
    return [each for each in family() if each is ValueTrackerError or not each.__subclasses__()]


@pytest.mark.parametrize(("name", "expected"), CODES.items())
def test_status_and_code_never_change(name: str, expected: tuple[int, str]) -> None:
    kind = getattr(errors, name)

    assert (kind.status, kind.code) == expected


def test_the_code_of_every_error_that_is_raised_is_listed_here() -> None:
    names = {each.__name__ for each in raised()}

    assert names - set(CODES) == set(), (
        "Add the status and the code of these errors to CODES in tests/test_errors.py."
    )
    assert set(CODES) - names == set(), (
        "These errors are in CODES and not among the classes that are raised. A code that was "
        "released stays."
    )


def test_no_two_errors_that_are_raised_share_a_code() -> None:
    # A number may be out of range in the request (400) or in the result (409).
    codes = sorted(each.code for each in raised() if each.__name__ != "NumberLeftRange")

    assert codes == sorted(set(codes)), "Two classes have the same code: change the new one."


@pytest.mark.parametrize("kind", family(), ids=lambda kind: kind.__name__)
def test_every_class_has_a_message_and_a_snake_case_code(
    kind: type[ValueTrackerError],
) -> None:
    message = (kind.__doc__ or "").strip()

    assert message, f"Give {kind.__name__} a docstring: it is the message that callers get."
    assert "\n" not in message, f"The docstring of {kind.__name__} is the message: write one line."
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)


@pytest.mark.parametrize("kind", family(), ids=lambda kind: kind.__name__)
def test_the_family_is_drawn_in_the_docstring(kind: type[ValueTrackerError]) -> None:
    assert re.search(rf"\b{kind.__name__}\b", errors.__doc__ or ""), (
        f"Put {kind.__name__} into the tree in the docstring of valuetracker/errors/__init__.py."
    )


def test_the_message_is_the_docstring_unless_another_is_given() -> None:
    assert RouteNotFound().body() == {
        "error": "There is no such route.",
        "code": "not_found",
        "hint": "`GET /api/plugins/valuetracker/docs` lists the routes.",
        "details": {},
    }
    assert InvalidBody("Not that.", hint="This.", at=3).body() == {
        "error": "Not that.",
        "code": "invalid_body",
        "hint": "This.",
        "details": {"at": 3},
    }


def test_an_unknown_extension_is_named() -> None:
    assert ExtensionNotRegistered("mine").body()["error"] == (
        "Database not found for extension: mine"
    )


def test_details_are_part_of_the_body() -> None:
    assert MethodNotAllowed(allow=["GET"]).body()["details"] == {"allow": ["GET"]}


def test_errors_at_the_start_have_exit_codes() -> None:
    assert (StartupError.exit_code, DataDirectoryInUse.exit_code) == (1, 3)
