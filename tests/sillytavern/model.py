"""
A chat-completion server that sends scripted replies and records the requests.

Without a script it answers "Reply 1.", "Reply 2.", … so that each generation is different.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

NAME = "scripted"


class Model:
    """The server, which runs until `close`; `requests` are the received bodies, oldest first."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script: deque[dict[str, Any]] = deque()
        self._lock = threading.Lock()
        self._said = 0
        self._called = 0
        model = self

        class Handler(ModelHandler):
            scripted = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reset(self) -> None:
        """Delete the script and the recorded requests."""
        with self._lock:
            self.requests.clear()
            self._script.clear()
            self._said = 0

    def say(self, *texts: str) -> None:
        """Add the next replies, in this order."""
        with self._lock:
            self._script.extend({"role": "assistant", "content": text} for text in texts)

    def call(self, name: str, /, **arguments: Any) -> None:
        """Let the next reply call a function; SillyTavern then sends the result."""
        self.call_many((name, arguments))

    def call_many(self, *calls: tuple[str, dict[str, Any]], text: str = "") -> None:
        """Let the next reply call several functions, after a text."""
        with self._lock:
            tool_calls = []
            for index, (name, arguments) in enumerate(calls):
                self._called += 1
                function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
                tool_calls.append(
                    {
                        "index": index,
                        "id": f"call_{self._called}",
                        "type": "function",
                        "function": function,
                    }
                )
            self._script.append({"role": "assistant", "content": text, "tool_calls": tool_calls})

    def fail(self) -> None:
        """Answer the next request with an error."""
        with self._lock:
            self._script.append({"fail": True})

    @property
    def seen(self) -> str:
        """All text of the last request."""
        with self._lock:
            messages = self.requests[-1]["messages"]
        return "\n".join(text_of(message) for message in messages)

    @property
    def tools(self) -> list[str]:
        """The names of the functions that the last request offered."""
        with self._lock:
            return [tool["function"]["name"] for tool in self.requests[-1].get("tools", [])]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.requests.append(request)
            if self._script:
                return self._script.popleft()
            self._said += 1
            return {"role": "assistant", "content": f"Reply {self._said}."}


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


def chunks(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split a reply into the chunks of a stream: word by word, the calls in one chunk."""
    yield {"role": "assistant", "content": ""}
    for word in re.findall(r"\S+\s*|\s+", reply["content"]):
        yield {"content": word}
    if "tool_calls" in reply:
        yield {"tool_calls": reply["tool_calls"]}


class ModelHandler(BaseHTTPRequestHandler):
    scripted: Model

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send_json(200, {"object": "list", "data": [{"id": NAME, "object": "model"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = orjson.loads(body)
        reply = self.scripted.answer(request)
        if "fail" in reply:
            self.send_json(500, {"error": {"message": "The model has failed, as scripted."}})
            return
        finish = "tool_calls" if "tool_calls" in reply else "stop"
        if not request.get("stream"):
            choice = {"index": 0, "message": reply, "finish_reason": finish}
            self.send_json(200, {"id": "1", "object": "chat.completion", "choices": [choice]})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta in chunks(reply):
            self.send_chunk({"index": 0, "delta": delta, "finish_reason": None})
        self.send_chunk({"index": 0, "delta": {}, "finish_reason": finish})
        self.wfile.write(b"data: [DONE]\n\n")

    def send_chunk(self, choice: dict[str, Any]) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "choices": [choice]}
        self.wfile.write(b"data: " + orjson.dumps(chunk) + b"\n\n")

    def send_json(self, status: int, body: dict[str, Any]) -> None:
        content = orjson.dumps(body)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
