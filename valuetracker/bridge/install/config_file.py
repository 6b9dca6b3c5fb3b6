"""
SillyTavern's `config.yaml`. The port is read. Only the line `enableServerPlugins` is changed, no
other byte.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from valuetracker.bridge.folders import Folder
from valuetracker.errors import NotWritable, SymlinkRefused

NAME = "config.yaml"
LINE = re.compile(
    rb"""^(?P<key>["']?enableServerPlugins["']?[ \t]*:[ \t]*)(?P<value>[^\s#]*)""", re.MULTILINE
)
PORT = re.compile(
    rb"""^["']?port["']?[ \t]*:[ \t]*["']?([0-9]{1,5})["']?[ \t]*(?:#.*)?\r?$""", re.MULTILINE
)
WANTED = b"enableServerPlugins: true\n"
BY_HAND = "Set `enableServerPlugins: true` in it yourself; everything else is installed."
# A file in flow style or with several documents: a line added at its end would not take effect.
UNUSUAL = re.compile(rb"\A(\s|#[^\n]*\n)*\{|^(---|\.\.\.)\s*$", re.MULTILINE)


def plugins_enabled(folder: Folder) -> bool | None:
    """Return true if server plugins are switched on; None if the file does not say."""
    # The file is only read, so a link is followed: in a container this file is a link.
    match = LINE.search(folder.read(NAME, follow=True) or b"")
    return match["value"].strip(b"\"'").lower() == b"true" if match else None


def find_port(folder: Folder) -> int | None:
    """Return the port that SillyTavern listens on; None if the file does not say."""
    match = PORT.search(folder.read(NAME, follow=True) or _template(folder))
    return int(match[1]) if match else None


def enable_plugins(folder: Folder) -> dict[str, Any] | None:
    """Switch server plugins on; return the change for `undo_enabling`, None if they are on."""
    try:
        text = folder.read(NAME)
    except SymlinkRefused as error:
        raise NotWritable(error.message, hint=BY_HAND) from None
    if text is None:
        # SillyTavern has not been started yet. It would copy this file, with all its comments.
        template = _template(folder)
        created = LINE.sub(rb"\g<key>true", template, 1) if LINE.search(template) else WANTED
        folder.write(NAME, created)
        return {"created": sha256(created).hexdigest()}
    match = LINE.search(text)
    if match is not None:
        if plugins_enabled(folder):
            return None
        # A value needs a blank after the colon; the line may have had no value.
        blank = b" " if match["key"].endswith(b":") else b""
        after = match["key"] + blank + b"true"
        folder.write(NAME, text[: match.start()] + after + text[match.end() :])
        return {"before": match[0].decode("utf-8", "replace"), "after": after.decode()}
    if UNUSUAL.search(text):
        raise NotWritable(
            f"{folder.path / NAME} has a form that the installer does not change.",
            hint=BY_HAND,
        )
    added = (b"" if not text or text.endswith(b"\n") else b"\n") + WANTED
    folder.write(NAME, text + added)
    return {"added": added.decode()}


def _template(folder: Folder) -> bytes:
    """Return the configuration that SillyTavern begins with; empty if there is none."""
    if not folder.is_folder("default"):
        return b""
    with folder.child("default") as default:
        return default.read(NAME) or b""


def undo_enabling(folder: Folder, change: dict[str, Any]) -> bool:
    """Undo `enable_plugins`; return false if the file was changed in between."""
    text = folder.read(NAME)
    if text is None:
        return True
    if sha256(text).hexdigest() == change.get("created"):
        folder.remove(NAME)
        return True
    added = change.get("added")
    if isinstance(added, str) and added and text.endswith(added.encode()):
        folder.write(NAME, text[: -len(added.encode())])
        return True
    match, before = LINE.search(text), change.get("before")
    if (
        match is None
        or match[0] != str(change.get("after")).encode()
        or not isinstance(before, str)
    ):
        return False
    folder.write(NAME, text[: match.start()] + before.encode() + text[match.end() :])
    return True
