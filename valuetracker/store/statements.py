"""
The statements that several verbs share: rows by key, and what the ledger writes.

A statement used by one verb alone stands above that verb. Those that write many rows take
arrays on PostgreSQL: one statement there, however many rows.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement

SELECT_HEAD = Statement(
    """
    SELECT revision, oldest, change, cell, place, characters, instances, keys, checksum,
        (SELECT identity FROM {schema}.file)
    FROM {schema}.head
    """
)

# The same for whoever is about to write: on PostgreSQL it takes the lock that puts
# writers of one extension, on any server, one after the other. SQLite's have it already.
LOCK_HEAD = Statement(
    """
    SELECT revision, oldest, change, cell, place, characters, instances, keys, checksum,
        (SELECT identity FROM {schema}.file)
    FROM {schema}.head
    """,
    postgres="""
    SELECT revision, oldest, change, cell, place, characters, instances, keys, checksum,
        (SELECT identity FROM {schema}.file)
    FROM {schema}.head FOR UPDATE
    """,
)

SELECT_IDENTITY = Statement("SELECT identity FROM {schema}.file")

INSERT_HEAD = Statement(
    """
    INSERT INTO {schema}.head (revision, oldest, change, cell, place, characters, instances,
        keys, checksum)
    VALUES (:revision, :oldest, :change, :cell, :place, :characters, :instances, :keys,
        :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.head (revision, oldest, change, cell, place, characters, instances,
        keys, checksum)
    SELECT * FROM unnest(:revision::bigint[], :oldest::bigint[], :change::bigint[],
        :cell::bigint[], :place::bigint[], :characters::bigint[], :instances::bigint[],
        :keys::bigint[], :checksum::bigint[])
    """,
)

UPDATE_HEAD = Statement(
    """
    UPDATE {schema}.head SET revision = :revision, oldest = :oldest, change = :change,
        cell = :cell, place = :place, characters = :characters, instances = :instances,
        keys = :keys, checksum = :checksum
    """,
    postgres="""
    UPDATE {schema}.head SET revision = new.revision, oldest = new.oldest,
        change = new.change, cell = new.cell, place = new.place, characters = new.characters,
        instances = new.instances, keys = new.keys, checksum = new.checksum
    FROM unnest(:revision::bigint[], :oldest::bigint[], :change::bigint[], :cell::bigint[],
        :place::bigint[], :characters::bigint[], :instances::bigint[], :keys::bigint[],
        :checksum::bigint[])
        AS new (revision, oldest, change, cell, place, characters, instances, keys, checksum)
    """,
)

# `names` is a JSON array of [space, owner, key].
SELECT_CELLS = Statement(
    """
    SELECT space, owner, cells.key, cell
    FROM json_each(:names) AS name CROSS JOIN {schema}.cells
    WHERE owner = json_extract(name.value, '$[1]')
        AND cells.key = json_extract(name.value, '$[2]')
        AND space = json_extract(name.value, '$[0]')
    """,
    postgres="""
    SELECT space, owner, key, cell
    FROM json_array_elements(CAST(:names AS json)) AS name (value)
    JOIN {schema}.cells ON owner = name.value ->> 1 AND md5(key) = md5(name.value ->> 2)
        AND key = name.value ->> 2 AND space = name.value ->> 0
    """,
)

INSERT_CELL = Statement(
    """
    INSERT INTO {schema}.cells (cell, space, owner, key)
    VALUES (:cell, :space, :owner, :key)
    """,
    postgres="""
    INSERT INTO {schema}.cells (cell, space, owner, key)
    SELECT * FROM unnest(:cell::bigint[], :space::text[], :owner::text[], :key::text[])
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
    INSERT INTO {schema}.changes (change, revision, cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, checksum)
    VALUES (:change, :revision, :cell, :op, :operand, :after, :place, :parent, :chat_id,
        :message_id, :swipe, :effect, :live, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.changes (change, revision, cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, checksum)
    SELECT * FROM unnest(:change::bigint[], :revision::bigint[], :cell::bigint[], :op::text[],
        :operand::text[], :after::text[], :place::bigint[], :parent::text[], :chat_id::text[],
        :message_id::text[], :swipe::text[], :effect::bigint[], :live::bigint[],
        :checksum::bigint[])
    """,
)

SELECT_LAST_REVISION = Statement(
    """
    SELECT revision FROM {schema}.changes
    WHERE cell = :cell AND effect = 1
    ORDER BY change DESC LIMIT 1
    """
)

SELECT_CHARACTER = Statement(
    """
    SELECT cell, place, id, name, created_at, updated_at, instances, revision, checksum
    FROM {schema}.characters WHERE id = :id
    """
)

INSERT_CHARACTER = Statement(
    """
    INSERT INTO {schema}.characters (cell, place, id, name, created_at, updated_at, instances,
        revision, checksum)
    VALUES (:cell, :place, :id, :name, :created_at, :updated_at, :instances, :revision,
        :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.characters (cell, place, id, name, created_at, updated_at, instances,
        revision, checksum)
    SELECT * FROM unnest(:cell::bigint[], :place::bigint[], :id::text[], :name::text[],
        :created_at::text[], :updated_at::text[], :instances::bigint[],
        :revision::bigint[], :checksum::bigint[])
    """,
)

UPDATE_CHARACTER = Statement(
    """
    UPDATE {schema}.characters SET place = :place, name = :name, created_at = :created_at,
        updated_at = :updated_at, instances = :instances, revision = :revision,
        checksum = :checksum
    WHERE cell = :cell
    """,
    postgres="""
    UPDATE {schema}.characters SET place = new.place, name = new.name,
        created_at = new.created_at, updated_at = new.updated_at,
        instances = new.instances, revision = new.revision,
        checksum = new.checksum
    FROM unnest(:place::bigint[], :name::text[], :created_at::text[], :updated_at::text[],
        :instances::bigint[], :revision::bigint[], :checksum::bigint[], :cell::bigint[])
        AS new (place, name, created_at, updated_at, instances, revision, checksum, cell)
    WHERE characters.cell = new.cell
    """,
)

DELETE_CHARACTER = Statement(
    """
    DELETE FROM {schema}.characters WHERE cell = :cell
    """,
    postgres="""
    DELETE FROM {schema}.characters WHERE cell = ANY (:cell::bigint[])
    """,
)

SELECT_INSTANCE = Statement(
    """
    SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at, revision,
        keys, digest, checksum
    FROM {schema}.instances WHERE id = :id
    """
)

SELECT_INSTANCES_OF_CHARACTER = Statement(
    """
    SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at, revision,
        keys, digest, checksum
    FROM {schema}.instances WHERE character_id = :character_id ORDER BY place
    """
)

# What a whole group of writes asks for, at once; `ids` and `pairs` are JSON arrays.
SELECT_INSTANCES_BY_ID = Statement(
    """
    SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at, revision,
        keys, digest, checksum
    FROM {schema}.instances WHERE id IN (SELECT value FROM json_each(:ids))
    """,
    postgres="""
    SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at, revision,
        keys, digest, checksum
    FROM {schema}.instances
    WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
    """,
)

# By the table itself and not its index: whether "not found" is true.
SCAN_FOR_INSTANCE = Statement(
    "SELECT count(*) FROM {schema}.instances NOT INDEXED WHERE id = :id",
    postgres="SELECT count(*) FROM {schema}.instances WHERE id = :id",
)

SCAN_FOR_CHARACTER = Statement(
    "SELECT count(*) FROM {schema}.characters NOT INDEXED WHERE id = :id",
    postgres="SELECT count(*) FROM {schema}.characters WHERE id = :id",
)

INSERT_INSTANCE = Statement(
    """
    INSERT INTO {schema}.instances (cell, place, id, character_id, chat_id, name, created_at,
        updated_at, revision, keys, digest, checksum)
    VALUES (:cell, :place, :id, :character_id, :chat_id, :name, :created_at, :updated_at,
        :revision, :keys, :digest, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.instances (cell, place, id, character_id, chat_id, name, created_at,
        updated_at, revision, keys, digest, checksum)
    SELECT * FROM unnest(:cell::bigint[], :place::bigint[], :id::text[],
        :character_id::text[], :chat_id::text[], :name::text[], :created_at::text[],
        :updated_at::text[], :revision::bigint[], :keys::bigint[], :digest::bigint[],
        :checksum::bigint[])
    """,
)

UPDATE_INSTANCE = Statement(
    """
    UPDATE {schema}.instances SET place = :place, character_id = :character_id,
        chat_id = :chat_id, name = :name, created_at = :created_at, updated_at = :updated_at,
        revision = :revision, keys = :keys, digest = :digest, checksum = :checksum
    WHERE cell = :cell
    """,
    postgres="""
    UPDATE {schema}.instances SET place = new.place, character_id = new.character_id,
        chat_id = new.chat_id, name = new.name, created_at = new.created_at,
        updated_at = new.updated_at, revision = new.revision, keys = new.keys,
        digest = new.digest, checksum = new.checksum
    FROM unnest(:place::bigint[], :character_id::text[], :chat_id::text[], :name::text[],
        :created_at::text[], :updated_at::text[], :revision::bigint[], :keys::bigint[],
        :digest::bigint[], :checksum::bigint[], :cell::bigint[])
        AS new (place, character_id, chat_id, name, created_at, updated_at, revision, keys,
        digest, checksum, cell)
    WHERE instances.cell = new.cell
    """,
)

TOUCH_INSTANCE = Statement(
    """
    UPDATE {schema}.instances SET revision = :revision, keys = :keys, digest = :digest,
        checksum = :checksum
    WHERE cell = :cell
    """,
    postgres="""
    UPDATE {schema}.instances SET revision = new.revision, keys = new.keys,
        digest = new.digest, checksum = new.checksum
    FROM unnest(:revision::bigint[], :keys::bigint[], :digest::bigint[], :checksum::bigint[],
        :cell::bigint[])
        AS new (revision, keys, digest, checksum, cell)
    WHERE instances.cell = new.cell
    """,
)

DELETE_INSTANCE = Statement(
    """
    DELETE FROM {schema}.instances WHERE cell = :cell
    """,
    postgres="""
    DELETE FROM {schema}.instances WHERE cell = ANY (:cell::bigint[])
    """,
)

SELECT_VALUE = Statement(
    """
    SELECT cell, place, instance_id, key, value, revision, checksum
    FROM {schema}.data WHERE instance_id = :instance_id AND key = :key
    """,
    postgres="""
    SELECT cell, place, instance_id, key, value, revision, checksum
    FROM {schema}.data
    WHERE instance_id = :instance_id AND md5(key) = md5(:key) AND key = :key
    """,
)

SELECT_VALUES_BY_PAIR = Statement(
    """
    SELECT cell, place, instance_id, data.key, data.value, revision, checksum
    FROM json_each(:pairs) AS pair CROSS JOIN {schema}.data
    WHERE instance_id = json_extract(pair.value, '$[0]')
        AND data.key = json_extract(pair.value, '$[1]')
    """,
    postgres="""
    SELECT cell, place, instance_id, data.key, data.value, revision, checksum
    FROM json_array_elements(CAST(:pairs AS json)) AS pair (value)
    JOIN {schema}.data ON instance_id = pair.value ->> 0
        AND md5(key) = md5(pair.value ->> 1) AND key = pair.value ->> 1
    """,
)

SELECT_VALUES = Statement(
    """
    SELECT cell, place, instance_id, key, value, revision, checksum
    FROM {schema}.data WHERE instance_id = :instance_id ORDER BY place
    """
)

INSERT_VALUE = Statement(
    """
    INSERT INTO {schema}.data (cell, place, instance_id, key, value, revision, checksum)
    VALUES (:cell, :place, :instance_id, :key, :value, :revision, :checksum)
    """,
    postgres="""
    INSERT INTO {schema}.data (cell, place, instance_id, key, value, revision, checksum)
    SELECT * FROM unnest(:cell::bigint[], :place::bigint[], :instance_id::text[],
        :key::text[], :value::text[], :revision::bigint[], :checksum::bigint[])
    """,
)

UPDATE_VALUE = Statement(
    """
    UPDATE {schema}.data SET place = :place, value = :value, revision = :revision,
        checksum = :checksum
    WHERE cell = :cell
    """,
    postgres="""
    UPDATE {schema}.data SET place = new.place, value = new.value, revision = new.revision,
        checksum = new.checksum
    FROM unnest(:place::bigint[], :value::text[], :revision::bigint[], :checksum::bigint[],
        :cell::bigint[])
        AS new (place, value, revision, checksum, cell)
    WHERE data.cell = new.cell
    """,
)

DELETE_VALUE = Statement(
    """
    DELETE FROM {schema}.data WHERE cell = :cell
    """,
    postgres="""
    DELETE FROM {schema}.data WHERE cell = ANY (:cell::bigint[])
    """,
)
