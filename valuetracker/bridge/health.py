"""
The health of the bridge: probes SillyTavern and its plugin, and compares their versions.
"""

from __future__ import annotations

import asyncio
import time

from valuetracker import __version__
from valuetracker.bridge.configuration import EXTENSION_NAME, Configuration
from valuetracker.bridge.install.paths import config_record, resolve_paths
from valuetracker.bridge.install.status import extension_status, paths_record
from valuetracker.bridge.origins import Origin, allowed_origin
from valuetracker.bridge.records import (
    BridgeHealth,
    BridgePaths,
    Databases,
    ExtensionStatus,
    PluginProbe,
    Probe,
)
from valuetracker.bridge.upstream import CSRF_PATH, Answer, Upstream
from valuetracker.errors import OriginNotAllowed, UpstreamFailed

LOGIN_REQUIRED = (401, 403)


async def probe_health(
    configuration: Configuration,
    databases: Databases,
    base_url: str | None = None,
    plugin_base: str | None = None,
    seconds: float = 3.0,
    through_plugin: bool = False,
) -> BridgeHealth:
    """Probe SillyTavern and the plugin; `through_plugin` if the plugin forwarded this request."""
    base_url = base_url if base_url is not None else configuration.base_url
    plugin_base = plugin_base if plugin_base is not None else configuration.plugin_base
    origin = allowed_origin(base_url, configuration)
    paths, extension = await asyncio.to_thread(_read_folders, configuration)
    installed = extension["plugin"]["destination_package"]
    ping: Probe | None = None
    plugin: PluginProbe | None = None
    if configuration.enabled:
        token = configuration.token
        ping, plugin = await asyncio.gather(
            _ping(origin, token, seconds), probe_plugin(origin, plugin_base, token, seconds)
        )
    if plugin is not None and through_plugin and plugin["status_code"] in LOGIN_REQUIRED:
        # SillyTavern requires a login before it forwards to a plugin. The plugin is running,
        # because it forwarded this request, and this server would have given its answer.
        plugin = {
            **plugin,
            "ok": True,
            "error": None,
            "plugin": EXTENSION_NAME,
            "version": __version__,
        }
    alerts = _alerts(configuration, extension, plugin)
    return {
        "status": _status(configuration, ping, plugin, alerts),
        "enabled": configuration.enabled,
        "base_url": origin.url,
        "plugin_base": plugin_base,
        "ping": ping,
        "plugin": plugin,
        "paths": paths,
        "config": config_record(configuration),
        "extension": extension,
        "versions": {
            "extension": {
                "source": extension["source_manifest"]["version"],
                "installed": extension["dest_manifest"]["version"],
                "status": extension["version_status"],
            },
            "plugin": {
                "bundled": extension["plugin"]["source"]["package"]["version"],
                "installed": installed["version"] if installed else None,
                "remote": plugin["version"] if plugin else None,
                "status": extension["plugin_version_status"],
            },
        },
        "alerts": alerts,
        "databases": databases,
    }


def _read_folders(configuration: Configuration) -> tuple[BridgePaths, ExtensionStatus]:
    paths = resolve_paths(configuration)
    return paths_record(paths), extension_status(paths)


async def _ping(origin: Origin, token: str, seconds: float) -> Probe:
    probe, _ = await _probe(origin, CSRF_PATH, token, seconds)
    return probe


async def probe_plugin(origin: Origin, plugin_base: str, token: str, seconds: float) -> PluginProbe:
    """Ask the plugin for its health, name and version."""
    probe, answer = await _probe(origin, plugin_base + "/health", token, seconds)
    plugin: PluginProbe = {**probe, "plugin": None, "version": None}
    if answer is None or not probe["ok"]:
        return plugin
    try:
        document = answer.document()
    except UpstreamFailed as error:
        return {**plugin, "ok": False, "error": error.message}
    if not isinstance(document, dict) or document.get("ok") is not True:
        return {**plugin, "ok": False, "error": "The plugin does not report that it is healthy."}
    name, version = document.get("plugin"), document.get("version")
    plugin["plugin"] = name if isinstance(name, str) else None
    plugin["version"] = version if isinstance(version, str) else None
    return plugin


async def _probe(
    origin: Origin, path: str, token: str, seconds: float
) -> tuple[Probe, Answer | None]:
    started = time.perf_counter()
    answer: Answer | None = None
    error: str | None = None
    try:
        async with Upstream(origin, token, seconds) as upstream:
            answer = await upstream.fetch("GET", path)
        if not answer.is_success:
            error = f"The status of the answer is {answer.status}."
    except (UpstreamFailed, OriginNotAllowed) as failure:
        error = failure.message
    return {
        "ok": error is None,
        "status_code": answer.status if answer else None,
        "latency_ms": milliseconds(started),
        "url": origin.url + path,
        "error": error,
    }, answer


def milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)


def _alerts(
    configuration: Configuration, extension: ExtensionStatus, plugin: PluginProbe | None
) -> list[str]:
    alerts: list[str] = []
    for what, status in (
        ("extension", extension["version_status"]),
        ("plugin", extension["plugin_version_status"]),
    ):
        if status in ("mismatch", "missing"):
            alerts.append(f"{what}_{status}")
    if not configuration.enabled:
        return ["feature_disabled", *alerts]
    bundled = extension["plugin"]["source"]["package"]["version"]
    if plugin is None or not plugin["ok"]:
        alerts.append("plugin_health_error")
    elif plugin["version"] != bundled:
        alerts.append("plugin_remote_mismatch")
    return alerts


def _status(
    configuration: Configuration,
    ping: Probe | None,
    plugin: PluginProbe | None,
    alerts: list[str],
) -> str:
    if not configuration.enabled:
        return "disabled"
    if ping is None or plugin is None:
        return "offline"
    if ping["status_code"] is None and plugin["status_code"] is None:
        return "offline"
    return "ok" if ping["ok"] and plugin["ok"] and not alerts else "degraded"
