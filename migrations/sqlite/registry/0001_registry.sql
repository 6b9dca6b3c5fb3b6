-- One row: which registry this is.
CREATE TABLE file (
    identity   TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at TEXT NOT NULL,
    opening    TEXT NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- One row is one extension that was ever registered. It outlives deregistration and
-- purge, because `revision` (the highest number known to have been given out) must never
-- be given out again. `location` is where its database lies, NULL once purged; `identity`
-- is what that database must say of itself. `characters`, `instances` and `keys` are the numbers
-- of its database when it was closed, and `stamp` tells if it was changed since. `incarnation` is the
-- highest number of an incarnation that is known. `opening` is what the file says of its opening
-- while it is open for writing, NULL while it is not: only then `revision` is exact.
CREATE TABLE extensions (
    id            TEXT PRIMARY KEY,
    location      TEXT UNIQUE,
    identity      TEXT,
    revision      INTEGER NOT NULL,
    registered    INTEGER NOT NULL,
    registered_at TEXT NOT NULL,
    characters    INTEGER NOT NULL,
    instances     INTEGER NOT NULL,
    keys          INTEGER NOT NULL,
    stamp         TEXT,
    incarnation   INTEGER NOT NULL,
    opening       TEXT,
    checksum      INTEGER NOT NULL
) STRICT;

-- Ids that differ only in case are the same file on some systems.
CREATE UNIQUE INDEX extensions_by_folded_id ON extensions (lower(id));

-- One row: how long the server has run, all runs together, and the time of day that it trusts, both
-- in milliseconds.
CREATE TABLE heartbeat (
    id          INTEGER PRIMARY KEY,
    uptime      INTEGER NOT NULL,
    time_of_day INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;
