"""
The statements that several verbs share: rows by key, and what the ledger writes.

A statement used by one verb alone stands above that verb.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement

SELECT_HEAD = Statement(
    """
    SELECT revision, oldest, place, change, characters, instances, keys, checksum FROM head
    """
)

INSERT_HEAD = Statement(
    """
    INSERT INTO head (revision, oldest, place, change, characters, instances, keys, checksum)
    VALUES (:revision, :oldest, :place, :change, :characters, :instances, :keys, :checksum)
    """
)

UPDATE_HEAD = Statement(
    """
    UPDATE head SET revision = :revision, oldest = :oldest, place = :place, change = :change,
        characters = :characters, instances = :instances, keys = :keys, checksum = :checksum
    """
)

INSERT_REVISION = Statement(
    """
    INSERT INTO revisions (revision, at, actor, first, changes, checksum)
    VALUES (:revision, :at, :actor, :first, :changes, :checksum)
    """
)

INSERT_CHANGE = Statement(
    """
    INSERT INTO changes (change, revision, space, owner, key, op, operand, after, place,
        parent, chat_id, message_id, swipe, effect, live, checksum)
    VALUES (:change, :revision, :space, :owner, :key, :op, :operand, :after, :place,
        :parent, :chat_id, :message_id, :swipe, :effect, :live, :checksum)
    """
)

SELECT_LAST_REVISION = Statement(
    """
    SELECT revision FROM changes
    WHERE owner = :owner AND key = :key AND space = :space AND effect = 1
    ORDER BY change DESC LIMIT 1
    """
)

SELECT_CHARACTER = Statement(
    """
    SELECT place, id, name, created_at, updated_at, revision, checksum
    FROM characters WHERE id = :id
    """
)

INSERT_CHARACTER = Statement(
    """
    INSERT INTO characters (place, id, name, created_at, updated_at, revision, checksum)
    VALUES (:place, :id, :name, :created_at, :updated_at, :revision, :checksum)
    """
)

UPDATE_CHARACTER = Statement(
    """
    UPDATE characters SET name = :name, created_at = :created_at, updated_at = :updated_at,
        revision = :revision, checksum = :checksum
    WHERE place = :place
    """
)

DELETE_CHARACTER = Statement("DELETE FROM characters WHERE place = :place")

SELECT_INSTANCE = Statement(
    """
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM instances WHERE id = :id
    """
)

SELECT_INSTANCES_OF_CHARACTER = Statement(
    """
    SELECT place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM instances WHERE character_id = :character_id ORDER BY place
    """
)

INSERT_INSTANCE = Statement(
    """
    INSERT INTO instances (place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum)
    VALUES (:place, :id, :character_id, :chat_id, :name, :created_at, :updated_at,
        :revision, :keys, :digest, :checksum)
    """
)

UPDATE_INSTANCE = Statement(
    """
    UPDATE instances SET character_id = :character_id, chat_id = :chat_id, name = :name,
        created_at = :created_at, updated_at = :updated_at, revision = :revision,
        keys = :keys, digest = :digest, checksum = :checksum
    WHERE place = :place
    """
)

TOUCH_INSTANCE = Statement(
    """
    UPDATE instances SET revision = :revision, keys = :keys, digest = :digest,
        checksum = :checksum
    WHERE place = :place
    """
)

DELETE_INSTANCE = Statement("DELETE FROM instances WHERE place = :place")

SELECT_VALUE = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM data WHERE instance_id = :instance_id AND key = :key
    """
)

# `keys` is a JSON array of texts.
SELECT_VALUES_OF_KEYS = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM data WHERE instance_id = :instance_id AND key IN (SELECT value FROM json_each(:keys))
    """
)

SELECT_VALUES = Statement(
    """
    SELECT place, instance_id, key, value, revision, checksum
    FROM data WHERE instance_id = :instance_id ORDER BY place
    """
)

INSERT_VALUE = Statement(
    """
    INSERT INTO data (place, instance_id, key, value, revision, checksum)
    VALUES (:place, :instance_id, :key, :value, :revision, :checksum)
    """
)

UPDATE_VALUE = Statement(
    """
    UPDATE data SET value = :value, revision = :revision, checksum = :checksum
    WHERE place = :place
    """
)

DELETE_VALUE = Statement("DELETE FROM data WHERE place = :place")
