"""`valuetracker sillytavern install`, `status` and `uninstall`, on real folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import valuetracker
from tests.bridge.commands import EXTENSION, PLUGIN, fail, record, status, succeed
from tests.bridge.permissions import read_only
from tests.support.folders import CONFIG, make_sillytavern, tree
from valuetracker import __version__
from valuetracker.bridge.install.bundle import bundle_directory, bundled_files

ENABLED = "enableServerPlugins: true\n"


def test_plugin_extension_and_client_are_installed(sillytavern: Path) -> None:
    output = succeed("install", sillytavern)

    files = {name for name, content in tree(sillytavern).items() if content is not None}
    plugin, extension = bundled_files("plugin"), bundled_files("extension")
    assert {(PLUGIN / name).as_posix() for name in plugin} <= files
    assert {(EXTENSION / name).as_posix() for name in extension} <= files
    assert f"Installed {__version__} into SillyTavern 1.19.0" in output
    assert "--enable-plugins" in output


def test_the_record_names_the_python_the_version_and_the_files(sillytavern: Path) -> None:
    succeed("install", sillytavern)

    found = record(sillytavern)

    assert found["python"] == sys.executable
    assert Path(found["python"]).is_absolute()
    assert found["version"] == __version__
    assert {each["path"] for each in found["files"]} == {
        *((PLUGIN / name).as_posix() for name in bundled_files("plugin")),
        *((EXTENSION / name).as_posix() for name in bundled_files("extension")),
    }
    assert {PLUGIN.as_posix(), EXTENSION.as_posix()} <= set(found["folders"])


def test_installing_again_changes_nothing(sillytavern: Path) -> None:
    succeed("install", sillytavern)
    before = tree(sillytavern)

    output = succeed("install", sillytavern)

    assert tree(sillytavern) == before
    assert "0 files created, 0 updated" in output


def test_an_interrupted_installation_is_completed(sillytavern: Path) -> None:
    succeed("install", sillytavern)
    whole = tree(sillytavern)
    (sillytavern / EXTENSION / "manifest.json").unlink()
    (sillytavern / PLUGIN / "package.json").unlink()

    succeed("install", sillytavern)

    assert tree(sillytavern) == whole


def test_an_older_version_is_brought_up_to_date(sillytavern: Path) -> None:
    succeed("install", sillytavern)
    package = sillytavern / PLUGIN / "package.json"
    package.write_text(json.dumps({"name": "valuetracker-plugin", "version": "0.0.1"}))
    stale = sillytavern / PLUGIN / "gone-since.js"
    stale.write_text("// of 0.0.1")
    old = record(sillytavern)
    digest = hashlib.sha256(stale.read_bytes()).hexdigest()
    old["files"].append({"path": (PLUGIN / "gone-since.js").as_posix(), "sha256": digest})
    (sillytavern / PLUGIN / "installed.json").write_text(json.dumps({**old, "version": "0.0.1"}))
    assert status(sillytavern)["plugin"] == "mismatch"

    output = succeed("install", sillytavern)

    assert "It was 0.0.1 before." in output
    assert status(sillytavern)["plugin"] == "match"
    assert record(sillytavern)["version"] == __version__
    succeed("uninstall", sillytavern)
    assert not stale.exists()


def test_a_newer_version_is_not_replaced_unless_forced(sillytavern: Path) -> None:
    succeed("install", sillytavern)
    package = sillytavern / PLUGIN / "package.json"
    package.write_text(json.dumps({"name": "valuetracker-plugin", "version": "99.0.0"}))
    before = tree(sillytavern)

    output = fail("install", sillytavern)

    assert "99.0.0" in output
    assert "--force" in output
    assert tree(sillytavern) == before
    succeed("install", sillytavern, "--force")
    assert status(sillytavern)["installed"] == __version__


# Folders that are not a SillyTavern, or contain another plugin


@pytest.mark.parametrize("lacking", ["server.js", "package.json", "public", "all", "name"])
@pytest.mark.parametrize("command", ["install", "status", "uninstall"])
def test_a_folder_without_a_sillytavern_is_refused(
    tmp_path: Path, command: str, lacking: str
) -> None:
    root = make_sillytavern(tmp_path / "st")
    if lacking == "all":
        root = tmp_path / "nothing"
    elif lacking == "name":
        (root / "package.json").write_text('{"name": "other"}')
    elif lacking == "public":
        (root / lacking).rename(root / "private")
    else:
        (root / lacking).unlink()
    before = tree(tmp_path)

    output = fail(command, root)

    assert "hint: " in output
    assert tree(tmp_path) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": 5}'])
def test_a_broken_package_file_is_no_sillytavern(sillytavern: Path, text: str) -> None:
    (sillytavern / "package.json").write_text(text)

    fail("install", sillytavern)


def test_the_original_plugin_is_named_and_not_changed(sillytavern: Path) -> None:
    folder = sillytavern / "plugins/SillyTavern-ValueTracker"
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "value-tracker", "main": "dist/index.js"}')
    (folder / "dist/index.js").write_text("exports.info={id:'valuetracker',name:'Value Tracker'}")
    before = tree(sillytavern)

    output = fail("install", sillytavern)

    assert str(folder) in output
    assert tree(sillytavern) == before


def test_a_folder_of_our_name_without_our_record_is_not_changed(sillytavern: Path) -> None:
    (sillytavern / PLUGIN).mkdir()
    (sillytavern / PLUGIN / "package.json").write_text('{"name": "valuetracker-plugin"}')
    before = tree(sillytavern)

    fail("install", sillytavern)

    assert tree(sillytavern) == before


def test_a_plugin_that_somebody_copied_can_be_installed(sillytavern: Path) -> None:
    # Without a record it names no Python, so it cannot start the server.
    shutil.copytree(bundle_directory() / "plugin", sillytavern / PLUGIN)

    succeed("install", sillytavern)

    assert record(sillytavern)["python"] == sys.executable
    (sillytavern / PLUGIN / "installed.json").unlink()
    (sillytavern / PLUGIN / "index.js").write_text("// changed")
    assert "Value Tracker did not install it" in fail("install", sillytavern)


@pytest.mark.parametrize(
    "folder", ["plugins", "public/scripts/extensions/third-party"], ids=["plugins", "extensions"]
)
def test_a_folder_that_cannot_be_written_to_is_named(sillytavern: Path, folder: str) -> None:
    with read_only(sillytavern / folder):
        output = fail("install", sillytavern)

    assert folder in output
    assert "hint: " in output
    # The part that was installed is recorded, so it can be removed again.
    if (sillytavern / PLUGIN).exists():
        succeed("uninstall", sillytavern)
    assert not (sillytavern / PLUGIN).exists()


@pytest.mark.parametrize("link", [EXTENSION, PLUGIN / "bridge.js", EXTENSION / "index.js"])
def test_nothing_is_installed_through_a_link(sillytavern: Path, tmp_path: Path, link: Path) -> None:
    (sillytavern / link).parent.mkdir(parents=True, exist_ok=True)
    (sillytavern / link).symlink_to(tmp_path)
    before = tree(sillytavern)

    output = fail("install", sillytavern)

    assert f"{link} is a symbolic link" in output
    assert tree(sillytavern) == before


def test_a_python_that_cannot_be_run_is_reported(
    sillytavern: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(sillytavern / "gone/python"))

    output = fail("install", sillytavern)

    assert "cannot be run" in output
    assert not (sillytavern / PLUGIN).exists()


def test_a_python_that_could_not_run_the_server_is_refused(
    sillytavern: Path, tmp_path: Path
) -> None:
    # A Python that has the dependencies, and finds the package only in the current folder.
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare/bin/python"
    path = os.pathsep.join([str(Path(valuetracker.__file__).parent.parent), *sys.path])
    before = tree(sillytavern)

    done = subprocess.run(
        [python, "-m", "valuetracker", "sillytavern", "install", str(sillytavern)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "pip install" in done.stderr
    assert tree(sillytavern) == before


# The configuration


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CONFIG, CONFIG.replace("enableServerPlugins: false", "enableServerPlugins: true")),
        ("enableServerPlugins: no\r\na: 1\r\n", "enableServerPlugins: true\r\na: 1\r\n"),
        ('"enableServerPlugins":   "false"   # x', '"enableServerPlugins":   true   # x'),
        ("enableServerPlugins:\n", ENABLED),
        ("a: 1\n", "a: 1\nenableServerPlugins: true\n"),
        ("a: 1", "a: 1\nenableServerPlugins: true\n"),
        ("", "enableServerPlugins: true\n"),
        ("# enableServerPlugins:\n", "# enableServerPlugins:\nenableServerPlugins: true\n"),
        ("x:\n  enableServerPlugins: no\n", "x:\n  enableServerPlugins: no\n" + ENABLED),
        (None, "enableServerPlugins: true\n"),
    ],
)
def test_plugins_are_switched_on_and_off_again_and_the_rest_stays(
    sillytavern: Path, before: str | None, after: str
) -> None:
    config = sillytavern / "config.yaml"
    config.unlink()
    if before is not None:
        config.write_bytes(before.encode())
    untouched = tree(sillytavern)

    output = succeed("install", sillytavern, "--enable-plugins")

    assert config.read_bytes() == after.encode()
    assert "Restart SillyTavern now." in output
    succeed("uninstall", sillytavern)
    assert tree(sillytavern) == untouched


@pytest.mark.parametrize("line", ["enableServerPlugins: true", "enableServerPlugins: True # on"])
def test_plugins_that_are_switched_on_stay_as_they_are(sillytavern: Path, line: str) -> None:
    (sillytavern / "config.yaml").write_text(line)

    succeed("install", sillytavern, "--enable-plugins")
    succeed("uninstall", sillytavern)

    assert (sillytavern / "config.yaml").read_text() == line


def test_the_configuration_is_not_changed_without_being_requested(sillytavern: Path) -> None:
    succeed("install", sillytavern)

    assert (sillytavern / "config.yaml").read_text() == CONFIG


def test_an_unusual_configuration_must_be_changed_by_hand(sillytavern: Path) -> None:
    (sillytavern / "config.yaml").write_text('{"listen": false}')

    output = fail("install", sillytavern, "--enable-plugins")

    assert "enableServerPlugins: true" in output
    assert (sillytavern / "config.yaml").read_text() == '{"listen": false}'


def test_a_configuration_behind_a_link_must_be_changed_by_hand(
    sillytavern: Path, tmp_path: Path
) -> None:
    (sillytavern / "config.yaml").rename(tmp_path / "config.yaml")
    (sillytavern / "config.yaml").symlink_to(tmp_path / "config.yaml")

    output = fail("install", sillytavern, "--enable-plugins")

    assert "Set `enableServerPlugins: true` in it yourself" in output
    assert (tmp_path / "config.yaml").read_text() == CONFIG


def test_an_installation_before_the_first_start_keeps_the_comments(sillytavern: Path) -> None:
    config = sillytavern / "config.yaml"
    config.unlink()
    (sillytavern / "default").mkdir(exist_ok=True)
    text = "# Who may connect.\nlisten: false\n# Plugins.\nenableServerPlugins: false # see docs\n"
    (sillytavern / "default/config.yaml").write_text(text)

    succeed("install", sillytavern, "--enable-plugins")

    assert config.read_text() == text.replace("Plugins: false", "Plugins: true")
    succeed("uninstall", sillytavern)
    assert not config.exists()


def test_a_configuration_behind_a_link_is_read(sillytavern: Path, tmp_path: Path) -> None:
    (sillytavern / "config.yaml").unlink()
    (sillytavern / "config.yaml").symlink_to(tmp_path / "config.yaml")

    off = succeed("install", sillytavern)
    (tmp_path / "config.yaml").write_text(ENABLED)
    on = succeed("install", sillytavern, "--enable-plugins")

    assert "--enable-plugins" in off
    assert "Restart SillyTavern now." in on
    assert status(sillytavern)["pluginsEnabled"] is True
    succeed("uninstall", sillytavern)
    assert (tmp_path / "config.yaml").read_text() == ENABLED


def test_plugins_stay_on_while_another_needs_them(sillytavern: Path) -> None:
    succeed("install", sillytavern, "--enable-plugins")
    (sillytavern / "plugins/other").mkdir()

    output = succeed("uninstall", sillytavern)

    assert "stays on" in output
    assert "enableServerPlugins: true" in (sillytavern / "config.yaml").read_text()
