"""Routes that take an extension out of the server and into it: export and import."""

from __future__ import annotations

import asyncio

from valuetracker.errors import (
    CharacterNotFound,
    ChatNotFound,
    ExtensionNotEmpty,
    IdsClash,
    ImportInvalid,
    ImportTooNew,
    InstanceNotFound,
    InvalidId,
    InvalidQuery,
    StorageFull,
)
from valuetracker.http.call import Call, Download
from valuetracker.http.deflate import accepts
from valuetracker.http.endpoint import AnyDocument, Endpoint, Field
from valuetracker.http.kinds import CHARACTER_ID, CHAT_ID, INSTANCE_ID, choice_kind
from valuetracker.records import Imported
from valuetracker.store.chats import rename_chat
from valuetracker.store.transfer.exporting import Form, export
from valuetracker.store.transfer.importing import Import, import_with_history
from valuetracker.store.transfer.lines import Lines
from valuetracker.store.transfer.merging import import_state
from valuetracker.store.transfer.part import Wanted
from valuetracker.store.tx.jobs import Written

FLAG = choice_kind("true", "false")
LINES = "application/x-ndjson"
MEDIA_TYPES = {
    "ndjson": (LINES, "jsonl"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "json": ("application/json", "json"),
}


async def export_extension(call: Call) -> Download:
    """
    Export an extension, or one chat, character or instance of it, with its history.

    The answer has one JSON record per line; docs/DESIGN.md describes them. The last line says how
    many there are and has their SHA-256: a file without it is not whole. Two exports of the same
    state are byte-equal. A chat comes with its instances, checkpoints and messages; a character
    or an instance comes with the messages by which its values follow the story. Sessions, claims
    and remembered requests are left out, and so are operations unless `operations=true`.
    `format=csv` and `format=json` give the present values only. The answer is compressed if the
    client accepts gzip.
    """
    query = call.query
    names = ("chatId", "characterId", "instanceId")
    if sum(name in query for name in names) > 1:
        raise InvalidQuery("The query names several parts: send one of them.")
    wanted = Wanted(*(query.get(name) for name in names))
    packed = accepts(b"gzip", call.accept_encoding)
    form = Form(query.get("format", "ndjson"), query.get("operations") == "true", packed)
    read = await call.read(export, call.extension_id, wanted, form, call.service.new_spool)
    media_type, suffix = MEDIA_TYPES[form.format]
    encoding = "gzip" if form.packed else None
    return Download(read.result, media_type, f"{call.extension_id}.{suffix}", encoding)


async def import_extension(call: Call) -> Written:
    """
    Import a file that `GET /export` has given.

    The body is not bound by the limit of other bodies, and may be compressed with gzip. All of it
    is checked first, and all of it is one transaction: an import that fails or is interrupted
    changes nothing.

    Without `mode`, all of the file comes along with its history; the extension must be unused.
    `mode=replace` puts the file in the place of all that the extension has. Revisions keep their
    numbers if the extension was never used; otherwise they are shifted above the highest number
    that was given out, and older cursors and revisions are refused. `mode=merge` and `mode=skip`
    add the present state of the file as one revision: of keys that are on both sides the file
    wins, or what is there. An id of the file that is something else here is refused, with all
    others; `dryRun=true` lists them. `as` gives the one chat of a file another id.
    """
    assert call.spool is not None
    lines = Lines(call.spool)
    try:
        await asyncio.to_thread(lines.check)
        mode = call.query.get("mode")
        asked = Import(lines, mode, call.query.get("as"), call.query.get("dryRun") == "true")
        if mode in ("merge", "skip"):
            return await call.write_alone(import_state, asked)
        return await call.write_alone(import_with_history, asked, rename_chat)
    finally:
        call.spool.close()


ENDPOINTS = [
    Endpoint(
        ("GET",),
        "/export",
        export_extension,
        returns=Download,
        query=(
            Field("chatId", CHAT_ID, "Only this chat.", required=False),
            Field("characterId", CHARACTER_ID, "Only this character.", required=False),
            Field("instanceId", INSTANCE_ID, "Only this instance.", required=False),
            Field(
                "format",
                choice_kind(*MEDIA_TYPES),
                "`ndjson` (with history), or `csv` or `json` (present values).",
                required=False,
            ),
            Field("operations", FLAG, "Also export operations.", required=False),
        ),
        raises=(
            InvalidId,
            InvalidQuery,
            ChatNotFound,
            CharacterNotFound,
            InstanceNotFound,
            StorageFull,
        ),
    ),
    Endpoint(
        ("POST",),
        "/import",
        import_extension,
        returns=Imported,
        body=AnyDocument("A file that `GET /export` has given.", {LINES: {"type": "string"}}),
        query=(
            Field(
                "mode",
                choice_kind("merge", "skip", "replace"),
                "What becomes of what is there.",
                required=False,
            ),
            Field("as", CHAT_ID, "Another id for the one chat of the file.", required=False),
            Field("dryRun", FLAG, "Change nothing, and answer what would change.", required=False),
        ),
        raises=(InvalidId, InvalidQuery, ImportInvalid, ImportTooNew, ExtensionNotEmpty, IdsClash),
        conditional=False,
        upload=True,
    ),
]
