"""Fixtures: a chat, and values of the chat itself or of an instance in it."""

from __future__ import annotations

import httpx
import pytest

from tests.api.chats.queue import Queue
from tests.support.chat import Chat, Values
from tests.support.postgres import PostgresServer


@pytest.fixture
def chat(client: httpx.Client) -> Chat:
    """A chat that does not exist yet: it has made no revision."""
    return Chat(client, "chat")


@pytest.fixture(params=["of a chat", "of an instance"])
def values(request: pytest.FixtureRequest, chat: Chat) -> Values:
    """The values of a chat, or of an instance in it; the chat exists, at revision 1."""
    if request.param == "of an instance":
        return chat.instance("sword")
    chat.open("the fixture's tab")
    return chat


@pytest.fixture
def queue(chat: Chat) -> Queue:
    """The empty queue of a chat that exists, at revision 1."""
    chat.open("the fixture's tab")
    return Queue(chat)


@pytest.fixture
def own_database(engine_name: str, request: pytest.FixtureRequest) -> str:
    """The value of `--database` for a server that the test starts and restarts itself."""
    if engine_name == "sqlite":
        return ""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database()
