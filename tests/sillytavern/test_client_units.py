"""The client library's own tests, which Node runs against a server: see `client/`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted((Path(__file__).parent / "client").glob("*.test.js"))


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name.removesuffix(".test.js"))
def test_the_client_passes_its_tests_under_node(file: Path) -> None:
    node = shutil.which("node")
    assert node, "the tests need Node"

    run = subprocess.run(
        [node, "--test", "--test-reporter", "spec", str(file)],
        env={**os.environ, "VALUETRACKER_TEST_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )

    print(run.stdout)
    assert run.returncode == 0, run.stdout


def test_the_types_of_the_client_hold() -> None:
    node = shutil.which("node")
    assert node, "the tests need Node"
    compiler = ROOT / ".cache/typescript/node_modules/typescript/bin/tsc"

    run = subprocess.run(
        [node, str(compiler), "--project", str(ROOT / "tests/sillytavern/types")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )

    assert run.returncode == 0, run.stdout
