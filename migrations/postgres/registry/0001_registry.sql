-- One row: which registry this is.
CREATE TABLE {schema}.file (
    identity   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL
);

-- One row is one extension that was ever registered. It outlives deregistration and
-- purge, because `revision` (the highest number known to have been given out) must never
-- be given out again. `location` is where its database lies, NULL once purged; `identity`
-- is what that database must say of itself.
CREATE TABLE {schema}.extensions (
    id            TEXT COLLATE "C" PRIMARY KEY,
    folded        TEXT COLLATE "C" NOT NULL UNIQUE,
    location      TEXT COLLATE "C" UNIQUE,
    identity      TEXT COLLATE "C",
    revision      BIGINT NOT NULL,
    registered    BIGINT NOT NULL,
    registered_at TEXT COLLATE "C" NOT NULL
);
