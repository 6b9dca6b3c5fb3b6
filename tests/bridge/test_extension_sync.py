"""Copying the plugin and the extension over HTTP."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.support.folders import EXTENSIONS, tree
from valuetracker.bridge.install.bundle import bundle_directory, bundled_files
from valuetracker.cli.main import main

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
    """Return the copied files by their path in SillyTavern, without the record."""
    plugin = {f"{PLUGIN}/{name}": content for name, content in bundled_files("plugin").items()}
    extension = {f"{EXTENSION}/{name}": text for name, text in bundled_files("extension").items()}
    return plugin | extension


def test_nothing_is_written_without_being_requested(
    bridge: httpx.Client, sillytavern: Path
) -> None:
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


def test_a_dry_run_lists_the_actions_of_the_real_run(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    planned = sync(bridge)

    done = sync(bridge, dry_run=False)

    assert done["actions"] == planned["actions"]
    written = {name: content for name, content in tree(sillytavern).items() if content is not None}
    assert everything().items() <= written.items()
    assert done["extension"]["overall_needs_sync"] is False
    assert done["extension"]["version_status"] == "match"
    assert done["paths"]["destination_exists"] is True


def test_files_with_the_same_bytes_are_skipped_and_others_updated(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    sync(bridge, dry_run=False)
    manifest = sillytavern / EXTENSION / "manifest.json"
    text = manifest.read_bytes()
    # The same size and modification time as before.
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


def test_another_source_may_be_copied_without_hidden_files(
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


def test_uninstalling_removes_an_extension_copied_for_one_user(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    folder = sillytavern / "data/default-user/extensions"
    folder.mkdir(parents=True)
    before = tree(sillytavern)
    sync(bridge, dry_run=False, destination=str(folder))

    done = CliRunner().invoke(main, ["sillytavern", "uninstall", str(sillytavern)])

    assert done.exit_code == 0, done.output
    assert tree(sillytavern) == before


def test_each_file_is_logged_at_debug(
    bridge: httpx.Client, sillytavern: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "valuetracker.bridge.install.copying")

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
