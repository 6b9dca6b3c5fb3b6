"""
Redis behind webdis, its HTTP server; every write is synced before it is answered.

An instance is a hash of JSON texts, a character the set of its instances.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.children import Child, Failure, answers, free_port, started, wait_until
from bench.dataset import Size, character_id, character_of, instance_id, values_of
from bench.peers.store import Kind, Place, Store
from bench.wrk import Load

CONFIG = """
port 0
unixsocket {socket}
dir {folder}
appendonly yes
appendfsync always
save ""
logfile {log}
"""
# As many threads as its package comes with.
THREADS = 2
# Requests of one thread that Redis answers side by side.
POOL_SIZE = 20
FILLED_AT_ONCE = 500

# Joins the instances of a character in one request. The list is flat, because webdis does not
# show lists in lists.
SCRIPT = """
local found, count = {}, 0
for _, instance in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local values = redis.call('HGETALL', instance)
  found[count + 1], found[count + 2] = instance, tostring(#values)
  count = count + 2
  for index = 1, #values do found[count + index] = values[index] end
  count = count + #values
end
return found
"""
CALL_SCRIPT = f"/EVALSHA/{hashlib.sha1(SCRIPT.encode()).hexdigest()}/1"


class Webdis(Store):
    dialect = "webdis"

    def load(self, workload: str, size: Size) -> Load:
        return Load(self.dialect, workload, CALL_SCRIPT, instances=size.instances)

    def command(self, *words: str) -> Any:
        escaped = "/".join(quote(word, safe="") for word in words)
        return self.call("POST", "/", text=escaped)[words[0]]

    def read_one(self, instance: str, key: str) -> Any:
        return json.loads(self.command("HGET", instance, key))

    def read_all(self, instance: str) -> dict[str, Any]:
        found = self.command("HGETALL", instance)
        return {key: json.loads(value) for key, value in found.items()}

    def read_character(self, character: str) -> dict[str, dict[str, Any]]:
        items = iter(self.call("GET", f"{CALL_SCRIPT}/{character}")["EVALSHA"])
        found: dict[str, dict[str, Any]] = {}
        for instance in items:
            pairs = int(next(items)) // 2
            found[instance] = {next(items): json.loads(next(items)) for _ in range(pairs)}
        return found

    def write_one(self, instance: str, key: str, value: Any) -> None:
        self.command("HSET", instance, key, json.dumps(value))

    def merge(self, instance: str, values: dict[str, Any]) -> None:
        self.command("HSET", instance, *pairs_of(values))

    def check_durability(self) -> None:
        for name, wanted in (("appendonly", "yes"), ("appendfsync", "always")):
            found = self.command("CONFIG", "GET", name)
            if found != [name, wanted]:
                raise Failure(f"Redis is to have {name} {wanted}: {found}")


def pairs_of(values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        yield from (key, json.dumps(value))


@contextmanager
def start(place: Place) -> Iterator[Webdis]:
    log, redis_log = place.folder / "log", place.folder / "redis.log"
    port = free_port()
    # Not in the folder of the data, because the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="bench-") as sockets:
        path = f"{sockets}/redis"
        config = place.folder / "redis.conf"
        config.write_text(CONFIG.format(socket=path, folder=place.folder, log=redis_log))
        settings = place.folder / "webdis.json"
        settings.write_text(json.dumps(webdis_settings(path, port, place.folder)))
        with started(place.core, ["redis-server", str(config)], log) as redis:
            wait_until(lambda: listens(path), redis, log)
            fill(path, place.size)
            with (
                started(place.core, ["webdis", str(settings)], log) as webdis,
                closing(Webdis(Child(f"http://127.0.0.1:{port}", webdis, log, redis))) as store,
            ):
                wait_until(lambda: answers(f"{store.child.url}/PING"), webdis, log)
                yield store


def webdis_settings(path: str, port: int, folder: Path) -> dict[str, Any]:
    return {
        "redis_host": path,
        "http_host": "127.0.0.1",
        "http_port": port,
        "threads": THREADS,
        "pool_size": POOL_SIZE,
        "daemonize": False,
        "verbosity": 0,
        "logfile": str(folder / "webdis.log"),
    }


def listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) == 0


def fill(path: str, size: Size) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rwb") as stream:
            send(stream, [("SCRIPT", "LOAD", SCRIPT)])
            numbers = range(1, size.instances + 1)
            for first in range(0, size.instances, FILLED_AT_ONCE):
                send(stream, commands(numbers[first : first + FILLED_AT_ONCE]))


def commands(numbers: Iterable[int]) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []
    for number in numbers:
        made.append(("HSET", instance_id(number), *pairs_of(values_of(number))))
        made.append(("SADD", character_id(character_of(number)), instance_id(number)))
    return made


def send(stream: io.BufferedRWPair, commands: list[tuple[str, ...]]) -> None:
    """Send commands in the protocol of Redis, and check that none failed."""
    for words in commands:
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            stream.write(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
    stream.flush()
    for words in commands:
        answer = stream.readline()
        if answer.startswith(b"$"):
            answer = stream.readline()
        if not answer or answer.startswith(b"-"):
            raise Failure(f"{words[0]}: {answer!r}")


def version() -> str:
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v=(\S+)", said.stdout)
    return f"Redis {found[1] if found else said.stdout.strip()}"


KIND = Kind(
    "redis",
    "Redis (always) + webdis",
    start,
    durability="synced before the answer",
    version=version,
)
