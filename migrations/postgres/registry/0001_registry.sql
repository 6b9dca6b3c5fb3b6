-- One row: which registry this is.
CREATE TABLE {schema}.file (
    identity   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one extension that was ever registered. It outlives deregistration and
-- purge, because `revision` (the highest number known to have been given out) must never
-- be given out again. `location` is where its database lies, NULL once purged; `identity`
-- is what that database must say of itself. `characters`, `instances` and `keys` are the numbers
-- of its database when it was closed, and `stamp` tells if it was changed since. `incarnation` is the
-- highest number of an incarnation that is known. `opening` is what the file says of its opening
-- while it is open for writing, NULL while it is not: only then `revision` is exact.
CREATE TABLE {schema}.extensions (
    id            TEXT COLLATE "C" PRIMARY KEY,
    location      TEXT COLLATE "C" UNIQUE,
    identity      TEXT COLLATE "C",
    revision      BIGINT NOT NULL,
    registered    BIGINT NOT NULL,
    registered_at TEXT COLLATE "C" NOT NULL,
    characters    BIGINT NOT NULL,
    instances     BIGINT NOT NULL,
    keys          BIGINT NOT NULL,
    stamp         TEXT COLLATE "C",
    incarnation   BIGINT NOT NULL,
    opening       TEXT COLLATE "C",
    checksum      BIGINT NOT NULL
);

-- Ids that differ only in case are the same file on some systems.
CREATE UNIQUE INDEX extensions_by_folded_id ON {schema}.extensions (lower(id));

-- One row: how long the server has run, all runs together, and the time of day that it trusts, both
-- in milliseconds.
CREATE TABLE {schema}.heartbeat (
    id          BIGINT PRIMARY KEY,
    uptime      BIGINT NOT NULL,
    time_of_day BIGINT NOT NULL,
    checksum    BIGINT NOT NULL
);
