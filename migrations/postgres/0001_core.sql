-- The database of one extension.

-- One row: which database this is, and at which migration. The registry remembers
-- `identity`, so a schema put in its place by mistake is noticed.
CREATE TABLE {schema}.file (
    identity   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL
);

-- One row: where the log ends. Numbers are handed out from here and never reused:
-- `revision` per request that changes something, `change` per row of the log, `cell` per
-- thing that ever was, `place` each time one comes into being. `oldest` is the oldest
-- revision that can still be read: what lies below it has been folded. The counts let a
-- list notice that it is not whole.
CREATE TABLE {schema}.head (
    revision   BIGINT NOT NULL,
    oldest     BIGINT NOT NULL,
    change     BIGINT NOT NULL,
    cell       BIGINT NOT NULL,
    place      BIGINT NOT NULL,
    characters BIGINT NOT NULL,
    instances  BIGINT NOT NULL,
    keys       BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one thing that ever was: a value (`data`, an instance, its key), or a
-- `character` or an `instance` itself (its id, no key). It outlives what it names, because
-- the log is about it: a small number there, instead of the names again and again.
CREATE TABLE {schema}.cells (
    cell  BIGINT PRIMARY KEY,
    space TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    key   TEXT COLLATE "C" NOT NULL
);

-- By a digest of the key: a key may be longer than an index entry.
CREATE UNIQUE INDEX cells_by_name ON {schema}.cells (owner, md5(key), space);

-- One row is one character. `place` orders lists by when things came into being;
-- `instances` is how many it has, so that a list of them can be known to be whole.
CREATE TABLE {schema}.characters (
    cell       BIGINT PRIMARY KEY,
    place      BIGINT NOT NULL,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT COLLATE "C",
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    instances  BIGINT NOT NULL,
    revision   BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one instance. `revision` is that of its latest change, values included.
-- `keys` and `digest` (the exclusive or of its values' checksums) make a missing value
-- as noticeable as a wrong one.
CREATE TABLE {schema}.instances (
    cell         BIGINT PRIMARY KEY,
    place        BIGINT NOT NULL,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    character_id TEXT COLLATE "C" NOT NULL,
    chat_id      TEXT COLLATE "C",
    name         TEXT COLLATE "C",
    created_at   TEXT COLLATE "C" NOT NULL,
    updated_at   TEXT COLLATE "C" NOT NULL,
    revision     BIGINT NOT NULL,
    keys         BIGINT NOT NULL,
    digest       BIGINT NOT NULL,
    checksum     BIGINT NOT NULL
);

CREATE INDEX instances_of_character ON {schema}.instances (character_id);
CREATE INDEX instances_of_chat ON {schema}.instances (chat_id) WHERE chat_id IS NOT NULL;

-- One row is one key of one instance. `value` is canonical JSON text, spliced into
-- answers as it is; an update keeps the row's place.
CREATE TABLE {schema}.data (
    cell        BIGINT PRIMARY KEY,
    place       BIGINT NOT NULL,
    instance_id TEXT COLLATE "C" NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    value       TEXT COLLATE "C" NOT NULL,
    revision    BIGINT NOT NULL,
    checksum    BIGINT NOT NULL
);

CREATE UNIQUE INDEX data_by_key ON {schema}.data (instance_id, md5(key));

-- One row is one request that changed something. Its changes are the `changes` rows of
-- the log from `first` on.
CREATE TABLE {schema}.revisions (
    revision BIGINT PRIMARY KEY,
    at       TEXT COLLATE "C" NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL,
    first    BIGINT NOT NULL,
    changes  BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);

-- One row is one thing that one revision changed.
--
-- `op` is what was asked for, `operand` what it was asked with (NULL where `after` says it
-- all). `after` and `place` are the thing as it was then; NULL means it was gone, which is
-- not the JSON null. `parent` is the character an instance then belonged to.
--
-- The anchor is (`chat_id`, `message_id`, `swipe`). `effect` says whether the change took
-- effect when it was written, `live` whether the place it is anchored to is visible now.
CREATE TABLE {schema}.changes (
    change     BIGINT PRIMARY KEY,
    revision   BIGINT NOT NULL,
    cell       BIGINT NOT NULL,
    op         TEXT COLLATE "C" NOT NULL,
    operand    TEXT COLLATE "C",
    after      TEXT COLLATE "C",
    place      BIGINT,
    parent     TEXT COLLATE "C",
    chat_id    TEXT COLLATE "C",
    message_id TEXT COLLATE "C",
    swipe      TEXT COLLATE "C",
    effect     BIGINT NOT NULL,
    live       BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- The state at a moment is, cell by cell, the last change that took effect up to it.
CREATE INDEX changes_of_cell ON {schema}.changes (cell, change);
CREATE INDEX changes_of_parent ON {schema}.changes (parent, cell) WHERE parent IS NOT NULL;

-- One row is one request that carried an Idempotency-Key and succeeded: which request it
-- was, and what it was answered.
CREATE TABLE {schema}.requests (
    key         TEXT COLLATE "C" PRIMARY KEY,
    fingerprint TEXT COLLATE "C" NOT NULL,
    at          TEXT COLLATE "C" NOT NULL,
    revision    BIGINT NOT NULL,
    status      BIGINT NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    checksum    BIGINT NOT NULL
);

CREATE INDEX requests_by_time ON {schema}.requests (at);
