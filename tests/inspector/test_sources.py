"""The sources of the inspector: types, style, unit tests, and the size of what is built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from valuetracker.http.pages import FOLDER as BUILT

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "inspector"
PACKAGES = SOURCES / "node_modules"
# The bytes that a browser loads before it shows anything, packed.
FIRST_LOAD_BYTES = 60 * 1024


def run(*command: str) -> str:
    node = shutil.which("node")
    assert node, "the tests need Node"
    assert PACKAGES.is_dir(), "the tests need the inspector: `make .cache/inspector/ready`"
    done = subprocess.run(
        [node, *command],
        cwd=SOURCES,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("node_modules/typescript/bin/tsc", "--project", "."),
        ("node_modules/@biomejs/biome/bin/biome", "ci", "--colors=off", "."),
        ("test.mjs",),
    ],
    ids=["types", "style", "units"],
)
def test_the_sources_are_sound(command: tuple[str, ...]) -> None:
    run(*command)


def first_load() -> set[str]:
    """Return the files that the page loads by itself: its script, its style, what they import."""
    index = (BUILT / "index.html").read_text()
    waiting = re.findall(r'(?:src|href)="\./([^"]+)"', index)
    found = {"index.html"}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            text = (BUILT / name).read_text()
            # `import(…)` is asked for later.
            waiting += re.findall(r'(?:from|import)\s*"\./([^"]+\.js)"', text)
    return found


def test_the_first_load_is_small_and_the_editor_comes_after_it() -> None:
    loaded = first_load()

    size = sum((BUILT / f"{name}.gz").stat().st_size for name in loaded)
    print(f"first load: {size} bytes packed, {sorted(loaded)}")
    assert size <= FIRST_LOAD_BYTES
    assert len(loaded) >= 3
    rest = {path.name for path in BUILT.glob("*.js")} - loaded
    assert any("cm-content" in (BUILT / name).read_text() for name in rest)
    assert not any("cm-content" in (BUILT / name).read_text() for name in loaded)


def test_nothing_that_is_built_comes_from_elsewhere() -> None:
    for path in BUILT.glob("*.js"):
        text = path.read_text()
        assert not re.search(r"\beval\(|new Function\(", text), path.name
        assert not re.search(r"""(?:import|from)\s*\(?["']https?:""", text), path.name
    assert "http" not in re.sub(r"data:[^\"]*", "", (BUILT / "index.html").read_text())


def test_the_packages_are_few_and_their_licenses_allow_it() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    shipped = {name: each for name, each in packages.items() if not each.get("dev")}

    assert "resolved" not in (SOURCES / "package-lock.json").read_text()
    assert {each["license"] for each in shipped.values()} <= {"MIT", "ISC"}
    assert "node_modules/codemirror" not in packages
    assert len(shipped) <= 30
    assert all(each["integrity"] for each in packages.values())
