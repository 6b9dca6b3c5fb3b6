-- The database of one extension. docs/ARCHITECTURE.md draws the tables, docs/DESIGN.md explains
-- the rules behind them.

-- One row: which database this is. The registry remembers `identity`, so a file put in
-- its place by mistake is noticed. `opening` is a random text that is another one each time the
-- file is opened for writing; the registry knows it while the file is open.
CREATE TABLE file (
    identity   TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at TEXT NOT NULL,
    opening    TEXT NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row: where the log begins and ends. Numbers are given out from here and never reused:
-- `revision` per request that changes something, `number` per character, instance, space, chat
-- and place, `ordinal` each time something is created. `oldest` is the oldest revision that can
-- still be read: older ones are folded. `adopted` is the revision at which the values of a file of
-- the original plugin were adopted, 0 if there is none. The counts leave out what is deleted.
-- `incarnation` counts how often an older state, or another one, was put in the place of this one.
CREATE TABLE head (
    revision    INTEGER NOT NULL,
    oldest      INTEGER NOT NULL,
    adopted     INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    ordinal     INTEGER NOT NULL,
    characters  INTEGER NOT NULL,
    instances   INTEGER NOT NULL,
    keys        INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

-- One row is one character, also a deleted one. `ordinal` orders lists by creation. `last_entry`
-- is the last entry of its log.
CREATE TABLE characters (
    number     INTEGER PRIMARY KEY,
    ordinal    INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted    INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    last_entry INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one holder of values, also a deleted one: an instance by its id (`space` is
-- `instance`), or a space of a chat by the chat's number (`chat` for its own data, `series`,
-- `processed`). `readable_from` is the oldest revision at which it can still be read,
-- `shape_entry` the entry of the last change of the instance itself. What changes with its values
-- stands in `data`.
CREATE TABLE instances (
    number        INTEGER PRIMARY KEY,
    ordinal       INTEGER NOT NULL,
    space         TEXT NOT NULL,
    id            TEXT NOT NULL,
    character_id  TEXT,
    chat          INTEGER,
    name          TEXT,
    origin        TEXT,
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL,
    deleted       INTEGER NOT NULL,
    readable_from INTEGER NOT NULL,
    shape_entry   INTEGER NOT NULL,
    checksum      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX instances_by_id ON instances (id, space);
CREATE INDEX instances_of_character ON instances (character_id) WHERE character_id IS NOT NULL;
CREATE INDEX instances_of_chat ON instances (chat) WHERE chat IS NOT NULL;

-- Which instances ever belonged to which character or chat, by numbers.
CREATE TABLE members (
    parent   INTEGER NOT NULL,
    holder   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (parent, holder)
) STRICT, WITHOUT ROWID;

-- One row is one key that a holder has, or had: then `value` is NULL, which is not the JSON
-- null. `holder` is the number of a row in `instances`. `value` is canonical JSON text, sent as it
-- is; an update keeps the `ordinal`. `entry` is the entry of the last change of the key that took
-- effect, `dormant_entry` that of its last change, if that took none (else 0); `anchored` is 1 if
-- a flip can reach some change of it; `furthest` is a place of the message at which the last of its
-- changes stands in the story, live or dormant (NULL: at the beginning, or it is in no chat). The
-- view `instance_values` shows the same with the ids of the instances.
--
-- The row with the empty key is the account of the holder: its last entry, and as text the
-- revision of its last change, the number of changes since its last keyframe, the number of its
-- values, and the exclusive or of their checksums. It stands beside the values so that a write of
-- one touches no other page.
CREATE TABLE data (
    holder        INTEGER NOT NULL,
    key           TEXT NOT NULL,
    value         TEXT,
    ordinal       INTEGER NOT NULL,
    entry         INTEGER NOT NULL,
    dormant_entry INTEGER NOT NULL,
    anchored      INTEGER NOT NULL,
    furthest      INTEGER,
    checksum      INTEGER NOT NULL,
    PRIMARY KEY (holder, key)
) STRICT, WITHOUT ROWID;

-- The values for a person who opens the database with any tool: instance id, key and value.
CREATE VIEW instance_values AS
SELECT instances.id AS instance_id, data.key AS key, data.value AS value
FROM data JOIN instances ON instances.number = data.holder
WHERE instances.space = 'instance' AND data.key <> '' AND data.value IS NOT NULL
ORDER BY instances.ordinal, data.ordinal;

-- One row is an adopted value that has been replaced since. The log names adopted keys without
-- their values, which `data` has until they change.
CREATE TABLE adopted (
    holder   INTEGER NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (holder, key)
) STRICT, WITHOUT ROWID;

-- The log. One row is what one revision did to one subject (a character, a holder, a chat) at
-- one place. `entry` is the revision, shifted, plus a number within it. `at` is in milliseconds
-- since 1970; `actor` is NULL for the usual one, `extension`. `back` says how far back the entry
-- before it of its subject is (0: it is the first). `changes` holds the changes, each with what was
-- asked for and the result; a large value that changed a little is left out.
--
-- `stands` is a place of the message at which unanchored changes stand in the story of their
-- holder's chat (NULL: at the beginning). `effect` is 0 if they were stored dormant, 1 if they took
-- effect, 2 if they were superseded, 3 if they took effect and stand before other changes of their
-- keys. `left_at` is 0 while they follow the story of a chat; once their instance has left the chat
-- it is the revision at which it did, and `dropped` is 1 if they do not count any more.
CREATE TABLE entries (
    entry    INTEGER PRIMARY KEY,
    subject  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT,
    chat     INTEGER,
    place    INTEGER,
    stands   INTEGER,
    effect   INTEGER NOT NULL,
    left_at  INTEGER NOT NULL,
    dropped  INTEGER NOT NULL,
    back     INTEGER NOT NULL,
    changes  TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- An index of a table with numbered rows holds the number after its columns: these are ordered
-- by entry.
CREATE INDEX entries_of_chat ON entries (chat) WHERE chat IS NOT NULL;
CREATE INDEX entries_of_place ON entries (place) WHERE place IS NOT NULL;

-- One row says of a holder after some entry in which entry each of its values stands: the state at
-- a moment is the keyframe before it and the few entries since.
CREATE TABLE keyframes (
    holder   INTEGER NOT NULL,
    entry    INTEGER NOT NULL,
    keys     TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (holder, entry)
) STRICT, WITHOUT ROWID;

-- Entries that a branch has taken over from its parent, with the numbers they had there, for
-- their order, and folded ones that replay still needs. They are source changes only: history and
-- the state at a moment do not show them.
CREATE TABLE taken (
    entry    INTEGER NOT NULL,
    subject  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT,
    chat     INTEGER,
    place    INTEGER,
    stands   INTEGER,
    effect   INTEGER NOT NULL,
    left_at  INTEGER NOT NULL,
    dropped  INTEGER NOT NULL,
    back     INTEGER NOT NULL,
    changes  TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (subject, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX taken_of_place ON taken (place) WHERE place IS NOT NULL;

-- One row is one chat, also an archived (`archived_at`) or purged (`deleted`) one. `revision` is
-- that of its last change, with all that it holds. `reordered` is the revision at which messages of
-- it were last put into another order. `last_entry` is the last entry about the chat itself.
-- `paused` is 1 while none of its operations can be claimed.
CREATE TABLE chats (
    number        INTEGER PRIMARY KEY,
    ordinal       INTEGER NOT NULL,
    id            TEXT NOT NULL UNIQUE,
    parent        INTEGER,
    origin        TEXT,
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL,
    archived_at   TEXT,
    deleted       INTEGER NOT NULL,
    readable_from INTEGER NOT NULL,
    reordered     INTEGER NOT NULL,
    revision      INTEGER NOT NULL,
    last_entry    INTEGER NOT NULL,
    paused        INTEGER NOT NULL,
    checksum      INTEGER NOT NULL
) STRICT;

-- Ids that chats had before they were renamed; they still find them.
CREATE TABLE aliases (
    id       TEXT PRIMARY KEY,
    chat     INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row is one place of a chat: a message and one of its swipes. `first_seen` is the revision
-- at which the message was first seen, `position` orders all messages of the chat, hidden ones
-- included; `first_written` is the revision of the first change anchored there, `hash` that of the
-- text the last such change was made of.
CREATE TABLE places (
    place         INTEGER PRIMARY KEY,
    chat          INTEGER NOT NULL,
    message_id    TEXT NOT NULL,
    swipe         TEXT NOT NULL,
    first_seen    INTEGER NOT NULL,
    position      INTEGER NOT NULL,
    visible       INTEGER NOT NULL,
    first_written INTEGER NOT NULL,
    hash          TEXT,
    checksum      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX places_by_name ON places (chat, message_id, swipe);

-- One row is the position of a place from a revision on, and whether it is visible.
CREATE TABLE flips (
    place    INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    position INTEGER NOT NULL,
    visible  INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (place, revision)
) STRICT, WITHOUT ROWID;

-- One row is one tab that has a chat open.
CREATE TABLE sessions (
    session  TEXT PRIMARY KEY,
    chat     INTEGER NOT NULL,
    client   TEXT NOT NULL,
    at       TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sessions_of_client ON sessions (client);

-- One row is one id that somebody has claimed and not yet confirmed: `since` a time, for a `lease`
-- in milliseconds. On SQLite that time is in the run of a server, on PostgreSQL by its clock.
CREATE TABLE claims (
    chat     INTEGER NOT NULL,
    key      TEXT NOT NULL,
    since    INTEGER NOT NULL,
    lease    INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (chat, key)
) STRICT, WITHOUT ROWID;

-- One row is one operation: work in progress of a chat. While it is claimed, `since` says since when
-- and `lease` for how many milliseconds; while it waits to be tried again, `since` says since when,
-- and `retry_after` for how long. `attempts` counts claims. `depends_on` lists ids as JSON, and
-- `waiting` the numbers of those operations that have not been completed. `message_id` and `swipe`
-- are the place it works on. `touched` is in the uptime of the server. On SQLite `since` is in the run
-- of a server, on PostgreSQL by the clock of the database.
CREATE TABLE operations (
    chat         INTEGER NOT NULL,
    id           TEXT NOT NULL,
    number       INTEGER NOT NULL,
    type         TEXT NOT NULL,
    status       TEXT NOT NULL,
    stage        TEXT,
    data         TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    claim        TEXT,
    lease        INTEGER,
    since        INTEGER,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    retry_after  INTEGER,
    depends_on   TEXT NOT NULL,
    waiting      TEXT NOT NULL,
    message_id   TEXT,
    swipe        TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    touched      INTEGER NOT NULL,
    checksum     INTEGER NOT NULL,
    PRIMARY KEY (chat, id)
) STRICT, WITHOUT ROWID;

-- One row is one checkpoint: a name for a revision of a chat, or for a message at one, and a
-- record to check it by. It is `ready`, or `waiting` for operations to end, or `failed`. A branch
-- has one more, its `beginning`: the record it was made from.
CREATE TABLE checkpoints (
    chat       INTEGER NOT NULL,
    name       TEXT NOT NULL,
    number     INTEGER NOT NULL,
    status     TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    message_id TEXT,
    digest     TEXT NOT NULL,
    expect     TEXT,
    meta       TEXT,
    warnings   TEXT NOT NULL,
    state      TEXT NOT NULL,
    created_at TEXT NOT NULL,
    checksum   INTEGER NOT NULL,
    PRIMARY KEY (chat, name)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX checkpoints_by_number ON checkpoints (chat, number);

-- One row is one request that carried an Idempotency-Key and succeeded: which request it
-- was, and what it was answered, without values: those are read from the log. It is deleted a day
-- after the uptime of the server at which it was touched.
CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    touched     INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    live        INTEGER NOT NULL,
    superseded  INTEGER NOT NULL,
    body        TEXT NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_time ON requests (touched);
