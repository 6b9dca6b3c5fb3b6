"""
The statements that several verbs share: rows by name, and what the ledger writes.

A statement used by one verb alone stands above that verb. Those that write many rows are
made from the columns of their table, because PostgreSQL takes them as arrays: one statement
there, however many rows.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement

Columns = dict[str, str]


def _columns(numbers: str, texts: str, order: str) -> Columns:
    kinds = {**dict.fromkeys(numbers.split(), "bigint"), **dict.fromkeys(texts.split(), "text")}
    return {name: kinds[name] for name in order.split()}


HEAD = dict.fromkeys(
    [
        "revision",
        "oldest",
        "entry",
        "number",
        "place",
        "subjects",
        "characters",
        "instances",
        "chats",
        "aliases",
        "keys",
        "checksum",
    ],
    "bigint",
)
CHARACTERS = _columns(
    "number place instances members gone revision entry checksum",
    "id name created_at updated_at",
    "number place id name created_at updated_at instances members gone revision entry checksum",
)
HOLDERS = _columns(
    "number place chat gone floor shaped unframed revision entry taken keys known digest checksum",
    "space id character_id name origin created_at updated_at",
    "number place space id character_id chat name origin created_at updated_at gone floor shaped"
    " unframed revision entry taken keys known digest checksum",
)
DATA = _columns(
    "holder place revision last anchored checksum",
    "key value",
    "holder key value place revision last anchored checksum",
)
ENTRIES = _columns(
    "entry subject chat place effect standing prior before earlier checksum",
    "at actor changes",
    "entry subject at actor chat place effect standing prior before earlier changes checksum",
)
KEYFRAMES = _columns("holder entry digest checksum", "keys", "holder entry keys digest checksum")
CHATS = _columns(
    "number place parent gone floor revision entry told instances rooms places checkpoints"
    " operations members checksum",
    "id origin created_at updated_at archived_at",
    "number place id parent origin created_at updated_at archived_at gone floor revision entry told"
    " instances rooms places checkpoints operations members checksum",
)
PLACES = _columns(
    "place chat seen position written entries moved checksum",
    "message_id swipe hash",
    "place chat message_id swipe seen position written entries moved hash checksum",
)
FLIPS = dict.fromkeys(("place", "revision", "position", "previous", "checksum"), "bigint")
MEMBERS = dict.fromkeys(("parent", "holder"), "bigint")
ALIASES = {"id": "text", "chat": "bigint", "checksum": "bigint"}


def names(columns: Columns, table: str = "") -> str:
    """The columns of a table, as they stand in a SELECT."""
    return ", ".join(f"{table}.{name}" if table else name for name in columns)


def _arrays(columns: Columns) -> str:
    return ", ".join(f":{name}::{kind}[]" for name, kind in columns.items())


def insert(table: str, columns: Columns, otherwise: str = "") -> Statement:
    into = f"INSERT INTO {{schema}}.{table} ({names(columns)})"
    values = ", ".join(f":{name}" for name in columns)
    return Statement(
        f"{into} VALUES ({values}) {otherwise}",
        postgres=f"{into} SELECT * FROM unnest({_arrays(columns)}) {otherwise}",
    )


def update(table: str, columns: Columns, key: str, *changed: str) -> Statement:
    """Set these columns, or all, where the key is the row's."""
    chosen = changed or tuple(name for name in columns if name != key)
    new = {name: columns[name] for name in (*chosen, key)}
    return Statement(
        f"UPDATE {{schema}}.{table} SET {', '.join(f'{name} = :{name}' for name in chosen)}"
        f" WHERE {key} = :{key}",
        postgres=f"UPDATE {{schema}}.{table} SET"
        f" {', '.join(f'{name} = new.{name}' for name in chosen)}"
        f" FROM unnest({_arrays(new)}) AS new ({names(new)})"
        f" WHERE {table}.{key} = new.{key}",
    )


# The head

SELECT_HEAD = Statement(
    f"SELECT {names(HEAD)}, (SELECT identity FROM {{schema}}.file) FROM {{schema}}.head"
)
# The same for whoever is about to write: on PostgreSQL it takes the lock that puts
# writers of one extension, on any server, one after the other. SQLite's have it already.
LOCK_HEAD = Statement(SELECT_HEAD.postgres, postgres=SELECT_HEAD.postgres + " FOR UPDATE")
SELECT_IDENTITY = Statement("SELECT identity FROM {schema}.file")
INSERT_HEAD = insert("head", HEAD)
UPDATE_HEAD = Statement(
    f"UPDATE {{schema}}.head SET {', '.join(f'{name} = :{name}' for name in HEAD)}",
    postgres=f"UPDATE {{schema}}.head SET {', '.join(f'{name} = new.{name}' for name in HEAD)}"
    f" FROM unnest({_arrays(HEAD)}) AS new ({names(HEAD)})",
)

# Characters

SELECT_CHARACTER = Statement(
    f"SELECT {names(CHARACTERS)} FROM {{schema}}.characters WHERE id = :id"
)
INSERT_CHARACTER = insert("characters", CHARACTERS)
UPDATE_CHARACTER = update(
    "characters", {name: kind for name, kind in CHARACTERS.items() if name != "id"}, "number"
)

# Holders

SELECT_HOLDER = Statement(
    f"SELECT {names(HOLDERS)} FROM {{schema}}.holders WHERE id = :id AND space = :space"
)
SELECT_HOLDER_BY_NUMBER = Statement(
    f"SELECT {names(HOLDERS)} FROM {{schema}}.holders WHERE number = :number"
)
SELECT_INSTANCES_OF_CHARACTER = Statement(
    f"SELECT {names(HOLDERS)} FROM {{schema}}.holders"
    " WHERE character_id = :character_id AND gone = 0 ORDER BY place"
)
SELECT_HOLDERS_OF_CHAT = Statement(
    f"SELECT {names(HOLDERS)} FROM {{schema}}.holders"
    " WHERE chat = :chat AND gone = 0 ORDER BY place"
)
# What a whole group of writes asks for, at once; `ids` and `pairs` are JSON arrays.
SELECT_INSTANCES_BY_ID = Statement(
    f"""
    SELECT {names(HOLDERS)} FROM {{schema}}.holders
    WHERE id IN (SELECT value FROM json_each(:ids)) AND space = 'instance'
    """,
    postgres=f"""
    SELECT {names(HOLDERS)} FROM {{schema}}.holders
    WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json))) AND space = 'instance'
    """,
)
INSERT_HOLDER = insert("holders", HOLDERS)
UPDATE_HOLDER = update(
    "holders",
    {name: kind for name, kind in HOLDERS.items() if name not in ("space", "id")},
    "number",
)
TOUCH_HOLDER = update(
    "holders",
    HOLDERS,
    "number",
    *("unframed", "revision", "entry", "keys", "known", "digest", "checksum"),
)
INSERT_MEMBER = insert("members", MEMBERS)

SELECT_MEMBER = Statement(
    "SELECT holder FROM {schema}.members WHERE parent = :parent AND holder = :holder"
)

# How many rows of characters, holders and chats there are, by the tables and not their indexes.
# A server of PostgreSQL looks after its own.
_SUBJECTS = " + ".join(
    f"(SELECT count(*) FROM {{schema}}.{table} NOT INDEXED)"
    for table in ("characters", "holders", "chats")
)
COUNT_SUBJECTS = Statement(f"SELECT {_SUBJECTS}", postgres="SELECT subjects FROM {schema}.head")


def _scan(table: str, condition: str) -> Statement:
    """By the table itself and not its index: whether "not found" is true, and all are there."""
    return Statement(
        f"SELECT count(*), {_SUBJECTS} FROM {{schema}}.{table} NOT INDEXED WHERE {condition}",
        postgres="SELECT count(*), (SELECT subjects FROM {schema}.head)"
        f" FROM {{schema}}.{table} WHERE {condition}",
    )


SCAN_FOR_HOLDER = _scan("holders", "id = :id AND space = 'instance'")
SCAN_FOR_CHAT = _scan("chats", "id = :id")
SCAN_FOR_CHARACTER = _scan("characters", "id = :id")

# Whether what these indexes say is not there is not: 'ok', or what is wrong with them. A server
# of PostgreSQL looks after its own.
CHECK_INDEXES = tuple(
    Statement(
        f"SELECT integrity_check FROM pragma_integrity_check('{table}')", postgres="SELECT 'ok'"
    )
    for table in ("characters", "holders", "chats")
)

# Values

SELECT_VALUE = Statement(
    f"SELECT {names(DATA)} FROM {{schema}}.data WHERE holder = :holder AND key = :key",
    postgres=f"SELECT {names(DATA)} FROM {{schema}}.data"
    " WHERE holder = :holder AND md5(key) = md5(:key) AND key = :key",
)
SELECT_VALUES_BY_PAIR = Statement(
    f"""
    SELECT {names(DATA, "data")} FROM json_each(:pairs) AS pair CROSS JOIN {{schema}}.data
    WHERE holder = json_extract(pair.value, '$[0]')
        AND data.key = json_extract(pair.value, '$[1]')
    """,
    postgres=f"""
    SELECT {names(DATA, "data")} FROM json_array_elements(CAST(:pairs AS json)) AS pair (value)
    JOIN {{schema}}.data ON holder = CAST(pair.value ->> 0 AS bigint)
        AND md5(key) = md5(pair.value ->> 1) AND key = pair.value ->> 1
    """,
)
# With those that are gone; the caller sorts, because there may be none to show.
SELECT_ROWS_OF_HOLDER = Statement(
    f"SELECT {names(DATA)} FROM {{schema}}.data WHERE holder = :holder"
)
SELECT_VALUES = Statement(
    f"SELECT {names(DATA)} FROM {{schema}}.data"
    " WHERE holder = :holder AND value IS NOT NULL ORDER BY place"
)
INSERT_VALUE = insert("data", DATA)
UPDATE_VALUE = Statement(
    """
    UPDATE {schema}.data SET value = :value, place = :place, revision = :revision,
        last = :last, anchored = :anchored, checksum = :checksum
    WHERE holder = :holder AND key = :key
    """,
    postgres=f"""
    UPDATE {{schema}}.data SET value = new.value, place = new.place, revision = new.revision,
        last = new.last, anchored = new.anchored, checksum = new.checksum
    FROM unnest({_arrays({name: DATA[name] for name in DATA})}) AS new ({names(DATA)})
    WHERE data.holder = new.holder AND md5(data.key) = md5(new.key) AND data.key = new.key
    """,
)

# The log

INSERT_ENTRY = insert("entries", ENTRIES)
INSERT_TAKEN = insert("taken", ENTRIES)
INSERT_KEYFRAME = insert("keyframes", KEYFRAMES)


def entries(condition: str, postgres: str | None = None, table: str = "entries") -> Statement:
    """Select entries; the condition goes on after FROM entries."""
    text = f"SELECT {names(ENTRIES)} FROM {{schema}}.{table}"
    return Statement(f"{text} {condition}", f"{text} {postgres}" if postgres else None)


def taken(condition: str, postgres: str | None = None) -> Statement:
    """The same from what branches have taken over."""
    return entries(condition, postgres, "taken")


# What the names of entries come from: rows by their numbers, a JSON array.
def numbered(table: str, columns: Columns, key: str) -> Statement:
    text = f"SELECT {names(columns)} FROM {{schema}}.{table} WHERE {key} IN"
    return Statement(
        f"{text} (SELECT value FROM json_each(:numbers))",
        postgres=f"{text} (SELECT CAST(value AS bigint)"
        " FROM json_array_elements_text(CAST(:numbers AS json)) AS value)",
    )


SELECT_HOLDERS_NUMBERED = numbered("holders", HOLDERS, "number")
SELECT_CHARACTERS_NUMBERED = numbered("characters", CHARACTERS, "number")
SELECT_CHATS_NUMBERED = numbered("chats", CHATS, "number")
SELECT_PLACES_NUMBERED = numbered("places", PLACES, "place")


# Chats

SELECT_CHAT = Statement(f"SELECT {names(CHATS)} FROM {{schema}}.chats WHERE id = :id")
SELECT_CHATS = Statement(
    f"SELECT {names(CHATS)} FROM {{schema}}.chats WHERE gone = 0 ORDER BY place"
)
SELECT_ALIAS = Statement(f"SELECT {names(ALIASES)} FROM {{schema}}.aliases WHERE id = :id")
SELECT_ALIASES = Statement(f"SELECT {names(ALIASES)} FROM {{schema}}.aliases")
SELECT_CHAT_BY_NUMBER = Statement(
    f"SELECT {names(CHATS)} FROM {{schema}}.chats WHERE number = :number"
)
INSERT_CHAT = insert("chats", CHATS)
UPDATE_CHAT = update("chats", CHATS, "number")
TOUCH_CHAT = update(
    "chats",
    CHATS,
    "number",
    *("revision", "entry", "told", "instances", "rooms", "places", "members", "checksum"),
)
INSERT_ALIAS = insert("aliases", ALIASES)

SELECT_PLACES = Statement(f"SELECT {names(PLACES)} FROM {{schema}}.places WHERE chat = :chat")
SELECT_PLACE = Statement(
    f"""
    SELECT {names(PLACES)} FROM {{schema}}.places
    WHERE chat = :chat AND message_id = :message_id AND swipe = :swipe
    """,
    postgres=f"""
    SELECT {names(PLACES)} FROM {{schema}}.places
    WHERE chat = :chat AND md5(message_id) = md5(:message_id) AND md5(swipe) = md5(:swipe)
        AND message_id = :message_id AND swipe = :swipe
    """,
)
INSERT_PLACE = insert("places", PLACES)
UPDATE_PLACE = update(
    "places",
    PLACES,
    "place",
    *("position", "written", "entries", "moved", "hash", "checksum"),
)
INSERT_FLIP = insert(
    "flips",
    FLIPS,
    "ON CONFLICT (place, revision) DO UPDATE SET position = excluded.position,"
    " previous = excluded.previous, checksum = excluded.checksum",
)
