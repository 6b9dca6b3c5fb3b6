"""
Errors of access: users, tokens, hosts and origins.
"""

from __future__ import annotations

from valuetracker.errors.base import BadRequest, Conflict, Forbidden, NotFound, Unauthorized


class InvalidUser(BadRequest):
    """The user's handle is not valid."""

    code = "invalid_user"


class TokenRequired(Unauthorized):
    """A token is required here."""

    code = "token_required"


class TokenInvalid(Unauthorized):
    """The token is not known."""

    code = "token_invalid"


class HostNotAllowed(Forbidden):
    """This host name is not allowed for the server."""

    code = "host_not_allowed"
    hint = "Use http://127.0.0.1 or http://localhost, or allow the name with `--allow-host`."


class OriginNotAllowed(Forbidden):
    """Pages of this origin may not use the server."""

    code = "origin_not_allowed"
    hint = "If you trust the pages of this origin, allow it with `--allow-origin`."


class CrossSite(Forbidden):
    """Requests from pages of another site are not allowed."""

    code = "cross_site"
    hint = "Allow the page's origin with `--allow-origin`, and let the page fetch with CORS."


class ScopeMissing(Forbidden):
    """The token is not for this extension."""

    code = "scope_missing"
    hint = "Make a token with `valuetracker token create --extension ID`."


class AdminRequired(Forbidden):
    """Only an admin may do this."""

    code = "admin_required"


class TokenNotFound(NotFound):
    """There is no such token."""

    code = "token_not_found"


class AdminTokenFirst(Conflict):
    """The first token must be an admin's."""

    code = "admin_token_first"
    hint = "From the first token on every client needs one, and only an admin's can make others."
