"""How commands find the server: `.server.json`, tokens, users, and servers that are gone."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import call, run, serving
from tests.conftest import RunningServer, database_for
from tests.system.conftest import RunProgram
from tests.system.conftest import run_program as run_program
from valuetracker.http.run_file import NAME, read_run
from valuetracker.http.tokens import TokenFile
from valuetracker.settings import PREFIX


def admin_routes(client: httpx.Client, token: str | None) -> list[int]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return [
        client.get(path, headers=headers).status_code
        for path in ("/extensions", "/backup", "/healthz")
    ]


def test_the_server_says_where_it_is_and_stops_saying_it(
    run_program: RunProgram, tmp_path: Path
) -> None:
    program = run_program()
    file = program.data_dir / NAME
    said = json.loads(file.read_text())

    assert (said["url"], said["pid"]) == (program.url, program.process.pid)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("extensions", "--json", "--data-dir", program.data_dir).json == []
    assert said["token"] not in program.log

    assert program.stop() == 0
    assert not file.exists()


def test_the_file_of_a_killed_server_is_noticed(run_program: RunProgram, tmp_path: Path) -> None:
    program = run_program()
    program.register("demo")
    program.stop(signal.SIGKILL)
    old = read_run(program.data_dir)
    assert old is not None

    from_files = call("extensions", "--json", "--data-dir", program.data_dir)
    # Another server has the port now, on other data.
    port = program.url.rpartition(":")[2]
    other = run_program(data_dir=tmp_path / "other", port=port)
    other.register("another")
    still_from_files = call("extensions", "--json", "--data-dir", program.data_dir)

    assert [each["id"] for each in from_files.json] == ["demo"]
    assert [each["id"] for each in still_from_files.json] == ["demo"]
    again = run_program()
    new = read_run(program.data_dir)
    assert new is not None
    assert new.token != old.token
    assert new.url == again.url


def test_the_token_of_a_run_opens_everything_and_demands_nothing(server: RunningServer) -> None:
    said = read_run(server.data_dir)
    assert said is not None
    assert said.token not in repr(said)

    with server.client() as client:
        assert admin_routes(client, None) == [200, 200, 200]
        assert admin_routes(client, said.token) == [200, 200, 200]
        assert client.get("/tokens-of-run").status_code == 404
        for path in ("/st/paths", "/healthz", "/extensions", "/limits"):
            assert said.token not in client.get(path).text


def test_where_tokens_are_in_use_the_one_of_the_run_works(files: Path) -> None:
    _, text = TokenFile(files).create("reader", ("other",), False, False)
    with serving(files) as server:
        where = ("--data-dir", files)
        said = read_run(files)
        assert said is not None
        with server.client() as client:
            assert admin_routes(client, None) == [401, 401, 200]
            assert admin_routes(client, said.token) == [200, 200, 200]
            assert admin_routes(client, said.token[:-1] + "0") == [401, 401, 401]

        own = call("get", "demo", "eldergrove", "population", *where)
        scoped = call("extensions", *where, VALUETRACKER_TOKEN=text)
        wrong = call("extensions", *where, VALUETRACKER_TOKEN="vt_wrong")
        none = call("extensions", "--url", server.url)
        assert call("backup", "create", *where).code == 0

        assert own.out == "412\n"
        assert (scoped.code, "admin_required" in scoped.err) == (4, True)
        assert (wrong.code, "token_invalid" in wrong.err) == (4, True)
        assert (none.code, "token_required" in none.err) == (4, True)
        backed_up = [each for each in (files / "backups").rglob("*") if each.is_file()]
        assert len(backed_up) > 1
        for each in backed_up:
            assert each.name != NAME
            assert said.token.encode() not in each.read_bytes()
    # Without the server the files are the owner's, whatever the tokens.
    assert call("get", "demo", "eldergrove", "population", *where).out == "412\n"


def test_a_server_of_the_bridge_alone_is_reached(tmp_path: Path) -> None:
    with serving(tmp_path, bridge_only=True, bridge_secret="s" * 40) as server:
        headers = {"x-vt-secret": "s" * 40, "x-vt-user": "anna", "x-vt-admin": "true"}
        with httpx.Client(base_url=server.url + PREFIX, headers=headers) as bridge:
            bridge.post("/register", json={"extensionId": "hers"}).raise_for_status()
        where = ("--data-dir", tmp_path)

        default = call("extensions", "--json", *where)
        hers = call("extensions", "--json", "--user", "anna", *where)
        with_url = call("extensions", "--user", "anna", "--url", server.url)

        assert default.json == []
        assert [each["id"] for each in hers.json] == ["hers"]
        assert with_url.code == 2
    from_files = call("extensions", "--json", "--user", "anna", *where)
    nobody = call("extensions", "--user", "nobody", *where)
    assert [each["id"] for each in from_files.json] == ["hers"]
    assert (nobody.code, (tmp_path / ".users" / "nobody").exists()) == (1, False)


def test_data_that_another_program_uses_is_in_use(files: Path) -> None:
    with serving(files):
        (files / NAME).unlink()

        done = run("extensions", "--data-dir", files)

    assert done.code == 3
    assert "is using" in done.err


def test_an_address_without_a_server_is_unreachable(server: RunningServer) -> None:
    unused = call("extensions", "--url", "http://127.0.0.1:9")
    with httpx.Client() as client:
        assert client.get(server.url + "/nothing").status_code == 404
    other_path = call("extensions", "--url", server.url + "/elsewhere")

    assert (unused.code, unused.err[:40]) == (5, "error: The server cannot be reached: [Er")
    assert other_path.code == 4


@pytest.mark.parametrize("engine", ["postgresql"])
def test_commands_work_on_postgresql_with_a_server_and_without(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, story: bytes
) -> None:
    database = database_for(engine, request)
    where = ("--data-dir", tmp_path / "db", "--database", database)

    file = tmp_path / "demo.jsonl"
    file.write_bytes(story)
    made = run("import", "demo", file, *where)
    out = run("export", "demo", "-", "--operations", *where)
    with serving(tmp_path / "db", database=database):
        served = run("export", "demo", "-", "--operations", *where)
        elsewhere = run("extensions", "--data-dir", tmp_path / "x", "--database", database)

    assert made.code == 0, made.err
    assert out.out.encode() == story
    assert served.out.encode() == story
    assert elsewhere.code == 3


def test_the_demo_is_the_same_twice_and_is_replaced_after_a_question(
    tmp_path: Path, story: bytes
) -> None:
    where = ("--data-dir", tmp_path / "db")

    first = call("demo", *where)
    exported = call("export", "demo", "-", "--operations", *where)
    unasked = call("demo", "--force", *where)
    replaced = call("demo", "--force", "--yes", "--silent", *where)

    assert (first.code, first.out) == (0, ""), first.err
    assert "valuetracker chats demo" in first.err
    assert exported.out.encode() == story
    assert unasked.code == 2
    assert (replaced.code, replaced.err) == (0, "")
