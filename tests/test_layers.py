"""
The layers, as a test:

    cli → server → app → dispatch → api → endpoints → bridge → store → engine

A module imports from its own layer and from those to the right of it. `protocol`, `log` and
`reference` stand beside `app`; `reading`, `router`, `deflate` and `replies` are rooms of
`dispatch`. `commands` are commands of the CLI that have a module of their own; `bridge` and
`store` know nothing of each other. Leaves may be imported by anybody and import only leaves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import valuetracker

ROOT = Path(valuetracker.__file__).parent

LAYERS = [
    {"__main__", "cli", "commands"},
    {"server"},
    {"app", "protocol", "log", "reference", "openapi"},
    {"dispatch"},
    {"reading"},
    {"router", "deflate"},
    {"replies"},
    {"api"},
    {"endpoints"},
    {"bridge"},
    {"store"},
    {"engine"},
    {"gate"},
    {"tokens"},
    {"", "errors", "model", "names", "settings", "values", "failpoints", "wire"},
]


def layer_of(module: str) -> int:
    """Where a module stands, by the first part of its name below the package."""
    part = module.removeprefix("valuetracker").removeprefix(".").split(".")[0]
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str) -> Iterator[str]:
    """The modules of the package that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if is_ours(each.name))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out"
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if is_ours(whole):
                    yield whole if is_module(whole) else str(node.module)


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "valuetracker"


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_its_own_layer_and_those_to_its_right(path: Path) -> None:
    own = layer_of(name_of(path))

    wrong = [each for each in imports_of(path.read_text(encoding="utf-8")) if layer_of(each) < own]

    assert wrong == []


def test_every_module_that_is_named_here_exists() -> None:
    named = set.union(*LAYERS) - {""}

    assert named == {name_of(path).split(".")[1] for path in modules() if path.parent != ROOT} | {
        path.stem for path in ROOT.glob("*.py") if path.stem != "__init__"
    }


@pytest.mark.parametrize("path", sorted((ROOT / "bridge").rglob("*.py")), ids=name_of)
def test_the_bridge_knows_nothing_of_databases(path: Path) -> None:
    known = {"bridge", "errors", "model", "names", "settings", "values", ""}

    parts = [each.split(".")[1:2] for each in imports_of(path.read_text(encoding="utf-8"))]

    assert {part[0] if part else "" for part in parts} <= known


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import valuetracker.store.data", ["valuetracker.store.data"]),
        ("from valuetracker.store import data", ["valuetracker.store.data"]),
        ("from valuetracker.store.data import set_value", ["valuetracker.store.data"]),
        ("from valuetracker import names, __version__", ["valuetracker.names", "valuetracker"]),
        ("def late():\n    from valuetracker import cli", ["valuetracker.cli"]),
        ("import json\nfrom pathlib import Path", []),
    ],
)
def test_imports_are_found_however_they_are_written(source: str, imported: list[str]) -> None:
    assert list(imports_of(source)) == imported


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("valuetracker.cli", "valuetracker.app"),
        ("valuetracker.app", "valuetracker.dispatch"),
        ("valuetracker.dispatch", "valuetracker.api.data"),
        ("valuetracker.api", "valuetracker.endpoints"),
        ("valuetracker.endpoints", "valuetracker.store.data"),
        ("valuetracker.store", "valuetracker.engine.sqlite"),
        ("valuetracker.engine", "valuetracker.errors"),
    ],
)
def test_the_layers_stand_in_this_order(left: str, right: str) -> None:
    assert layer_of(left) < layer_of(right)
