"""
The records that the API answers with, as they are sent.

Field names are camelCase because they are JSON's, not Python's. OpenAPI's schemas are made
from these classes, so an answer and its documentation have one source. All names are imported
from here. This package knows nothing of the rest of Value Tracker.
"""

# Star imports, so that the name of a record is written in one module only.
from valuetracker.records.chats import *  # noqa: F403
from valuetracker.records.data import *  # noqa: F403
from valuetracker.records.history import *  # noqa: F403
from valuetracker.records.jobs import *  # noqa: F403
from valuetracker.records.server import *  # noqa: F403
from valuetracker.records.times import *  # noqa: F403
from valuetracker.records.transfer import *  # noqa: F403
