"""Value Tracker: the server that keeps the state of SillyTavern extensions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from valuetracker.settings import Settings

__version__ = "0.2.0"


def create_app(settings: Settings | None = None) -> Starlette:
    """
    Return the server as a Starlette application, for any ASGI server.

    Without settings, they are read from the environment (`VALUETRACKER_…`). An application
    that mounts this one runs its lifespan: `async with app.router.lifespan_context(app)`.
    """
    # Imported when it is called: each module of the package imports this one, and it must
    # stay cheap.
    app: Starlette = import_module("valuetracker.app").create_app(settings)
    return app
