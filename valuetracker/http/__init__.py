"""
HTTP: from the bytes of a request to a call of a handler, and from its result to an answer.

The folder holds what is the same for all endpoints. In the order in which a request passes:

- `server` listens; the connection in `fast` receives requests and sends answers, within `limits`;
  under another server `asgi` does so;
- `dispatch` leads a request through `gate` (with `tokens`), `router` and `request_parsing` (with
  `kinds`) to the handler of its `endpoint`, which is given a `call`;
- `replies`, `cors` and `deflate` make the answer; `request_log` logs it.

It must not know an endpoint by name (those are in `api`), and it runs no SQL: a handler reaches
the store through its call.
"""
