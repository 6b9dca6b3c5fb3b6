"""Fixtures: a chat, and values in it of either kind of owner."""

from __future__ import annotations

import httpx
import pytest

from tests.api.chats.queue import Queue
from tests.support.chat import Chat, Values
from tests.support.postgres import PostgresServer


@pytest.fixture
def chat(client: httpx.Client) -> Chat:
    """A chat nobody has used yet: no revision was taken for it."""
    return Chat(client, "chat")


@pytest.fixture(params=["of a chat", "of an instance"])
def values(request: pytest.FixtureRequest, chat: Chat) -> Values:
    """The values of a chat, or of an instance in it; the chat is there, at revision 1."""
    if request.param == "of an instance":
        return chat.instance("sword")
    chat.open("the fixture's tab")
    return chat


@pytest.fixture
def queue(chat: Chat) -> Queue:
    """The empty queue of a chat that is there, at revision 1."""
    chat.open("the fixture's tab")
    return Queue(chat)


@pytest.fixture
def own_database(engine_name: str, request: pytest.FixtureRequest) -> str:
    """What `--database` is to be for a server of the test's own, that can be restarted."""
    if engine_name == "sqlite":
        return ""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database()
