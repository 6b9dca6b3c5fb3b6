"""The route that resolves `{{vt::…}}` in a text."""

from __future__ import annotations

from valuetracker.errors import (
    ChatNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    ValueTooLarge,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import CHAT_ID, INSTANCE_ID, TEXT
from valuetracker.records import Rendered
from valuetracker.store import render as templates


async def render(call: Call) -> Rendered:
    """
    Replace each `{{vt::…}}` in a text with a value of a chat, or of an instance.

    As in SillyTavern: `{{vt::key}}`, `{{vt::key.path}}` and `{{vt::who.key}}`, with a text for
    when there is no value after another `::`. Text is put in unchanged and everything else as JSON;
    macros inside a value do not become macros. `missing` lists the paths that have no value. All
    other macros stay as they are.

    The server knows fewer names than SillyTavern. `who` is the name of an instance, the name of
    its character in this extension, or one of their ids. `{{user}}`, `User` and `Persona` mean the
    persona, if instances of one persona alone are in the chat. `{{char}}` means nobody. If two have
    the same name, the one that was created first is meant, not the one whose turn it is.
    """
    body = call.body
    if ("chatId" in body) == ("instanceId" in body):
        raise InvalidBody("Name either `chatId` or `instanceId`.")
    if "chatId" in body:
        read = await call.read(templates.render_for_chat, body["template"], body["chatId"])
    else:
        read = await call.read(templates.render_for_instance, body["template"], body["instanceId"])
    rendered: Rendered = read.result
    return rendered


ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/render",
        render,
        returns=Rendered,
        body=(
            Field("template", TEXT, "The text, up to 100,000 characters."),
            Field("chatId", CHAT_ID, "The chat whose values are put in.", required=False),
            Field(
                "instanceId", INSTANCE_ID, "The instance whose values are put in.", required=False
            ),
        ),
        raises=(InvalidBody, InvalidId, ChatNotFound, InstanceNotFound, ValueTooLarge),
        only_reads=True,
    ),
]
