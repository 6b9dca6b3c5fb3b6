"""
Commands that read: what there is, values, and their past.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import click

from valuetracker.cli.connection import SERVE, Server, Target, connecting, list_all, part
from valuetracker.cli.failure import Failure, Unreachable
from valuetracker.cli.output import Output, Row, as_json, dump, printing

BEFORE_AFTER = (as_json("before"), as_json("after"))

chat_option = click.option("--chat", "is_chat", is_flag=True, help="ID is a chat.")


def holder_path(id: str, is_chat: bool) -> str:
    return f"/{'chats' if is_chat else 'instances'}/{part(id)}"


def megabytes(row: Row) -> Any:
    return f"{row['bytes'] / 1_000_000:.1f}" if "bytes" in row else None


@click.command()
@connecting
@printing
def extensions(target: Target, output: Output) -> None:
    """
    List the extensions.

    The exit code is 1 if one of them cannot be used.
    """
    with target.open() as server:
        found = server.get("/extensions")
    output.rows(
        found,
        "id", "status", "characters", "instances", "keys", "revision", ("MB", megabytes), "path",
    )  # fmt: skip
    unusable = [each["id"] for each in found if each["status"] not in ("ok", "verifying")]
    if unusable:
        raise Failure(
            f"Unusable: {', '.join(unusable)}.", "See what is wrong: `valuetracker doctor`."
        )


@click.command()
@click.argument("extension")
@connecting
@printing
def characters(extension: str, target: Target, output: Output) -> None:
    """List the characters of an EXTENSION."""
    with target.open() as server:
        found = list_all(server, "/characters", extension)
        output.rows(found, "id", "name", "createdAt", "updatedAt")


@click.command()
@click.argument("extension")
@click.option("--character", help="Only those of this character.")
@click.option("--chat", help="Only those of this chat.")
@connecting
@printing
def instances(
    extension: str, character: str | None, chat: str | None, target: Target, output: Output
) -> None:
    """List the instances of an EXTENSION."""
    with target.open() as server:
        found = list_all(server, "/instances", extension, characterId=character, chatId=chat)
        output.rows(found, "id", "characterId", "name", "chatId", "createdAt", "updatedAt")


@click.command()
@click.argument("extension")
@connecting
@printing
def chats(extension: str, target: Target, output: Output) -> None:
    """List the chats of an EXTENSION, but for archived ones."""
    with target.open() as server:
        found = list_all(server, "/chats", extension)
        output.rows(found, "chatId", "parent", "revision", "createdAt", "updatedAt")


@click.command()
@click.argument("extension")
@click.argument("id")
@click.argument("key", required=False)
@chat_option
@click.option("--at", help="As of a revision or a time.")
@click.option("--text", "as_text", is_flag=True, help="Print a text as it is, not as JSON.")
@connecting
@printing
def get(
    extension: str,
    id: str,
    key: str | None,
    is_chat: bool,
    at: str | None,
    as_text: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Print a value, or all values, of the instance or chat ID.

    The exit code is 1 if there is no such key.
    """
    path = holder_path(id, is_chat)
    with target.open() as server:
        if key is not None:
            found = server.get(f"{path}/data/{part(key)}", extension, at=at)
        else:
            found = read_all(server, path, extension, is_chat, at)
    if key is None and output.form == "json":
        output.record(found)
    elif key is None:
        rows = ({"key": name, "value": found[name]} for name in found)
        output.rows(rows, "key", as_json("value"))
    elif key not in found:
        raise Failure(f"{id} has no key {key}.")
    else:
        output.value(found[key], as_text)


def read_all(server: Server, path: str, extension: str, is_chat: bool, at: str | None) -> Any:
    if is_chat:
        return server.get(f"{path}/data", extension, at=at)
    # Values of an unknown instance are just none; the instance itself is refused.
    return server.get(path, extension, at=at)["data"]


def message_of(row: Row) -> Any:
    anchor = row.get("anchor")
    if anchor is None:
        return None
    return anchor["messageId"] + (f" / {anchor['swipe']}" if anchor["swipe"] != "0" else "")


@click.command()
@click.argument("extension")
@click.argument("id")
@chat_option
@click.option("--key", help="Only changes of this key.")
@click.option("--after", help="Only changes after this revision or time.")
@click.option("--before", help="Only changes before this revision or time.")
@click.option("--oldest-first", is_flag=True, help="The oldest changes first.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="How many changes; 0 for all.",
)
@connecting
@printing
def history(
    extension: str,
    id: str,
    is_chat: bool,
    key: str | None,
    after: str | None,
    before: str | None,
    oldest_first: bool,
    limit: int,
    target: Target,
    output: Output,
) -> None:
    """List the changes of the instance or chat ID, newest first."""
    path = holder_path(id, is_chat) + "/history"
    order = "asc" if oldest_first else "desc"
    with target.open() as server:
        found = list_all(server, path, extension, key=key, after=after, before=before, order=order)
        output.rows(
            itertools.islice(found, limit or None),
            "revision", "at", "actor", "instanceId", "key", "op", *BEFORE_AFTER,
            ("message", message_of), "live",
        )  # fmt: skip


@click.command()
@click.argument("extension")
@click.argument("id")
@click.argument("from", metavar="FROM")
@click.argument("to", required=False)
@chat_option
@connecting
@printing
def diff(
    extension: str,
    id: str,
    to: str | None,
    is_chat: bool,
    target: Target,
    output: Output,
    **given: str,
) -> None:
    """
    List what differs in the instance or chat ID between two revisions or times.

    Without TO it is compared with now.
    """
    path = holder_path(id, is_chat) + "/diff"
    with target.open() as server:
        found = server.get(path, extension, **{"from": given["from"], "to": to})
    output.rows(
        found, *(["instanceId"] if is_chat else []), "key", as_json("before"), as_json("after")
    )


# The feed


@click.command()
@click.argument("extensions", metavar="EXTENSION...", nargs=-1, required=True)
@click.option("--since", help="Begin after this revision, or after `a:12,b:7` of several.")
@click.option("--chat", help="Only changes in this chat.")
@click.option("--instance", help="Only changes of this instance.")
@click.option("--key", help="Only changes of this key.")
@connecting
@printing
def tail(
    extensions: tuple[str, ...],
    since: str | None,
    chat: str | None,
    instance: str | None,
    key: str | None,
    target: Target,
    output: Output,
) -> None:
    """
    Follow the changes of extensions, until Ctrl-C.

    `--json` and `--nl` print one event per line.
    """
    which = "extensionId" if len(extensions) == 1 else "extensions"
    query = {
        which: ",".join(extensions),
        "since": since,
        "chatId": chat,
        "instanceId": instance,
        "key": key,
    }
    with target.open() as server:
        if server.is_own:
            raise Unreachable(
                "No server uses this data, so nothing changes.",
                f"{SERVE} `valuetracker history` shows the past.",
            )
        try:
            with server.stream("GET", "/events", query=query) as answer:
                follow(answer.iter_lines(), output)
        except KeyboardInterrupt:
            return
    raise Unreachable("The server has ended the feed.")


def follow(lines: Iterator[str], output: Output) -> None:
    """Print the events of a stream as they come."""
    event = data = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            data = value
        elif not line and data:
            print_event(event, json.loads(data), output)
            event = data = ""


def print_event(event: str, data: Any, output: Output) -> None:
    if event == "overflow":
        raise Failure("The feed was read too slowly, and the server has ended it.")
    if event == "gone" and "extensionId" not in data:
        raise Failure("The extension was deregistered.")
    if output.form in ("json", "nl"):
        click.echo(dump({"event": event, **data}))
    else:
        for change in changes_of(event, data):
            output.line(change)


def changes_of(event: str, data: Any) -> Iterator[list[Any]]:
    """Yield what is told of each change: time, revision, where, what, and the value."""
    start = [data.get("at"), data.get("revision")]
    if "extensionId" in data:
        start.append(data["extensionId"])
    if event != "change":
        subject = data.get(event) or {}
        about = subject.get("id") or subject.get("name")
        yield [*start, data.get("chatId"), event, about, data.get("op"), subject.get("status")]
        return
    for change in data["changes"]:
        where = change.get("instanceId") or change.get("chatId") or change.get("characterId")
        value = change["after"] if "after" in change else change.get("value")
        yield [*start, where, change.get("space"), change.get("key"), change["op"], dump(value)]
