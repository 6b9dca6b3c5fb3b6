"""
The inspector: the files that `make` builds from `inspector/`, as answers.

They are served at `/inspector/`, at the root and below the prefix. `index.html` names the other
files, whose names change with their content: a browser keeps those for good and asks for
`index.html` every time. A file is found among those that the folder has, so no path leads out of
it. This module knows nothing of the API, which the page uses like any other client.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from valuetracker.errors import MethodNotAllowed, RouteNotFound
from valuetracker.http.deflate import accepts
from valuetracker.http.replies import Common, HeaderMap, Reply, json_reply, matches
from valuetracker.settings import PREFIX

ROOT = b"/inspector"
ROOTS = (ROOT, PREFIX.encode() + ROOT)
INDEX = "index.html"
# The built files lie in the package, both in a checkout and in a wheel.
FOLDER = Path(__file__).parent.parent / "inspector"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
PACKED = ".gz"

NOT_BUILT = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Value Tracker</title>
<h1>Value Tracker is running</h1>
<p>The inspector is not built: that needs Node 20 or newer. In the folder of Value Tracker, run</p>
<pre>make .cache/inspector/ready</pre>
<p>and load this page again. Everything else works without it.</p>
</html>
"""


@dataclass(slots=True)
class File:
    """One file of the page: its content as it is and, if there is one, packed with gzip."""

    common: Common
    body: bytes
    packed: bytes | None
    etag: bytes

    @classmethod
    def of(cls, name: str, body: bytes, packed: bytes | None) -> File:
        common = Common(
            (b"cache-control", (ASK_AGAIN if name == INDEX else FOREVER).encode()),
            (b"content-type", MEDIA_TYPES[Path(name).suffix].encode()),
            (b"content-security-policy", POLICY.encode()),
            (b"vary", b"Accept-Encoding"),
        )
        return cls(common, body, packed, hashlib.sha256(body).hexdigest()[:32].encode())

    def reply(self, headers: HeaderMap) -> Reply:
        packed = self.packed if accepts(b"gzip", headers.get(b"accept-encoding")) else None
        etag = b'"%b%b"' % (self.etag, b"" if packed is None else b"-gzip")
        condition = headers.get(b"if-none-match")
        if condition is not None and matches(etag, condition):
            return Reply(304, self.common, [(b"etag", etag)], etag=etag)
        extra = [(b"etag", etag)]
        if packed is not None:
            extra.append((b"content-encoding", b"gzip"))
        return Reply(200, self.common, extra, self.body if packed is None else packed, etag)


class Pages:
    """The files of the inspector; read when they are first asked for, and when they change."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, File] = {}
        self._seen: tuple[int, int] | None = None
        self._not_built = File.of(INDEX, NOT_BUILT, None)

    def find(self, method: str, path: bytes, headers: HeaderMap) -> Reply | None:
        """Return a file, or a redirect to the page; None if the path belongs to neither."""
        if path == b"/" and method in ("GET", "HEAD"):
            return json_reply(302, b"", [(b"location", ROOT + b"/")])
        for root in ROOTS:
            if path.startswith(root) and path[len(root) : len(root) + 1] in (b"", b"/"):
                break
        else:
            return None
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{method[:32]} is not possible here.", allow=["GET", "HEAD"])
        name = path[len(root) :]
        if not name:
            # Addresses in the page are relative, so the slash matters.
            return json_reply(302, b"", [(b"location", ROOT[1:] + b"/")])
        self._refresh()
        file = self._files.get(name[1:].decode("latin-1") or INDEX)
        if file is None and name == b"/":
            file = self._not_built
        if file is None:
            raise RouteNotFound()
        return file.reply(headers)

    def _refresh(self) -> None:
        try:
            status = (self._folder / INDEX).stat()
        except OSError:
            self._files, self._seen = {}, None
            return
        seen = (status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._files, self._seen = read_files(self._folder), seen


def read_files(folder: Path) -> dict[str, File]:
    files: dict[str, File] = {}
    for path in folder.iterdir():
        if path.suffix in MEDIA_TYPES:
            packed = path.with_name(path.name + PACKED)
            files[path.name] = File.of(
                path.name, path.read_bytes(), packed.read_bytes() if packed.exists() else None
            )
    return files
