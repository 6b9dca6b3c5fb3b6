"""Keys and ids that a router, a URL or JavaScript might misread."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.answers import DONE, instance, make_instance, outcome, values_of

ODD_KEYS = [
    "merge",
    "override",
    "remove",
    "data",
    "a/b",
    "/",
    "//",
    " ",
    " blank ",
    "100%",
    "%2F",
    "%zz",
    "a?b=c&d",
    "#",
    "a+b",
    "a;b",
    "'\"\\`",
    "é",
    "e\u0301",
    "日本語",
    "🗡️",
    "\u200b",
    "__proto__",
    "constructor",
    "toString",
    "null",
    "0",
    "-1",
]


def set_value(client: httpx.Client, key: Any, value: Any, id: str = "sword") -> httpx.Response:
    return client.post(f"/instances/{id}/data", json={"key": key, "value": value})


@pytest.mark.parametrize("key", ODD_KEYS)
def test_a_key_may_be_any_text(client: httpx.Client, key: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    path = f"/instances/sword/data/{quote(key, safe='')}"

    setting = set_value(client, key, {key: [key]})
    reading = client.get(path)
    removing = client.delete(path)

    assert outcome(setting) == (200, {"success": True, "key": key, "value": {key: [key]}})
    assert outcome(reading) == (200, {key: {key: [key]}})
    assert outcome(removing) == DONE
    assert values_of(client) == '{"edge":"keen"}'


def test_odd_keys_do_not_disturb_each_other_in_any_verb(client: httpx.Client) -> None:
    make_instance(client)
    values = {key: index for index, key in enumerate(ODD_KEYS)}

    client.put("/instances/sword/data/override", json=values)
    overridden = client.get("/instances/sword/data").json()
    client.put("/instances/sword/data/merge", json=dict.fromkeys(ODD_KEYS, "merged"))
    merged = client.get("/instances/sword/data").json()
    removing = client.put("/instances/sword/data/remove", json={"keys": ODD_KEYS})

    assert list(overridden.items()) == list(values.items())
    assert list(merged.items()) == [(key, "merged") for key in ODD_KEYS]
    assert outcome(removing) == (200, {"success": True, "removedCount": len(ODD_KEYS)})
    assert values_of(client) == "{}"


@pytest.mark.parametrize("id", ["a/b", "merge", "data", "100%", "a?b#c", "é 🗡️", "..a", "__proto__"])
def test_an_instance_id_and_a_character_id_may_be_any_text(client: httpx.Client, id: str) -> None:
    encoded = quote(id, safe="")
    client.post("/instances", json={"id": id, "characterId": id})

    set_value(client, "edge", "keen", encoded)

    assert outcome(client.get(f"/characters/{encoded}")) == (
        200,
        {
            "character": client.get("/characters").json()[0],
            "instances": [{"instance": instance(id, id), "data": {"edge": "keen"}}],
        },
    )
    assert outcome(client.delete(f"/instances/{encoded}")) == DONE
    assert outcome(client.delete(f"/characters/{encoded}")) == DONE
