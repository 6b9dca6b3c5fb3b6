"""
The client library of the original plugin, and a session with it.

It sends `Content-Type: application/json` with every request, puts ids and keys into paths
as they are, leaving the rest to `fetch`, and shows errors as the text it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import character, instance

# What the URL parser of a browser leaves alone in a path: no `%` is added to one.
LEFT_ALONE = "/?#%:@!$&'()*+,;=[]|\\^~-._"


class Client:
    """Its methods, under its names."""

    base = "/api/plugins/valuetracker"

    def __init__(self, http: httpx.Client, origin: str, extension_id: str) -> None:
        self.http = http
        self.origin = origin
        self.extension_id = extension_id

    def fetch(self, method: str, path: str, body: Any = None, named: bool = True) -> Any:
        headers = {"Content-Type": "application/json"}
        if named:
            headers["x-extension-id"] = self.extension_id
        content = None if body is None else json.dumps(body, separators=(",", ":"))
        target = quote(self.base + path, safe=LEFT_ALONE)
        answer = self.http.request(
            method, self.origin, headers=headers, content=content, extensions={"target": target}
        )
        if not answer.is_success:
            raise RuntimeError(f"API request failed: {answer.status_code} - {answer.text}")
        return answer.json()

    # Extensions

    def registerExtension(self) -> Any:
        return self.fetch("POST", "/register", {"extensionId": self.extension_id}, named=False)

    def deregisterExtension(self) -> Any:
        return self.fetch("DELETE", "/register", {"extensionId": self.extension_id})

    # Characters

    def getAllCharacters(self) -> Any:
        return self.fetch("GET", "/characters")

    def getCharacter(self, id: str) -> Any:
        return self.fetch("GET", f"/characters/{id}")

    def createOrUpdateCharacter(self, **character: Any) -> Any:
        return self.fetch("POST", "/characters", character)

    def deleteCharacter(self, id: str) -> Any:
        return self.fetch("DELETE", f"/characters/{id}")

    # Instances

    def getAllInstancesForCharacter(self, character_id: str) -> Any:
        return self.fetch("GET", f"/characters/{character_id}/instances")

    def getInstance(self, id: str) -> Any:
        return self.fetch("GET", f"/instances/{id}")

    def createOrUpdateInstance(self, **instance: Any) -> Any:
        return self.fetch("POST", "/instances", instance)

    def deleteInstance(self, id: str) -> Any:
        return self.fetch("DELETE", f"/instances/{id}")

    def deleteAllInstancesForCharacter(self, character_id: str) -> Any:
        return self.fetch("DELETE", f"/characters/{character_id}/instances")

    # Data

    def getInstanceData(self, id: str) -> Any:
        return self.fetch("GET", f"/instances/{id}/data")

    def getInstanceDataKey(self, id: str, key: str) -> Any:
        return self.fetch("GET", f"/instances/{id}/data/{key}")

    def createOrUpdateInstanceData(self, id: str, key: str, value: Any) -> Any:
        return self.fetch("POST", f"/instances/{id}/data", {"key": key, "value": value})

    def createOrUpdateInstanceDataAlt(self, id: str, key: str, value: Any) -> Any:
        return self.fetch("PUT", f"/instances/{id}/data", {"key": key, "value": value})

    def deleteInstanceDataKey(self, id: str, key: str) -> Any:
        return self.fetch("DELETE", f"/instances/{id}/data/{key}")

    def clearInstanceData(self, id: str) -> Any:
        return self.fetch("DELETE", f"/instances/{id}/data")

    def overrideInstanceData(self, id: str, data: dict[str, Any]) -> Any:
        return self.fetch("PUT", f"/instances/{id}/data/override", data)

    def mergeInstanceData(self, id: str, data: dict[str, Any]) -> Any:
        return self.fetch("PUT", f"/instances/{id}/data/merge", data)

    def removeInstanceDataKeys(self, id: str, keys: list[str]) -> Any:
        return self.fetch("PUT", f"/instances/{id}/data/remove", {"keys": keys})

    # Other extensions

    def across(self, path: str) -> Any:
        return self.fetch("GET", f"/cross-extension{path}", named=False)

    def getAllCharactersFromExtension(self, ext: str) -> Any:
        return self.across(f"/characters/{ext}")

    def getCharacterFromExtension(self, ext: str, id: str) -> Any:
        return self.across(f"/characters/{ext}/{id}")

    def getAllInstancesForCharacterFromExtension(self, ext: str, id: str) -> Any:
        return self.across(f"/characters/{ext}/{id}/instances")

    def getInstanceFromExtension(self, ext: str, id: str) -> Any:
        return self.across(f"/instances/{ext}/{id}")

    def getInstanceDataFromExtension(self, ext: str, id: str) -> Any:
        return self.across(f"/instances/{ext}/{id}/data")

    def getInstanceDataKeyFromExtension(self, ext: str, id: str, key: str) -> Any:
        return self.across(f"/instances/{ext}/{id}/data/{key}")


@pytest.fixture
def original(shared_server: RunningServer, extension_id: str) -> Iterator[Client]:
    with shared_server.client() as http:
        yield Client(http, shared_server.url, extension_id)


def test_a_session_from_registration_to_farewell(original: Client) -> None:
    name = original.extension_id
    seraphina = character("Seraphina.png", "Seraphina")
    first = instance("chat 1 é", "Seraphina.png", "First run")
    second = instance("run-2", "Seraphina.png")

    assert original.registerExtension() == {
        "success": True,
        "message": f"Extension {name} registered successfully",
    }
    assert original.getAllCharacters() == []
    made = original.createOrUpdateCharacter(id="Seraphina.png", name="Seraphina")
    assert made == seraphina
    assert original.createOrUpdateCharacter(id="Seraphina.png") == made
    assert (
        original.createOrUpdateInstance(
            id="chat 1 é", characterId="Seraphina.png", name="First run"
        )
        == first
    )
    assert original.createOrUpdateInstance(id="run-2", characterId="Seraphina.png") == second

    assert original.createOrUpdateInstanceData("chat 1 é", "hp", 50) == {
        "success": True,
        "key": "hp",
        "value": 50,
    }
    assert original.createOrUpdateInstanceDataAlt("chat 1 é", "outfit", {"top": "cloak"}) == {
        "success": True,
        "key": "outfit",
        "value": {"top": "cloak"},
    }
    assert original.mergeInstanceData("chat 1 é", {"hp": "45", "mood of today": None}) == {
        "success": True,
        "message": "Instance data merged successfully",
    }
    data = {"hp": "45", "outfit": {"top": "cloak"}, "mood of today": None}
    assert list(original.getInstanceData("chat 1 é").items()) == list(data.items())
    assert original.getInstanceDataKey("chat 1 é", "mood of today") == {"mood of today": None}
    assert original.getInstanceDataKey("chat 1 é", "absent") == {}
    assert original.getInstance("chat 1 é") == {"instance": first, "data": data}
    assert original.getCharacter("Seraphina.png") == {
        "character": seraphina,
        "instances": [{"instance": first, "data": data}, {"instance": second, "data": {}}],
    }
    assert original.getAllInstancesForCharacter("Seraphina.png") == [first, second]
    assert original.getAllInstancesForCharacter("nobody") == []

    assert original.deleteInstanceDataKey("chat 1 é", "mood of today") == {"success": True}
    assert original.overrideInstanceData("chat 1 é", {"gold": 3, "gems": [1, 2]}) == {
        "success": True,
        "message": "Instance data overridden successfully",
    }
    assert original.removeInstanceDataKeys("chat 1 é", ["gold", "absent"]) == {
        "success": True,
        "removedCount": 1,
    }
    assert original.getInstanceData("chat 1 é") == {"gems": [1, 2]}
    assert original.clearInstanceData("chat 1 é") == {"success": True}
    assert original.getInstanceData("chat 1 é") == {}

    assert original.deleteInstance("run-2") == {"success": True}
    assert original.deleteAllInstancesForCharacter("Seraphina.png") == {
        "success": True,
        "deletedCount": 1,
    }
    assert original.deleteCharacter("Seraphina.png") == {"success": True}
    assert original.getAllCharacters() == []
    assert original.deregisterExtension() == {
        "success": True,
        "message": f"Extension {name} deregistered successfully",
    }


def test_the_reads_of_another_extension(original: Client) -> None:
    name = original.extension_id
    original.createOrUpdateCharacter(id="arthur", name="Arthur")
    original.createOrUpdateInstance(id="sword", characterId="arthur")
    original.mergeInstanceData("sword", {"edge": "keen", "weight": 2})
    arthur, sword = character("arthur", "Arthur"), instance("sword", "arthur")
    data = {"edge": "keen", "weight": 2}
    # Whoever reads need not be registered.
    other = Client(original.http, original.origin, "nobody")

    assert other.getAllCharactersFromExtension(name) == [arthur]
    assert other.getCharacterFromExtension(name, "arthur") == {
        "character": arthur,
        "instances": [{"instance": sword, "data": data}],
    }
    assert other.getAllInstancesForCharacterFromExtension(name, "arthur") == [sword]
    assert other.getInstanceFromExtension(name, "sword") == {"instance": sword, "data": data}
    assert other.getInstanceDataFromExtension(name, "sword") == data
    assert other.getInstanceDataKeyFromExtension(name, "sword", "edge") == {"edge": "keen"}


@pytest.mark.parametrize(
    ("method", "arguments", "status", "error"),
    [
        ("getCharacter", ["nobody"], 404, "Character not found"),
        ("deleteCharacter", ["nobody"], 404, "Character not found"),
        ("getInstance", ["nothing"], 404, "Instance not found"),
        ("deleteInstance", ["nothing"], 404, "Instance not found"),
        ("deleteInstanceDataKey", ["nothing", "edge"], 404, "Data key not found"),
        ("clearInstanceData", ["nothing"], 404, "Instance not found"),
        ("createOrUpdateInstanceData", ["nothing", "edge", 1], 404, "Instance not found"),
        ("overrideInstanceData", ["nothing", {}], 404, "Instance not found"),
        (
            "getAllCharactersFromExtension",
            ["nobody"],
            404,
            "Database not found for extension: nobody",
        ),
        ("createOrUpdateCharacter", [], 400, "`id` is required."),
    ],
)
def test_an_error_is_shown_as_text_that_is_json_with_a_sentence(
    original: Client, method: str, arguments: list[Any], status: int, error: str
) -> None:
    with pytest.raises(RuntimeError) as shown:
        getattr(original, method)(*arguments)

    prefix, _, text = str(shown.value).partition(" - ")
    assert prefix == f"API request failed: {status}"
    assert json.loads(text)["error"] == error


def test_an_extension_that_did_not_register_is_told_so(original: Client) -> None:
    original.deregisterExtension()

    with pytest.raises(RuntimeError, match="API request failed: 404") as shown:
        original.getAllCharacters()

    error = json.loads(str(shown.value).partition(" - ")[2])["error"]
    assert error == f"Database not found for extension: {original.extension_id}"


@pytest.mark.parametrize(
    "key", ["hp", "mood of today", "日本語", "a.b", "a&b=c", "a+b", "100", "[0]"]
)
def test_keys_that_the_library_leaves_to_fetch_arrive_whole(original: Client, key: str) -> None:
    original.createOrUpdateInstance(id="Run: 1 (é)", characterId="Seraphina.png")

    original.createOrUpdateInstanceData("Run: 1 (é)", key, key)

    assert original.getInstanceDataKey("Run: 1 (é)", key) == {key: key}
    assert original.deleteInstanceDataKey("Run: 1 (é)", key) == {"success": True}
