"""Templates: a text in which `{{vt::…}}` stands for values of a chat, or of an instance."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from valuetracker.errors import ChatNotFound, InstanceNotFound
from valuetracker.macros import Owner, Rendering
from valuetracker.records import Rendered
from valuetracker.store.rows.holders import values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.contents import contents_now

# The character of an instance that belongs to a persona of SillyTavern: this, and its picture.
PERSONA = "persona:"
# Other names of the persona.
ALIASES = ("{{user}}", "User", "Persona")


async def render_for_chat(tx: Snapshot, template: str, chat_id: str) -> Rendered:
    chat = await tx.find_chat(chat_id)
    if chat is None:
        raise ChatNotFound()
    contents = await contents_now(tx, chat)
    owners = [Owner([], _parsed(contents.spaces["chat"]))]
    people = [each["instance"] for each in contents.instances]
    personas = sum(each["characterId"].startswith(PERSONA) for each in people)
    taken: Counter[str] = Counter()
    for full in contents.instances:
        instance = full["instance"]
        character_id = instance["characterId"]
        person = await _person_name(tx, character_id)
        own = _unique(instance["name"] or person, taken)
        # Which of several personas is the player's own, only SillyTavern knows.
        aliases = ALIASES if character_id.startswith(PERSONA) and personas == 1 else ()
        names = dict.fromkeys([own, person, *aliases, character_id, instance["id"]])
        owners.append(Owner(list(names), _parsed(full["data"])))
    return _rendered(template, owners)


async def render_for_instance(tx: Snapshot, template: str, instance_id: str) -> Rendered:
    """Render a template with the values of one instance, which need no name before them."""
    instance = await tx.find_instance(instance_id)
    if instance is None:
        raise InstanceNotFound()
    data = _parsed(values_record(await tx.list_values(instance)))
    return _rendered(template, [Owner([], data)])


def _rendered(template: str, owners: list[Owner]) -> Rendered:
    rendering = Rendering(owners)
    text = rendering.render(template)
    return {"text": text, "missing": list(rendering.missing)}


def _parsed(values: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(orjson.dumps(values))
    return parsed


async def _person_name(tx: Snapshot, character_id: str) -> str:
    character = await tx.find_character(character_id)
    if character is not None and character.name:
        return character.name
    return character_id.removeprefix(PERSONA)


def _unique(name: str, taken: Counter[str]) -> str:
    """Return a name that no other instance has: the second Ann is "Ann 2"."""
    own, number = name, 2
    while taken[own.lower()]:
        own, number = f"{name} {number}", number + 1
    taken[own.lower()] += 1
    return own
