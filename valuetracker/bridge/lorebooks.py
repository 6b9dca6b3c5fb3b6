"""
Lorebooks: SillyTavern's world files, copied whole.

Everything is copied, what extensions keep in entries of their own included (`_registry_*`,
`__index_*`, `__operation_queue`), because a copy that lacks some of it is of no moment in
the story. New uids are given so that a copy and its original are never taken for one
another; whatever refers to an entry by its uid then says the new one.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from typing import Any

from valuetracker.bridge.configuration import Configuration
from valuetracker.bridge.folders import Folder
from valuetracker.bridge.records import LorebookClone
from valuetracker.errors import (
    LorebookDamaged,
    LorebookExists,
    LorebookNotFound,
    SourceNotFound,
)

REGISTRY = "_registry_"
KEEP, REGENERATE = "keep", "regenerate"
# Numbers of JavaScript are exact to a little above this.
LARGEST_UID = 2**52
# As SillyTavern itself writes them.
INDENT = 4

World = dict[str, Any]


@dataclass(frozen=True)
class CloneWish:
    """Which lorebook is to be copied, under which name, and with which uids."""

    name: str
    as_name: str | None = None
    uids: str = REGENERATE


def worlds_folder(configuration: Configuration, user: str) -> tuple[Path, tuple[str, ...]]:
    """A root, and the way from it to where a user's lorebooks lie."""
    way = (user, "worlds")
    if configuration.data_root is not None:
        return configuration.data_root, way
    for root in configuration.sillytaverns():
        if isdir(root / "data"):
            return root / "data", way
    raise LorebookNotFound(
        "It is not known where SillyTavern keeps its data.",
        hint="Name the folder with `--st-data-root`.",
    )


def clone_lorebook(configuration: Configuration, user: str, wish: CloneWish) -> LorebookClone:
    """Copy a lorebook to a new file, all of it or nothing."""
    root, way = worlds_folder(configuration, user)
    try:
        with Folder.enter(root, way) as folder:
            text = folder.read(f"{wish.name}.json")
            if text is None:
                raise LorebookNotFound(f"There is no lorebook {wish.name}.")
            clone, uids, warnings = cloned(parse_world(text), wish.uids)
            name = wish.as_name or _free_name(folder, wish.name)
            written = _serialise(clone)
            count = len(parse_world(text)["entries"])
            if len(parse_world(written)["entries"]) != count:
                raise LorebookDamaged("Not all entries could be copied.")
            try:
                folder.write(f"{name}.json", written, replace=False)
            except FileExistsError:
                raise LorebookExists(f"There is a lorebook {name} already.") from None
    except (FileNotFoundError, SourceNotFound):
        raise LorebookNotFound(f"There is no lorebook {wish.name}.") from None
    return {
        "source": wish.name,
        "name": name,
        "entries": count,
        "uids": {str(old): new for old, new in uids.items()},
        "warnings": warnings,
    }


def remove_lorebook(configuration: Configuration, user: str, name: str) -> None:
    """Take a copy back that turned out not to be needed."""
    root, way = worlds_folder(configuration, user)
    with Folder.enter(root, way) as folder:
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
    """A world file; refused if it is not whole."""
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
    raise ValueError(f"{name} is no JSON")


def _serialise(world: World) -> bytes:
    try:
        return json.dumps(world, indent=INDENT, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair can only be written as an escape.
        return json.dumps(world, indent=INDENT).encode()


def cloned(world: World, uids: str) -> tuple[World, dict[Any, int], list[str]]:
    """The world with new uids, those by the old, and what could not be carried over."""
    clone = copy.deepcopy(world)
    if uids == KEEP:
        return clone, {}, []
    given = _new_uids(world["entries"])
    entries: dict[str, Any] = {}
    warnings: list[str] = []
    for key, entry in clone["entries"].items():
        old = entry.get("uid", _number(key))
        # Without one SillyTavern shows an entry by its uid; it is to stay where it was.
        if entry.get("displayIndex") is None and old is not None:
            entry["displayIndex"] = old
        entry["uid"] = given[key]
        entries[str(given[key])] = entry
    renamed = _renamed(world["entries"], given)
    for entry in entries.values():
        if str(entry.get("comment", "")).startswith(REGISTRY):
            warnings += _carry_over(entry, renamed)
    clone["entries"] = entries
    _rename_original(clone, renamed)
    return clone, renamed, warnings


def _new_uids(entries: World) -> dict[str, int]:
    """A new uid for each key, in the order in which JavaScript would list the keys."""
    numbers = [number for key in entries if (number := _number(key)) is not None]
    uids = [each["uid"] for each in entries.values() if isinstance(each.get("uid"), int)]
    used = [each for each in (*numbers, *uids) if each < LARGEST_UID]
    first = max(int(time.time() * 1000), *used, 0) + 1
    numeric = sorted((key for key in entries if _number(key) is not None), key=int)
    others = [key for key in entries if _number(key) is None]
    return {key: first + place for place, key in enumerate([*numeric, *others])}


def _number(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 16 else None


def _renamed(entries: World, given: dict[str, int]) -> dict[Any, int]:
    """New uids by the old, which an entry says itself and else its key."""
    renamed: dict[Any, int] = {}
    for key, entry in entries.items():
        own = entry.get("uid", _number(key))
        if isinstance(own, int | str):
            renamed.setdefault(own, given[key])
    return renamed


def _carry_over(entry: World, renamed: dict[Any, int]) -> list[str]:
    """Let a registry name the new uids; one that cannot be read stays as it is."""
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
    """As the extension wrote it: on many lines, or on one."""
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
    """An imported book keeps its original beside it, whose entries are found by uid."""
    original = clone.get("originalData")
    entries = original.get("entries") if isinstance(original, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and "uid" in entry:
            entry["uid"] = _new_uid(entry["uid"], renamed)
