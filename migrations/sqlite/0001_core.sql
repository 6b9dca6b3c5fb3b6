-- The database of one extension. What the tables are for is told in
-- valuetracker/store/DESIGN.md.

-- One row: which database this is. The registry remembers `identity`, so a file put in
-- its place by mistake is noticed.
CREATE TABLE file (
    identity   TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- One row: where the log ends. Numbers are handed out from here and never reused:
-- `revision` per request that changes something, `number` per character, holder, chat and
-- place, `place` each time something comes into being. `oldest` is the oldest revision that
-- can still be read: what lies below it has been folded. `entry` is the last entry of the log.
-- The counts let a list notice that it is not whole: `subjects` is of all rows of characters,
-- holders and chats, the others of what is there.
CREATE TABLE head (
    revision   INTEGER NOT NULL,
    oldest     INTEGER NOT NULL,
    entry      INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    subjects   INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    instances  INTEGER NOT NULL,
    chats      INTEGER NOT NULL,
    aliases    INTEGER NOT NULL,
    keys       INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one character that is or was. `place` orders lists by when things came into
-- being; `instances` is how many it has, so that a list of them can be known to be whole, and
-- `members` the exclusive or of the sums of those it ever had. `entry` is the last of its log.
CREATE TABLE characters (
    number     INTEGER PRIMARY KEY,
    place      INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    instances  INTEGER NOT NULL,
    members    INTEGER NOT NULL,
    gone       INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    entry      INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one thing that holds values, or did: an `instance` by its id, or what belongs
-- to a chat (its own data, `chat`; its `series`; its `processed` ids) by the chat's number.
--
-- `revision` is that of its latest change, values included, `shaped` that of the latest
-- change of itself, `floor` the oldest at which it can still be read. `keys` and `digest`
-- (the exclusive or of its values' checksums) make a missing value as noticeable as a wrong
-- one; `known` counts its rows, also of keys that are gone. `unframed` counts changes since its
-- last keyframe. `entry` is the last of its log, `taken` the last of what it took over.
CREATE TABLE holders (
    number       INTEGER PRIMARY KEY,
    place        INTEGER NOT NULL,
    space        TEXT NOT NULL,
    id           TEXT NOT NULL,
    character_id TEXT,
    chat         INTEGER,
    name         TEXT,
    origin       TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    gone         INTEGER NOT NULL,
    floor        INTEGER NOT NULL,
    shaped       INTEGER NOT NULL,
    unframed     INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    entry        INTEGER NOT NULL,
    taken        INTEGER NOT NULL,
    keys         INTEGER NOT NULL,
    known        INTEGER NOT NULL,
    digest       INTEGER NOT NULL,
    checksum     INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX holders_by_id ON holders (id, space);
CREATE INDEX holders_of_character ON holders (character_id) WHERE character_id IS NOT NULL;
CREATE INDEX holders_of_chat ON holders (chat) WHERE chat IS NOT NULL;

-- Which holders ever belonged to which character or chat, by numbers.
CREATE TABLE members (
    parent INTEGER NOT NULL,
    holder INTEGER NOT NULL,
    PRIMARY KEY (parent, holder)
) STRICT, WITHOUT ROWID;

-- One row is one key that a holder has, or had: then `value` is NULL, which is not the JSON
-- null. `value` is canonical JSON text, spliced into answers as it is; an update keeps the
-- row's place. `last` is the revision that last said anything about the key, also without
-- effect; `anchored` whether a flip can reach it.
CREATE TABLE data (
    holder   INTEGER NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT,
    place    INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    anchored INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (holder, key)
) STRICT, WITHOUT ROWID;

-- The log. One row is what one revision did to one subject (a character, a holder, a chat) at
-- one place. `entry` is the revision, shifted, plus a number within it. `changes` holds the
-- changes, each with what it asked for and what came of it.
--
-- `effect` says whether they took effect when they were written. `standing` is 0 while a
-- flip of their place can reach them; once their instance has left the chat it is the revision
-- at which it did, above 0 if they count as unanchored since, below if they are dropped.
--
-- `prior` is the entry before it in the log, `before` that of its subject, `earlier` that
-- of its chat: an entry that an index or a page has lost is missed.
CREATE TABLE entries (
    entry    INTEGER PRIMARY KEY,
    subject  INTEGER NOT NULL,
    at       TEXT NOT NULL,
    actor    TEXT NOT NULL,
    chat     INTEGER,
    place    INTEGER,
    effect   INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    prior    INTEGER NOT NULL,
    before   INTEGER NOT NULL,
    earlier  INTEGER NOT NULL,
    changes  TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- An index of a table with numbered rows holds the number after its columns: these are ordered
-- by entry.
CREATE INDEX entries_of_subject ON entries (subject);
CREATE INDEX entries_of_chat ON entries (chat) WHERE chat IS NOT NULL;
CREATE INDEX entries_of_place ON entries (place) WHERE place IS NOT NULL;

-- One row says, of a holder after some entry, which revision each of its keys is of: the
-- state at a moment is the keyframe before it and the few entries since. `digest` is over the
-- values those are.
CREATE TABLE keyframes (
    holder   INTEGER NOT NULL,
    entry    INTEGER NOT NULL,
    keys     TEXT NOT NULL,
    digest   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (holder, entry)
) STRICT, WITHOUT ROWID;

-- What a branch has taken over of the log of its parent, as its own: entries with the numbers
-- they had there, for their order. They are sources and nothing else: neither history nor
-- the state at a moment knows them.
CREATE TABLE taken (
    entry    INTEGER NOT NULL,
    subject  INTEGER NOT NULL,
    at       TEXT NOT NULL,
    actor    TEXT NOT NULL,
    chat     INTEGER,
    place    INTEGER,
    effect   INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    prior    INTEGER NOT NULL,
    before   INTEGER NOT NULL,
    earlier  INTEGER NOT NULL,
    changes  TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (subject, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX taken_of_place ON taken (place) WHERE place IS NOT NULL;

-- One row is one chat that is or was. `revision` is that of its latest change, with all that
-- it holds. `archived_at` is set while it is put away, `gone` once it has been purged.
-- `entry` is the last entry about the chat itself, `told` the last of all that were made in it.
-- `instances`, `rooms` (a bit each), `places`, `checkpoints` and `operations` say how many it has,
-- `members` is the exclusive or of the sums of the instances it ever had.
CREATE TABLE chats (
    number      INTEGER PRIMARY KEY,
    place       INTEGER NOT NULL,
    id          TEXT NOT NULL UNIQUE,
    parent      INTEGER,
    origin      TEXT,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    archived_at TEXT,
    gone        INTEGER NOT NULL,
    floor       INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    entry       INTEGER NOT NULL,
    told        INTEGER NOT NULL,
    instances   INTEGER NOT NULL,
    rooms       INTEGER NOT NULL,
    places      INTEGER NOT NULL,
    checkpoints INTEGER NOT NULL,
    operations  INTEGER NOT NULL,
    members     INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

-- Ids that chats had before they were renamed; they still find them.
CREATE TABLE aliases (
    id       TEXT PRIMARY KEY,
    chat     INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row is one place in a chat that has ever been seen: a message and one of its swipes.
-- `seen` is the revision at which the message was first seen, `position` where it stands in
-- the visible chain (NULL: it is hidden), `written` the revision of the first change anchored
-- there, `hash` the first one reconciled after the last such change. `entries` is how many are
-- anchored there, `moved` the revision of its last flip.
CREATE TABLE places (
    place      INTEGER PRIMARY KEY,
    chat       INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    swipe      TEXT NOT NULL,
    seen       INTEGER NOT NULL,
    position   INTEGER,
    written    INTEGER NOT NULL,
    entries    INTEGER NOT NULL,
    moved      INTEGER NOT NULL,
    hash       TEXT,
    checksum   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX places_by_name ON places (chat, message_id, swipe);

-- One row is one change of a place's position, at the revision that made it; `previous` is
-- the revision of the one before.
CREATE TABLE flips (
    place    INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    position INTEGER,
    previous INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (place, revision)
) STRICT, WITHOUT ROWID;

-- One row is one tab that has a chat open.
CREATE TABLE sessions (
    session TEXT PRIMARY KEY,
    chat    INTEGER NOT NULL,
    client  TEXT NOT NULL,
    at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sessions_of_client ON sessions (client);

-- One row is one id that somebody has claimed and not yet confirmed; it lapses by the clock.
CREATE TABLE claims (
    chat  INTEGER NOT NULL,
    key   TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (chat, key)
) STRICT, WITHOUT ROWID;

-- One row is one operation: work in progress of a chat. `lease` and `touched` are milliseconds
-- since 1970.
CREATE TABLE operations (
    chat       INTEGER NOT NULL,
    id         TEXT NOT NULL,
    number     INTEGER NOT NULL,
    type       TEXT NOT NULL,
    status     TEXT NOT NULL,
    stage      TEXT,
    data       TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    claim      TEXT,
    lease      INTEGER,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    touched    INTEGER NOT NULL,
    checksum   INTEGER NOT NULL,
    PRIMARY KEY (chat, id)
) STRICT, WITHOUT ROWID;

-- One row is one checkpoint: a name for a revision of a chat, or for a message at one, and a
-- record to check it by. It is `ready`, or `waiting` for operations to end, or `failed`.
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
-- was, and what it was answered.
CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    at          TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    live        INTEGER NOT NULL,
    body        TEXT NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_time ON requests (at);
