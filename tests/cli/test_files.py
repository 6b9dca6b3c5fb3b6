"""`export` and `import`: from one machine to another, whole or not at all."""

from __future__ import annotations

import gzip
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cli.conftest import PROGRAM, Terminal, call, environment, run, serving, terminal
from tests.conftest import PATIENCE_SECONDS, RunningServer
from valuetracker.cli.story import ROAD


def test_a_story_moves_to_another_machine(
    server: RunningServer, story: bytes, tmp_path: Path
) -> None:
    here, there = server.data_dir, tmp_path / "there"
    packed, again = tmp_path / "demo.jsonl.gz", tmp_path / "again.jsonl"

    gone_out = run("export", "demo", packed, "--operations", "--data-dir", here)
    come_in = run("import", "demo", packed, "--data-dir", there, "--json")
    repeated = run("import", "demo", packed, "--data-dir", there)
    gone_out_again = run("export", "demo", again, "--operations", "--data-dir", there)

    assert (gone_out.code, gone_out.out) == (0, ""), gone_out.err
    assert gzip.decompress(packed.read_bytes()) == story
    assert come_in.json["chats"] == 5
    assert (repeated.code, "extension_not_empty" in repeated.err) == (4, True)
    assert gone_out_again.code == 0
    assert again.read_bytes() == story


def test_a_part_goes_through_pipes_into_a_running_server(
    files: Path, server: RunningServer
) -> None:
    exported = call("export", "demo", "-", "--chat", ROAD, "--data-dir", files)
    packed = gzip.compress(exported.out.encode())

    plan = call(
        "import", "copy", "-", "--as", "Another road", "--mode", "merge", "--json",
        "--data-dir", server.data_dir, given=packed,
    )  # fmt: skip

    assert exported.code == 0, exported.err
    assert plan.code == 0, plan.err
    assert plan.json["chats"] == 1
    chats = call("chats", "copy", "--nl", "--data-dir", server.data_dir)
    assert '"chatId": "Another road"' in chats.out


def test_a_terminal_shows_what_was_written_and_asks_before_a_replacement(
    files: Path, tmp_path: Path
) -> None:
    file, where = tmp_path / "demo.jsonl", ("--data-dir", files)

    written = terminal("export", "demo", file, *where)
    kept = terminal("export", "demo", file, *where)
    refused = Terminal("import", "demo", file, "--mode", "replace", *where)
    refused.wait_for("Replace everything that demo has? [y/N]")
    refused.type("\n")
    refusal = refused.end()
    unasked = call("import", "demo", file, "--mode", "replace", *where)
    done = terminal("import", "demo", file, "--mode", "replace", "--yes", *where)

    assert written.code == 0
    assert f"Exported demo to {file}" in written.out
    assert (kept.code, "--force" in kept.out) == (2, True)
    assert (refusal.code, unasked.code) == (1, 2)
    assert done.code == 0, done.out
    assert "replace" in done.out


def test_values_go_to_a_spreadsheet(server: RunningServer, tmp_path: Path) -> None:
    where = ("--data-dir", server.data_dir)

    table = call("export", "demo", "-", "--format", "csv", "--instance", "eldergrove", *where)
    several = call("export", "demo", "-", "--chat", "a", "--instance", "b", *where)
    nowhere = call("export", "demo", tmp_path / "absent" / "file", *where)

    assert "18446744073709551615" in table.out
    assert several.code == 2
    assert nowhere.code == 1


def test_a_wrong_file_changes_nothing(files: Path, story: bytes, tmp_path: Path) -> None:
    where, file = ("--data-dir", files, "--yes"), tmp_path / "file"
    before = call("export", "demo", "-", "--data-dir", files).out

    outcomes = []
    for content in (story[:-100], story.replace(b"Seraphina", b"Serafina", 1), b"", b"\x1f\x8b\0"):
        file.write_bytes(content)
        done = call("import", "demo", file, "--mode", "replace", *where)
        outcomes.append((done.code, "import_invalid" in done.err))
    absent = call("import", "demo", tmp_path / "absent", *where)

    assert outcomes == [(4, True)] * 4
    assert absent.code == 1
    assert call("export", "demo", "-", "--data-dir", files).out == before


# A server that goes away


@contextmanager
def cutting(url: str, limit: int, up: bool) -> Iterator[str]:
    """A way to a server that breaks after so many bytes in one direction."""
    host, port = url.removeprefix("http://").split(":")

    def pump(source: socket.socket, sink: socket.socket, most: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(16384):
                passed += len(piece)
                if most is not None and passed > most:
                    break
                sink.sendall(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with listener.accept()[0] as client, socket.create_connection((host, int(port))) as far:
            back = threading.Thread(target=pump, args=(far, client, None if up else limit))
            back.start()
            pump(client, far, limit if up else None)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        accepting.join(PATIENCE_SECONDS)


def test_an_export_without_its_end_is_no_file(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "demo.jsonl"
    file.write_text("the old one")

    with cutting(server.url, 100_000, up=False) as url:
        done = run("export", "demo", file, "--force", "--url", url)

    assert done.code == 5, done.err
    assert done.err.startswith("error: The server cannot be reached")
    assert file.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_an_import_that_is_cut_off_changes_nothing(
    server: RunningServer, story: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "demo.jsonl"
    file.write_bytes(story)
    server.register("cut-off")

    with cutting(server.url, 100_000, up=True) as url:
        done = run("import", "cut-off", file, "--url", url)

    assert done.code == 5, done.err
    with server.client("cut-off") as client:
        assert client.get("/characters").json() == []
        assert client.get("/extensions/cut-off").json()["revision"] == 0


def test_a_server_that_stops_during_an_import_leaves_all_or_nothing(
    tmp_path: Path, story: bytes
) -> None:
    folder = tmp_path / "db"
    with serving(folder) as server:
        server.register("demo")
        process = subprocess.Popen(
            [*PROGRAM, "import", "demo", "-", "--url", server.url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert process.stdin is not None
        process.stdin.write(story[:500_000])
        process.stdin.flush()
    # The program reads all of its input before it sends anything: the server is gone by then.
    _, err = process.communicate(story[500_000:], PATIENCE_SECONDS)

    assert process.returncode == 5, err
    assert call("characters", "demo", "--json", "--data-dir", folder).json == []
