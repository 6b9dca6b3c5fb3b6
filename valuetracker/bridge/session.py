"""
Sessions of a story: the context that is sent to SillyTavern, and the reply.

The context (session, scene, values, latest messages) has one shape, which the receiving route
`/session/sync` accepts as well.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.bridge.configuration import Configuration
from valuetracker.bridge.health import milliseconds
from valuetracker.bridge.origins import Origin
from valuetracker.bridge.records import PanelReply, SessionSync, SyncMeasures, SyncSummary
from valuetracker.bridge.upstream import Upstream
from valuetracker.errors import UpstreamFailed, ValueTrackerError
from valuetracker.records import now

SPEAKERS = ("role", "speaker", "character")
TEXTS = ("content", "text", "line")
REPLY_SPEAKERS = ("role", "speaker")
REPLY_TEXTS = ("content", "text")
# The receiver gets less time than we wait, so that its answer arrives in time.
SHARE_OF_TIME = 0.9


def session_id_of(body: Mapping[str, Any]) -> str:
    if body.get("session_id"):
        return str(body["session_id"])
    if body.get("scene_id"):
        return f"scene:{body['scene_id']}"
    if body.get("node_id"):
        return f"node:{body['node_id']}"
    return f"session-{secrets.token_hex(6)}"


def normalise_messages(messages: Sequence[Any], limit: int) -> list[dict[str, Any]]:
    """Return the last messages of a transcript (all if the limit is 0) in one shape."""
    turns = [_normalise(each) for each in messages if each is not None]
    return turns[-limit:] if limit else turns


def _normalise(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        return {"role": "narration", "content": _as_text(message)}
    turn: dict[str, Any] = {
        "role": _as_text(_first(message, SPEAKERS) or "narrator"),
        "content": _as_text(_first(message, TEXTS)),
    }
    if message.get("timestamp") is not None:
        turn["timestamp"] = message["timestamp"]
    if meta := _meta(message, (*SPEAKERS, *TEXTS, "timestamp")):
        turn["meta"] = meta
    return turn


def _meta(document: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the `meta` of a message or a reply, with all its fields that have no other place."""
    rest = {name: value for name, value in document.items() if name not in (*known, "meta")}
    meta = document.get("meta")
    if isinstance(meta, dict):
        return {**meta, **rest}
    return rest if meta is None else {**rest, "meta": meta}


def _first(message: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((message[name] for name in names if message.get(name) not in (None, "")), None)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def build_context(body: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that is sent, without the fields that have no value."""
    messages = body.get("messages") or body.get("history") or []
    context = {
        "session_id": session_id_of(body),
        "scene_id": body.get("scene_id"),
        "node_id": body.get("node_id"),
        "pov": body.get("pov"),
        "variables": dict(variables),
        "messages": normalise_messages(messages, body.get("limit_messages", 50)),
        "scene": body.get("scene"),
        "metadata": body.get("metadata") or {},
        "user_id": body.get("user_id"),
        "extension_id": body.get("extension_id"),
    }
    return {name: value for name, value in context.items() if value is not None}


def scene_source(body: Mapping[str, Any]) -> str:
    if body.get("scene") is not None:
        return "inline"
    return "missing" if body.get("scene_id") else "unspecified"


def panel_reply(reply: Any) -> PanelReply | None:
    """Return a reply in the shape that a panel shows."""
    if reply is None:
        return None
    if not isinstance(reply, dict):
        return {"role": "assistant", "content": _as_text(reply)}
    panel: PanelReply = {
        "role": _as_text(_first(reply, REPLY_SPEAKERS) or "assistant"),
        "content": _as_text(_first(reply, REPLY_TEXTS)),
    }
    if reply.get("emotion") is not None:
        panel["emotion"] = reply["emotion"]
    meta = _meta(reply, (*REPLY_SPEAKERS, *REPLY_TEXTS, "emotion"))
    if meta or isinstance(reply.get("meta"), dict):
        panel["meta"] = meta
    return panel


@dataclass(frozen=True)
class Exchange:
    """One session sync: the context, its destination and its timeout."""

    configuration: Configuration
    origin: Origin
    plugin_base: str
    context: dict[str, Any]
    scene_source: str
    timeout: float
    dry_run: bool
    started: float = field(default_factory=time.perf_counter)

    async def run(self) -> SessionSync:
        """Send the context, unless this is a dry run or the bridge is switched off."""
        received: dict[str, Any] = {}
        ok, status, error = True, "ok", None
        if self.dry_run:
            pass
        elif not self.configuration.enabled:
            ok, status, error = False, "disabled", "The SillyTavern bridge is switched off."
        else:
            received = await self._send()
            ok = bool(received.get("ok", True))
            if not ok:
                why = received.get("error") or received.get("detail")
                status, error = "error", _as_text(why) or "SillyTavern named no reason."
        reply = received.get("reply")
        panel = panel_reply(reply)
        return {
            "ok": ok,
            "status": status,
            "reply": reply,
            "error": error,
            "sent": self.context,
            "received": received,
            "timestamp": now(),
            "context": self.context,
            "scene_source": self.scene_source,
            **self.measures(),
            "dry_run": self.dry_run,
            "panel_reply": panel,
            "reply_text": panel["content"] if panel else None,
        }

    def measures(self) -> SyncMeasures:
        """Return how much is sent where, and how long that has taken until now."""
        return {
            "message_count": len(self.context["messages"]),
            "timeout": self.timeout,
            "latency_ms": milliseconds(self.started),
            "endpoint": f"{self.origin.url}{self.plugin_base}/session/sync",
        }

    def failure(self, error: ValueTrackerError) -> SyncSummary:
        """Summarize a sync that failed."""
        return {
            "session_id": self.context["session_id"],
            "ok": False,
            "status": "error",
            "error": error.message,
            **self.measures(),
            "dry_run": self.dry_run,
            "timestamp": now(),
        }

    async def _send(self) -> dict[str, Any]:
        async with Upstream(self.origin, self.configuration.token, self.timeout) as upstream:
            path = f"{self.plugin_base}/session/sync?timeout={self.timeout * SHARE_OF_TIME:.3f}"
            answer = await upstream.post(path, self.context)
        if not answer.is_success:
            raise UpstreamFailed(f"SillyTavern answered {answer.status}.", status=answer.status)
        document = answer.document() if answer.body else {}
        return document if isinstance(document, dict) else {"raw": document}


def summary(sync: SessionSync) -> SyncSummary:
    return {
        "session_id": sync["context"]["session_id"],
        "ok": sync["ok"],
        "status": sync["status"],
        "error": sync["error"],
        "message_count": sync["message_count"],
        "timeout": sync["timeout"],
        "latency_ms": sync["latency_ms"],
        "endpoint": sync["endpoint"],
        "dry_run": sync["dry_run"],
        "timestamp": sync["timestamp"],
    }
