"""
The errors that the API answers with, and those that stop the server from starting.

    ValueTrackerError
    ├── BadRequest            400  the request itself is wrong
    │   ├── MalformedRequest, InvalidPath, InvalidQuery, InvalidBody, InvalidHeader
    │   ├── ExtensionIdRequired, InvalidExtensionId, InvalidId, InvalidKey, InvalidName
    │   ├── NumberOutOfRange, TooDeep, TooManyKeys, TooManyAnchors, RepeatedMessage
    │   ├── InvalidAt, RevisionUnknown, CursorMismatch, InvalidPatch, InvalidOperation
    │   ├── PathNotAllowed, InvalidHost, InvalidUser, ImportInvalid, ImportTooNew
    │   └── NoDestination, NotSillyTavern
    ├── Unauthorized          401
    │   └── TokenRequired, TokenInvalid
    ├── Forbidden             403
    │   ├── HostNotAllowed, OriginNotAllowed, CrossSite
    │   ├── ScopeMissing, AdminRequired
    │   └── OutsideRoots, SymlinkRefused
    ├── NotFound              404
    │   ├── RouteNotFound, ExtensionNotRegistered, JobNotFound, BackupNotFound, NotInBackup
    │   ├── TokenNotFound
    │   ├── CharacterNotFound, InstanceNotFound, DataKeyNotFound
    │   ├── ChatNotFound, MessageNotFound, VersionNotFound, ProcessedNotFound
    │   ├── OperationNotFound, CheckpointNotFound
    │   └── SourceNotFound, NotInstalled, LorebookNotFound, PromptNotFound
    ├── MethodNotAllowed      405
    ├── RequestTimeout        408
    ├── Conflict              409
    │   ├── ExtensionExists, PathInUse, PathDiffers, ExtensionNotEmpty, IdsClash
    │   ├── BackupRunning, RestoreOverwrites, BackupUnusable, AdminTokenFirst
    │   ├── StaleSession, ChatMismatch, ChatArchived, ChatExists
    │   ├── OperationExists, IllegalMove, StaleClaim, OperationsPending, MessageHidden
    │   ├── CheckpointExists, CheckpointWaiting, CheckpointFailed, CheckpointInvalid
    │   ├── TypeConflict, NumberLeftRange, PatchFailed, PatchTestFailed
    │   ├── PluginConflict, NewerInstalled, PythonUnusable, NotWritable
    │   └── LorebookExists, LorebookDamaged
    ├── Compacted, IncarnationEnded  410
    ├── RevisionConflict      412
    ├── TooLarge              413
    │   └── BodyTooLarge, ValueTooLarge
    ├── UnsupportedMediaType  415
    ├── ExpectationFailed     417
    ├── IdempotencyMismatch   422
    ├── TooManyReaders        429
    ├── RateLimited           429
    ├── HeadersTooLarge       431
    ├── UpstreamFailed        502
    ├── Unavailable           503
    │   ├── DatabaseDamaged, DatabaseTooNew, DatabaseTooOld, DatabaseUnavailable
    │   └── TooManyConnections
    ├── StorageFull           507
    └── QuotaExceeded         507

    StartupError              never answered over HTTP: the server did not start
    └── PortUnusable, RegistryUnusable, DataDirectoryInUse, DatabaseInUse, TokenNeeded

The class is the documentation. Its docstring is the default message, `code` never changes
once released, and `hint` says what to do next. Raise an error where you detect it and catch
it nowhere: `http/dispatch.py` turns it into an answer.

To add an error: write the class in the module of its theme, put its name into the tree above,
and add its status and code to `tests/test_errors.py`. All names are imported from here. This
package knows nothing of the rest of Value Tracker.
"""

# Star imports, so that the name of an error is written in one module and in the tree above only.
from valuetracker.errors.access import *  # noqa: F403
from valuetracker.errors.base import *  # noqa: F403
from valuetracker.errors.chats import *  # noqa: F403
from valuetracker.errors.databases import *  # noqa: F403
from valuetracker.errors.request import *  # noqa: F403
from valuetracker.errors.sillytavern import *  # noqa: F403
from valuetracker.errors.startup import *  # noqa: F403
from valuetracker.errors.values import *  # noqa: F403
