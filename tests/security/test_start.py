"""Starting and ending a server: refused configurations, private files, the parent process."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, wait_for
from tests.security.conftest import NAME
from tests.security.raw import crowd
from tests.system.conftest import Program, RunProgram
from valuetracker.http.server import OTHER_FILES
from valuetracker.http.tokens import NAME as TOKENS
from valuetracker.http.tokens import TokenFile
from valuetracker.settings import Settings

ELSEWHERE = ["0.0.0.0", "::", "0", "::ffff:0.0.0.0"]


def command(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "valuetracker", *arguments, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("host", ELSEWHERE)
def test_without_a_token_the_server_listens_on_loopback_only_and_says_why(
    run_program: RunProgram, host: str
) -> None:
    program = run_program("--host", host, ready=False)

    assert program.wait() == 1
    assert f"error: Without a token the server listens on loopback only, and {host} is not" in (
        program.log
    )
    assert "hint: " in program.log
    assert "token create" in program.log


def test_a_revoked_token_counts_as_no_token(run_program: RunProgram, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "db")
    token, _ = tokens.create("revoked", (), read_others=False, admin=True)
    tokens.revoke(token.id)

    program = run_program("--host", "0.0.0.0", ready=False)

    assert program.wait() == 1


def ask(program: Program, path: str, token: str | None = None) -> httpx.Response:
    headers = {"host": NAME}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with program.client() as client:
        return client.get(path, headers=headers)


def test_with_a_token_the_server_listens_on_the_network_and_refuses_requests_without_it(
    run_program: RunProgram, tmp_path: Path
) -> None:
    made = command(tmp_path / "db", "token", "create", "--name", "admin", "--admin")
    token = made.stdout.strip()

    program = run_program("--host", "0.0.0.0", "--allow-host", NAME)
    program.url = program.url.replace("0.0.0.0", "127.0.0.1")

    assert ask(program, "/extensions").status_code == 401
    assert ask(program, "/extensions", token).status_code == 200
    # The last token is revoked: the server must not open itself to the network.
    (found,) = TokenFile(tmp_path / "db").load()
    assert command(tmp_path / "db", "token", "revoke", found.id).returncode == 0
    wait_for(lambda: ask(program, "/extensions", token).status_code == 401)
    assert ask(program, "/extensions").status_code == 401
    again = command(tmp_path / "db", "token", "create", "--name", "again", "--admin").stdout.strip()
    wait_for(lambda: ask(program, "/extensions", again).status_code == 200)


def test_a_broken_token_file_admits_nobody_and_the_command_line_says_so(
    run_program: RunProgram, tmp_path: Path
) -> None:
    directory = tmp_path / "db"
    made = command(directory, "token", "create", "--name", "a", "--admin")
    (directory / TOKENS).write_text("[")

    program = run_program()
    listed = command(directory, "token", "list")

    with program.client() as client:
        bearer = {"authorization": f"Bearer {made.stdout.strip()}"}
        assert client.get("/extensions").status_code == 401
        assert client.get("/extensions", headers=bearer).status_code == 401
    assert listed.returncode == 1
    assert listed.stderr.startswith("error: ")
    assert "Traceback" not in listed.stderr


def test_a_token_is_shown_once_and_listed_without_its_secret(tmp_path: Path) -> None:
    made = command(tmp_path, "token", "create", "--name", "laptop", "--extension", "demo")
    listed = command(tmp_path, "token", "list")
    as_json = command(tmp_path, "token", "list", "--json")

    token = made.stdout.strip()
    id, secret = token.split("_", 2)[1:]
    assert id in listed.stdout
    for text in (listed.stdout, as_json.stdout, (tmp_path / TOKENS).read_text()):
        assert secret not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("--name", "x"),
        ("--name", "", "--admin"),
        ("--name", "red\x1b[31m", "--admin"),
        ("--name", "x", "--extension", "../demo"),
        ("--name", "x", "--extension", ""),
        ("--admin",),
    ],
)
def test_a_token_without_a_scope_is_not_made(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    made = command(tmp_path, "token", "create", *arguments)

    assert made.returncode != 0
    assert made.stdout == ""
    assert not (tmp_path / TOKENS).exists()


@pytest.mark.parametrize("origin", ["*", "null", "example.org", "ftp://x", "https://x/path", ""])
def test_an_invalid_origin_is_not_accepted_as_a_setting(
    run_program: RunProgram, origin: str
) -> None:
    program = run_program("--allow-origin", origin, ready=False)

    assert program.wait() == 1
    assert "is no origin" in program.log


def test_only_the_owner_may_read_files_and_folders(run_program: RunProgram) -> None:
    secret = {"x-vt-secret": "s", "x-vt-user": "alice"}
    previous = os.umask(0)
    try:
        program = run_program(VALUETRACKER_BRIDGE_SECRET="s")
    finally:
        os.umask(previous)
    command(program.data_dir, "token", "create", "--name", "admin", "--admin")
    with program.client("demo") as client:
        client.headers.update(secret)
        assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
        assert client.post("/characters", json={"id": "arthur"}).status_code == 200

    places = [program.data_dir, *program.data_dir.rglob("*")]

    assert program.data_dir / ".users" / "alice" / "demo.db" in places
    for place in places:
        mode = stat.S_IMODE(place.stat().st_mode)
        assert mode == (0o700 if place.is_dir() else 0o600), place


def test_the_bridges_secret_is_in_no_command_line_and_no_help(run_program: RunProgram) -> None:
    program = run_program(VALUETRACKER_BRIDGE_SECRET="not to be seen")
    shown = subprocess.run(
        [sys.executable, "-m", "valuetracker", "serve", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "VALUETRACKER_BRIDGE_SECRET": "not to be seen"},
    )

    assert "not to be seen" not in shown.stdout + shown.stderr
    assert "--bridge-secret" not in shown.stdout
    assert "not to be seen" not in repr(Settings(bridge_secret="not to be seen"))
    assert program.stop() == 0
    assert "not to be seen" not in program.log


WATCHED = """
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-m", "valuetracker", "serve", "--port", "0", "--data-dir", sys.argv[1],
     "--watch-stdin"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
print(child.pid, child.stdout.readline().split()[-1], flush=True)
child.wait()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_its_parent_process_however_that_ends(
    tmp_path: Path, how: int
) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", WATCHED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert starter.stdout is not None
        pid, url = starter.stdout.readline().split()
        assert httpx.get(f"{url}/healthz").status_code == 200
    finally:
        starter.send_signal(how)
        starter.wait(PATIENCE_SECONDS)
        assert starter.stdout is not None
        starter.stdout.close()

    wait_for(lambda: not is_running(int(pid)))
    # It ended cleanly: the files that only a running server has are removed.
    assert not (tmp_path / ".pid").exists()


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_the_server_ignores_the_end_of_its_input_unless_asked_to_watch_it(
    run_program: RunProgram, tmp_path: Path
) -> None:
    program = run_program(under=("sh", "-c", 'exec "$@" < /dev/null', "sh"))

    with program.client() as client:
        assert client.get("/healthz").status_code == 200
    assert program.process.poll() is None


def limited(soft: int, hard: int) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh")


def open_files(program: Program) -> int:
    limits = Path(f"/proc/{program.server_pid}/limits").read_text()
    (line,) = [each for each in limits.splitlines() if each.startswith("Max open files")]
    return int(line.split()[3])


def test_the_server_raises_its_limit_of_open_files(run_program: RunProgram) -> None:
    program = run_program("--connections", "2000", under=limited(256, 8_000))

    assert open_files(program) == 2_000 + OTHER_FILES


def test_with_few_open_files_connections_leave_some_for_databases(
    run_program: RunProgram,
) -> None:
    program = run_program(under=limited(200, 200))
    host, port = program.url.removeprefix("http://").split(":")

    with program.client("demo") as client:
        assert client.get("/healthz").status_code == 200
        with crowd(host, int(port), 150):
            # A connection that was open before is served, also from databases not yet open.
            for number in range(5):
                body = {"extensionId": f"demo-{number}"}
                assert client.post("/register", json=body).status_code == 200
                named = {"x-extension-id": f"demo-{number}"}
                made = client.post("/characters", json={"id": "arthur"}, headers=named)
                assert made.status_code == 200
