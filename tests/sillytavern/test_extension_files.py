"""The files of the extension, without a browser: its texts, and forbidden calls."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

EXTENSION = Path(__file__).parents[2] / "sillytavern/extension"
MODULES = sorted(EXTENSION.rglob("*.js"))
TEXT = re.compile(r"^    (\w+): '((?:[^'\\]|\\.)*)',$", re.MULTILINE)


@pytest.fixture(scope="module")
def english() -> dict[str, str]:
    found = TEXT.findall((EXTENSION / "strings.js").read_text())
    assert len(found) > 50
    return dict(found)


def test_every_text_is_used_and_every_one_that_is_named_is_there(english: dict[str, str]) -> None:
    named = set()
    for file in EXTENSION.glob("*.html"):
        named.update(re.findall(r"valuetracker\.(\w+)", file.read_text()))
    for file in MODULES:
        if file.name != "strings.js":
            named.update(re.findall(r"'(\w+)'", file.read_text()))

    assert set(english) - named == set()
    html = "".join(file.read_text() for file in EXTENSION.glob("*.html"))
    assert set(re.findall(r"valuetracker\.(\w+)", html)) <= set(english)
    # The words are in strings.js alone.
    assert re.findall(r">\s*[A-Za-z]", html) == []


def test_a_translation_has_every_text_with_its_places(english: dict[str, str]) -> None:
    manifest = orjson.loads((EXTENSION / "manifest.json").read_bytes())
    assert manifest["i18n"]

    for file in manifest["i18n"].values():
        translated = orjson.loads((EXTENSION / file).read_bytes())
        assert [*translated] == [f"valuetracker.{name}" for name in english]
        for name, text in english.items():
            places = re.findall(r"\{\w+\}", text)
            assert sorted(re.findall(r"\{\w+\}", translated[f"valuetracker.{name}"])) == sorted(
                places
            )


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.relative_to(EXTENSION).as_posix())
def test_nothing_is_made_of_html_and_nobody_fetches(file: Path) -> None:
    text = file.read_text()

    assert not re.search(r"\.(inner|outer)HTML\s*[+=]|insertAdjacentHTML|document\.write", text)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|\$\(", text)
    assert len(text.splitlines()) <= 350


@pytest.mark.parametrize("name", ["values", "refresher"])
def test_the_modules_pass_their_tests_under_node(name: str) -> None:
    node = shutil.which("node")
    assert node, "the tests need Node"
    tests = Path(__file__).parent / f"extension/{name}.test.js"

    run = subprocess.run(
        [node, "--test", "--test-reporter", "spec", str(tests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )

    assert run.returncode == 0, run.stdout
