"""
The power is cut while the program runs: nothing that it has acknowledged is lost.

One real server is recorded once, with everything that writes files: registering, in nested folders
and for another user, writing, adopting, backing up, importing, restoring, deregistering, purging,
and tokens.
Then images of the disk are made as a power cut may leave them, and each is opened by a server. With
VALUETRACKER_SOAK=1 there are many images.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.conftest import running_server, wait_for
from tests.faults.disk import MODELS, PARTS, Disk
from tests.faults.shim import SOAK, Record, Shim
from tests.support.original import leave, make_original
from tests.system.conftest import Program, RunProgram
from valuetracker.http.tokens import NAME as TOKENS
from valuetracker.http.tokens import TokenFile

IMAGES = 1_000 if SOAK else 20
CONTROL_IMAGES = 200
SECRET = "s" * 32
NESTED = "deep/er/nested.db"


@dataclass
class State:
    """The promises that a client may rely on."""

    # By user and extension; None if it is not registered.
    values: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict)
    trash: dict[str, dict[str, Any]] = field(default_factory=dict)
    originals: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    backups: set[str] = field(default_factory=set)


@dataclass
class Step:
    """One request: where the recording was before and after it, and the state it left."""

    sent: int
    answered: int
    after: State


def headers_of(user: str, extension: str = "") -> dict[str, str]:
    named = {"x-extension-id": extension} if extension else {}
    if not user:
        return named
    return {"x-vt-secret": SECRET, "x-vt-user": user, "x-vt-admin": "true", **named}


class Story:
    """Does things to a server, and notes after each what must be there from now on."""

    def __init__(self, shim: Shim, program: Program) -> None:
        self._shim = shim
        self._client = program.client()
        self._state = State()
        self._backup = ""
        self._backed_up: dict[tuple[str, str], dict[str, Any] | None] = {}
        self.steps = [Step(0, shim.position, State())]

    def _done(self, sent: int) -> None:
        self.steps.append(Step(sent, self._shim.position, deepcopy(self._state)))

    def _request(self, method: str, path: str, body: Any, user: str, extension: str = "") -> Any:
        headers = headers_of(user, extension)
        answer = self._client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def register(self, extension: str, user: str = "", **more: str) -> None:
        sent = self._shim.position
        self._request("POST", "/register", {"extensionId": extension, **more}, user)
        self._state.values.setdefault((user, extension), None)
        if self._state.values[user, extension] is None:
            self._state.values[user, extension] = {}
        self._done(sent)

    def adopt(self, extension: str) -> None:
        sent = self._shim.position
        self._request("POST", "/register", {"extensionId": extension}, "")
        found = self._request("GET", "/instances/run/data", None, "", extension)
        self._state.values["", extension] = found
        self._state.originals.add(extension)
        self._done(sent)

    def write(self, extension: str, instance: str, user: str = "", length: int = 20) -> None:
        values = self._state.values[user, extension]
        assert values is not None
        for number in range(length):
            sent = self._shim.position
            if not values and number == 0:
                body = {"id": instance, "characterId": "c"}
                self._request("POST", "/instances", body, user, extension)
            value = f"{number} " + "x" * (7 ** (number % 5))
            body = {"key": f"k{number % 4}", "value": value}
            self._request("POST", f"/instances/{instance}/data", body, user, extension)
            values[body["key"]] = value
            self._done(sent)

    def deregister(self, extension: str, purge: bool) -> None:
        sent = self._shim.position
        self._request("DELETE", "/register", {"extensionId": extension, "purge": purge}, "")
        values = self._state.values["", extension]
        self._state.values["", extension] = None
        if purge:
            assert values is not None
            self._state.trash[extension] = values
        self._done(sent)

    def back_up(self) -> None:
        sent = self._shim.position
        begun = self._client.post("/backup")
        assert begun.status_code == 202, begun.text
        path = f"/jobs/{begun.json()['job']}"
        wait_for(lambda: self._client.get(path).json()["status"] != "running")
        self._backup = self._client.get(path).json()["result"]["name"]
        self._backed_up = deepcopy(self._state.values)
        self._state.backups.add(self._backup)
        self._done(sent)

    def restore(self, extension: str) -> None:
        sent = self._shim.position
        body = {"extensionId": extension, "force": True}
        begun = self._client.post(f"/backup/{self._backup}/restore", json=body)
        assert begun.status_code == 202, begun.text
        path = f"/jobs/{begun.json()['job']}"
        wait_for(lambda: self._client.get(path).json()["status"] != "running")
        assert self._client.get(path).json()["status"] == "done"
        self._state.values["", extension] = self._backed_up["", extension]
        self._done(sent)

    def replace(self, extension: str, source: str) -> None:
        sent = self._shim.position
        file = self._client.get("/export", headers=headers_of("", source)).content
        answer = self._client.post(
            "/import", params={"mode": "replace"}, content=file, headers=headers_of("", extension)
        )
        assert answer.status_code == 200, answer.text
        self._state.values["", extension] = deepcopy(self._state.values["", source])
        self._done(sent)

    def token(self, *arguments: str) -> str:
        sent = self._shim.position
        command = [sys.executable, "-m", "valuetracker", "token", arguments[0]]
        command += ["--data-dir", str(self._shim.root), *arguments[1:]]
        done = subprocess.run(
            command, env=self._shim.environment, capture_output=True, text=True, check=True
        )
        id = done.stdout.strip().split("_")[1] if arguments[0] == "create" else arguments[1]
        self._state.tokens ^= {id}
        self._done(sent)
        return id

    def tell(self) -> None:
        with closing(self._client):
            self.register("a")
            self.write("a", "run")
            self.register("nested", dbPath=NESTED)
            self.write("nested", "run", length=5)
            self.register("a", user="alice")
            self.write("a", "run", user="alice", length=5)
            self.adopt("first")
            self.write("first", "run", length=3)
            self.adopt("second")
            for name in ("b", "c"):
                self.register(name)
                self.write(name, "run", length=3)
            self.back_up()
            self.replace("c", "a")
            self.write("b", "run", length=6)
            self.restore("b")
            self.deregister("b", purge=False)
            self.deregister("nested", purge=True)
            self.deregister("c", purge=True)
            self.register("d")
            first = self.token("create", "--name", "one", "--admin")
            self.token("create", "--name", "two", "--admin")
            self.token("revoke", first)


@dataclass
class Recording:
    shim: Shim
    before: Path
    records: list[Record]
    steps: list[Step]


@pytest.fixture
def recording(shim: Shim, run_program: RunProgram, tmp_path: Path) -> Recording:
    original = tmp_path / "original.db"
    make_original(original)
    for name, state in (("first", "hot journal"), ("second", "half a log")):
        leave(original, shim.root / f"{name}.db", state)
    shutil.copytree(shim.root, tmp_path / "before")
    program = run_program(data_dir=shim.root, VALUETRACKER_BRIDGE_SECRET=SECRET, **shim.environment)
    story = Story(shim, program)
    story.tell()
    program.end()
    return Recording(shim, tmp_path / "before", list(shim.records()), story.steps)


# Looking at an image


def losses(image: Path, before: State, after: State) -> Iterator[str]:
    """Yield what an image lacks: all of it must be as it was before a request, or after."""
    tokens = {each.id for each in TokenFile(image).load()}
    if tokens not in (before.tokens, after.tokens):
        yield f"tokens {tokens}"
    # A server with tokens would ask for one.
    (image / TOKENS).unlink(missing_ok=True)
    for extension in before.originals:
        if not (image / f"{extension}.db.original").is_file():
            yield f"no copy of {extension}"
    yield from losses_of_backups(image, before)
    for extension in before.trash:
        if not is_in_trash(image, extension):
            yield f"{extension} is not in the trash"
    try:
        yield from losses_of_values(image, before, after)
    except AssertionError as failure:
        yield f"no server starts: {failure}"


def losses_of_backups(image: Path, before: State) -> Iterator[str]:
    """Yield the backups that are not there, and those that are not whole."""
    found = {each.name for each in image.glob("backups/[!.]*")}
    yield from (f"no backup {name}" for name in before.backups - found)
    for name in found:
        folder = image / "backups" / name
        try:
            for each in json.loads((folder / "manifest.json").read_bytes())["extensions"]:
                content = (folder / each["file"]).read_bytes()
                if hashlib.sha256(content).hexdigest() != each["sha256"]:
                    yield f"the backup has another {each['file']}"
        except (OSError, ValueError) as failure:
            yield f"the backup is not whole: {failure}"


def losses_of_values(image: Path, before: State, after: State) -> Iterator[str]:
    with running_server(image, bridge_secret=SECRET) as server, server.client() as client:
        for user, extension in before.values | after.values:
            found = values_of(client, user, extension)
            expected = [each.values.get((user, extension)) for each in (before, after)]
            # A purge moves the file first: until it is repeated, the extension has no file.
            purging = not user and extension in after.trash.keys() - before.trash.keys()
            if found not in expected and not (purging and is_in_trash(image, extension)):
                yield f"{user}/{extension}: {found}"
        for extension in after.trash:
            # Its purge was asked for: it is in the trash, or still in use.
            if not is_in_trash(image, extension):
                found = values_of(client, "", extension)
                if found != after.trash[extension]:
                    yield f"{extension} is gone: {found}"
        for extension in ("first", "second"):
            body = {"extensionId": extension}
            if client.post("/register", json=body).status_code != 200:
                yield f"{extension} cannot be adopted"
            elif len(values_of(client, "", extension) or {}) < 20:
                yield f"{extension} was not adopted as a whole"


def is_in_trash(image: Path, extension: str) -> bool:
    return (image / "trash" / f"{extension}.1.db").is_file()


def values_of(client: httpx.Client, user: str, extension: str) -> Any:
    answer = client.get("/instances/run/data", headers=headers_of(user, extension))
    code = answer.json().get("code")
    if answer.status_code == 200:
        return answer.json()
    return {"instance_not_found": {}, "extension_not_registered": None}.get(code, answer.text)


def cuts(records: list[Record], count: int, random: Random) -> set[int]:
    """Return moments to cut the power at: after changes of names and syncs, and any others."""
    special = [n for n, each in enumerate(records) if each.op in "SRLUM"]
    return {
        *random.sample(special, min(len(special), count // 2)),
        *random.sample(range(len(records)), min(len(records), count - count // 2)),
    }


def search(
    recording: Recording,
    folder: Path,
    model: str,
    count: int,
    ignores: Callable[[str, bool], bool] = lambda path, is_folder: False,
) -> Iterator[str]:
    """Yield what images of this disk lack."""
    random = Random(f"{model} {count}")
    disk = Disk(recording.shim.root, recording.before, model, ignores)
    wanted = cuts(recording.records, count, random)
    for number, record in enumerate(recording.records):
        disk.apply(record)
        if number not in wanted:
            continue
        answered = [step for step in recording.steps if step.answered <= record.end]
        begun = [step for step in recording.steps if step.sent <= record.end]
        before = answered[-1].after if answered else State()
        after = begun[-1].after if begun else State()
        part = random.choice(PARTS)
        image = folder / "image"
        disk.save(image, random, part)
        found = list(losses(image, before, after))
        shutil.rmtree(image)
        yield from (f"cut after record {number} ({record.op}, {part}): {loss}" for loss in found)


# A server that does not start, on a disk that lies, ends its thread with an error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_power_cut_loses_nothing_that_was_acknowledged(
    recording: Recording, tmp_path: Path
) -> None:
    found = {model: list(search(recording, tmp_path, model, IMAGES)) for model in MODELS}

    assert found == {model: [] for model in MODELS}

    # The images of disks that lie must show it, or else the rig is blind.
    def ignores_log(path: str, is_folder: bool) -> bool:
        return path.endswith("-wal")

    def ignores_files(path: str, is_folder: bool) -> bool:
        return not is_folder

    def ignores_folders(path: str, is_folder: bool) -> bool:
        return is_folder

    for model, lie in [
        ("ordered", ignores_log),
        ("ordered", ignores_files),
        ("strict", ignores_folders),
        ("chaos", ignores_folders),
    ]:
        assert next(search(recording, tmp_path, model, CONTROL_IMAGES, lie), None), (model, lie)
