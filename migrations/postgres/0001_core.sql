-- The database of one extension. docs/ARCHITECTURE.md draws the tables, docs/DESIGN.md explains
-- the rules behind them.

-- One row: which database this is, and at which migration. The registry remembers
-- `identity`, so a schema put in its place by mistake is noticed.
CREATE TABLE {schema}.file (
    identity   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row: where the log begins and ends. Numbers are given out from here and never reused:
-- `revision` per request that changes something, `number` per character, instance, space, chat
-- and place, `ordinal` each time something is created. `oldest` is the oldest revision that can
-- still be read: older ones are folded. `adopted` is the revision at which the values of a file of
-- the original plugin were adopted, 0 if there is none. The counts leave out what is deleted.
-- `incarnation` counts how often an older state, or another one, was put in the place of this one.
CREATE TABLE {schema}.head (
    revision    BIGINT NOT NULL,
    oldest      BIGINT NOT NULL,
    adopted     BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    ordinal     BIGINT NOT NULL,
    characters  BIGINT NOT NULL,
    instances   BIGINT NOT NULL,
    keys        BIGINT NOT NULL,
    incarnation BIGINT NOT NULL,
    checksum    BIGINT NOT NULL
);

-- One row is one character, also a deleted one. `ordinal` orders lists by creation. `last_entry`
-- is the last entry of its log.
CREATE TABLE {schema}.characters (
    number     BIGINT PRIMARY KEY,
    ordinal    BIGINT NOT NULL,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT COLLATE "C",
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    deleted    BIGINT NOT NULL,
    revision   BIGINT NOT NULL,
    last_entry BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one holder of values, also a deleted one: an instance by its id (`space` is
-- `instance`), or a space of a chat by the chat's number (`chat` for its own data, `series`,
-- `processed`). `readable_from` is the oldest revision at which it can still be read,
-- `shape_entry` the entry of the last change of the instance itself. What changes with its values
-- stands in `data`.
CREATE TABLE {schema}.instances (
    number        BIGINT PRIMARY KEY,
    ordinal       BIGINT NOT NULL,
    space         TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    character_id  TEXT COLLATE "C",
    chat          BIGINT,
    name          TEXT COLLATE "C",
    origin        TEXT COLLATE "C",
    created_at    TEXT COLLATE "C" NOT NULL,
    updated_at    TEXT COLLATE "C" NOT NULL,
    deleted       BIGINT NOT NULL,
    readable_from BIGINT NOT NULL,
    shape_entry   BIGINT NOT NULL,
    checksum      BIGINT NOT NULL
);

CREATE UNIQUE INDEX instances_by_id ON {schema}.instances (id, space);
CREATE INDEX instances_of_character ON {schema}.instances (character_id) WHERE character_id IS NOT NULL;
CREATE INDEX instances_of_chat ON {schema}.instances (chat) WHERE chat IS NOT NULL;

-- Which instances ever belonged to which character or chat, by numbers.
CREATE TABLE {schema}.members (
    parent   BIGINT NOT NULL,
    holder   BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (parent, holder)
);

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
CREATE TABLE {schema}.data (
    holder        BIGINT NOT NULL,
    key           TEXT COLLATE "C" NOT NULL,
    value         TEXT COLLATE "C",
    ordinal       BIGINT NOT NULL,
    entry         BIGINT NOT NULL,
    dormant_entry BIGINT NOT NULL,
    anchored      BIGINT NOT NULL,
    furthest      BIGINT,
    checksum      BIGINT NOT NULL
);

-- By a digest of the key: a key may be longer than an index entry.
CREATE UNIQUE INDEX data_by_key ON {schema}.data (holder, md5(key));

-- The values for a person who opens the database with any tool: instance id, key and value.
CREATE VIEW {schema}.instance_values AS
SELECT instances.id AS instance_id, data.key AS key, data.value AS value
FROM {schema}.data JOIN {schema}.instances ON instances.number = data.holder
WHERE instances.space = 'instance' AND data.key <> '' AND data.value IS NOT NULL
ORDER BY instances.ordinal, data.ordinal;

-- One row is an adopted value that has been replaced since. The log names adopted keys without
-- their values, which `data` has until they change.
CREATE TABLE {schema}.adopted (
    holder   BIGINT NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    value    TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL
);

CREATE UNIQUE INDEX adopted_by_key ON {schema}.adopted (holder, md5(key));

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
CREATE TABLE {schema}.entries (
    entry    BIGINT PRIMARY KEY,
    subject  BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    actor    TEXT COLLATE "C",
    chat     BIGINT,
    place    BIGINT,
    stands   BIGINT,
    effect   BIGINT NOT NULL,
    left_at  BIGINT NOT NULL,
    dropped  BIGINT NOT NULL,
    back     BIGINT NOT NULL,
    changes  TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL
);

CREATE INDEX entries_of_chat ON {schema}.entries (chat, entry) WHERE chat IS NOT NULL;
CREATE INDEX entries_of_place ON {schema}.entries (place, entry) WHERE place IS NOT NULL;

-- One row says of a holder after some entry in which entry each of its values stands: the state at
-- a moment is the keyframe before it and the few entries since.
CREATE TABLE {schema}.keyframes (
    holder   BIGINT NOT NULL,
    entry    BIGINT NOT NULL,
    keys     TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (holder, entry)
);

-- Entries that a branch has taken over from its parent, with the numbers they had there, for
-- their order, and folded ones that replay still needs. They are source changes only: history and
-- the state at a moment do not show them.
CREATE TABLE {schema}.taken (
    entry    BIGINT NOT NULL,
    subject  BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    actor    TEXT COLLATE "C",
    chat     BIGINT,
    place    BIGINT,
    stands   BIGINT,
    effect   BIGINT NOT NULL,
    left_at  BIGINT NOT NULL,
    dropped  BIGINT NOT NULL,
    back     BIGINT NOT NULL,
    changes  TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (subject, entry)
);

CREATE INDEX taken_of_place ON {schema}.taken (place) WHERE place IS NOT NULL;

-- One row is one chat, also an archived (`archived_at`) or purged (`deleted`) one. `revision` is
-- that of its last change, with all that it holds. `reordered` is the revision at which messages of
-- it were last put into another order. `last_entry` is the last entry about the chat itself.
-- `paused` is 1 while none of its operations can be claimed.
CREATE TABLE {schema}.chats (
    number        BIGINT PRIMARY KEY,
    ordinal       BIGINT NOT NULL,
    -- Checked when a statement ends: in one, an id may go from a chat to another.
    id            TEXT COLLATE "C" NOT NULL UNIQUE DEFERRABLE INITIALLY IMMEDIATE,
    parent        BIGINT,
    origin        TEXT COLLATE "C",
    created_at    TEXT COLLATE "C" NOT NULL,
    updated_at    TEXT COLLATE "C" NOT NULL,
    archived_at   TEXT COLLATE "C",
    deleted       BIGINT NOT NULL,
    readable_from BIGINT NOT NULL,
    reordered     BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    last_entry    BIGINT NOT NULL,
    paused        BIGINT NOT NULL,
    checksum      BIGINT NOT NULL
);

-- Ids that chats had before they were renamed; they still find them.
CREATE TABLE {schema}.aliases (
    id       TEXT COLLATE "C" PRIMARY KEY,
    chat     BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);

-- One row is one place of a chat: a message and one of its swipes. `first_seen` is the revision
-- at which the message was first seen, `position` orders all messages of the chat, hidden ones
-- included; `first_written` is the revision of the first change anchored there, `hash` that of the
-- text the last such change was made of.
CREATE TABLE {schema}.places (
    place         BIGINT PRIMARY KEY,
    chat          BIGINT NOT NULL,
    message_id    TEXT COLLATE "C" NOT NULL,
    swipe         TEXT COLLATE "C" NOT NULL,
    first_seen    BIGINT NOT NULL,
    position      BIGINT NOT NULL,
    visible       BIGINT NOT NULL,
    first_written BIGINT NOT NULL,
    hash          TEXT COLLATE "C",
    checksum      BIGINT NOT NULL
);

CREATE UNIQUE INDEX places_by_name
    ON {schema}.places (chat, md5(message_id), md5(swipe));

-- One row is the position of a place from a revision on, and whether it is visible.
CREATE TABLE {schema}.flips (
    place    BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    position BIGINT NOT NULL,
    visible  BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (place, revision)
);

-- One row is one tab that has a chat open.
CREATE TABLE {schema}.sessions (
    session  TEXT COLLATE "C" PRIMARY KEY,
    chat     BIGINT NOT NULL,
    client   TEXT COLLATE "C" NOT NULL,
    at       TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL
);

CREATE UNIQUE INDEX sessions_of_client ON {schema}.sessions (client);

-- One row is one id that somebody has claimed and not yet confirmed: `since` a time, for a `lease`
-- in milliseconds. On SQLite that time is in the run of a server, on PostgreSQL by its clock.
CREATE TABLE {schema}.claims (
    chat     BIGINT NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    since    BIGINT NOT NULL,
    lease    BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);

CREATE UNIQUE INDEX claims_by_key ON {schema}.claims (chat, md5(key));

-- One row is one operation: work in progress of a chat. While it is claimed, `since` says since when
-- and `lease` for how many milliseconds; while it waits to be tried again, `since` says since when,
-- and `retry_after` for how long. `attempts` counts claims. `depends_on` lists ids as JSON, and
-- `waiting` the numbers of those operations that have not been completed. `message_id` and `swipe`
-- are the place it works on. `touched` is in the uptime of the server. On SQLite `since` is in the run
-- of a server, on PostgreSQL by the clock of the database.
CREATE TABLE {schema}.operations (
    chat         BIGINT NOT NULL,
    id           TEXT COLLATE "C" NOT NULL,
    number       BIGINT NOT NULL,
    type         TEXT COLLATE "C" NOT NULL,
    status       TEXT COLLATE "C" NOT NULL,
    stage        TEXT COLLATE "C",
    data         TEXT COLLATE "C" NOT NULL,
    priority     BIGINT NOT NULL,
    claim        TEXT COLLATE "C",
    lease        BIGINT,
    since        BIGINT,
    attempts     BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    retry_after  BIGINT,
    depends_on   TEXT COLLATE "C" NOT NULL,
    waiting      TEXT COLLATE "C" NOT NULL,
    message_id   TEXT COLLATE "C",
    swipe        TEXT COLLATE "C",
    created_at   TEXT COLLATE "C" NOT NULL,
    updated_at   TEXT COLLATE "C" NOT NULL,
    touched      BIGINT NOT NULL,
    checksum     BIGINT NOT NULL,
    PRIMARY KEY (chat, id)
);

-- One row is one checkpoint: a name for a revision of a chat, or for a message at one, and a
-- record to check it by. It is `ready`, or `waiting` for operations to end, or `failed`. A branch
-- has one more, its `beginning`: the record it was made from.
CREATE TABLE {schema}.checkpoints (
    chat       BIGINT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    revision   BIGINT NOT NULL,
    message_id TEXT COLLATE "C",
    digest     TEXT COLLATE "C" NOT NULL,
    expect     TEXT COLLATE "C",
    meta       TEXT COLLATE "C",
    warnings   TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    checksum   BIGINT NOT NULL,
    PRIMARY KEY (chat, name)
);

CREATE UNIQUE INDEX checkpoints_by_number ON {schema}.checkpoints (chat, number);

-- One row is one request that carried an Idempotency-Key and succeeded: which request it
-- was, and what it was answered, without values: those are read from the log. It is deleted a day
-- after the uptime of the server at which it was touched.
CREATE TABLE {schema}.requests (
    key         TEXT COLLATE "C" PRIMARY KEY,
    fingerprint TEXT COLLATE "C" NOT NULL,
    touched     BIGINT NOT NULL,
    revision    BIGINT NOT NULL,
    status      BIGINT NOT NULL,
    live        BIGINT NOT NULL,
    superseded  BIGINT NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    checksum    BIGINT NOT NULL
);

CREATE INDEX requests_by_time ON {schema}.requests (touched);
