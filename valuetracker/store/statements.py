"""
The statements that several verbs share: rows by key, and what the ledger writes.

A statement used by one verb alone stands above that verb.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement

SELECT_HEAD = Statement(
    """
    SELECT revision, oldest, place, change, characters, instances, keys,
        checksum FROM {schema}.head
    """
)

# The same for whoever is about to write: on PostgreSQL it takes the lock that puts
# writers of one extension, on any server, one after the other. SQLite's have it already.
LOCK_HEAD = Statement(
    """
    SELECT revision, oldest, place, change, characters, instances, keys, checksum
    FROM {schema}.head
    """,
    postgres="""
    SELECT revision, oldest, place, change, characters, instances, keys, checksum
    FROM {schema}.head FOR UPDATE
    """,
)

INSERT_HEAD = Statement(
    """
    INSERT INTO {schema}.head (revision, oldest, place, change, characters, instances, keys,
        checksum)
    VALUES (:revision, :oldest, :place, :change, :characters, :instances, :keys, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.head (revision, oldest, place, change, characters, instances, keys,
        checksum)
    SELECT * FROM unnest(:revision::bigint[], :oldest::bigint[], :place::bigint[],
        :change::bigint[], :characters::bigint[], :instances::bigint[], :keys::bigint[],
        :checksum::bigint[])
    """,
)

UPDATE_HEAD = Statement(
    """
    UPDATE {schema}.head SET revision = :revision, oldest = :oldest, place = :place,
        change = :change,
        characters = :characters, instances = :instances, keys = :keys, checksum = :checksum
    """,
    postgres="""
    UPDATE {schema}.head SET revision = new.revision, oldest = new.oldest, place = new.place,
        change = new.change, characters = new.characters, instances = new.instances,
        keys = new.keys,
        checksum = new.checksum
    FROM unnest(:revision::bigint[], :oldest::bigint[], :place::bigint[], :change::bigint[],
        :characters::bigint[], :instances::bigint[], :keys::bigint[], :checksum::bigint[])
        AS new (revision, oldest, place, change, characters, instances, keys, checksum)
    """,
)

INSERT_REVISION = Statement(
    """
    INSERT INTO {schema}.revisions (revision, at, actor, first, changes, checksum)
    VALUES (:revision, :at, :actor, :first, :changes, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.revisions (revision, at, actor, first, changes, checksum)
    SELECT * FROM unnest(:revision::bigint[], :at::text[], :actor::text[], :first::bigint[],
        :changes::bigint[], :checksum::bigint[])
    """,
)

INSERT_CHANGE = Statement(
    """
    INSERT INTO {schema}.changes (change, revision, space, owner, key, op, operand, after,
        place,
        parent, chat_id, message_id, swipe, effect, live, checksum)
    VALUES (:change, :revision, :space, :owner, :key, :op, :operand, :after, :place,
        :parent, :chat_id, :message_id, :swipe, :effect, :live, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.changes (change, revision, space, owner, key, op, operand, after,
        place, parent, chat_id,
        message_id, swipe, effect, live, checksum)
    SELECT * FROM unnest(:change::bigint[], :revision::bigint[], :space::text[], :owner::text[],
        :key::text[], :op::text[], :operand::text[], :after::text[], :place::bigint[],
        :parent::text[], :chat_id::text[], :message_id::text[], :swipe::text[],
        :effect::bigint[], :live::bigint[], :checksum::bigint[])
    """,
)

SELECT_LAST_REVISION = Statement(
    """
    SELECT revision FROM {schema}.changes
    WHERE owner = :owner AND key = :key AND space = :space AND effect = 1
    ORDER BY change DESC LIMIT 1
    """
)

SELECT_CHARACTER = Statement(
    """
    SELECT place, id, name, created_at, updated_at, revision, checksum
    FROM {schema}.characters WHERE id = :id
    """
)

INSERT_CHARACTER = Statement(
    """
    INSERT INTO {schema}.characters (place, id, name, created_at, updated_at, revision,
        checksum)
    VALUES (:place, :id, :name, :created_at, :updated_at, :revision, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.characters (place, id, name, created_at, updated_at, revision,
        checksum)
    SELECT * FROM unnest(:place::bigint[], :id::text[], :name::text[], :created_at::text[],
        :updated_at::text[], :revision::bigint[], :checksum::bigint[])
    """,
)

UPDATE_CHARACTER = Statement(
    """
    UPDATE {schema}.characters SET name = :name, created_at = :created_at,
        updated_at = :updated_at,
        revision = :revision, checksum = :checksum
    WHERE place = :place
    """,
    postgres="""
    UPDATE {schema}.characters SET name = new.name, created_at = new.created_at,
        updated_at = new.updated_at, revision = new.revision, checksum = new.checksum
    FROM unnest(:name::text[], :created_at::text[], :updated_at::text[], :revision::bigint[],
        :checksum::bigint[], :place::bigint[])
        AS new (name, created_at, updated_at, revision, checksum, place)
    WHERE characters.place = new.place
    """,
)

DELETE_CHARACTER = Statement(
    "DELETE FROM {schema}.characters WHERE place = :place",
    postgres="""
    DELETE FROM {schema}.characters WHERE place = ANY (:place::bigint[])
    """,
)

SELECT_INSTANCE = Statement(
    """
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM {schema}.instances WHERE id = :id
    """
)

SELECT_INSTANCES_OF_CHARACTER = Statement(
    """
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM {schema}.instances WHERE character_id = :character_id ORDER BY place
    """
)

INSERT_INSTANCE = Statement(
    """
    INSERT INTO {schema}.instances (place, id, character_id, chat_id, name, created_at,
        updated_at,
        revision, keys, digest, checksum)
    VALUES (:place, :id, :character_id, :chat_id, :name, :created_at, :updated_at,
        :revision, :keys, :digest, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.instances (place, id, character_id, chat_id, name, created_at,
        updated_at, revision, keys,
        digest, checksum)
    SELECT * FROM unnest(:place::bigint[], :id::text[], :character_id::text[], :chat_id::text[],
        :name::text[], :created_at::text[], :updated_at::text[], :revision::bigint[],
        :keys::bigint[], :digest::bigint[], :checksum::bigint[])
    """,
)

UPDATE_INSTANCE = Statement(
    """
    UPDATE {schema}.instances SET character_id = :character_id, chat_id = :chat_id,
        name = :name,
        created_at = :created_at, updated_at = :updated_at, revision = :revision,
        keys = :keys, digest = :digest, checksum = :checksum
    WHERE place = :place
    """,
    postgres="""
    UPDATE {schema}.instances SET character_id = new.character_id, chat_id = new.chat_id,
        name = new.name, created_at = new.created_at, updated_at = new.updated_at,
        revision = new.revision, keys = new.keys, digest = new.digest, checksum = new.checksum
    FROM unnest(:character_id::text[], :chat_id::text[], :name::text[], :created_at::text[],
        :updated_at::text[], :revision::bigint[], :keys::bigint[], :digest::bigint[],
        :checksum::bigint[], :place::bigint[])
        AS new (character_id, chat_id, name, created_at, updated_at, revision, keys, digest,
        checksum, place)
    WHERE instances.place = new.place
    """,
)

TOUCH_INSTANCE = Statement(
    """
    UPDATE {schema}.instances SET revision = :revision, keys = :keys, digest = :digest,
        checksum = :checksum
    WHERE place = :place
    """,
    postgres="""
    UPDATE {schema}.instances SET revision = new.revision, keys = new.keys,
        digest = new.digest, checksum = new.checksum
    FROM unnest(:revision::bigint[], :keys::bigint[], :digest::bigint[], :checksum::bigint[],
        :place::bigint[])
        AS new (revision, keys, digest, checksum, place)
    WHERE instances.place = new.place
    """,
)

DELETE_INSTANCE = Statement(
    "DELETE FROM {schema}.instances WHERE place = :place",
    postgres="""
    DELETE FROM {schema}.instances WHERE place = ANY (:place::bigint[])
    """,
)

SELECT_VALUE = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM {schema}.data WHERE instance_id = :instance_id AND key = :key
    """
)

# `keys` is a JSON array of texts.
SELECT_VALUES_OF_KEYS = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM {schema}.data
    WHERE instance_id = :instance_id AND key IN (SELECT value FROM json_each(:keys))
    """,
    postgres="""
    SELECT place, instance_id, key, value, revision, checksum
    FROM {schema}.data WHERE instance_id = :instance_id
        AND key IN (SELECT json_array_elements_text(CAST(:keys AS json)))
    """,
)

SELECT_VALUES = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM {schema}.data WHERE instance_id = :instance_id ORDER BY place
    """
)

# What a whole group of writes asks for, at once; `ids` and `pairs` are JSON arrays.
SELECT_INSTANCES_BY_ID = Statement(
    """
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM {schema}.instances WHERE id IN (SELECT value FROM json_each(:ids))
    """,
    postgres="""
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM {schema}.instances
    WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
    """,
)

SELECT_VALUES_BY_PAIR = Statement(
    """
    SELECT place, instance_id, data.key, data.value, revision, checksum
    FROM json_each(:pairs) AS pair CROSS JOIN {schema}.data
    WHERE instance_id = json_extract(pair.value, '$[0]')
        AND data.key = json_extract(pair.value, '$[1]')
    """,
    postgres="""
    SELECT place, instance_id, key, data.value, revision, checksum
    FROM json_array_elements(CAST(:pairs AS json)) AS pair (value)
    JOIN {schema}.data ON instance_id = pair.value ->> 0 AND key = pair.value ->> 1
    """,
)

INSERT_VALUE = Statement(
    """
    INSERT INTO {schema}.data (place, instance_id, key, value, revision, checksum)
    VALUES (:place, :instance_id, :key, :value, :revision, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.data (place, instance_id, key, value, revision, checksum)
    SELECT * FROM unnest(:place::bigint[], :instance_id::text[], :key::text[], :value::text[],
        :revision::bigint[], :checksum::bigint[])
    """,
)

UPDATE_VALUE = Statement(
    """
    UPDATE {schema}.data SET value = :value, revision = :revision, checksum = :checksum
    WHERE place = :place
    """,
    postgres="""
    UPDATE {schema}.data SET value = new.value, revision = new.revision, checksum = new.checksum
    FROM unnest(:value::text[], :revision::bigint[], :checksum::bigint[], :place::bigint[])
        AS new (value, revision, checksum, place)
    WHERE data.place = new.place
    """,
)

DELETE_VALUE = Statement(
    "DELETE FROM {schema}.data WHERE place = :place",
    postgres="""
    DELETE FROM {schema}.data WHERE place = ANY (:place::bigint[])
    """,
)
