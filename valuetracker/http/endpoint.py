"""
An endpoint: one row of the route table.

A row names methods, path and handler, what the endpoint takes, what it answers, and which
errors it raises. The router, the checks of requests, OpenAPI, the docs page and API.md are all
made from the rows, so an endpoint is described in one place. This module knows no endpoint by
name: the rows are in `api`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from valuetracker.errors import (
    Compacted,
    InvalidAt,
    MessageNotFound,
    RevisionUnknown,
    ValueTrackerError,
)
from valuetracker.http.call import Call
from valuetracker.http.kinds import AT, CHAT_AT, FLAG, LIST_CURSOR, PAGE_SIZE, PATH_KINDS, Kind

Handler = Callable[[Call], Coroutine[Any, Any, Any]]

PARAMETER = re.compile(r"\{([^}]*)\}")

# Where the extension id comes from: the header; the path; either the header or the query, which
# may list several; the query, which lists several; the header if there is one; nowhere.
ExtensionSource = Literal["header", "path", "either", "listed", "optional", "none"]

# Who may call an endpoint (`gate` checks it):
#   extension      whoever has the scope of the extension, or for a read that of reading others
#   admin          an admin
#   registration   anybody as long as no tokens are in use, then an admin
#   own            a user of SillyTavern, about things of their own, or an admin
#   public         anybody
Access = Literal["extension", "admin", "registration", "own", "public"]


@dataclass(frozen=True)
class Field:
    """One field of a body, or one parameter of a query."""

    name: str
    kind: Kind
    description: str
    required: bool = True
    nullable: bool = False


# The parameter of reads that can read the past, and the errors they then raise.
AT_FIELD = Field(
    "at", AT, "The state at this revision (digits) or time (ISO 8601).", required=False
)
PAST: tuple[type[ValueTrackerError], ...] = (InvalidAt, RevisionUnknown, Compacted)
# The same of reads of a chat.
CHAT_AT_FIELD = Field(
    "at",
    CHAT_AT,
    "The state at this revision (digits), at this time (ISO 8601), or as of this message"
    " (`message:<id>`).",
    required=False,
)
CHAT_PAST = (*PAST, MessageNotFound)
# The field of what can be tried without a change.
DRY_RUN_FIELD = Field(
    "dryRun", FLAG, "Change nothing, and answer what would change.", required=False
)
# The parameters of lists that can be read in pages.
PAGE_FIELDS = (
    Field(
        "limit",
        PAGE_SIZE,
        "The largest number of items; without it the answer is the whole list.",
        required=False,
    ),
    Field("cursor", LIST_CURSOR, "The `next` of the previous page.", required=False),
)


@dataclass(frozen=True)
class AnyKeys:
    """A body that is an object of data keys and their values."""

    description: str


@dataclass(frozen=True)
class AnyDocument:
    """A body that the handler checks itself, by its media type."""

    description: str
    media_types: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Endpoint:
    """One row of the route table."""

    methods: tuple[str, ...]
    path: str
    handler: Handler
    returns: Any
    body: tuple[Field, ...] | AnyKeys | AnyDocument = ()
    query: tuple[Field, ...] = ()
    raises: tuple[type[ValueTrackerError], ...] = ()
    extension: ExtensionSource = "header"
    # True if the request may have an `If-Match` header.
    conditional: bool = True
    status: int = 200
    # Other statuses of success, and what is returned with them.
    also: Mapping[int, Any] = field(default_factory=dict)
    # True if the body may be left out, which means an empty object.
    body_optional: bool = False
    # True if the path is served without the prefix as well.
    at_root: bool = False
    access: Access = "extension"
    # True if the handler only runs a verb. Then it is begun without a task: most reads of a few
    # rows have no need to wait.
    quick: bool = False
    # True if the body has no limit: the handler reads it from a spool.
    upload: bool = False
    # True if it is no GET because it needs a body, and changes nothing.
    only_reads: bool = False
    # True if it is possible although the databases are full: it removes something, or adds little
    # and reading needs it. DELETE always is.
    beyond_quota: bool = False

    def __post_init__(self) -> None:
        for name in PARAMETER.findall(self.path):
            if name not in PATH_KINDS:
                raise TypeError(
                    f"{self.path}: the parameter {{{name}}} has no kind. Use a name of PATH_KINDS "
                    "in valuetracker/http/kinds.py, or add this one there."
                )

    @cached_property
    def writes(self) -> bool:
        """True if the handler writes to the database of the extension in the header."""
        return self.extension == "header" and self.changes

    @cached_property
    def changes(self) -> bool:
        """True if the handler does more than read."""
        return "GET" not in self.methods and not self.only_reads

    @property
    def grows(self) -> bool:
        """True if it may add to a database."""
        return self.changes and not self.beyond_quota and "DELETE" not in self.methods

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]

    @property
    def description(self) -> str:
        """The rest of the handler's docstring."""
        lines = (self.handler.__doc__ or "").strip().split("\n")[1:]
        return "\n".join(line.strip() for line in lines).strip()
