"""
The application that everything is compared with: a bare ASGI application under the same uvicorn.

Its options repeat those of `valuetracker.http.server` instead of taking them from there: should
our server get a protocol class of its own, this must stay plain uvicorn.
"""

from __future__ import annotations

import logging

import uvicorn
from starlette.types import Receive, Scope, Send

from valuetracker.http.server import listen, url_of

BODY = b'{"hello":"world"}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
    ],
}
END = {"type": "http.response.body", "body": BODY}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await send(START)
    await send(END)


def main() -> None:
    # As our server runs: uvicorn asks the logger on each connection.
    logging.basicConfig(level=logging.INFO)
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    listener.listen()
    print(f"hello listening on {url_of(listener)}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
