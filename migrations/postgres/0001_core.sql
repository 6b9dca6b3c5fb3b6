-- The database of one extension. What the tables are for is told in
-- valuetracker/store/DESIGN.md.

-- One row: which database this is, and at which migration. The registry remembers
-- `identity`, so a schema put in its place by mistake is noticed.
CREATE TABLE {schema}.file (
    identity   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL
);

-- One row: where the log ends. Numbers are handed out from here and never reused:
-- `revision` per request that changes something, `number` per character, holder, chat and
-- place, `place` each time something comes into being. `oldest` is the oldest revision that
-- can still be read: what lies below it has been folded. `entry` is the last entry of the log.
-- The counts let a list notice that it is not whole: `subjects` is of all rows of characters,
-- holders and chats, the others of what is there.
CREATE TABLE {schema}.head (
    revision   BIGINT NOT NULL,
    oldest     BIGINT NOT NULL,
    entry      BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    place      BIGINT NOT NULL,
    subjects   BIGINT NOT NULL,
    characters BIGINT NOT NULL,
    instances  BIGINT NOT NULL,
    chats      BIGINT NOT NULL,
    aliases    BIGINT NOT NULL,
    keys       BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one character that is or was. `place` orders lists by when things came into
-- being; `instances` is how many it has, so that a list of them can be known to be whole, and
-- `members` the exclusive or of the sums of those it ever had. `entry` is the last of its log.
CREATE TABLE {schema}.characters (
    number     BIGINT PRIMARY KEY,
    place      BIGINT NOT NULL,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT COLLATE "C",
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    instances  BIGINT NOT NULL,
    members    BIGINT NOT NULL,
    gone       BIGINT NOT NULL,
    revision   BIGINT NOT NULL,
    entry      BIGINT NOT NULL,
    checksum   BIGINT NOT NULL
);

-- One row is one thing that holds values, or did: an `instance` by its id, or what belongs
-- to a chat (its own data, `chat`; its `series`; its `processed` ids) by the chat's number.
--
-- `revision` is that of its latest change, values included, `shaped` that of the latest
-- change of itself, `floor` the oldest at which it can still be read. `keys` and `digest`
-- (the exclusive or of its values' checksums) make a missing value as noticeable as a wrong
-- one; `known` counts its rows, also of keys that are gone. `unframed` counts changes since its
-- last keyframe. `entry` is the last of its log, `taken` the last of what it took over.
CREATE TABLE {schema}.holders (
    number       BIGINT PRIMARY KEY,
    place        BIGINT NOT NULL,
    space        TEXT COLLATE "C" NOT NULL,
    id           TEXT COLLATE "C" NOT NULL,
    character_id TEXT COLLATE "C",
    chat         BIGINT,
    name         TEXT COLLATE "C",
    origin       TEXT COLLATE "C",
    created_at   TEXT COLLATE "C" NOT NULL,
    updated_at   TEXT COLLATE "C" NOT NULL,
    gone         BIGINT NOT NULL,
    floor        BIGINT NOT NULL,
    shaped       BIGINT NOT NULL,
    unframed     BIGINT NOT NULL,
    revision     BIGINT NOT NULL,
    entry        BIGINT NOT NULL,
    taken        BIGINT NOT NULL,
    keys         BIGINT NOT NULL,
    known        BIGINT NOT NULL,
    digest       BIGINT NOT NULL,
    checksum     BIGINT NOT NULL
);

CREATE UNIQUE INDEX holders_by_id ON {schema}.holders (id, space);
CREATE INDEX holders_of_character ON {schema}.holders (character_id) WHERE character_id IS NOT NULL;
CREATE INDEX holders_of_chat ON {schema}.holders (chat) WHERE chat IS NOT NULL;

-- Which holders ever belonged to which character or chat, by numbers.
CREATE TABLE {schema}.members (
    parent BIGINT NOT NULL,
    holder BIGINT NOT NULL,
    PRIMARY KEY (parent, holder)
);

-- One row is one key that a holder has, or had: then `value` is NULL, which is not the JSON
-- null. `value` is canonical JSON text, spliced into answers as it is; an update keeps the
-- row's place. `last` is the revision that last said anything about the key, also without
-- effect; `anchored` whether a flip can reach it.
CREATE TABLE {schema}.data (
    holder   BIGINT NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    value    TEXT COLLATE "C",
    place    BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    last     BIGINT NOT NULL,
    anchored BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);

-- By a digest of the key: a key may be longer than an index entry.
CREATE UNIQUE INDEX data_by_key ON {schema}.data (holder, md5(key));

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
CREATE TABLE {schema}.entries (
    entry    BIGINT PRIMARY KEY,
    subject  BIGINT NOT NULL,
    at       TEXT COLLATE "C" NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL,
    chat     BIGINT,
    place    BIGINT,
    effect   BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    prior    BIGINT NOT NULL,
    before   BIGINT NOT NULL,
    earlier  BIGINT NOT NULL,
    changes  TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL
);

CREATE INDEX entries_of_subject ON {schema}.entries (subject, entry);
CREATE INDEX entries_of_chat ON {schema}.entries (chat, entry) WHERE chat IS NOT NULL;
CREATE INDEX entries_of_place ON {schema}.entries (place, entry) WHERE place IS NOT NULL;

-- One row says, of a holder after some entry, which revision each of its keys is of: the
-- state at a moment is the keyframe before it and the few entries since. `digest` is over the
-- values those are.
CREATE TABLE {schema}.keyframes (
    holder   BIGINT NOT NULL,
    entry    BIGINT NOT NULL,
    keys     TEXT COLLATE "C" NOT NULL,
    digest   BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (holder, entry)
);

-- What a branch has taken over of the log of its parent, as its own: entries with the numbers
-- they had there, for their order. They are sources and nothing else: neither history nor
-- the state at a moment knows them.
CREATE TABLE {schema}.taken (
    entry    BIGINT NOT NULL,
    subject  BIGINT NOT NULL,
    at       TEXT COLLATE "C" NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL,
    chat     BIGINT,
    place    BIGINT,
    effect   BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    prior    BIGINT NOT NULL,
    before   BIGINT NOT NULL,
    earlier  BIGINT NOT NULL,
    changes  TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (subject, entry)
);

CREATE INDEX taken_of_place ON {schema}.taken (place) WHERE place IS NOT NULL;

-- One row is one chat that is or was. `revision` is that of its latest change, with all that
-- it holds. `archived_at` is set while it is put away, `gone` once it has been purged.
-- `entry` is the last entry about the chat itself, `told` the last of all that were made in it.
-- `instances`, `rooms` (a bit each), `places`, `checkpoints` and `operations` say how many it has,
-- `members` is the exclusive or of the sums of the instances it ever had.
CREATE TABLE {schema}.chats (
    number      BIGINT PRIMARY KEY,
    place       BIGINT NOT NULL,
    -- Checked when a statement ends: in one, an id may go from a chat to another.
    id          TEXT COLLATE "C" NOT NULL UNIQUE DEFERRABLE INITIALLY IMMEDIATE,
    parent      BIGINT,
    origin      TEXT COLLATE "C",
    created_at  TEXT COLLATE "C" NOT NULL,
    updated_at  TEXT COLLATE "C" NOT NULL,
    archived_at TEXT COLLATE "C",
    gone        BIGINT NOT NULL,
    floor       BIGINT NOT NULL,
    revision    BIGINT NOT NULL,
    entry       BIGINT NOT NULL,
    told        BIGINT NOT NULL,
    instances   BIGINT NOT NULL,
    rooms       BIGINT NOT NULL,
    places      BIGINT NOT NULL,
    checkpoints BIGINT NOT NULL,
    operations  BIGINT NOT NULL,
    members     BIGINT NOT NULL,
    checksum    BIGINT NOT NULL
);

-- Ids that chats had before they were renamed; they still find them.
CREATE TABLE {schema}.aliases (
    id       TEXT COLLATE "C" PRIMARY KEY,
    chat     BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);

-- One row is one place in a chat that has ever been seen: a message and one of its swipes.
-- `seen` is the revision at which the message was first seen, `position` where it stands in
-- the visible chain (NULL: it is hidden), `written` the revision of the first change anchored
-- there, `hash` the first one reconciled after the last such change. `entries` is how many are
-- anchored there, `moved` the revision of its last flip.
CREATE TABLE {schema}.places (
    place      BIGINT PRIMARY KEY,
    chat       BIGINT NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    swipe      TEXT COLLATE "C" NOT NULL,
    seen       BIGINT NOT NULL,
    position   BIGINT,
    written    BIGINT NOT NULL,
    entries    BIGINT NOT NULL,
    moved      BIGINT NOT NULL,
    hash       TEXT COLLATE "C",
    checksum   BIGINT NOT NULL
);

CREATE UNIQUE INDEX places_by_name
    ON {schema}.places (chat, md5(message_id), md5(swipe));

-- One row is one change of a place's position, at the revision that made it; `previous` is
-- the revision of the one before.
CREATE TABLE {schema}.flips (
    place    BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    position BIGINT,
    previous BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (place, revision)
);

-- One row is one tab that has a chat open.
CREATE TABLE {schema}.sessions (
    session TEXT COLLATE "C" PRIMARY KEY,
    chat    BIGINT NOT NULL,
    client  TEXT COLLATE "C" NOT NULL,
    at      TEXT COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX sessions_of_client ON {schema}.sessions (client);

-- One row is one id that somebody has claimed and not yet confirmed; it lapses by the clock.
CREATE TABLE {schema}.claims (
    chat  BIGINT NOT NULL,
    key   TEXT COLLATE "C" NOT NULL,
    until BIGINT NOT NULL
);

CREATE UNIQUE INDEX claims_by_key ON {schema}.claims (chat, md5(key));

-- One row is one operation: work in progress of a chat. `lease` and `touched` are milliseconds
-- since 1970.
CREATE TABLE {schema}.operations (
    chat       BIGINT NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    type       TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    stage      TEXT COLLATE "C",
    data       TEXT COLLATE "C" NOT NULL,
    priority   BIGINT NOT NULL,
    claim      TEXT COLLATE "C",
    lease      BIGINT,
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    touched    BIGINT NOT NULL,
    checksum   BIGINT NOT NULL,
    PRIMARY KEY (chat, id)
);

-- One row is one checkpoint: a name for a revision of a chat, or for a message at one, and a
-- record to check it by. It is `ready`, or `waiting` for operations to end, or `failed`.
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
-- was, and what it was answered.
CREATE TABLE {schema}.requests (
    key         TEXT COLLATE "C" PRIMARY KEY,
    fingerprint TEXT COLLATE "C" NOT NULL,
    at          TEXT COLLATE "C" NOT NULL,
    revision    BIGINT NOT NULL,
    status      BIGINT NOT NULL,
    live        BIGINT NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    checksum    BIGINT NOT NULL
);

CREATE INDEX requests_by_time ON {schema}.requests (at);
