"""`backup` and `verify`, in a terminal and in a pipe, with a server and without one."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.conftest import Terminal, call, run, terminal
from tests.conftest import RunningServer


def damage(path: Path) -> None:
    """Change some bytes in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"damaged" * 20)


def test_a_backup_is_made_listed_verified_and_deleted_while_a_server_runs(
    server: RunningServer,
) -> None:
    where = ("--data-dir", server.data_dir)

    [made] = run("backup", "create", "--json", *where).json
    shown = terminal("backup", "list", *where)
    listed = run("backup", "list", "--json", *where)
    sound = terminal("backup", "verify", made["name"], *where)
    unasked = run("backup", "delete", made["name"], *where)
    asked = Terminal("backup", "delete", made["name"], *where)
    asked.wait_for(f"Delete the backup {made['name']}? [y/N]")
    asked.type("y\n")
    deleted = asked.end()

    assert [each["id"] for each in made["extensions"]] == ["demo"]
    assert made["name"] in shown.out
    assert listed.json == [made]
    assert (sound.code, "true" in sound.out) == (0, True)
    assert (unasked.code, deleted.code) == (2, 0)
    assert run("backup", "list", "--json", *where).json == []
    assert run("backup", "verify", made["name"], *where).code == 4


def test_a_damaged_backup_is_found_without_a_server(files: Path) -> None:
    where = ("--data-dir", files)
    made = terminal("backup", "create", *where)
    [backup] = call("backup", "list", "--json", *where).json

    damage(files / "backups" / backup["name"] / backup["extensions"][0]["file"])
    found = call("backup", "verify", backup["name"], "--json", *where)

    assert made.code == 0, made.out
    assert found.code == 1
    assert found.json["sound"] is False
    assert f"error: The backup {backup['name']} is damaged." in found.err


def test_sound_extensions_verify(server: RunningServer) -> None:
    where = ("--data-dir", server.data_dir)

    shown = terminal("verify", *where)
    piped = run("verify", "demo", "--json", *where)

    assert shown.code == 0, shown.out
    assert "demo" in shown.out
    assert piped.json[0]["sound"] is True
    assert piped.err == ""
    assert run("verify", "nothing", *where).code == 4


def test_a_damaged_extension_is_found(files: Path) -> None:
    damage(files / "demo.db")
    where = ("--data-dir", files)

    found = call("verify", "--json", *where)
    shown = terminal("verify", "demo", *where)

    assert (found.code, shown.code) == (1, 1)
    assert found.json[0]["sound"] is False
    assert "demo: " in found.err
    assert "error: Damaged: demo." in shown.out


def test_a_backup_is_restored_by_name_and_from_a_folder(files: Path, tmp_path: Path) -> None:
    where = ("--data-dir", files)
    [backup] = call("backup", "create", "--json", *where).json
    assert call("set", "demo", "eldergrove", "population", "1", *where).code == 0

    kept = run("backup", "restore", backup["name"], *where)
    unasked = call("backup", "restore", backup["name"], "--force", *where)
    asked = Terminal("backup", "restore", backup["name"], "--extension", "demo", "--force", *where)
    asked.wait_for("? [y/N]: ")
    asked.type("y\n")
    done = asked.end()

    assert (kept.code, unasked.code, done.code) == (4, 2, 0), kept.err + done.out
    assert call("get", "demo", "eldergrove", "population", *where).out == "412\n"

    # On another machine, from the folder of the backup.
    elsewhere = ("--data-dir", tmp_path / "elsewhere")
    folder = files / "backups" / backup["name"]
    moved = call("backup", "restore", folder, "--json", *elsewhere)
    wrong = call("backup", "restore", files, *elsewhere)

    assert moved.code == 0, moved.err
    assert [each["id"] for each in moved.json] == ["demo"]
    assert call("get", "demo", "eldergrove", "population", *elsewhere).out == "412\n"
    assert (wrong.code, "is no backup" in wrong.err) == (1, True)


def test_a_folder_is_not_taken_for_another_backup_of_the_same_name(
    files: Path, tmp_path: Path
) -> None:
    where = ("--data-dir", files)
    [backup] = call("backup", "create", "--json", *where).json
    folder = Path(shutil.copytree(files / "backups" / backup["name"], tmp_path / "copy"))
    again = call("backup", "restore", folder, "--force", "--yes", *where)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace(backup["version"], "0.0.0"))

    refused = call("backup", "restore", folder, "--force", "--yes", *where)

    assert again.code == 0, again.err
    assert (refused.code, "is another backup of the same name" in refused.err) == (1, True)


def test_what_is_intact_of_a_damaged_extension_is_salvaged(files: Path, tmp_path: Path) -> None:
    damage(files / "demo.db")
    file, where = tmp_path / "rest.jsonl", ("--data-dir", files)

    done = run("verify", "demo", "--salvage", file, "--json", *where)
    again = call("verify", "demo", "--salvage", file, *where)
    new = ("--data-dir", tmp_path / "new", "--json")
    back = call("import", "demo", file, "--mode", "merge", *new)

    assert (done.code, again.code, back.code) == (1, 2, 0), done.err + back.err
    assert done.json["lost"]
    assert done.json["values"] > 0
    assert back.json["values"] == done.json["values"]
