"""
Tokens: who may do what, on a server that others can reach.

They are kept in `<data-dir>/.tokens.json`, which only the owner can read, and as hashes: the
file is no help to somebody who wants to use a token. A token is long and random, so nobody can
guess it, and one round of SHA-256 is enough. The command line changes the file while a server
runs, and the server notices; admins change it over HTTP. This module knows nothing of requests.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock

from valuetracker import durable
from valuetracker.errors import StartupError
from valuetracker.names import check_extension_id, check_printable
from valuetracker.records import TokenRecord, now

NAME = ".tokens.json"
TOKEN = re.compile(r"vt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")
ID = re.compile(r"[0-9a-f]{12}\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Token:
    """One token as it is kept: what it may do, and its hash."""

    id: str
    name: str
    digest: str
    extensions: tuple[str, ...] = ()
    read_others: bool = False
    admin: bool = False
    created_at: str = ""

    def __post_init__(self) -> None:
        """Check the types: a mistake in a file edited by hand must not let anybody in."""
        texts = (self.id, self.name, self.digest, self.created_at, *self.extensions)
        if not all(isinstance(each, str) for each in texts):
            raise TypeError("id, name, digest, created_at and extensions must be strings")
        if not isinstance(self.read_others, bool) or not isinstance(self.admin, bool):
            raise TypeError("`read_others` and `admin` must be true or false")
        if not ID.match(self.id) or not DIGEST.match(self.digest):
            raise ValueError("invalid id or digest")

    def record(self) -> TokenRecord:
        return {
            "id": self.id,
            "name": self.name,
            "extensions": list(self.extensions),
            "readOthers": self.read_others,
            "admin": self.admin,
            "createdAt": self.created_at,
        }


class TokenFile:
    """The tokens of one data directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._version: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}
        # The admin token of this run of the server. It is in no file of tokens, and does not count
        # as one that is in use.
        self._of_run: dict[str, Token] = {}
        # Stays True when the last token is revoked, or the file is removed or damaged: none of
        # these is meant to let everybody in. A restart begins anew.
        self.in_use = False

    # For the server

    def refresh(self) -> bool:
        """Read the file if it has changed, and return True if it had."""
        try:
            found = os.stat(self._path)
            version = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        except FileNotFoundError:
            version = None
        except OSError:
            return False
        if version == self._version:
            return False
        try:
            self._tokens = self._read()
            self.in_use = self.in_use or bool(self._tokens)
        except StartupError:
            # A damaged file admits nobody.
            self._tokens, self.in_use = {}, True
        self._version = version
        return True

    def create_for_run(self) -> str:
        """Return the text of a new admin token that is valid until the server stops."""
        token, text = _new_token("this run", admin=True)
        self._of_run = {token.id: token}
        return text

    def is_of_run(self, token: Token) -> bool:
        return self._of_run.get(token.id) == token

    def find(self, text: str) -> Token | None:
        match = TOKEN.match(text)
        token = self._tokens.get(match[1], self._of_run.get(match[1])) if match else None
        # Compare even if there is no such token, so that both cases take as long.
        expected = token.digest if token is not None else "0" * 64
        return token if hmac.compare_digest(_digest(text), expected) else None

    def has(self, token: Token) -> bool:
        """Return True if the token has not been revoked."""
        return self._tokens.get(token.id) == token or self.is_of_run(token)

    # For the command line, and for admins

    def load(self) -> list[Token]:
        return list(self._read().values())

    def create(
        self, name: str, extensions: tuple[str, ...], read_others: bool, admin: bool
    ) -> tuple[Token, str]:
        """Return a new token, and its text, which is shown once and kept nowhere."""
        check_printable(name)
        for each in extensions:
            check_extension_id(each)
        token, text = _new_token(name, extensions, read_others, admin)
        with self._locked():
            self._write([*self.load(), token])
        return token, text

    def revoke(self, id: str) -> bool:
        """Revoke a token, and return True if there was one."""
        with self._locked():
            tokens = self.load()
            left = [each for each in tokens if each.id != id]
            if len(left) == len(tokens):
                return False
            self._write(left)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            durable.make_folders(self._path.parent)
            with FileLock(self._path.with_name(f"{NAME}.lock"), mode=0o600):
                yield
        except OSError as error:
            raise StartupError(f"The tokens in {self._path} cannot be changed: {error}.") from error

    def _read(self) -> dict[str, Token]:
        try:
            tokens = [_token(row) for row in _list(orjson.loads(self._path.read_bytes()))]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StartupError(f"The tokens in {self._path} cannot be read: {error}.") from error
        return {each.id: each for each in tokens}

    def _write(self, tokens: list[Token]) -> None:
        rows = [asdict(each) for each in tokens]
        durable.write_file(self._path, orjson.dumps(rows, option=orjson.OPT_INDENT_2))


def _new_token(
    name: str, extensions: tuple[str, ...] = (), read_others: bool = False, admin: bool = False
) -> tuple[Token, str]:
    id = secrets.token_hex(6)
    text = f"vt_{id}_{secrets.token_urlsafe(32)}"
    return Token(id, name, _digest(text), extensions, read_others, admin, now()), text


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("the tokens and their extensions must be lists")
    return value


def _token(row: dict[str, Any]) -> Token:
    return Token(**{**row, "extensions": tuple(_list(row["extensions"]))})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
