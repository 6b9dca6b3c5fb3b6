"""`valuetracker sillytavern uninstall` and `status`, on real folders."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridge.commands import EXTENSION, PLUGIN, fail, record, run, status, succeed
from tests.bridge.upstream import FakeSillyTavern, closed_port
from tests.support.folders import EXTENSIONS, tree
from valuetracker import __version__
from valuetracker.bridge.install.bundle import bundled_files

ENABLED = "enableServerPlugins: true\n"


@pytest.mark.parametrize("folders", ["there", "missing"])
def test_uninstalling_leaves_the_tree_byte_for_byte_as_before(
    sillytavern: Path, folders: str
) -> None:
    if folders == "missing":
        (sillytavern / "plugins/package.json").unlink()
        (sillytavern / "plugins").rmdir()
        (sillytavern / EXTENSIONS).rmdir()
    before = tree(sillytavern)
    succeed("install", sillytavern, "--enable-plugins")
    succeed("install", sillytavern)
    assert tree(sillytavern) != before

    succeed("uninstall", sillytavern)

    assert tree(sillytavern) == before


def test_changed_files_are_left_and_named(sillytavern: Path) -> None:
    succeed("install", sillytavern)
    manifest = sillytavern / EXTENSION / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    (sillytavern / PLUGIN / "config.json").write_text("{}")

    output = succeed("uninstall", sillytavern)

    assert f"Left, because it was changed: {(EXTENSION / 'manifest.json').as_posix()}" in output
    assert manifest.is_file()
    assert (sillytavern / PLUGIN / "config.json").read_text() == "{}"
    assert not (sillytavern / PLUGIN / "package.json").exists()
    # A new installation recognises its own files.
    succeed("install", sillytavern)
    assert not status(sillytavern)["needsSync"]


def test_files_of_others_stay(sillytavern: Path) -> None:
    folder = sillytavern / EXTENSION
    folder.mkdir()
    (folder / "manifest.json").write_bytes(bundled_files("extension")["manifest.json"])
    before = tree(sillytavern)

    succeed("install", sillytavern)
    succeed("install", sillytavern)
    succeed("uninstall", sillytavern)

    assert tree(sillytavern) == before


def test_uninstalling_needs_an_installation(sillytavern: Path) -> None:
    before = tree(sillytavern)

    fail("uninstall", sillytavern)

    assert tree(sillytavern) == before


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "plugins/valuetracker/../../../outside.txt",
        "/outside.txt",
        "plugins/other/index.js",
        "server.js",
        "plugins/valuetracker//x",
        "plugins\\valuetracker\\x",
        "plugins/valuetracker",
        "a\0b",
        "",
    ],
)
def test_a_manipulated_record_removes_no_other_file(
    sillytavern: Path, tmp_path: Path, path: str
) -> None:
    succeed("install", sillytavern)
    (tmp_path / "outside.txt").write_text("theirs")
    (sillytavern / "plugins/other").mkdir()
    (sillytavern / "plugins/other/index.js").write_text("theirs")
    (sillytavern / "server.js").write_text("theirs")
    digest = hashlib.sha256(b"theirs").hexdigest()
    found = record(sillytavern)
    found["files"].append({"path": path, "sha256": digest})
    found["folders"] += ["..", "public", "/", "plugins/other", path]
    (sillytavern / PLUGIN / "installed.json").write_text(json.dumps(found))

    succeed("uninstall", sillytavern)

    assert (tmp_path / "outside.txt").read_text() == "theirs"
    assert (sillytavern / "plugins/other/index.js").read_text() == "theirs"
    assert (sillytavern / "server.js").read_text() == "theirs"
    assert not (sillytavern / PLUGIN).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 5, "folders": {}, "config": []}'])
def test_an_unreadable_record_removes_nothing(sillytavern: Path, text: str) -> None:
    succeed("install", sillytavern)
    (sillytavern / PLUGIN / "installed.json").write_text(text)

    result = run("uninstall", sillytavern)

    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert (sillytavern / PLUGIN / "package.json").exists()


def test_nothing_is_removed_through_a_link(sillytavern: Path, tmp_path: Path) -> None:
    succeed("install", sillytavern)
    (sillytavern / EXTENSION).rename(tmp_path / "moved")
    (sillytavern / EXTENSION).symlink_to(tmp_path / "moved")
    before = tree(tmp_path / "moved")

    fail("uninstall", sillytavern)

    assert tree(tmp_path / "moved") == before


# Status


def test_status_shows_the_bundled_installed_and_running_versions(
    sillytavern: Path, upstream: FakeSillyTavern
) -> None:
    before = status(sillytavern)
    succeed("install", sillytavern, "--enable-plugins")
    after = json.loads(succeed("status", sillytavern, "--json", "--url", upstream.url))

    assert before.pop("url").startswith("http://127.0.0.1:")
    assert after.pop("url") == upstream.url
    assert before == {
        "sillytavern": "1.19.0",
        "bundled": __version__,
        "installed": None,
        "running": None,
        "plugin": "missing",
        "extension": "missing",
        "needsSync": True,
        "pluginsEnabled": False,
        "python": None,
        "pythonExists": False,
    }
    assert after == {
        "sillytavern": "1.19.0",
        "bundled": __version__,
        "installed": __version__,
        "running": __version__,
        "plugin": "match",
        "extension": "match",
        "needsSync": False,
        "pluginsEnabled": True,
        "python": sys.executable,
        "pythonExists": True,
    }


def test_status_shows_problems(sillytavern: Path, upstream: FakeSillyTavern) -> None:
    succeed("install", sillytavern)
    found = record(sillytavern)
    (sillytavern / PLUGIN / "installed.json").write_text(
        json.dumps({**found, "python": "/gone/python"})
    )
    (sillytavern / EXTENSION / "manifest.json").unlink()
    upstream.says(
        "/api/plugins/valuetracker/health", {"ok": True, "plugin": "x", "version": "0.0.9"}
    )

    output = succeed("status", sillytavern, "--url", upstream.url)

    assert "/gone/python" in output
    assert "install again" in output
    assert "enableServerPlugins" in output
    assert "restart SillyTavern" in output
    assert "0.0.9" in output


def test_status_tells_what_keeps_the_plugin_from_running(
    sillytavern: Path, upstream: FakeSillyTavern
) -> None:
    missing, off, waiting, stopped = (
        "The plugin is not installed there",
        "enableServerPlugins: true",
        "restart SillyTavern",
        "SillyTavern does not answer at its address",
    )
    running = upstream.answers.pop("/api/plugins/valuetracker/health")

    def told(url: str = upstream.url) -> set[str]:
        output = succeed("status", sillytavern, "--url", url)
        return {each for each in (missing, off, waiting, stopped) if each in output}

    assert told() == {missing}
    succeed("install", sillytavern)
    assert told() == {off}
    succeed("install", sillytavern, "--enable-plugins")
    assert told() == {waiting}
    assert told(f"http://127.0.0.1:{closed_port()}") == {stopped}
    upstream.answers["/api/plugins/valuetracker/health"] = running
    assert told() == set()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://me@127.0.0.1", "8000", ""])
def test_status_refuses_anything_but_an_address(sillytavern: Path, url: str) -> None:
    fail("status", sillytavern, "--url", url)


@pytest.mark.parametrize("variable", ["VALUETRACKER_LOG_LEVEL", "COMFYVN_LOG_LEVEL"])
def test_the_program_itself_logs_each_file_at_debug(sillytavern: Path, variable: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "valuetracker", "sillytavern", "install", str(sillytavern)],
        env={**os.environ, variable: "DEBUG"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    copied = [json.loads(line) for line in done.stderr.splitlines()]
    assert {each["path"] for each in copied if each["action"] == "create"} == {
        str(sillytavern / PLUGIN / "installed.json"),
        *(str(sillytavern / each["path"]) for each in record(sillytavern)["files"]),
    }
