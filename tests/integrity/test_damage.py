"""A damaged file is refused as a whole, kept as it is, and harms no other extension."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import running_server
from tests.integrity.populated import CHARACTERS, PAGE, Populated, populate, read, reads


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Populated:
    return populate(tmp_path_factory.mktemp("populated") / "db")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def zero_header(file: Path) -> None:
    file.write_bytes(b"\x00" * 100 + file.read_bytes()[100:])


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 8192 * 4096])


def cut_in_the_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:60])


def garble(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))


def garble_after_the_header(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:100] + random.Random(1).randbytes(len(content) - 100))


def put_foreign_database(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE words (word)")
        connection.commit()


def put_other_extensions_file(file: Path) -> None:
    shutil.copyfile(file.with_name("twin.db"), file)


def put_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def put_link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere.db"))


def raise_schema(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 1000")


def drop_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE data")
        connection.commit()


def empty_head(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM head")
        connection.commit()


HARMS: list[tuple[Callable[[Path], None], str]] = [
    (empty, "database_damaged"),
    (remove, "database_damaged"),
    (zero_header, "database_damaged"),
    (cut_in_half, "database_damaged"),
    (cut_in_the_header, "database_damaged"),
    (garble, "database_damaged"),
    (garble_after_the_header, "database_damaged"),
    (put_foreign_database, "database_damaged"),
    (put_other_extensions_file, "database_damaged"),
    (put_link_to_nowhere, "database_damaged"),
    (put_folder, "database_damaged"),
    (raise_schema, "database_too_new"),
    (drop_table, "database_damaged"),
    (empty_head, "database_damaged"),
]


def bytes_of(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def clear(file: Path) -> None:
    if file.is_dir():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)


@pytest.mark.parametrize(("harm", "code"), HARMS, ids=lambda each: getattr(each, "__name__", each))
def test_a_damaged_file_is_refused_and_kept_and_works_again_once_replaced_by_a_good_one(
    populated: Populated, tmp_path: Path, harm: Callable[[Path], None], code: str
) -> None:
    data_dir = populated.copy(tmp_path / "db")
    file = data_dir / "demo.db"
    harm(file)
    before = bytes_of(file)

    with (
        running_server(data_dir) as server,
        server.client("demo") as client,
        server.client("twin") as other,
    ):
        codes = {read(client, path)[1]["code"] for path in reads()}
        refused = client.post("/characters", json={"id": "new"})
        listed = {each["id"]: each["status"] for each in client.get("/extensions").json()}
        assert read(other, "/characters") == populated.other
        assert other.post("/characters", json={"id": CHARACTERS[3]}).status_code == 200
        assert codes == {code}
        assert refused.status_code == 503
        assert listed == {"demo": code, "twin": "ok"}
        assert bytes_of(file) == before

        clear(file)
        file.write_bytes(populated.good)

        for path in reads():
            assert read(client, path) == populated.answers[path]


@pytest.mark.parametrize(("harm", "code"), HARMS, ids=lambda each: getattr(each, "__name__", each))
def test_an_extension_with_a_damaged_file_can_be_purged_and_registered_again(
    populated: Populated, tmp_path: Path, harm: Callable[[Path], None], code: str
) -> None:
    data_dir = populated.copy(tmp_path / "db")
    harm(data_dir / "demo.db")
    before = bytes_of(data_dir / "demo.db")

    with running_server(data_dir) as server, server.client("demo") as client:
        client.get("/characters")
        again = client.post("/register", json={"extensionId": "demo"})
        purged = client.request("DELETE", "/register", json={"extensionId": "demo", "purge": True})
        anew = client.post("/register", json={"extensionId": "demo"})
        found = client.get("/characters")
        written = client.post("/characters", json={"id": "new"})

    # Registering a registered extension does nothing, so it does not repair the file.
    assert again.status_code == 200
    assert purged.status_code == 200, purged.text
    assert anew.status_code == 200, anew.text
    assert found.json() == []
    assert int(written.headers["x-revision"]) > 2 * len(CHARACTERS)
    if before is not None:
        trashed = data_dir / "trash" / "demo.1.db"
        assert bytes_of(trashed) == before


def test_registering_again_is_refused_while_the_file_is_damaged(
    populated: Populated, tmp_path: Path
) -> None:
    data_dir = populated.copy(tmp_path / "db")

    with running_server(data_dir) as server, server.client("demo") as client:
        client.request("DELETE", "/register", json={"extensionId": "demo"})
        for harm in (empty, remove):
            harm(data_dir / "demo.db")
            refused = client.post("/register", json={"extensionId": "demo"})
            assert refused.status_code == 503
            assert refused.json()["code"] == "database_damaged"
        (data_dir / "demo.db").write_bytes(populated.good)
        assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
        assert read(client, "/characters") == populated.answers["/characters"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("instances", b"instance 0"),
        ("instances", b"Character 0.png"),
        ("characters", b"Character 0.png"),
        ("chats", b"chat"),
        ("instances_of_character", b"Character 0.png"),
        ("instances_by_id", b"instance 0"),
        ("sqlite_autoindex_characters_1", b"Character 0.png"),
        ("sqlite_autoindex_chats_1", b"chat"),
        ("data", b"key "),
    ],
)
def test_a_letter_changed_in_a_table_or_an_index_is_damage(
    populated: Populated, tmp_path: Path, page: str, text: bytes
) -> None:
    data_dir = populated.copy(tmp_path / "db")
    file = data_dir / "demo.db"
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (page,)
        ).fetchone()
    content = bytearray(populated.good)
    offset = content.index(text, (root - 1) * PAGE, root * PAGE) + len(text) - 1
    content[offset] ^= 1
    file.write_bytes(content)

    with running_server(data_dir) as server, server.client("demo") as client:
        answers = [read(client, path) for path in reads()]

    assert {(status, body["code"]) for status, body in answers} == {(503, "database_damaged")}
