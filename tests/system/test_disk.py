"""A full disk, and a disk that fails to sync; each if the system lets a test cause it."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.api.test_verify import job_of
from tests.conftest import wait_for
from tests.integrity.recount import recount
from tests.system.conftest import RunProgram

WRITERS = 8


def write_values(client: httpx.Client, count: int) -> list[httpx.Response]:
    return [
        client.post("/instances/i/data", json={"key": f"k{number}", "value": number})
        for number in range(count)
    ]


# strace lets chosen system calls fail.
if shutil.which("strace"):

    def test_a_write_whose_sync_failed_is_not_acknowledged_and_the_next_one_works(
        run_program: RunProgram,
    ) -> None:
        program = run_program()
        program.register("demo")
        with program.client("demo") as client:
            client.post("/instances", json={"id": "i", "characterId": "c"})
        program.stop()
        trace = program.data_dir.parent / "trace"
        inject = "inject=fdatasync:error=EIO:when=5+5"
        program = run_program(
            under=("strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fdatasync", "-e", inject)
        )

        with program.client("demo") as client:
            answers = write_values(client, 30)
            acknowledged = {
                f"k{number}": number
                for number, answer in enumerate(answers)
                if answer.status_code == 200
            }
            found = client.get("/instances/i/data").json()
        failed = [answer for answer in answers if answer.status_code != 200]
        os.kill(program.server_pid, 9)
        program.wait()

        # One write at a time, so that a failed sync is the failure of one write.
        assert failed
        assert {answer.status_code for answer in failed} == {503}
        assert len(failed) == trace.read_text().count("EIO")
        assert found == acknowledged
        program = run_program()
        with program.client("demo") as client:
            after = client.get("/instances/i/data").json()
        assert acknowledged.items() <= after.items()
        recount(program.data_dir / "demo.db")

    def test_a_group_whose_sync_failed_is_not_acknowledged(run_program: RunProgram) -> None:
        program = run_program()
        program.register("demo")
        with program.client("demo") as client:
            client.post("/instances", json={"id": "i", "characterId": "c"})
        program.stop()
        trace = program.data_dir.parent / "trace"
        # So few that SQLite does not checkpoint its WAL yet, which syncs, too.
        inject = "inject=fdatasync:error=EIO:when=10+10"
        program = run_program(
            under=("strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fdatasync", "-e", inject)
        )

        def write(number: int) -> list[tuple[str, int]]:
            with program.client("demo") as client:
                keys = [f"{number}-{turn}" for turn in range(15)]
                return [
                    (
                        key,
                        client.post("/instances/i/data", json={"key": key, "value": 1}).status_code,
                    )
                    for key in keys
                ]

        with ThreadPoolExecutor(WRITERS) as pool:
            answers = [each for found in pool.map(write, range(WRITERS)) for each in found]
        acknowledged = {key for key, status in answers if status == 200}
        failures = trace.read_text().count("EIO")
        with program.client("demo") as client:
            found = set(client.get("/instances/i/data").json())

        assert failures
        assert {status for _, status in answers} == {200, 503}
        assert found == acknowledged
        # Every failed sync was that of at least one write, which was refused.
        assert len(answers) - len(acknowledged) >= failures


# A file system of two megabytes needs the right to mount one.
if os.geteuid() == 0 and shutil.which("mount"):

    def test_a_full_disk_answers_507_still_reads_and_writes_again_once_there_is_space(
        run_program: RunProgram, tmp_path: Path
    ) -> None:
        small = tmp_path / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], check=True)
        try:
            check_full_disk(run_program, small)
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)

    def test_a_full_disk_leaves_no_half_export_import_backup_or_restore(
        run_program: RunProgram, tmp_path: Path
    ) -> None:
        small = tmp_path / "small"
        small.mkdir()
        # An import leaves 64 MiB of the disk to the databases.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", str(small)], check=True)
        try:
            check_full_disk_of_copies(run_program, small)
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)


def check_full_disk_of_copies(run_program: RunProgram, small: Path) -> None:
    program = run_program(data_dir=small / "db")
    for name in ("demo", "other"):
        program.register(name)
    ballast = small / "ballast"
    with program.client("demo") as client, program.client("other") as other:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        for number in range(2):
            body = {"key": f"k{number}", "value": f"{number}" * 3_000_000}
            assert client.post("/instances/i/data", json=body).status_code == 200
        file = client.get("/export").content
        ballast.write_bytes(b"x" * (shutil.disk_usage(small).free - 5_000_000))

        exported = client.get("/export", headers={"accept-encoding": "identity"})
        for answer in (exported, other.post("/import", content=file)):
            assert answer.status_code == 507, answer.text
            assert answer.json()["code"] == "storage_full"
        job = job_of(client, client.post("/backup"))
        assert (job["status"], job["error"]["code"]) == ("failed", "storage_full")
        assert list((small / "db" / "backups").iterdir()) == []
        for each in (other, client):
            found = each.get("/characters")
            assert found.status_code == 200, found.text
        assert client.post("/characters", json={"id": "d"}).status_code == 200

        ballast.unlink()

        assert client.get("/export").status_code == 200
        assert other.post("/import", content=file).status_code == 200
        job = job_of(client, client.post("/backup"))
        assert job["status"] == "done"
        path = f"/backup/{job['result']['name']}/restore"
        only = {"extensionId": "demo", "force": True}
        ballast.write_bytes(b"x" * (shutil.disk_usage(small).free - 3_000_000))
        job = job_of(client, client.post(path, json=only))
        assert (job["status"], job["error"]["code"]) == ("failed", "storage_full")
        assert "x-incarnation" not in client.get("/characters").headers
        assert list((small / "db").glob(".new-*")) == []
        ballast.unlink()
        assert job_of(client, client.post(path, json=only))["status"] == "done"
        assert client.get("/characters").headers["x-incarnation"] == "1"
    assert program.stop() == 0
    recount(small / "db" / "other.db")


def check_full_disk(run_program: RunProgram, small: Path) -> None:
    program = run_program(data_dir=small / "db")
    program.register("demo")
    ballast = small / "ballast"
    acknowledged: dict[str, Any] = {}
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        ballast.write_bytes(b"x" * 1_000_000)

        def write_until_full() -> httpx.Response | None:
            key = f"k{len(acknowledged)}"
            answer = client.post("/instances/i/data", json={"key": key, "value": key * 5_000})
            if answer.status_code == 200:
                acknowledged[key] = key * 5_000
                return None
            return answer

        full: httpx.Response = wait_for(write_until_full)
        assert full.status_code == 507, full.text
        assert full.json()["code"] == "storage_full"
        for _ in range(3):
            again = client.post("/instances/i/data", json={"key": "x", "value": "x" * 200_000})
            assert again.status_code == 507, again.text
            assert client.get("/instances/i/data").json() == acknowledged
            assert client.get("/characters").status_code == 200

        ballast.unlink()

        after = client.post("/instances/i/data", json={"key": "after", "value": 1})
        assert after.status_code == 200, after.text
        assert client.get("/instances/i/data").json() == {**acknowledged, "after": 1}
    assert program.stop() == 0
    recount(small / "db" / "demo.db")
