"""
A real SillyTavern, booted from the npm package that `make test` brings.

Each SillyTavern has its own folder: `server` is a copy of the program, so that plugins and
extensions are installed there and not into the cache; `data` is its data root. SillyTavern builds
its front-end libraries on a first boot (half a minute). The result is kept beside the package and
copied into the next SillyTavern, which is then ready in five seconds. Of several test processes one
builds, and the others wait for it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
from filelock import FileLock

from tests.conftest import PATIENCE_SECONDS
from valuetracker.settings import PREFIX

REPOSITORY = Path(__file__).parents[2]
PACKAGES = REPOSITORY / ".cache/sillytavern/node_modules"
PRELOAD = Path(__file__).with_name("preload.cjs")
# The folders of the build: the first in a container, the second elsewhere.
BUILT_PLACES = ("server/dist/_webpack", "data/_webpack")

# The built-in extensions of SillyTavern that have nothing to do with values.
OTHER_EXTENSIONS = (
    *("assets", "attachments", "caption", "expressions", "gallery", "memory", "quick-reply"),
    *("stable-diffusion", "token-counter", "translate", "tts", "vectors"),
)

BOOT_SECONDS = 180.0
STOP_SECONDS = 20.0

CONFIG: dict[str, Any] = {
    "listen": False,
    "whitelistDockerHosts": False,
    "browserLaunch": {"enabled": False},
    "enableServerPlugins": True,
    "enableServerPluginsAutoUpdate": False,
    "enableDownloadableTokenizers": False,
    "extensions": {"enabled": True, "autoUpdate": False, "models": {"autoDownload": False}},
    "rateLimiting": {"accountsLoginMaxAttempts": 0},
}
LISTENING = re.compile(r"listening on IPv4: 127\.0\.0\.1:(\d+)")


class SillyTavern:
    """A SillyTavern that runs or can be booted; `accounts` is its multi-user mode."""

    def __init__(
        self,
        folder: Path,
        *,
        model_url: str = "",
        accounts: bool = False,
        config: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.server = folder / "server"
        self.data = folder / "data"
        self.log_file = folder / "sillytavern.log"
        self.model_url = model_url
        self.accounts = accounts
        self.environment = environment or {}
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.boot_seconds = 0.0
        shutil.copytree(PACKAGES / "sillytavern", self.server)
        # Node and webpack look for packages upwards from `server`.
        (folder / "node_modules").symlink_to(PACKAGES, target_is_directory=True)
        take_build(folder)
        # JSON is YAML.
        given = {**CONFIG, "enableUserAccounts": accounts, **(config or {})}
        (folder / "config.yaml").write_bytes(orjson.dumps(given))
        self.write_settings("default-user")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def write_settings(self, handle: str) -> None:
        """Write settings that skip the onboarding and connect to the model of the tests."""
        settings = orjson.loads((self.server / "default/content/settings.json").read_bytes())
        settings |= {"firstRun": False, "main_api": "openai"}
        settings["power_user"] |= {"auto_connect": True}
        settings["oai_settings"] |= {
            "chat_completion_source": "custom",
            "custom_url": self.model_url,
            "custom_model": "scripted",
            "function_calling": True,
        }
        folder = self.data / handle
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_bytes(orjson.dumps(settings))

    def be_quick(self) -> None:
        """
        Move nothing and load few built-in extensions, as settings that a player can choose.

        A page then takes two thirds of the time to load and to reply, and half of it to swipe.
        """
        file = self.data / "default-user/settings.json"
        settings = orjson.loads(file.read_bytes())
        settings["power_user"]["reduced_motion"] = True
        settings.setdefault("extension_settings", {})["disabledExtensions"] = OTHER_EXTENSIONS
        file.write_bytes(orjson.dumps(settings))

    def boot(self) -> None:
        """Start SillyTavern and wait until it answers; on its previous port, if it had one."""
        if take_build(self.folder):
            self._boot()
            return
        with FileLock(f"{kept_build(self.folder)}.lock"):
            if not take_build(self.folder):
                self._boot()
                keep_build(self.folder)
                return
        self._boot()

    def _boot(self) -> None:
        started = time.monotonic()
        for _ in range(5):
            self.port = self.port or free_port()
            if self._boot_once():
                break
            # Another process took the port in the meantime.
            self.port = 0
        else:
            raise AssertionError(f"found no port for SillyTavern: {self.log[-2000:]}")
        self.boot_seconds = time.monotonic() - started

    def _boot_once(self) -> bool:
        """Start SillyTavern once; return False if the port was taken."""
        node = shutil.which("node")
        assert node, "the tests need Node"
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(node, "--require", str(PRELOAD), str(self.server / "server.js")),
                    *("--configPath", str(self.folder / "config.yaml")),
                    *("--dataRoot", str(self.data)),
                    *("--port", str(self.port)),
                    *("--browserLaunchEnabled", "false"),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                # Its own process group, so that all of it can be ended together.
                start_new_session=True,
            )
        end = time.monotonic() + BOOT_SECONDS
        while not self._answers(begin):
            if self.process.poll() is not None or "EADDRINUSE" in self.log[begin:]:
                said = self.log[begin:]
                self.kill()
                assert "EADDRINUSE" in said, f"SillyTavern ended: {said[-4000:]}"
                return False
            assert time.monotonic() < end, f"SillyTavern does not answer: {self.log[-4000:]}"
            time.sleep(0.05)
        return True

    def _answers(self, begin: int) -> bool:
        # The log proves that this process listens on the port.
        if not LISTENING.search(self.log[begin:]):
            return False
        try:
            return httpx.get(f"{self.url}/csrf-token", verify=False).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        """Stop SillyTavern as a person does, and return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._wait(STOP_SECONDS)

    def kill(self) -> None:
        """Kill SillyTavern alone; it cannot signal its children."""
        assert self.process is not None
        self.process.kill()
        self._wait()

    def _wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        assert self.process is not None
        code = self.process.wait(seconds)
        assert self.process.stdin is not None
        self.process.stdin.close()
        return code

    def end(self) -> None:
        """Stop all processes and delete the program; data and log stay."""
        if self.process is not None:
            if self.process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    self.stop()
            end_group(self.process.pid)
            self._wait()
        shutil.rmtree(self.server)
        for place in BUILT_PLACES:
            shutil.rmtree(self.folder / place, ignore_errors=True)

    def session(self, handle: str | None = None, password: str = "") -> httpx.Client:
        """
        Return a client that sends cookies and their CSRF token, as SillyTavern's page does.

        With accounts, `handle` logs in; without accounts, nobody logs in.
        """
        with self._http() as first:
            headers = {"x-csrf-token": first.get("/csrf-token").json()["token"]}
            if handle is not None:
                body = {"handle": handle, "password": password}
                answer = first.post("/api/users/login", json=body, headers=headers)
                assert answer.status_code == 200, answer.text
                headers = {"x-csrf-token": first.get("/csrf-token").json()["token"]}
            return self._http(headers=headers, cookies=first.cookies)

    def _http(self, **given: Any) -> httpx.Client:
        # Without `verify` each client would read all certificates of the system.
        return httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS, verify=False, **given)

    def client(
        self, extension_id: str | None = None, handle: str | None = None, password: str = ""
    ) -> httpx.Client:
        """Return a session for the plugin: paths are relative to its prefix."""
        session = self.session(handle, password)
        session.base_url = httpx.URL(self.url + PREFIX)
        if extension_id is not None:
            session.headers["x-extension-id"] = extension_id
        return session

    def register(self, extension_id: str, handle: str | None = None, password: str = "") -> None:
        with self.client(None, handle, password) as client:
            answer = client.post("/register", json={"extensionId": extension_id})
            assert answer.status_code == 200, answer.text

    def create_account(self, handle: str, password: str, *, admin: bool = False) -> None:
        """Create an account; `default-user` is an admin without a password."""
        with self.session("default-user") as session:
            body = {"handle": handle, "name": handle, "password": password, "admin": admin}
            answer = session.post("/api/users/create", json=body)
            assert answer.status_code == 200, answer.text
        self.write_settings(handle)

    def create_character(self, name: str, first_message: str = "Hello.") -> str:
        """Create a character and return the name of its file."""
        body = {"ch_name": name, "first_mes": first_message, "description": f"{name} is calm."}
        return self._create("/api/characters/create", body).text

    def create_group(self, name: str, *members: str, in_turn: bool = False) -> str:
        """
        Create a group of characters, given the names of their files, and return its id.

        SillyTavern chooses who replies, unless all reply `in_turn`.
        """
        body = {"name": name, "members": members, "activation_strategy": int(in_turn)}
        created = self._create("/api/groups/create", body)
        return str(created.json()["id"])

    def _create(self, path: str, body: dict[str, Any]) -> httpx.Response:
        with self.session("default-user" if self.accounts else None) as session:
            answer = session.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def kept_build(folder: Path) -> Path:
    """
    Return the folder with the build of an earlier boot, laid out like the folder of a SillyTavern.

    Webpack accepts it only if the packages are at the same relative path.
    """
    return PACKAGES.parent / f"built-{len(folder.resolve().parts)}"


def take_build(folder: Path) -> bool:
    """Copy the build of an earlier boot into a SillyTavern, if there is one."""
    built = kept_build(folder)
    if not built.exists():
        return False
    if not any((folder / place).exists() for place in BUILT_PLACES):
        shutil.copytree(built, folder, dirs_exist_ok=True)
    return True


def keep_build(folder: Path) -> None:
    built = kept_build(folder)
    copy = built.with_name(f"{built.name}.{os.getpid()}")
    for place in BUILT_PLACES:
        if (folder / place).exists():
            shutil.copytree(folder / place, copy / place)
    try:
        copy.rename(built)
    except OSError:
        # Another run of the tests was first.
        shutil.rmtree(copy)
