-- The database of one extension.

-- One row: which database this is. The registry remembers `identity`, so a file put in
-- its place by mistake is noticed.
CREATE TABLE file (
    identity   TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- One row: where the log ends. Numbers are handed out from here and never reused:
-- `revision` per request that changes something, `change` per row of the log, `cell` per
-- thing that ever was, `place` each time one comes into being. `oldest` is the oldest
-- revision that can still be read: what lies below it has been folded. The counts let a
-- list notice that it is not whole.
CREATE TABLE head (
    revision   INTEGER NOT NULL,
    oldest     INTEGER NOT NULL,
    change     INTEGER NOT NULL,
    cell       INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    instances  INTEGER NOT NULL,
    keys       INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one thing that ever was: a value (`data`, an instance, its key), or a
-- `character` or an `instance` itself (its id, no key). It outlives what it names, because
-- the log is about it: a small number there, instead of the names again and again.
CREATE TABLE cells (
    cell  INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    owner TEXT NOT NULL,
    key   TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX cells_by_name ON cells (owner, key, space);

-- One row is one character. `place` orders lists by when things came into being;
-- `instances` is how many it has, so that a list of them can be known to be whole.
CREATE TABLE characters (
    cell       INTEGER PRIMARY KEY,
    place      INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    instances  INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one instance. `revision` is that of its latest change, values included.
-- `keys` and `digest` (the exclusive or of its values' checksums) make a missing value
-- as noticeable as a wrong one.
CREATE TABLE instances (
    cell         INTEGER PRIMARY KEY,
    place        INTEGER NOT NULL,
    id           TEXT NOT NULL UNIQUE,
    character_id TEXT NOT NULL,
    chat_id      TEXT,
    name         TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    keys         INTEGER NOT NULL,
    digest       INTEGER NOT NULL,
    checksum     INTEGER NOT NULL
) STRICT;

CREATE INDEX instances_of_character ON instances (character_id);
CREATE INDEX instances_of_chat ON instances (chat_id) WHERE chat_id IS NOT NULL;

-- One row is one key of one instance. `value` is canonical JSON text, spliced into
-- answers as it is; an update keeps the row's place.
CREATE TABLE data (
    cell        INTEGER PRIMARY KEY,
    place       INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX data_by_key ON data (instance_id, key);

-- One row is one request that changed something. Its changes are the `changes` rows of
-- the log from `first` on.
CREATE TABLE revisions (
    revision INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    actor    TEXT NOT NULL,
    first    INTEGER NOT NULL,
    changes  INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- One row is one thing that one revision changed.
--
-- `op` is what was asked for, `operand` what it was asked with (NULL where `after` says it
-- all). `after` and `place` are the thing as it was then; NULL means it was gone, which is
-- not the JSON null. `parent` is the character an instance then belonged to.
--
-- The anchor is (`chat_id`, `message_id`, `swipe`). `effect` says whether the change took
-- effect when it was written, `live` whether the place it is anchored to is visible now.
CREATE TABLE changes (
    change     INTEGER PRIMARY KEY,
    revision   INTEGER NOT NULL,
    cell       INTEGER NOT NULL,
    op         TEXT NOT NULL,
    operand    TEXT,
    after      TEXT,
    place      INTEGER,
    parent     TEXT,
    chat_id    TEXT,
    message_id TEXT,
    swipe      TEXT,
    effect     INTEGER NOT NULL,
    live       INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- The state at a moment is, cell by cell, the last change that took effect up to it.
CREATE INDEX changes_of_cell ON changes (cell, change);
CREATE INDEX changes_of_parent ON changes (parent, cell) WHERE parent IS NOT NULL;

-- One row is one request that carried an Idempotency-Key and succeeded: which request it
-- was, and what it was answered.
CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    at          TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    body        TEXT NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_time ON requests (at);
