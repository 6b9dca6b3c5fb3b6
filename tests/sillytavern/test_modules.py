"""
The direction of imports between JavaScript modules, as a test.

    client      valuetracker.js, chat.js → routes → sync → tavern → state → errors.js
    extension   index.js → panel → tavern → values → dom.js, settings.js, strings.js → client
    plugin      one folder

A module imports from its own folder and from folders to the right of it, and no module is part of
a cycle. Imports in JSDoc comments name types alone; they are not counted.
`sillytavern/client/DESIGN.md` draws the same picture and says what each folder is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2] / "sillytavern"
PICTURE = "sillytavern/client/DESIGN.md draws the folders."
MOST_LINES = 450

# Folders and files from left to right; those of one set stand beside each other.
LAYERS: list[set[str]] = [
    {"extension/index.js"},
    {"extension/panel"},
    {"extension/tavern"},
    {"extension/values"},
    {"extension/dom.js", "extension/settings.js", "extension/strings.js"},
    {"client/valuetracker.js", "client/chat.js"},
    {"client/routes"},
    {"client/sync"},
    {"client/tavern"},
    {"client/state"},
    {"client/errors.js"},
    {"plugin"},
]

COMMENT = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r"""(?:\bfrom\s+|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"](\.[^'"]+)['"]""")


def modules() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.js"))


def imports_of(module: str) -> Iterator[str]:
    """Yield the modules that a module imports, as paths below `sillytavern/`."""
    source = COMMENT.sub("", (ROOT / module).read_text(encoding="utf-8"))
    for target in IMPORT.findall(source):
        parts = list(PurePosixPath(module).parent.parts)
        for part in PurePosixPath(target).parts:
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        # The installer puts a copy of the client library into the extension's folder.
        if parts[:2] == ["extension", "client"]:
            parts = parts[1:]
        path = "/".join(parts)
        yield path if path.endswith(".js") else f"{path}.js"


def layer_of(module: str) -> int:
    parts = module.split("/")
    for number, layer in enumerate(LAYERS):
        if layer & {module, "/".join(parts[:-1])}:
            return number
    raise AssertionError(
        f"{module} belongs to no layer. Move it into one of the folders, or add its folder to "
        f"LAYERS in tests/sillytavern/test_modules.py, right of all folders that import it. "
        f"{PICTURE}"
    )


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_its_own_folder_and_those_to_its_right(module: str) -> None:
    imported = set(imports_of(module))

    missing = sorted(imported - set(modules()))
    assert missing == [], f"{module} imports {missing}, which do not exist. Mend the paths."
    wrong = sorted(each for each in imported if layer_of(each) < layer_of(module))
    assert wrong == [], (
        f"{module} imports {wrong}, left of its own folder. Move what it needs from there into a "
        f"folder to the right, or hand it in as an argument. {PICTURE}"
    )


def test_no_module_is_part_of_a_cycle() -> None:
    remaining = {module: set(imports_of(module)) for module in modules()}

    while leaves := [module for module, imported in remaining.items() if not imported]:
        for leaf in leaves:
            del remaining[leaf]
        for imported in remaining.values():
            imported.difference_update(leaves)

    # A module that only imports the cycle is not part of it.
    while entries := [
        module for module in remaining if not any(module in each for each in remaining.values())
    ]:
        for entry in entries:
            del remaining[entry]
    cycle = {module: sorted(imported) for module, imported in remaining.items()}
    assert cycle == {}, (
        f"These modules import each other: {cycle}. Move the function or constant that closes the "
        f"circle into the module furthest to the right that can hold it, or into a new one. "
        f"{PICTURE}"
    )


@pytest.mark.parametrize("kind", ["js", "css"])
def test_no_file_is_too_long(kind: str) -> None:
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob(f"*.{kind}")
    }

    long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert long == {}, (
        f"These files have more than {MOST_LINES} lines: {long}. Such a file usually holds two "
        "nouns: give the second one a file of its own."
    )
