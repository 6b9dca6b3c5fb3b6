"""`doctor`, `completion`, and the port of `sillytavern status`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal, call, environment, run
from tests.cli.test_backup import damage
from tests.conftest import RunningServer
from tests.support.folders import make_sillytavern
from valuetracker import __version__
from valuetracker.http.run_file import NAME

PROGRAM = Path(sys.executable).with_name("valuetracker")


def test_what_is_sound_is_said_to_be(server: RunningServer, tmp_path: Path) -> None:
    where = ("--data-dir", server.data_dir)

    shown = Terminal("doctor", *where, HOME=str(tmp_path))
    done = shown.end()
    piped = run("doctor", "--json", *where, HOME=str(tmp_path))

    assert (done.code, piped.code) == (0, 0), done.out
    assert "\x1b[32mok\x1b[0m" in shown.raw
    assert f"server: It runs at {server.url}" in done.out
    found = {each["check"]: each["status"] for each in piped.json}
    assert found == {
        "python": "ok",
        "permissions": "ok",
        "disk": "ok",
        "tokens": "ok",
        "server": "ok",
        "databases": "ok",
        "backups": "warning",
    }


def test_what_is_wrong_is_said_with_the_command_that_mends_it(files: Path, tmp_path: Path) -> None:
    damage(files / "demo.db")
    files.chmod(0o755)
    (files / ".tokens.json").write_text("{}")
    (files / NAME).write_text(
        '{"url": "http://127.0.0.1:9", "pid": 4711, "version": "0", "token": "old"}'
    )
    sillytavern = make_sillytavern(tmp_path / "SillyTavern")
    installed = run("sillytavern", "install", sillytavern)

    done = run("doctor", sillytavern, "--json", "--data-dir", files)

    assert installed.code == 0, installed.err
    assert done.code == 1
    found = {each["check"]: each for each in done.json}
    assert found["permissions"]["fix"] == f"chmod 700 {files}"
    assert found["tokens"]["status"] == "wrong"
    assert "4711 did not stop cleanly" in found["server"]["message"]
    assert found["databases"]["status"] == "wrong"
    assert "demo" in found["databases"]["message"]
    assert "enableServerPlugins" in found["sillytavern"]["message"]
    assert "--enable-plugins" in found["sillytavern"]["fix"]


def test_nothing_is_made_where_nothing_is(tmp_path: Path) -> None:
    done = call("doctor", "--data-dir", tmp_path / "absent", HOME=str(tmp_path))

    assert done.code == 0, done.out + done.err
    assert "does not exist yet" in done.out
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ("listen: false\nport: 8123 # mine\n", "http://127.0.0.1:8123"),
        ("proxy:\n  port: 1\n'port' : '8124'\r\n", "http://127.0.0.1:8124"),
        ("listen: false\n", "http://127.0.0.1:8000"),
    ],
)
def test_the_port_of_sillytavern_is_read(tmp_path: Path, config: str, url: str) -> None:
    sillytavern = make_sillytavern(tmp_path / "SillyTavern")
    (sillytavern / "config.yaml").write_bytes(config.encode())

    assert call("sillytavern", "status", sillytavern, "--json").json["url"] == url


# Completion


def test_bash_completes_commands_and_options() -> None:
    script = call("completion", "bash").out

    def complete(*words: str) -> set[str]:
        line = " ".join(map(shlex.quote, words))
        done = subprocess.run(
            ["bash", "-c", f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
             "_valuetracker_completion valuetracker; printf '%s\\n' \"${COMPREPLY[@]}\""],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return set(done.stdout.split())

    # The script calls the program by its name.
    script = f"PATH={PROGRAM.parent}:$PATH\n{script}"

    assert complete("valuetracker", "ex") == {"extensions", "export"}
    assert complete("valuetracker", "export", "--op") == {"--operations"}


@pytest.mark.parametrize(
    ("shell", "text"),
    [("zsh", "#compdef valuetracker"), ("fish", "complete"), ("powershell", "Register-Argument")],
)
def test_each_shell_gets_a_script(shell: str, text: str) -> None:
    done = call("completion", shell)

    assert done.code == 0
    assert text in done.out
    assert "%(" not in done.out


def test_powershell_is_answered() -> None:
    def complete(line: str, word: str) -> list[str]:
        variables = {
            "COMP_WORDS": line,
            "COMP_CWORD": word,
            "_VALUETRACKER_COMPLETE": "powershell_complete",
        }
        done = subprocess.run(
            [PROGRAM], capture_output=True, text=True, env=environment(**variables), check=False
        )
        assert done.returncode == 0, done.stderr
        return [each.split("\t")[1] for each in done.stdout.splitlines()]

    assert complete("valuetracker ba", "ba") == ["backup"]
    assert complete("valuetracker backup ", "") == [
        "create",
        "delete",
        "list",
        "restore",
        "verify",
    ]


def test_the_version_is_told() -> None:
    assert call("--version").out == f"valuetracker, version {__version__}\n"
    assert call("nothing").code == 2
