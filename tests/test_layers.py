"""
The direction of imports, as a test.

    cli → app → reference → api → http → bridge, runtime → store → engine → leaves

A module imports from its own folder and from folders below it, which stand to the right here.
Inside the store the verbs come first, then `tx → story → log → rows`. No module is part of a
cycle. `docs/ARCHITECTURE.md` lists the same folders and says what each is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import valuetracker

ROOT = Path(valuetracker.__file__).parent
LIST = "docs/ARCHITECTURE.md lists the layers."

# Parts of the package from the highest layer to the lowest; those of one set stand side by side.
LAYERS: list[set[str]] = [
    {"__main__"},
    {"cli"},
    {"app"},
    {"reference"},
    {"api"},
    {"http"},
    {"bridge", "runtime"},
    {"store"},
    {"store.tx"},
    {"store.story"},
    {"store.log"},
    {"store.rows"},
    {"engine"},
    {"logging_setup"},
    {"names", "values"},
    {"large_json", "macros"},
    {"integers"},
    {
        "",
        "budget",
        "clock",
        "counts",
        "durable",
        "eager",
        "errors",
        "failpoints",
        "records",
        "settings",
        "spool",
    },
]

LONGEST_CHAIN_OF_THE_STORE = 12
MOST_MODULES_OF_THE_STORE = 22
MOST_MODULES = 24
MOST_LINES = 450


def part_of(module: str) -> str:
    """Return the entry of LAYERS that a module belongs to."""
    names = module.split(".")[1:]
    if names[:1] == ["store"] and ".".join(names[:2]) in {"store." + f for f in SUBFOLDERS}:
        return ".".join(names[:2])
    return names[0] if names else ""


SUBFOLDERS = ("tx", "story", "log", "rows")


def layer_of(module: str) -> int:
    part = part_of(module)
    for number, layer in enumerate(LAYERS):
        if part in layer:
            return number
    raise AssertionError(
        f"{module} stands in no layer. Add {part!r} to LAYERS in tests/test_layers.py, "
        f"below all that import it. {LIST}"
    )


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str) -> Iterator[str]:
    """Yield the modules of the package that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if is_ours(each.name))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "Write imports out: from valuetracker.… import …"
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if is_ours(whole):
                    yield whole if is_module(whole) else str(node.module)


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "valuetracker"


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def graph() -> dict[str, set[str]]:
    """Return what each module of the package imports."""
    return {
        name_of(path): set(imports_of(path.read_text(encoding="utf-8"))) - {name_of(path)}
        for path in modules()
    }


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_its_own_layer_and_those_below(path: Path) -> None:
    module = name_of(path)

    wrong = [
        each
        for each in imports_of(path.read_text(encoding="utf-8"))
        if layer_of(each) < layer_of(module)
    ]

    assert wrong == [], (
        f"{module} imports {', '.join(wrong)}, which is a layer above it. Move what is needed "
        f"down, or pass it in as an argument. {LIST}"
    )


def test_folders_beside_each_other_do_not_know_each_other() -> None:
    wrong = [
        (module, each)
        for module, imported in graph().items()
        for each in imported
        if {part_of(module), part_of(each)} == {"bridge", "runtime"}
    ]

    assert wrong == [], f"The bridge and the runtime know nothing of each other. {LIST}"


def test_no_module_is_part_of_a_cycle() -> None:
    found = cycle_of(graph())

    assert found == [], (
        f"{' → '.join(found)} is a cycle. Move what both need into a module of its own, "
        "or pass it in as an argument."
    )


def test_the_store_is_no_deeper_than_it_should_be() -> None:
    chain = longest_chain(
        {
            module: {each for each in imported if each.startswith("valuetracker.store")}
            for module, imported in graph().items()
            if module.startswith("valuetracker.store")
        }
    )

    assert len(chain) <= LONGEST_CHAIN_OF_THE_STORE, (
        f"{' → '.join(chain)}: a newcomer has to follow {len(chain)} modules. Let one of them "
        "import less."
    )


def test_the_folder_of_the_store_can_be_surveyed() -> None:
    verbs = [path.name for path in (ROOT / "store").glob("*.py")]

    assert len(verbs) <= MOST_MODULES_OF_THE_STORE, (
        "The folder store/ holds verbs, one file per noun. What several verbs share belongs into "
        "store/tx, story, log or rows."
    )


@pytest.mark.parametrize("folder", sorted({path.parent for path in modules()}), ids=name_of)
def test_a_folder_can_be_surveyed(folder: Path) -> None:
    held = len(list(folder.glob("*.py")))

    assert held <= MOST_MODULES, (
        f"{name_of(folder)} has {held} modules. Give those that belong together a folder of their "
        "own, with a line in its __init__.py that says what they have in common."
    )


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_file_is_too_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")

    assert lines <= MOST_LINES, f"{name_of(path)} has {lines} lines: are there two nouns in it?"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_docstrings_say_what_is_done_or_returned(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

    vague = [
        text.splitlines()[0]
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and (text := ast.get_docstring(node))
        and text.split(maxsplit=1)[0] in ("What", "Whether")
    ]

    assert vague == [], "Begin a docstring with a verb or a noun: what is done, or returned."


def test_every_part_that_is_named_here_exists() -> None:
    named = set.union(*LAYERS)

    assert named == {part_of(name_of(path)) for path in modules()}, (
        "LAYERS in tests/test_layers.py names folders and modules of valuetracker/ that are "
        "not there, or leaves some out."
    )


@pytest.mark.parametrize("path", sorted((ROOT / "bridge").rglob("*.py")), ids=name_of)
def test_the_bridge_knows_nothing_of_databases(path: Path) -> None:
    known = {"bridge", "durable", "errors", "records", "names", "settings", "values", ""}

    parts = {part_of(each) for each in imports_of(path.read_text(encoding="utf-8"))}

    assert parts <= known, (
        "The bridge talks to a SillyTavern install and to nothing else: let the handler in api/ "
        "pass in what it needs."
    )


def cycle_of(imports: dict[str, set[str]]) -> list[str]:
    """Return one cycle, its first module at the end again; an empty list if there is none."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for each in sorted(imports.get(module, ())):
            found = visit(each, [*path, module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for module in sorted(imports) if (found := visit(module, []))), [])


def longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """Return the longest chain of modules of which each imports the next."""
    known: dict[str, list[str]] = {}

    def chain_from(module: str) -> list[str]:
        if module not in known:
            known[module] = [module]
            below = [chain_from(each) for each in imports.get(module, ())]
            known[module] = [module, *max(below, key=len, default=[])]
        return known[module]

    return max((chain_from(module) for module in imports), key=len)


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


def test_a_cycle_and_a_chain_are_found() -> None:
    assert cycle_of({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert longest_chain({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("valuetracker.cli.main", "valuetracker.app"),
        ("valuetracker.app", "valuetracker.api.data"),
        ("valuetracker.api.data", "valuetracker.http.endpoint"),
        ("valuetracker.http.dispatch", "valuetracker.runtime.extension"),
        ("valuetracker.runtime.extension", "valuetracker.store.data"),
        ("valuetracker.store.data", "valuetracker.store.tx.apply"),
        ("valuetracker.store.tx.apply", "valuetracker.store.story.point"),
        ("valuetracker.store.story.point", "valuetracker.store.log.replay"),
        ("valuetracker.store.log.replay", "valuetracker.store.rows.reader"),
        ("valuetracker.store.rows.reader", "valuetracker.engine.sqlite"),
        ("valuetracker.engine.sqlite", "valuetracker.errors"),
    ],
)
def test_the_layers_stand_in_this_order(left: str, right: str) -> None:
    assert layer_of(left) < layer_of(right)
