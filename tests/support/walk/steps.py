"""Steps: requests of the walk. Exchanges: requests with their answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.walk.stand_ins import StandIns
from valuetracker.api import ENDPOINTS
from valuetracker.http.endpoint import Endpoint
from valuetracker.settings import PREFIX

# The values that the placeholders of a route have, unless a step gives others.
FILLED_IN = {
    "extension": "story-stats",
    "character": "seraphina",
    "instance": "seraphina-1",
    "key": "hp",
    "chat": "Seraphina - first date",
    "series": "recap",
    "version": "1",
    "set": "scenes",
    "id": "m-1",
    "operation": "recap-1",
    "checkpoint": "duel",
    "lorebook": "Eldoria",
}
# Where an answer has a value that later steps send as "{name}".
KEPT = {
    "session": "session",
    "claim": "claim",
    "prompt": "prompt.id",
    "job": "job",
    "backup": "0.name",
    "token": "token",
    "tokenId": "0.id",
}
JSON = "application/json"


@dataclass(frozen=True)
class Step:
    """A request of the walk. With a title it is an example of its route in API.md."""

    method: str
    # The path as the route table has it; `fill` gives other values than FILLED_IN.
    route: str
    body: Any = None
    status: int = 200
    # A body that is no JSON document.
    text: str = ""
    # One sentence that says what happens in the story.
    title: str = ""
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    fill: dict[str, str] = field(default_factory=dict)
    # The name of a value of the answer (see KEPT) that later steps need.
    keep: str = ""
    # A stream is read to the end of the event that has this text.
    until: str = ""
    # The request is sent again until its answer no longer has this text.
    until_without: str = ""
    # The answer comes only after later steps: the walk goes on meanwhile.
    background: bool = False

    @property
    def endpoint(self) -> Endpoint | None:
        found = (e for e in ENDPOINTS if e.path == self.route and self.method in e.methods)
        return next(found, None)

    @property
    def target(self) -> str:
        """The path and query that are sent, below the prefix."""
        filled = {**FILLED_IN, **self.fill}
        return re.sub(r"{(\w+)}", lambda name: quote(filled[name[1]], ""), self.route) + self.query


@dataclass(frozen=True)
class Exchange:
    """A step with its request and its answer, both with stand-ins."""

    step: Step
    target: str
    request_headers: dict[str, str]
    request_body: Any
    status: int
    headers: list[tuple[str, str]]
    text: str

    @property
    def media_type(self) -> str:
        return dict(self.headers).get("content-type", "").partition(";")[0]


def take_walk(client: httpx.Client, steps: Sequence[Step], stand_ins: StandIns) -> list[Exchange]:
    """Make the requests one after the other, and return them with their answers."""
    kept: dict[str, str] = {}
    with ThreadPoolExecutor() as threads:
        taken: list[tuple[Step, httpx.Request, Future[httpx.Response]]] = []
        for step in steps:
            request = request_of(client, step, kept)
            answer = threads.submit(send, client, request, step)
            taken.append((step, request, answer))
            if not step.background:
                answer.result()
            if step.keep:
                kept[step.keep] = value_in(answer.result().json(), KEPT[step.keep])
                stand_ins.learn(step.keep, kept[step.keep])
        return [exchange_of(*each, stand_ins) for each in taken]


def request_of(client: httpx.Client, step: Step, kept: dict[str, str]) -> httpx.Request:
    headers: dict[str, str] = {}
    if step.endpoint and step.endpoint.extension in ("header", "either", "optional"):
        headers["x-extension-id"] = FILLED_IN["extension"]
    if step.body is not None:
        headers["content-type"] = JSON
    content = json.dumps(step.body, ensure_ascii=False) if step.body is not None else step.text
    headers |= step.headers
    target = step.target
    for name, value in kept.items():
        target = target.replace(quote(f"{{{name}}}", ""), value)
        content = content.replace(f"{{{name}}}", value)
        headers = {each: text.replace(f"{{{name}}}", value) for each, text in headers.items()}
    return client.build_request(
        step.method, target, headers=headers, content=content.encode() or None
    )


def send(client: httpx.Client, request: httpx.Request, step: Step) -> httpx.Response:
    until = step.until
    if not until:
        answer = client.send(request)
        while step.until_without and step.until_without in answer.text:
            time.sleep(0.02)
            answer = client.send(request)
        return answer
    answer = client.send(request, stream=True)
    received = ""
    for text in answer.iter_text():
        received += text
        start = received.find(until)
        end = received.find("\n\n", start)
        if start >= 0 and end >= 0:
            break
    answer.close()
    headers = {"content-type": answer.headers["content-type"]}
    return httpx.Response(answer.status_code, headers=headers, text=received[: end + 1])


def value_in(document: Any, path: str) -> str:
    for name in path.split("."):
        document = document[int(name) if name.isdigit() else name]
    return str(document)


# Headers that the walk adds to those of a step.
ADDED = ("x-extension-id", "content-type")
# Headers that differ with the length or the moment of an answer.
UNSTABLE = ("date", "content-length", "x-request-id")


def exchange_of(
    step: Step, request: httpx.Request, answer: Future[httpx.Response], stand_ins: StandIns
) -> Exchange:
    response = answer.result()
    sent = [name for name in (*ADDED, *step.headers) if name in request.headers]
    body = stand_ins.apply(request.content.decode())
    return Exchange(
        step,
        stand_ins.apply(request.url.raw_path.decode().removeprefix(PREFIX)),
        {name: stand_ins.apply(request.headers[name]) for name in sent},
        (body if step.text else json.loads(body)) if body else None,
        response.status_code,
        [
            (name, stand_ins.apply(value))
            for name, value in response.headers.items()
            if name not in UNSTABLE
        ],
        stand_ins.apply(response.text),
    )
