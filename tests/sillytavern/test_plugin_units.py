"""The plugin's own tests, which Node runs: see `plugin/`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = sorted((Path(__file__).parent / "plugin").glob("*.test.js"))


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name.removesuffix(".test.js"))
def test_the_plugin_passes_its_tests_under_node(file: Path) -> None:
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
