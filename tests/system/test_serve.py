from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import wait_for
from tests.system.conftest import RunProgram
from valuetracker.settings import PREFIX, settings_table


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Starting


BOTH_WAYS = pytest.mark.parametrize("http", ["fast", "asgi"])


@BOTH_WAYS
def test_the_program_prints_one_line_when_it_is_ready_and_answers_there(
    run_program: RunProgram, http: str
) -> None:
    program = run_program("--http", http)

    assert httpx.get(f"{program.url}/healthz").json()["status"] == "ok"
    assert program.url.startswith("http://127.0.0.1:")
    assert program.stop() == 0
    assert program.process.stdout is not None
    assert program.process.stdout.read() == ""
    assert program.log == ""


def test_every_setting_has_a_flag(run_program: RunProgram, tmp_path: Path) -> None:
    port, root = free_port(), tmp_path / "root"
    root.mkdir()
    given = {
        "--host": "127.0.0.1",
        "--port": str(port),
        "--http": "asgi",
        "--data-dir": str(tmp_path / "elsewhere"),
        "--allow-root": str(root),
        "--log-level": "debug",
        "--cache-mb": "0",
        "--open-databases": "1",
        "--readers": "1",
        "--shutdown-seconds": "1",
        "--database": "",
        "--pool-size": "2",
        "--database-seconds": "5",
        "--keep-revisions": "1000",
        "--keep-days": "100",
        "--backup-at": "04:30",
        "--backup-keep": "3",
        "--backup-weeks": "2",
        "--backup-dir": str(tmp_path / "backups"),
        "--backup-hook": "true",
        "--warn-mb": "100",
        "--quota-mb": "200",
        "--user-quota-mb": "300",
        "--rate-per-second": "50",
        "--allow-host": "tracker.example",
        "--allow-origin": "https://example.org",
        "--connections": "100",
        "--body-memory-mb": "40",
        "--feed-readers": "5",
        "--all-feed-readers": "10",
        "--st-enabled": "0",
        "--st-base-url": "http://127.0.0.1:8001",
        "--st-plugin-base": "/api/plugins/valuetracker",
        "--st-allow-origin": "https://tavern.example",
        "--st-root": str(root),
        "--st-extensions-dir": str(root),
        "--st-data-root": str(root),
    }
    assert given.keys() == {
        setting.flag
        for setting in settings_table()
        if not setting.secret and setting.kind is not bool
    }

    program = run_program(
        *(piece for pair in given.items() for piece in pair), data_dir=None, port=None
    )

    check_settings_took(program.url, port, tmp_path / "elsewhere", root)
    assert "request" in {entry["message"] for entry in program.log_entries()}


def test_every_setting_has_an_environment_variable(run_program: RunProgram, tmp_path: Path) -> None:
    port, root = free_port(), tmp_path / "root"
    root.mkdir()
    given = {
        "VALUETRACKER_HOST": "127.0.0.1",
        "VALUETRACKER_PORT": str(port),
        "VALUETRACKER_HTTP": "asgi",
        "VALUETRACKER_DATA_DIR": str(tmp_path / "elsewhere"),
        "VALUETRACKER_ALLOW_ROOT": os.pathsep.join([str(root), str(tmp_path / "other")]),
        "VALUETRACKER_LOG_LEVEL": "debug",
        "VALUETRACKER_CACHE_MB": "0",
        "VALUETRACKER_OPEN_DATABASES": "1",
        "VALUETRACKER_READERS": "1",
        "VALUETRACKER_SHUTDOWN_SECONDS": "1",
        "VALUETRACKER_DATABASE": "",
        "VALUETRACKER_POOL_SIZE": "2",
        "VALUETRACKER_DATABASE_SECONDS": "5",
        "VALUETRACKER_KEEP_REVISIONS": "1000",
        "VALUETRACKER_KEEP_DAYS": "100",
        "VALUETRACKER_BACKUP_AT": "off",
        "VALUETRACKER_BACKUP_KEEP": "3",
        "VALUETRACKER_BACKUP_WEEKS": "2",
        "VALUETRACKER_BACKUP_DIR": str(tmp_path / "backups"),
        "VALUETRACKER_BACKUP_HOOK": "true",
        "VALUETRACKER_WARN_MB": "100",
        "VALUETRACKER_QUOTA_MB": "200",
        "VALUETRACKER_USER_QUOTA_MB": "300",
        "VALUETRACKER_RATE_PER_SECOND": "50",
        "VALUETRACKER_ALLOW_HOST": "tracker.example",
        "VALUETRACKER_ALLOW_ORIGIN": "https://example.org",
        "VALUETRACKER_CONNECTIONS": "100",
        "VALUETRACKER_BODY_MEMORY_MB": "40",
        "VALUETRACKER_FEED_READERS": "5",
        "VALUETRACKER_ALL_FEED_READERS": "10",
        "VALUETRACKER_ST_ENABLED": "0",
        "VALUETRACKER_ST_BASE_URL": "http://127.0.0.1:8001",
        "VALUETRACKER_ST_PLUGIN_BASE": "/api/plugins/valuetracker",
        "VALUETRACKER_ST_ALLOW_ORIGIN": "https://tavern.example",
        "VALUETRACKER_ST_ROOT": str(root),
        "VALUETRACKER_ST_EXTENSIONS_DIR": str(root),
        "VALUETRACKER_ST_DATA_ROOT": str(root),
        "VALUETRACKER_ST_TOKEN": "hush",
        "VALUETRACKER_WATCH_STDIN": "0",
        "VALUETRACKER_BRIDGE_ONLY": "0",
        "VALUETRACKER_BRIDGE_SECRET": "hush",
    }
    assert given.keys() == {setting.variable for setting in settings_table()}

    program = run_program(data_dir=None, port=None, **given)

    check_settings_took(program.url, port, tmp_path / "elsewhere", root)
    assert "request" in {entry["message"] for entry in program.log_entries()}


def check_settings_took(url: str, port: int, data_dir: Path, root: Path) -> None:
    assert url == f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url + PREFIX, timeout=60) as client:
        inside = {"extensionId": "inside"}
        outside = {"extensionId": "outside", "dbPath": str(root / "outside.db")}
        assert client.post("/register", json=inside).status_code == 200
        assert client.post("/register", json=outside).status_code == 200
        for name in ("inside", "outside"):
            found = client.get("/characters", headers={"x-extension-id": name})
            assert found.json() == []
        limits = client.get("/limits").json()
        shown = [limits[name] for name in ("connections", "feedReaders", "allFeedReaders")]
        assert shown == [100, 5, 10]
        addressed = client.get("/probe", headers={"host": "tracker.example"})
        assert addressed.status_code == 204
        shared = client.get("/health", headers={"origin": "https://example.org"})
        assert shared.headers["access-control-allow-origin"] == "https://example.org"
        # Only one database may stay open, so the other was closed.
        wait_for(lambda: client.get("/healthz").json()["openDatabases"] == 1)
    assert (data_dir / "inside.db").exists()
    assert (root / "outside.db").exists()


def test_a_flag_wins_over_its_variable(run_program: RunProgram, tmp_path: Path) -> None:
    program = run_program(VALUETRACKER_DATA_DIR=str(tmp_path / "ignored"))

    assert (program.data_dir / ".registry.db").exists()
    assert not (tmp_path / "ignored").exists()


def test_only_the_owner_may_read_what_the_program_makes(run_program: RunProgram) -> None:
    old = os.umask(0)
    try:
        program = run_program()
    finally:
        os.umask(old)
    program.register("demo")
    with program.client("demo") as client:
        client.post("/characters", json={"id": "c"})
        client.get("/characters")

    files = {path.name: mode(path) for path in program.data_dir.iterdir()}
    assert mode(program.data_dir) == 0o700
    assert {"demo.db", "demo.db-wal", "demo.db-shm", ".registry.db", ".lock", ".pid"} <= set(files)
    assert set(files.values()) == {0o600}


# Stopping


@BOTH_WAYS
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_program_finishes_running_requests_and_exits_with_0(
    run_program: RunProgram, how: int, http: str
) -> None:
    program = run_program("--http", http)
    program.register("demo")
    answers: list[int] = []
    cut: list[Exception] = []
    begun = threading.Event()

    def write_on(number: int) -> None:
        with program.client("demo") as client:
            for turn in range(100_000):
                try:
                    answer = client.post("/characters", json={"id": f"{number}-{turn}"})
                except httpx.ConnectError:
                    return
                except httpx.TransportError as error:
                    # A connection kept alive may be closed between two requests.
                    cut.append(error)
                    return
                answers.append(answer.status_code)
                begun.set()

    writers = [threading.Thread(target=write_on, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    assert begun.wait(60)
    code = program.stop(how)
    for writer in writers:
        writer.join(60)

    assert code == 0
    assert set(answers) == {200}
    # It closed its databases: nothing is left beside the files, and the lock is free.
    assert not list(program.data_dir.glob("*-wal"))
    again = run_program()
    with again.client("demo") as client:
        kept = len(client.get("/characters").json())
    assert len(answers) <= kept <= len(answers) + len(cut)


@BOTH_WAYS
def test_feed_readers_do_not_delay_the_end(run_program: RunProgram, http: str) -> None:
    program = run_program("--http", http, "--shutdown-seconds", "3600")
    program.register("demo")

    with program.client("demo") as client, client.stream("GET", "/events") as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        program.process.send_signal(signal.SIGTERM)
        assert list(pieces) == []

    assert program.wait() == 0
    assert program.log == ""


@BOTH_WAYS
def test_the_end_waits_for_a_request_half_sent(run_program: RunProgram, http: str) -> None:
    program = run_program("--http", http, "--log-level", "debug")
    program.register("demo")
    host, port = program.url.removeprefix("http://").split(":")
    body = b'{"id":"late"}'
    head = (
        f"POST {PREFIX}/characters HTTP/1.1\r\nhost: {host}\r\nx-extension-id: demo\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()

    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head + body[:5])
        # Another answer shows that what was sent before it has been read.
        assert httpx.get(f"{program.url}/healthz").status_code == 200
        program.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not accepts(host, int(port)))
        connection.sendall(body[5:])
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert program.wait() == 0


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


# Not starting


@BOTH_WAYS
def test_a_second_server_exits_with_3_and_names_the_first(
    run_program: RunProgram, http: str
) -> None:
    first = run_program()

    second = run_program("--http", http, ready=False)

    assert second.wait() == 3
    assert f"pid {first.process.pid}" in second.log
    assert second.log.startswith("error: ")
    assert "\nhint: " in second.log
    assert httpx.get(f"{first.url}/healthz").status_code == 200


def test_the_lock_of_a_killed_server_is_taken_over(run_program: RunProgram) -> None:
    first = run_program()
    first.register("demo")
    first.stop(signal.SIGKILL)

    second = run_program()

    assert second.server_pid == second.process.pid
    with second.client("demo") as client:
        assert client.get("/characters").json() == []


def make_file(data_dir: Path) -> None:
    data_dir.write_text("words")


def make_damaged_registry(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    (data_dir / ".registry.db").write_bytes(b"no database")


def make_empty_registry(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    (data_dir / ".registry.db").write_bytes(b"")


@pytest.mark.parametrize(
    ("arrange", "arguments", "words"),
    [
        (make_file, (), "data directory"),
        (make_damaged_registry, (), "registry"),
        (make_empty_registry, (), "registry"),
        # The message does not repeat the URL, which may contain a password.
        (None, ("--database", "mystery://host/name"), "database URL"),
        (None, ("--host", "256.256.256.256"), "256.256.256.256"),
    ],
)
def test_the_error_names_an_unusable_setting_and_the_exit_code_is_1(
    run_program: RunProgram, tmp_path: Path, arrange: Any, arguments: tuple[str, ...], words: str
) -> None:
    if arrange is not None:
        arrange(tmp_path / "db")

    program = run_program(*arguments, ready=False)

    assert program.wait() == 1
    errors = [line for line in program.log.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert words in errors[0]


def test_a_port_in_use_is_an_error_with_a_hint(run_program: RunProgram, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        program = run_program(port=port, ready=False)

    assert program.wait() == 1
    assert program.log.startswith("error: ")
    assert f"127.0.0.1:{port}" in program.log
    assert "\nhint: " in program.log


# Under another ASGI server

STOCK_UVICORN = re.compile(r"Uvicorn running on (http://\S+)")


def test_stock_uvicorn_runs_the_factory(tmp_path: Path) -> None:
    data_dir, log_file = tmp_path / "db", tmp_path / "log"
    command = [sys.executable, "-m", "uvicorn", "valuetracker:create_app", "--factory"]
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", "0"],
            stderr=log,
            stdout=log,
            env={**os.environ, "VALUETRACKER_DATA_DIR": str(data_dir)},
        )
    try:
        url = wait_for(lambda: STOCK_UVICORN.search(log_file.read_text()))[1]
        with httpx.Client(base_url=url + PREFIX, headers={"x-extension-id": "demo"}) as client:
            assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
            assert client.post("/characters", json={"id": "arthur"}).status_code == 200
            assert [each["id"] for each in client.get("/characters").json()] == ["arthur"]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()

    # It closed its databases: nothing is left beside the files.
    assert (data_dir / "demo.db").exists()
    assert not list(data_dir.glob("*-wal"))


# Logs


def test_logs_are_lines_of_json_with_one_per_request_and_no_values(run_program: RunProgram) -> None:
    program = run_program("--log-level", "debug")
    program.register("demo")
    secret = "a-secret-value"
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        client.post("/instances/i/data", json={"key": "k", "value": secret})
        client.put("/instances/i/data/merge", json={"l": {"m": secret}})
        assert secret in client.get("/instances/i/data").text
        assert secret in client.get("/instances/i/data").text
        client.get("/instances/missing%0aline")
        client.post("/ping", json={"message": secret})
    program.stop()

    entries = [entry for entry in program.log_entries() if entry["message"] == "request"]
    assert [(entry["method"], entry["status"]) for entry in entries] == [
        ("POST", 200),
        ("POST", 200),
        ("POST", 200),
        ("PUT", 200),
        ("GET", 200),
        ("GET", 200),
        ("GET", 400),
        ("POST", 200),
    ]
    assert all(entry["path"].startswith(PREFIX) for entry in entries)
    assert secret not in program.log


def test_a_successful_request_is_not_logged_at_info(run_program: RunProgram) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client:
        client.get("/characters")
        client.get("/characters/missing")
    program.stop()

    assert program.log == ""
