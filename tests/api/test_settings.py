"""The settings in force, as admins read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunningServer, running_server
from valuetracker.settings import settings_table

pytestmark = pytest.mark.one_engine

SECRETS = {
    "bridge_secret": "hunter2-bridge",
    "st_token": "hunter2-st",
    "backup_hook": "copy --key hunter2-hook {path}",
    "st_base_url": "http://me:hunter2-url@127.0.0.1:9",
}


def test_every_setting_is_listed_with_its_value(shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        listed = client.get("/settings").json()

    assert [each["name"] for each in listed] == [each.name for each in settings_table()]
    found = {each["name"]: each for each in listed}
    assert found["backup_at"] == {
        "name": "backup_at",
        "value": "off",
        "default": "03:00",
        "secret": False,
        "isSet": True,
        "flag": "--backup-at",
        "variable": "VALUETRACKER_BACKUP_AT",
        "help": found["backup_at"]["help"],
    }
    assert found["data_dir"]["value"] == str(shared_server.data_dir)
    assert found["allow_root"]["value"] == []
    assert found["bridge_secret"]["flag"] is None


def test_no_secret_is_shown(tmp_path: Path) -> None:
    with running_server(tmp_path, **SECRETS) as server, server.client() as client:
        answer = client.get("/settings")

    found = {each["name"]: each for each in answer.json()}
    assert "hunter2" not in answer.text
    for name in ("bridge_secret", "st_token", "backup_hook", "database"):
        assert (found[name]["value"], found[name]["secret"]) == (None, True)
        assert found[name]["isSet"] is (name in SECRETS)
    assert found["st_base_url"]["value"] == "http://127.0.0.1:9"
