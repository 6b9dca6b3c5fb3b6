"""The folder the extension is copied from and the folder it is copied to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.support.answers import outcome
from tests.support.folders import EXTENSIONS, make_sillytavern
from valuetracker.bridge.install.bundle import bundle_directory
from valuetracker.settings import PREFIX

ORDER = ["argument", "settings", "env", "env_root", "default"]


def paths(server: Any) -> dict[str, Any]:
    with server.client() as client:
        answer = client.get("/st/paths")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_all_candidates_are_reported(start_server: StartServer, home: Path) -> None:
    found = paths(start_server())

    chain = found.pop("resolution_chain")
    assert [each["source"] for each in chain] == ORDER
    assert chain[:4] == [
        {"source": source, "candidate": None, "resolved": None, "exists": None}
        for source in ORDER[:4]
    ]
    third_party = home / "SillyTavern" / EXTENSIONS
    assert chain[4] == {
        "source": "default",
        "candidate": str(third_party),
        "resolved": str(third_party / "valuetracker"),
        "exists": False,
    }
    config, sync, watched = (found.pop(name) for name in ("config", "sync", "watch_paths"))
    assert found == {
        "extension_name": "valuetracker",
        "source_dir": str(bundle_directory() / "extension"),
        "source_exists": True,
        "destination_dir": str(third_party / "valuetracker"),
        "destination_exists": False,
        "resolved_from": "default",
        "resolved_candidate": str(third_party),
        "resolved_candidate_exists": False,
        "enabled": True,
        "settings_path": None,
    }
    assert config == {
        "enabled": True,
        "base_url": "http://127.0.0.1:8000",
        "plugin_base": PREFIX,
        "extensions_dir": None,
        "data_root": None,
        "roots": [str(home / "SillyTavern")],
        "allowed_origins": [],
        "token_present": False,
    }
    assert sync["version_status"] == "missing"
    assert watched == sync["watch_paths"]


def test_the_root_answers_as_the_prefix_does(bridge: httpx.Client) -> None:
    assert outcome(bridge.get("/st/paths")) == outcome(bridge.get(f"{PREFIX}/st/paths"))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (("settings", "env", "other", "env_root"), "settings"),
        (("env", "other", "env_root"), "env"),
        (("other", "env_root"), "env"),
        (("env_root",), "env_root"),
        ((), "default"),
    ],
)
def test_the_first_setting_that_is_set_is_used(
    start_server: StartServer,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: tuple[str, ...],
    expected: str,
) -> None:
    places = {name: tmp_path / name for name in named}
    variables = {
        "env": "VALUETRACKER_ST_EXTENSIONS_DIR",
        "other": "COMFYVN_ST_EXTENSIONS_DIR",
        "env_root": "SILLYTAVERN_PATH",
    }
    for name, variable in variables.items():
        if name in places:
            monkeypatch.setenv(variable, str(places[name]))
    given = {"st_extensions_dir": str(places["settings"])} if "settings" in places else {}

    found = paths(start_server(**given))

    candidates = {
        "settings": places.get("settings"),
        "env": places.get("env", places.get("other")),
        "env_root": places["env_root"] / EXTENSIONS if "env_root" in places else None,
        "default": home / "SillyTavern" / EXTENSIONS,
    }
    assert found["resolved_from"] == expected
    assert found["resolved_candidate"] == str(candidates[expected])
    assert found["destination_dir"] == str(candidates[expected]) + "/valuetracker"
    assert {each["source"]: each["candidate"] for each in found["resolution_chain"]} == {
        "argument": None,
        **{name: str(path) if path else None for name, path in candidates.items()},
    }


def test_a_setting_from_its_variable_counts_as_environment(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "extensions")
    monkeypatch.setenv("VALUETRACKER_ST_EXTENSIONS_DIR", place)

    found = paths(start_server(st_extensions_dir=place))

    assert found["resolved_from"] == "env"
    assert found["resolution_chain"][1]["candidate"] is None


@pytest.mark.parametrize("below", ["", EXTENSIONS, EXTENSIONS / "valuetracker"])
def test_people_may_name_the_folder_itself_or_one_above(
    start_server: StartServer, sillytavern: Path, below: str | Path
) -> None:
    found = paths(start_server(st_extensions_dir=str(sillytavern / below)))

    assert found["destination_dir"] == str(sillytavern / EXTENSIONS / "valuetracker")
    assert found["sync"]["plugin"]["destination"] == str(sillytavern / "plugins/valuetracker")


def test_a_folder_with_a_manifest_is_the_folder_of_the_extension(
    start_server: StartServer, sillytavern: Path
) -> None:
    folder = sillytavern / EXTENSIONS / "my-values"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")

    assert paths(start_server(st_extensions_dir=str(folder)))["destination_dir"] == str(folder)


def test_a_users_own_extension_folder_finds_its_sillytavern(
    start_server: StartServer, tmp_path: Path
) -> None:
    root = make_sillytavern(tmp_path / "st")
    folder = root / "data/default-user/extensions"
    folder.mkdir(parents=True)

    found = paths(start_server(st_extensions_dir=str(folder)))

    assert found["destination_dir"] == str(folder / "valuetracker")
    assert found["sync"]["plugin"]["destination"] == str(root / "plugins/valuetracker")


def test_a_folder_that_belongs_to_no_sillytavern_leaves_the_plugin_unresolved(
    start_server: StartServer, tmp_path: Path
) -> None:
    found = paths(start_server(st_extensions_dir=str(tmp_path / "somewhere")))

    assert found["sync"]["plugin"]["destination"] is None
    assert found["sync"]["plugin_version_status"] == "unresolved"
    assert found["sync"]["plugin_needs_sync"] is False


def test_a_token_is_never_shown(start_server: StartServer) -> None:
    with start_server(st_token="hush-hush").client() as client:
        answers = [client.get("/st/paths"), client.get("/st/health?base_url=http://127.0.0.1:9")]

    assert all("hush-hush" not in each.text for each in answers)
    assert all(each.json()["config"]["token_present"] for each in answers)
