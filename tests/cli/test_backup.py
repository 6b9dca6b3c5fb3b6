"""`backup` and `verify`, in a terminal and in a pipe, with a server and without one."""

from __future__ import annotations

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
