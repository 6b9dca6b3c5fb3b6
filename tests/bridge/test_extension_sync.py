"""Copying the plugin and the extension over HTTP."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.api.answers import outcome, refused_as
from tests.bridge.conftest import StartServer
from tests.bridge.folders import EXTENSIONS, make_sillytavern, tree
from valuetracker.bridge.bundle import bundle_directory, bundled_files
from valuetracker.cli import main
from valuetracker.errors import (
    InvalidBody,
    NoDestination,
    NotWritable,
    OutsideRoots,
    PluginConflict,
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


def actions(found: dict[str, Any], action: str) -> set[str]:
    return {each["path"] for each in found["actions"] if each["action"] == action}


def everything() -> dict[str, bytes]:
    """What is copied, by its place in SillyTavern, but for the record of it."""
    plugin = {f"{PLUGIN}/{name}": content for name, content in bundled_files("plugin").items()}
    extension = {f"{EXTENSION}/{name}": text for name, text in bundled_files("extension").items()}
    return plugin | extension


def test_nothing_is_written_unless_it_is_asked_for(bridge: httpx.Client, sillytavern: Path) -> None:
    before = tree(sillytavern)

    without_a_body = bridge.post("/st/extension/sync")
    found = sync(bridge)

    assert without_a_body.json() == found
    assert tree(sillytavern) == before
    assert found["dry_run"] is True
    assert actions(found, "create") == {*everything(), f"{PLUGIN}/installed.json"}
    assert {PLUGIN, EXTENSION} <= actions(found, "mkdir")
    assert found["created"] == found["files_processed"] == len(everything()) + 1
    assert found["dirs_created"] == len(actions(found, "mkdir"))
    assert (found["updated"], found["skipped"]) == (0, 0)
    assert found["source"] == str(bundle_directory() / "extension")
    assert found["destination"] == str(sillytavern / EXTENSION)
    assert found["paths"]["resolved_from"] == "settings"
    assert found["extension"]["overall_needs_sync"] is True


def test_what_is_planned_is_what_is_done(bridge: httpx.Client, sillytavern: Path) -> None:
    planned = sync(bridge)

    done = sync(bridge, dry_run=False)

    assert done["actions"] == planned["actions"]
    written = {name: content for name, content in tree(sillytavern).items() if content is not None}
    assert everything().items() <= written.items()
    assert done["extension"]["overall_needs_sync"] is False
    assert done["extension"]["version_status"] == "match"
    assert done["paths"]["destination_exists"] is True


def test_bytes_decide_what_is_skipped_and_what_is_updated(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    sync(bridge, dry_run=False)
    manifest = sillytavern / EXTENSION / "manifest.json"
    text = manifest.read_bytes()
    # As long and as old as before.
    stamp = manifest.stat()
    manifest.write_bytes(text.replace(b"0", b"9", 1) if b"0" in text else text[::-1])
    os.utime(manifest, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    found = sync(bridge, dry_run=False)

    assert actions(found, "update") == {f"{EXTENSION}/manifest.json"}
    assert (found["created"], found["updated"], found["dirs_created"]) == (0, 1, 0)
    assert found["skipped"] == len(everything())
    assert manifest.read_bytes() == text


def test_nothing_is_deleted(bridge: httpx.Client, sillytavern: Path) -> None:
    sync(bridge, dry_run=False)
    (sillytavern / PLUGIN / "config.json").write_text('{"attach": null}')
    (sillytavern / EXTENSION / "notes.txt").write_text("mine")

    sync(bridge, dry_run=False)

    assert (sillytavern / PLUGIN / "config.json").read_text() == '{"attach": null}'
    assert (sillytavern / EXTENSION / "notes.txt").read_text() == "mine"


def test_no_temporary_file_stays(bridge: httpx.Client, sillytavern: Path) -> None:
    sync(bridge, dry_run=False)

    assert [name for name in tree(sillytavern) if name.endswith(".tmp")] == []


def test_another_source_may_be_copied_without_what_is_hidden(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    source = sillytavern / "my-fork"
    (source / ".git/objects").mkdir(parents=True)
    (source / ".git/objects/secret").write_text("x")
    (source / ".env").write_text("x")
    (source / "lib/.cache").mkdir(parents=True)
    (source / "lib/.cache/x").write_text("x")
    (source / "lib/a.js").write_text("// a")
    (source / "manifest.json").write_bytes(
        (bundle_directory() / "extension/manifest.json").read_bytes()
    )

    found = sync(bridge, dry_run=False, source=str(source))

    created = {path for path in actions(found, "create") if path.startswith(EXTENSION)}
    client = {f"{EXTENSION}/{name}" for name in bundled_files("extension", source)}
    assert {f"{EXTENSION}/lib/a.js", f"{EXTENSION}/manifest.json"} <= created
    assert created == client
    assert not [name for name in created if "/." in name]
    assert found["source"] == str(source)


def test_a_destination_may_be_named_within_the_roots(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    folder = sillytavern / "data/default-user/extensions"
    folder.mkdir(parents=True)

    found = sync(bridge, dry_run=False, destination=str(folder))

    assert found["destination"] == str(folder / "valuetracker")
    assert found["paths"]["resolved_from"] == "argument"
    assert (folder / "valuetracker/manifest.json").is_file()
    assert (sillytavern / PLUGIN / "package.json").is_file()


def test_uninstalling_finds_what_was_copied_for_one_user(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    folder = sillytavern / "data/default-user/extensions"
    folder.mkdir(parents=True)
    before = tree(sillytavern)
    sync(bridge, dry_run=False, destination=str(folder))

    done = CliRunner().invoke(main, ["sillytavern", "uninstall", str(sillytavern)])

    assert done.exit_code == 0, done.output
    assert tree(sillytavern) == before


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
        "relative",
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


@pytest.mark.parametrize("value", [5, "", "  ", "a\0b", "a\nb", "x" * 5_000, ["/"], "\ud800"])
def test_what_is_no_path_is_refused(bridge: httpx.Client, value: Any) -> None:
    answer = bridge.post(
        "/st/extension/sync", content=json.dumps({"destination": value, "dry_run": False})
    )

    assert outcome(answer) == refused_as(answer, InvalidBody)


@pytest.mark.parametrize("which", ["source", "destination"])
def test_a_name_that_is_too_long_for_the_system_is_refused(
    bridge: httpx.Client, sillytavern: Path, which: str
) -> None:
    body = {"dry_run": False, which: str(sillytavern / ("x" * 300))}

    answer = bridge.post("/st/extension/sync", json=body)

    assert answer.status_code in (404, 409), answer.text


@pytest.mark.parametrize("source", ["nothing", "", "plugins", "server.js"])
def test_a_source_that_is_not_there_or_no_extension(
    bridge: httpx.Client, sillytavern: Path, source: str
) -> None:
    refused(bridge, SourceNotFound, source=str(sillytavern / source))


@pytest.mark.parametrize("manifest", ["", "{", "[]", "\0"])
def test_a_source_with_a_broken_manifest(
    bridge: httpx.Client, sillytavern: Path, manifest: str
) -> None:
    (sillytavern / "fork").mkdir()
    (sillytavern / "fork/manifest.json").write_text(manifest)
    (sillytavern / EXTENSION).mkdir()
    (sillytavern / EXTENSION / "manifest.json").write_text("{}")

    refused(bridge, SourceNotFound, source=str(sillytavern / "fork"))


def test_a_source_that_holds_too_much(bridge: httpx.Client, sillytavern: Path) -> None:
    (sillytavern / "fork").mkdir()
    (sillytavern / "fork/manifest.json").write_text("{}")
    for number in range(3):
        (sillytavern / f"fork/{number}").write_bytes(bytes(30 * 1024 * 1024))
    before = tree(sillytavern / "public")

    refused(bridge, NotWritable, source=str(sillytavern / "fork"))

    assert tree(sillytavern / "public") == before


def test_the_plugins_folder_is_not_for_extensions(bridge: httpx.Client, sillytavern: Path) -> None:
    refused(bridge, NoDestination, destination=str(sillytavern / "plugins"))


def test_no_sillytavern_anywhere(start_server: StartServer, home: Path) -> None:
    with start_server().client() as client:
        refused(client, NoDestination)
    assert tree(home) == {}


def test_the_usual_place_is_used_if_there_is_one(start_server: StartServer, home: Path) -> None:
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


# What is in the way


def test_a_plugin_that_is_not_ours_is_left_alone(bridge: httpx.Client, sillytavern: Path) -> None:
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


def test_another_extension_of_that_folder_is_left_alone(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    folder = sillytavern / EXTENSION
    folder.mkdir()
    (folder / "manifest.json").write_text('{"display_name": "Somebody else"}')
    before = tree(sillytavern)

    refused(bridge, PluginConflict)

    assert tree(sillytavern) == before


@pytest.mark.parametrize("name", ["plugins", PLUGIN, f"{EXTENSION}/manifest.json"])
def test_a_file_where_a_folder_should_be_and_the_other_way_round(
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


def test_each_file_is_logged_at_debug(
    bridge: httpx.Client, sillytavern: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "valuetracker.bridge.copying")

    found = sync(bridge, dry_run=False)

    logged = [
        {"action": vars(each)["action"], "path": vars(each)["path"]}
        for each in caplog.records
        if each.message == "file copied"
    ]
    assert logged == [
        {"action": each["action"], "path": str(sillytavern / each["path"])}
        for each in found["actions"]
    ]
