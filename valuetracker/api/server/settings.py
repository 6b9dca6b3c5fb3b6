"""The route that shows the settings in force."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint
from valuetracker.records import SettingRecord
from valuetracker.settings import Setting, settings_table

# Settings in which people write passwords, although they are not secrets by their kind: a command
# may hold the key of the place it copies to, a database URL a password anywhere.
MAY_HOLD_SECRETS = frozenset({"backup_hook", "database"})
# The user and the password of a URL.
USER_OF_URL = re.compile(r"(?<=://)[^/@\s]*@")


async def list_settings(call: Call) -> list[SettingRecord]:
    """
    List the settings in force, without secrets.

    Of a setting that may hold a secret, such as `bridge_secret`, `st_token`, `database` and
    `backup_hook`, only `isSet` says if there is one.
    """
    return [_record(each, getattr(call.service.settings, each.name)) for each in settings_table()]


def _record(setting: Setting, value: Any) -> SettingRecord:
    secret = setting.secret or setting.name in MAY_HOLD_SECRETS
    return {
        "name": setting.name,
        "value": None if secret else _shown(value),
        "default": None if secret else _shown(setting.default),
        "secret": secret,
        "isSet": value != setting.default,
        "flag": None if setting.secret else setting.flag,
        "variable": setting.variable,
        "help": setting.help,
    }


def _shown(value: Any) -> Any:
    """Return a value as JSON can have it, without the password of a URL."""
    if isinstance(value, tuple):
        return [_shown(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    return USER_OF_URL.sub("", value) if isinstance(value, str) else value


ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/settings",
        list_settings,
        returns=list[SettingRecord],
        extension="none",
        access="admin",
    ),
]
