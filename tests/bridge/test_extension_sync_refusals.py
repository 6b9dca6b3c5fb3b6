"""Refused copies, which change nothing."""

from __future__ import annotations

import json
import sys
import venv
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.support.answers import outcome, refused_as
from tests.support.folders import EXTENSIONS, make_sillytavern, tree
from valuetracker.errors import (
    InvalidBody,
    NoDestination,
    NotWritable,
    OutsideRoots,
    PluginConflict,
    PythonUnusable,
    SourceNotFound,
    SymlinkRefused,
    ValueTrackerError,
)

PLUGIN = "plugins/valuetracker"
EXTENSION = (EXTENSIONS / "valuetracker").as_posix()


def sync(bridge: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = bridge.post("/st/extension/sync", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(bridge: httpx.Client, kind: type[ValueTrackerError], **body: Any) -> None:
    answer = bridge.post("/st/extension/sync", json={"dry_run": False, **body})

    assert outcome(answer) == refused_as(answer, kind)


@pytest.mark.parametrize(
    "path",
    [
        "/etc",
        "/tmp/elsewhere",
        "{root}/../elsewhere",
        "{root}/a/../../elsewhere",
        "{root}x",
        "~",
    ],
)
@pytest.mark.parametrize("which", ["source", "destination"])
def test_nothing_outside_the_roots_is_read_or_written(
    bridge: httpx.Client, sillytavern: Path, tmp_path: Path, path: str, which: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    before = tree(tmp_path)

    refused(bridge, OutsideRoots, **{which: path.replace("{root}", str(sillytavern))})

    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "value", [5, "", "  ", "a\0b", "a\nb", "/" + "x" * 5_000, ["/"], "/\ud800"]
)
def test_an_invalid_path_is_refused(bridge: httpx.Client, value: Any) -> None:
    answer = bridge.post(
        "/st/extension/sync", content=json.dumps({"destination": value, "dry_run": False})
    )

    assert outcome(answer) == refused_as(answer, InvalidBody)


@pytest.mark.parametrize("which", ["source", "destination"])
def test_a_path_must_be_absolute(
    bridge: httpx.Client, sillytavern: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    # The plugin starts the server in this folder.
    monkeypatch.chdir(sillytavern)
    before = tree(sillytavern)

    refused(bridge, InvalidBody, **{which: "public/scripts/extensions/third-party"})

    assert tree(sillytavern) == before


@pytest.mark.parametrize("which", ["source", "destination"])
def test_a_name_that_is_too_long_for_the_system_is_refused(
    bridge: httpx.Client, sillytavern: Path, which: str
) -> None:
    body = {"dry_run": False, which: str(sillytavern / ("x" * 300))}

    answer = bridge.post("/st/extension/sync", json=body)

    assert answer.status_code in (404, 409), answer.text


@pytest.mark.parametrize("source", ["nothing", "", "plugins", "server.js"])
def test_a_source_that_is_missing_or_not_an_extension_is_refused(
    bridge: httpx.Client, sillytavern: Path, source: str
) -> None:
    refused(bridge, SourceNotFound, source=str(sillytavern / source))


@pytest.mark.parametrize("manifest", ["", "{", "[]", "\0"])
def test_a_source_with_a_broken_manifest_is_refused(
    bridge: httpx.Client, sillytavern: Path, manifest: str
) -> None:
    (sillytavern / "fork").mkdir()
    (sillytavern / "fork/manifest.json").write_text(manifest)
    (sillytavern / EXTENSION).mkdir()
    (sillytavern / EXTENSION / "manifest.json").write_text("{}")

    refused(bridge, SourceNotFound, source=str(sillytavern / "fork"))


def test_a_source_that_is_too_large_is_refused(bridge: httpx.Client, sillytavern: Path) -> None:
    (sillytavern / "fork").mkdir()
    (sillytavern / "fork/manifest.json").write_text("{}")
    for number in range(3):
        (sillytavern / f"fork/{number}").write_bytes(bytes(30 * 1024 * 1024))
    before = tree(sillytavern / "public")

    refused(bridge, NotWritable, source=str(sillytavern / "fork"))

    assert tree(sillytavern / "public") == before


def test_the_plugins_folder_is_not_for_extensions(bridge: httpx.Client, sillytavern: Path) -> None:
    refused(bridge, NoDestination, destination=str(sillytavern / "plugins"))


def test_without_any_sillytavern_the_request_is_refused(
    start_server: StartServer, home: Path
) -> None:
    with start_server().client() as client:
        refused(client, NoDestination)
    assert tree(home) == {}


def test_the_usual_folder_is_used_if_it_exists(start_server: StartServer, home: Path) -> None:
    make_sillytavern(home / "SillyTavern")
    with start_server().client() as client:
        found = sync(client, dry_run=False)

    assert found["paths"]["resolved_from"] == "default"
    assert (home / "SillyTavern" / PLUGIN / "package.json").is_file()


# Symbolic links


@pytest.mark.parametrize(
    "link",
    [
        "plugins",
        PLUGIN,
        "public",
        "public/scripts",
        EXTENSIONS.as_posix(),
        EXTENSION,
        f"{PLUGIN}/client",
    ],
)
def test_no_folder_is_written_through_a_link(
    bridge: httpx.Client, sillytavern: Path, tmp_path: Path, link: str
) -> None:
    place = sillytavern / link
    outside = tmp_path / "outside"
    if place.exists():
        place.rename(outside)
    else:
        outside.mkdir()
        place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)
    if link == f"{PLUGIN}/client":
        before = tree(outside)
        bridge.post("/st/extension/sync", json={"dry_run": False})
        assert tree(outside) == before
        return
    before = tree(outside)

    answer = bridge.post("/st/extension/sync", json={"dry_run": False})

    assert answer.status_code in (400, 403), answer.text
    assert tree(outside) == before


@pytest.mark.parametrize("name", [f"{EXTENSION}/manifest.json", f"{PLUGIN}/installed.json"])
def test_no_file_is_written_through_a_link(
    bridge: httpx.Client, sillytavern: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "outside.json"
    target.write_text("{}")
    place = sillytavern / name
    place.parent.mkdir(parents=True)
    place.symlink_to(target)

    answer = bridge.post("/st/extension/sync", json={"dry_run": False})

    assert answer.status_code in (403, 409), answer.text
    assert target.read_text() == "{}"


def test_no_file_is_read_through_a_link(bridge: httpx.Client, sillytavern: Path) -> None:
    source = sillytavern / "fork"
    source.mkdir()
    (source / "manifest.json").write_text("{}")
    (source / "passwd.txt").symlink_to("/etc/passwd")

    refused(bridge, SymlinkRefused, source=str(source))


def test_the_root_itself_may_be_a_link(
    start_server: StartServer, sillytavern: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(sillytavern)
    with start_server(st_root=(tmp_path / "link",)).client() as client:
        sync(client, dry_run=False)

    assert (sillytavern / PLUGIN / "package.json").is_file()


# Other plugins and extensions


def test_a_plugin_that_is_not_ours_is_not_changed(bridge: httpx.Client, sillytavern: Path) -> None:
    foreign = sillytavern / PLUGIN
    foreign.mkdir()
    (foreign / "index.js").write_text("// the original")
    before = tree(sillytavern)

    refused(bridge, PluginConflict)

    assert tree(sillytavern) == before


@pytest.mark.parametrize(
    ("package", "source", "main"),
    [
        ({"name": "sillytavern-valuetracker", "main": "dist/index.js"}, None, "dist/index.js"),
        ({"name": "other"}, None, "index.mjs"),
        ({"name": "valuetracker"}, "", "index.js"),
        (None, 'var i={id:"valuetracker",name:"x"}', "index.cjs"),
    ],
)
def test_a_plugin_of_the_same_id_is_in_the_way(
    bridge: httpx.Client, sillytavern: Path, package: Any, source: str | None, main: str
) -> None:
    folder = sillytavern / "plugins/some-tracker"
    (folder / main).parent.mkdir(parents=True)
    (folder / main).write_text(
        source if source is not None else "export const info = { id: 'valuetracker' };"
    )
    if package is not None:
        (folder / "package.json").write_text(json.dumps(package))
    before = tree(sillytavern)

    refused(bridge, PluginConflict)

    assert tree(sillytavern) == before


def test_other_plugins_are_not_in_the_way(bridge: httpx.Client, sillytavern: Path) -> None:
    (sillytavern / "plugins/other").mkdir()
    (sillytavern / "plugins/other/index.js").write_text("exports.info = {id: 'other'}")
    (sillytavern / "plugins/single.js").write_text("exports.info = {id: 'single'}")
    (sillytavern / PLUGIN).mkdir()
    (sillytavern / PLUGIN / "config.json").write_text("{}")

    sync(bridge, dry_run=False)


def test_another_extension_in_that_folder_is_not_changed(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    folder = sillytavern / EXTENSION
    folder.mkdir()
    (folder / "manifest.json").write_text('{"display_name": "Somebody else"}')
    before = tree(sillytavern)

    refused(bridge, PluginConflict)

    assert tree(sillytavern) == before


@pytest.mark.parametrize("name", ["plugins", PLUGIN, f"{EXTENSION}/manifest.json"])
def test_a_file_instead_of_a_folder_and_a_folder_instead_of_a_file_are_refused(
    bridge: httpx.Client, sillytavern: Path, name: str
) -> None:
    place = sillytavern / name
    if name.endswith(".json"):
        place.mkdir(parents=True)
    else:
        if place.exists():
            (place / "package.json").unlink()
            place.rmdir()
        place.write_text("a file")

    refused(bridge, NotWritable)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_plugin_that_could_not_start_is_not_copied(
    bridge: httpx.Client,
    sillytavern: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dry_run: bool,
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    before = tree(sillytavern)

    for python in (tmp_path / "bare/bin/python", tmp_path / "gone/python"):
        monkeypatch.setattr(sys, "executable", str(python))
        answer = bridge.post("/st/extension/sync", json={"dry_run": dry_run})

        body = answer.json()
        assert (answer.status_code, body["code"]) == (409, PythonUnusable.code)
        assert str(python) in body["error"]
        # The command to run.
        assert "install" in body["hint"]
        assert tree(sillytavern) == before
    # Without a SillyTavern there is no plugin to start.
    (sillytavern / "elsewhere").mkdir()
    (sillytavern / "server.js").unlink()
    target = str(sillytavern / "elsewhere/valuetracker")
    assert sync(bridge, dry_run=dry_run, destination=target)["dry_run"] is dry_run
