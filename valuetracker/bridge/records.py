"""
The records that the bridge's routes answer with. Unlike the others they are in snake_case.

Paths of files and folders are shown to admins only: `without_paths` takes them out of a record.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, TypeVar

Record = TypeVar("Record")

PATH_FIELDS = frozenset(
    {
        "bundle_dir",
        "candidate",
        "data_root",
        "destination",
        "destination_dir",
        "extensions_dir",
        "path",
        "plugin_dir",
        "python",
        "resolved",
        "resolved_candidate",
        "source_dir",
    }
)
PATH_LISTS = frozenset({"roots", "watch_paths"})


def without_paths(record: Record) -> Record:
    """Return a record for callers who are no admins: null for each path, and no list of them."""
    found: Any = record
    if isinstance(found, list):
        found = [without_paths(each) for each in found]
    elif isinstance(found, dict):
        found = {
            name: None
            if name in PATH_FIELDS
            else []
            if name in PATH_LISTS
            else without_paths(value)
            for name, value in found.items()
        }
    return found  # type: ignore[no-any-return]


class Resolution(TypedDict):
    """One folder that the extension may be copied to; null if the setting is not set."""

    source: str
    candidate: str | None
    resolved: str | None
    exists: bool | None


class BridgeConfig(TypedDict):
    """The configuration of the bridge; it shows that there is a token, not the token."""

    enabled: bool
    base_url: str
    plugin_base: str
    extensions_dir: str | None
    data_root: str | None
    roots: list[str]
    allowed_origins: list[str]
    token_present: bool


class ManifestInfo(TypedDict):
    """A manifest or package file, and the version it names."""

    path: str | None
    exists: bool
    version: str | None
    error: str | None


class WatchPath(TypedDict):
    """A path to watch for changes."""

    path: str | None
    purpose: str
    exists: bool


class PluginSource(TypedDict):
    """The plugin that comes with this server."""

    plugin_dir: str | None
    bundle_dir: str | None
    package: ManifestInfo


class PluginStatus(TypedDict):
    """A comparison of the bundled plugin with the installed one."""

    source: PluginSource
    destination: str | None
    destination_exists: bool
    destination_package: ManifestInfo | None
    version_status: str
    needs_sync: bool
    python: str | None
    python_exists: bool


class ExtensionStatus(TypedDict):
    """A comparison of bundled and installed files; `needs_sync` is about the extension."""

    needs_sync: bool
    extension_needs_sync: bool
    plugin_needs_sync: bool
    overall_needs_sync: bool
    version_status: str
    plugin_version_status: str
    source_manifest: ManifestInfo
    dest_manifest: ManifestInfo
    plugin: PluginStatus
    watch_paths: list[WatchPath]


class BridgePaths(TypedDict):
    """The folder the extension comes from, the folder it goes to, and how it was chosen."""

    extension_name: str
    source_dir: str | None
    source_exists: bool
    destination_dir: str | None
    destination_exists: bool
    resolved_from: str
    resolved_candidate: str | None
    resolved_candidate_exists: bool
    resolution_chain: list[Resolution]
    config: BridgeConfig
    enabled: bool
    settings_path: str | None
    watch_paths: list[WatchPath]
    sync: NotRequired[ExtensionStatus]


class CopyAction(TypedDict):
    """One action, done or (in a dry run) planned: `mkdir`, `create`, `update` or `skip`."""

    action: str
    path: str


class ExtensionSync(TypedDict):
    """The result of copying the plugin and the extension."""

    source: str
    destination: str
    created: int
    updated: int
    skipped: int
    dirs_created: int
    files_processed: int
    actions: list[CopyAction]
    dry_run: bool
    paths: BridgePaths
    extension: ExtensionStatus


class Probe(TypedDict):
    """One request to SillyTavern; `status_code` is null if there was no answer."""

    ok: bool
    status_code: int | None
    latency_ms: float
    url: str
    error: str | None


class PluginProbe(Probe):
    """The health, name and version that the plugin inside SillyTavern reports."""

    plugin: str | None
    version: str | None


class ExtensionVersions(TypedDict):
    """Versions of the extension."""

    source: str | None
    installed: str | None
    status: str


class PluginVersions(TypedDict):
    """Versions of the plugin: bundled, installed and running."""

    bundled: str | None
    installed: str | None
    remote: str | None
    status: str


class BridgeVersions(TypedDict):
    """The versions of the extension and the plugin."""

    extension: ExtensionVersions
    plugin: PluginVersions


class Databases(TypedDict):
    """The databases of this server."""

    engine: str
    registered: int
    open: int


class BridgeHealth(TypedDict):
    """The health of SillyTavern and its plugin, and their versions."""

    status: str
    enabled: bool
    base_url: str
    plugin_base: str
    ping: Probe | None
    plugin: PluginProbe | None
    paths: BridgePaths
    config: BridgeConfig
    extension: ExtensionStatus
    versions: BridgeVersions
    alerts: list[str]
    databases: Databases


class PanelReply(TypedDict):
    """A reply in the shape that a chat panel shows."""

    role: str
    content: str
    emotion: NotRequired[Any]
    meta: NotRequired[dict[str, Any]]


class SyncMeasures(TypedDict):
    """How much was sent where, and how long that took; also `details` of a sync that failed."""

    message_count: int
    timeout: float
    latency_ms: float
    endpoint: str


class SessionSync(SyncMeasures):
    """The context that was sent to SillyTavern, and its answer."""

    ok: bool
    status: str
    reply: Any
    error: str | None
    sent: dict[str, Any]
    received: dict[str, Any]
    timestamp: str
    context: dict[str, Any]
    scene_source: str
    dry_run: bool
    panel_reply: PanelReply | None
    reply_text: str | None


class SyncSummary(SyncMeasures):
    """A summary of one recent session sync."""

    session_id: str
    ok: bool
    status: str
    error: str | None
    dry_run: bool
    timestamp: str


class RecentSyncs(TypedDict):
    """The latest session syncs, newest first."""

    items: list[SyncSummary]


class SessionAnswer(TypedDict):
    """The reply of a page, if there is one, and all values of the chat."""

    ok: bool
    reply: PanelReply | None
    variables: dict[str, Any]


class Prompt(TypedDict):
    """A session that waits for a page to reply, for at most `wait_ms`."""

    id: str
    extension_id: str
    session_id: str
    wait_ms: int
    context: dict[str, Any]


class PendingPrompt(TypedDict):
    """The prompt to reply to; null if there was none while the request waited."""

    prompt: Prompt | None


class ReplyTaken(TypedDict):
    """Confirmation that the reply was passed on."""

    ok: bool


class LorebookClone(TypedDict):
    """A copy of a lorebook, and the new uids of its entries by the old ones."""

    source: str
    name: str
    entries: int
    uids: dict[str, int]
    warnings: list[str]
