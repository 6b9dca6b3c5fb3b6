"""
Lorebooks: copies of SillyTavern's world files.

The whole file is copied, with the entries that extensions use for themselves (`_registry_*`,
`__index_*`, `__operation_queue`), because a partial copy would match no moment of the story.
Entries get new uids, so that nobody confuses a copy with its original; references to an
entry's uid are changed as well.
"""

from __future__ import annotations

import asyncio
import json
import time
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from os.path import isdir
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import Configuration, configuration
from valuetracker.bridge.folders import Folder
from valuetracker.bridge.records import LorebookClone
from valuetracker.errors import (
    LorebookDamaged,
    LorebookExists,
    LorebookNotFound,
    SourceNotFound,
    ValueTrackerError,
)
from valuetracker.settings import Settings

REGISTRY = "_registry_"
KEEP, REGENERATE = "keep", "regenerate"
# JavaScript's numbers are exact up to a little above this.
LARGEST_UID = 2**52
# The indentation that SillyTavern writes.
INDENT = 4

World = dict[str, Any]


@dataclass(frozen=True)
class CloneRequest:
    """The lorebook to copy, the name of the copy, and the choice of uids."""

    name: str
    as_name: str | None = None
    uids: str = REGENERATE


def worlds_folder(config: Configuration, user: str) -> tuple[Path, tuple[str, ...]]:
    """Return a root, and the names from the root to the folder of a user's lorebooks."""
    names = (user, "worlds")
    if config.data_root is not None:
        return config.data_root, names
    for root in config.sillytaverns():
        if isdir(root / "data"):
            return root / "data", names
    raise LorebookNotFound(
        "SillyTavern's data folder is not known.",
        hint="Name the folder with `--st-data-root`.",
    )


def clone_lorebook(config: Configuration, user: str, request: CloneRequest) -> LorebookClone:
    """Copy a lorebook to a new file, completely or not at all."""
    return _clone(config, user, request, replace=False)


def _clone(config: Configuration, user: str, request: CloneRequest, replace: bool) -> LorebookClone:
    root, names = worlds_folder(config, user)
    try:
        with Folder.open(root, names) as folder:
            text = folder.read(f"{request.name}.json")
            if text is None:
                raise LorebookNotFound(f"There is no lorebook {request.name}.")
            clone, uids, warnings = cloned(parse_world(text), request.uids)
            name = request.as_name or _free_name(folder, request.name)
            written = _serialise(clone)
            count = len(parse_world(text)["entries"])
            if len(parse_world(written)["entries"]) != count:
                raise LorebookDamaged("Not all entries could be copied.")
            try:
                folder.write(f"{name}.json", written, replace)
            except FileExistsError:
                raise LorebookExists(f"A lorebook {name} exists already.") from None
    except (FileNotFoundError, SourceNotFound):
        raise LorebookNotFound(f"There is no lorebook {request.name}.") from None
    return {
        "source": request.name,
        "name": name,
        "entries": count,
        "uids": {str(old): new for old, new in uids.items()},
        "warnings": warnings,
    }


def copy_record(clone: LorebookClone, user: str, uids: str) -> dict[str, Any]:
    """Return what a checkpoint keeps of a copy: enough to show it, and to make it again."""
    shown = {name: clone[name] for name in ("source", "name", "entries", "warnings")}
    return {**shown, "user": user, "uids": uids}


async def renew_copy(settings: Settings, copy: dict[str, Any]) -> dict[str, Any]:
    """Copy a lorebook again over its copy; return the new record."""
    renew = partial(_renew, configuration(settings), copy)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # On the thread of a SQLite database, which may wait for a file.
        return renew()
    return await asyncio.to_thread(renew)


def _renew(config: Configuration, copy: dict[str, Any]) -> dict[str, Any]:
    request = CloneRequest(copy["source"], copy["name"], copy["uids"])
    try:
        clone = _clone(config, copy["user"], request, replace=True)
    except ValueTrackerError as error:
        # The copy from when the checkpoint was asked for is better than none.
        early = f"The lorebook could not be copied again: {error.message}"
        return {**copy, "warnings": [*copy["warnings"], early]}
    return copy_record(clone, copy["user"], copy["uids"])


def is_missing(config: Configuration, user: str, name: str) -> bool:
    """Return True if a lorebook is not there, and it is known where it should be."""
    try:
        root, names = worlds_folder(config, user)
    except LorebookNotFound:
        return False
    try:
        with Folder.open(root, names) as folder:
            return not folder.has(f"{name}.json")
    except (FileNotFoundError, SourceNotFound):
        return True
    except ValueTrackerError:
        # The folder cannot be read: nothing is known.
        return False


def remove_lorebook(config: Configuration, user: str, name: str) -> None:
    """Remove a copy that is not needed after all."""
    root, names = worlds_folder(config, user)
    with Folder.open(root, names) as folder:
        folder.remove(f"{name}.json")


def _free_name(folder: Folder, name: str) -> str:
    taken = {each.casefold() for each in folder.names()}
    number = 1
    while True:
        free = f"{name} (copy)" if number == 1 else f"{name} (copy {number})"
        if f"{free}.json".casefold() not in taken:
            return free
        number += 1


def parse_world(text: bytes) -> World:
    """Return the content of a world file; refuse a damaged one."""
    try:
        world = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise LorebookDamaged("The lorebook's file is not valid JSON.") from None
    entries = world.get("entries") if isinstance(world, dict) else None
    if not isinstance(entries, dict) or not all(
        isinstance(each, dict) for each in entries.values()
    ):
        raise LorebookDamaged("The lorebook's file has no entries.")
    return dict(world)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _serialise(world: World) -> bytes:
    try:
        return json.dumps(world, indent=INDENT, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair can only be written as an escape.
        return json.dumps(world, indent=INDENT).encode()


def cloned(world: World, uids: str) -> tuple[World, dict[Any, int], list[str]]:
    """Return the world with new uids, the new uids by the old ones, and warnings."""
    clone = deepcopy(world)
    if uids == KEEP:
        return clone, {}, []
    given = _new_uids(world["entries"])
    entries: dict[str, Any] = {}
    warnings: list[str] = []
    for key, entry in clone["entries"].items():
        old = entry.get("uid", _number(key))
        # SillyTavern sorts an entry without displayIndex by its uid; keep its position.
        if entry.get("displayIndex") is None and old is not None:
            entry["displayIndex"] = old
        entry["uid"] = given[key]
        entries[str(given[key])] = entry
    renamed = _renamed(world["entries"], given)
    for entry in entries.values():
        if str(entry.get("comment", "")).startswith(REGISTRY):
            warnings += _update_registry(entry, renamed)
    clone["entries"] = entries
    _rename_original(clone, renamed)
    return clone, renamed, warnings


def _new_uids(entries: World) -> dict[str, int]:
    """Return a new uid for each key, in the order in which JavaScript lists the keys."""
    numbers = [number for key in entries if (number := _number(key)) is not None]
    uids = [each["uid"] for each in entries.values() if isinstance(each.get("uid"), int)]
    used = [each for each in (*numbers, *uids) if each < LARGEST_UID]
    first = max(int(time.time() * 1000), *used, 0) + 1
    numeric = sorted((key for key in entries if _number(key) is not None), key=int)
    others = [key for key in entries if _number(key) is None]
    return {key: first + index for index, key in enumerate([*numeric, *others])}


def _number(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 16 else None


def _renamed(entries: World, given: dict[str, int]) -> dict[Any, int]:
    """Return the new uids by the old ones. An entry without `uid` has its key as uid."""
    renamed: dict[Any, int] = {}
    for key, entry in entries.items():
        own = entry.get("uid", _number(key))
        if isinstance(own, int | str):
            renamed.setdefault(own, given[key])
    return renamed


def _update_registry(entry: World, renamed: dict[Any, int]) -> list[str]:
    """Write the new uids into a registry; return a warning if it cannot be read."""
    content = entry.get("content")
    try:
        document = json.loads(content) if isinstance(content, str) else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict | list):
        return [f"The content of {entry['comment']} is not JSON; it was copied as it is."]
    _rename_uids(document, renamed)
    entry["content"] = json.dumps(
        document, ensure_ascii=False, **_layout(content if isinstance(content, str) else "")
    )
    return []


def _layout(content: str) -> dict[str, Any]:
    """Return the format options that match the extension's: several lines, or one."""
    return {"indent": 2} if "\n" in content.strip() else {"separators": (",", ":")}


def _rename_uids(document: Any, renamed: dict[Any, int]) -> None:
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "uid" in each:
                each["uid"] = _new_uid(each["uid"], renamed)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _new_uid(uid: Any, renamed: dict[Any, int]) -> Any:
    if isinstance(uid, bool) or not isinstance(uid, int | str):
        return uid
    if uid in renamed:
        return renamed[uid] if isinstance(uid, int) else str(renamed[uid])
    number = _number(uid) if isinstance(uid, str) else None
    return str(renamed[number]) if number is not None and number in renamed else uid


def _rename_original(clone: World, renamed: dict[Any, int]) -> None:
    """Change the uids in `originalData`, the source that an imported lorebook keeps."""
    original = clone.get("originalData")
    entries = original.get("entries") if isinstance(original, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and "uid" in entry:
            entry["uid"] = _new_uid(entry["uid"], renamed)
