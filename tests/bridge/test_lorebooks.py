"""Copies of lorebooks, on real files."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.bridge.worlds import UNREADABLE, entry, read_world, recap_world, write_world
from tests.support.answers import outcome, refused_as
from tests.support.folders import tree
from valuetracker.errors import (
    InvalidBody,
    InvalidName,
    LorebookDamaged,
    LorebookExists,
    LorebookNotFound,
    SymlinkRefused,
)


def clone(library: httpx.Client, name: str = "Eldoria", **body: Any) -> dict[str, Any]:
    answer = library.post(f"/st/lorebooks/{quote(name, safe='')}/clone", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_all_entries_are_copied(library: httpx.Client, worlds: Path) -> None:
    original = (worlds / "Eldoria.json").read_bytes()

    found = clone(library, **{"as": "Eldoria - duel"})

    source, copied = recap_world(), read_world(worlds, "Eldoria - duel")
    assert (worlds / "Eldoria.json").read_bytes() == original
    assert len(copied["entries"]) == len(source["entries"]) == found["entries"] == 8
    comments = [each["comment"] for each in copied["entries"].values()]
    assert comments == [each["comment"] for each in source["entries"].values()]
    assert {"_registry_character", "__index_character", "__operation_queue"} <= set(comments)
    assert found["source"] == "Eldoria"
    assert found["name"] == "Eldoria - duel"
    assert found["warnings"] == [UNREADABLE]


def test_uids_are_new_and_everything_else_is_the_same(library: httpx.Client, worlds: Path) -> None:
    uids = clone(library, **{"as": "Copy"})["uids"]

    source, copied = recap_world(), read_world(worlds, "Copy")
    new = {old: uids[old] for old in source["entries"]}
    assert [*copied["entries"]] == [str(number) for number in new.values()]
    assert not {*new.values()} & {int(old) for old in source["entries"]}
    assert [*new.values()] == sorted(new.values())
    expected = copy.deepcopy(source)
    for old, each in expected["entries"].items():
        each["uid"] = new[old]
    for each in expected["originalData"]["entries"]:
        each["uid"] = new[str(each["uid"])]
    registries = ("_registry_character", "_registry_location")
    for each in (*expected["entries"].values(), *copied["entries"].values()):
        if each["comment"] in registries:
            del each["content"]
    expected["entries"] = {str(each["uid"]): each for each in expected["entries"].values()}
    assert copied == expected


def test_registries_name_the_new_uids(library: httpx.Client, worlds: Path) -> None:
    uids = clone(library, **{"as": "Copy"})["uids"]

    contents = {
        each["comment"]: each["content"] for each in read_world(worlds, "Copy")["entries"].values()
    }
    assert contents["_registry_character"] == (
        f'{{"type":"character","entries":{{"bob":{{"uid":{uids["0"]},"name":"Bob"}},'
        '"x":{"uid":99}}}'
    )
    assert json.loads(contents["_registry_location"]) == [
        {"uid": str(uids["1"]), "deep": [{"uid": uids["5"]}]}
    ]
    assert contents["_registry_location"].startswith("[\n  {\n")
    assert contents["_registry_lore"] == "[Registry: lore]\nuid: 0"
    assert contents["__operation_queue"] == '{"queue":[],"paused":false}'


def test_uids_may_be_kept(library: httpx.Client, worlds: Path) -> None:
    found = clone(library, uids="keep", **{"as": "Copy"})

    assert read_world(worlds, "Copy") == recap_world()
    assert (found["uids"], found["warnings"]) == ({}, [])


def test_the_order_of_javascript_stays(library: httpx.Client, worlds: Path) -> None:
    entries = {"20": entry(20, "c"), "3": entry(3, "a"), "10": entry(10, "b")}
    write_world(worlds, "Odd", {"entries": entries})

    clone(library, "Odd", **{"as": "Copy"})

    copied = read_world(worlds, "Copy")["entries"]
    by_number = [copied[key]["comment"] for key in sorted(copied, key=int)]
    assert by_number == ["a", "b", "c"]
    assert [each["displayIndex"] for each in copied.values()] == [-10, 7, 0]


def test_an_entry_without_a_display_index_keeps_its_position(
    library: httpx.Client, worlds: Path
) -> None:
    bare = {"uid": 4, "comment": "bare"}
    write_world(worlds, "Odd", {"entries": {"4": bare, "x": {"comment": "no uid"}}})

    clone(library, "Odd", **{"as": "Copy"})

    first, second = read_world(worlds, "Copy")["entries"].values()
    assert first == {**bare, "uid": first["uid"], "displayIndex": 4}
    assert isinstance(second["uid"], int)


def test_a_copy_is_given_a_name(library: httpx.Client, worlds: Path) -> None:
    names = [clone(library)["name"] for _ in range(3)]
    without_a_body = library.post("/st/lorebooks/Eldoria/clone").json()["name"]

    assert names == ["Eldoria (copy)", "Eldoria (copy 2)", "Eldoria (copy 3)"]
    assert without_a_body == "Eldoria (copy 4)"
    assert all((worlds / f"{name}.json").is_file() for name in names)


@pytest.mark.parametrize("name", ["Sword & Lake's #1 (100%)", "湖 🗡", "a.b.c", "Eldoria.json"])
def test_names_are_free_text(library: httpx.Client, worlds: Path, name: str) -> None:
    write_world(worlds, name, recap_world())

    clone(library, name, **{"as": f"{name} - copy"})

    assert len(read_world(worlds, f"{name} - copy")["entries"]) == 8


@pytest.mark.parametrize(
    "name",
    [
        "../Eldoria",
        "..",
        ".",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "C:x",
        "a\0b",
        "a\nb",
        ".hidden",
        "trailing.",
        "trailing ",
        " leading",
        "CON",
        "nul.x",
        "a?b",
        "a*b",
        'a"b',
        "a|b",
        "<a>",
        "é" * 150,
    ],
)
def test_names_that_lead_elsewhere_are_refused(
    library: httpx.Client, tmp_path: Path, name: str
) -> None:
    before = tree(tmp_path / "data")

    source = library.post(f"/st/lorebooks/{quote(name, safe='')}/clone", json={})
    target = library.post("/st/lorebooks/Eldoria/clone", json={"as": name})

    assert outcome(target) == (
        400,
        {**target.json(), "code": InvalidName.code, "details": {}},
    )
    assert source.status_code in (400, 404)
    if "." not in (name, name[:1]) and name != "..":
        assert source.json()["code"] == InvalidName.code
    assert tree(tmp_path / "data") == before


def test_a_copy_never_replaces_a_lorebook(library: httpx.Client, worlds: Path) -> None:
    write_world(worlds, "Taken", {"entries": {}})
    before = tree(worlds)

    answer = library.post("/st/lorebooks/Eldoria/clone", json={"as": "Taken"})
    itself = library.post("/st/lorebooks/Eldoria/clone", json={"as": "Eldoria"})

    assert outcome(answer) == refused_as(answer, LorebookExists)
    assert outcome(itself) == refused_as(itself, LorebookExists)
    assert tree(worlds) == before


def test_of_many_copies_at_once_one_gets_the_name(library: httpx.Client, worlds: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: library.post("/st/lorebooks/Eldoria/clone", json={"as": "Copy"}),
                range(8),
            )
        )

    assert sorted(each.status_code for each in answers) == [200, *[409] * 7]
    assert sorted(path.name for path in worlds.iterdir()) == ["Copy.json", "Eldoria.json"]


def test_a_missing_lorebook_is_not_found(library: httpx.Client) -> None:
    answer = library.post("/st/lorebooks/Nothing/clone", json={})

    assert outcome(answer) == refused_as(answer, LorebookNotFound)


def test_without_a_data_folder_the_hint_names_the_option(start_server: StartServer) -> None:
    with start_server().client() as library:
        answer = library.post("/st/lorebooks/Eldoria/clone", json={})

    assert answer.status_code == 404
    assert answer.json()["code"] == LorebookNotFound.code
    assert "--st-data-root" in answer.json()["hint"]


def test_the_data_folder_is_found_in_sillytavern(
    start_server: StartServer, sillytavern: Path
) -> None:
    worlds = sillytavern / "data/default-user/worlds"
    write_world(worlds, "Eldoria", recap_world())
    with start_server(st_root=(sillytavern,)).client() as library:
        clone(library, **{"as": "Copy"})

    assert len(read_world(worlds, "Copy")["entries"]) == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"entries": []}',
        '{"entries": {"0": 5}}',
        '{"entries": {"0": {"uid": NaN}}}',
        '{"entries": {"0": {"uid": 0}}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_a_broken_file_is_an_error_and_changes_nothing(
    library: httpx.Client, worlds: Path, text: str
) -> None:
    write_world(worlds, "Broken", text)
    before = tree(worlds)

    answer = library.post("/st/lorebooks/Broken/clone", json={"as": "Copy"})

    assert outcome(answer) == refused_as(answer, LorebookDamaged)
    assert tree(worlds) == before


def test_invalid_utf8_is_a_broken_file(library: httpx.Client, worlds: Path) -> None:
    (worlds / "Broken.json").write_bytes(b'{"entries": {"0": {"comment": "\xff"}}}')

    answer = library.post("/st/lorebooks/Broken/clone", json={"as": "Copy"})

    assert outcome(answer) == refused_as(answer, LorebookDamaged)


def test_half_a_surrogate_pair_is_copied(library: httpx.Client, worlds: Path) -> None:
    write_world(worlds, "Odd", '{"entries": {"0": {"uid": 0, "comment": "\\ud83d"}}}')

    clone(library, "Odd", **{"as": "Copy"})

    (copied,) = read_world(worlds, "Copy")["entries"].values()
    assert copied["comment"] == "\ud83d"


@pytest.mark.parametrize("body", [{"uids": "new"}, {"uids": 5}, {"uids": None}])
def test_uids_are_new_or_kept(library: httpx.Client, body: dict[str, Any]) -> None:
    answer = library.post("/st/lorebooks/Eldoria/clone", json=body)

    assert outcome(answer) == refused_as(answer, InvalidBody)


@pytest.mark.parametrize("link", ["file", "worlds", "user"])
def test_nothing_is_copied_through_a_link(
    library: httpx.Client, tmp_path: Path, worlds: Path, link: str
) -> None:
    place = {"file": worlds / "Eldoria.json", "worlds": worlds, "user": worlds.parent}[link]
    place.rename(tmp_path / "outside")
    place.symlink_to(tmp_path / "outside")

    answer = library.post("/st/lorebooks/Eldoria/clone", json={"as": "Copy"})

    assert outcome(answer) == refused_as(answer, SymlinkRefused)


def test_each_user_has_lorebooks_of_their_own(start_server: StartServer, tmp_path: Path) -> None:
    worlds = tmp_path / "data/alice/worlds"
    write_world(worlds, "Hers", recap_world())
    server = start_server(st_data_root=str(tmp_path / "data"), bridge_secret="s")

    def ask(user: str, admin: str) -> httpx.Response:
        headers = {"x-vt-secret": "s", "x-vt-user": user, "x-vt-admin": admin}
        with server.client() as library:
            return library.post("/st/lorebooks/Hers/clone", json={"as": "C"}, headers=headers)

    statuses = [ask("bob", "true").status_code, ask("alice", "false").status_code]

    assert statuses == [404, 200]
    assert (worlds / "C.json").is_file()
