"""The cache of finished answers: kept by tags, brought up to date by commits, bounded by bytes."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.http.replies import Reply, json_reply
from valuetracker.runtime.answer_cache import NOTED_BYTES, OVERHEAD_BYTES, AnswerCache, exact
from valuetracker.store.rows.holders import DataRow
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.rows.tags import ALL_INSTANCES, Tag
from valuetracker.store.tx.jobs import Commit
from valuetracker.store.tx.touched import TouchedHolder

A: Tag = ("instance", "i", "a")
B: Tag = ("instance", "i", "b")
ALL: Tag = ("instance", "i")
MANY = 1_000_000


@dataclass(eq=False)
class Owner:
    etag: bytes = b'"1"'

    def etag_of(self, revision: int) -> bytes:
        return b'"%d"' % revision


OWNER, OTHER = Owner(), Owner()


def key(name: str) -> tuple[str, bytes, bytes]:
    return "somebody", b"demo", name.encode()


def answer(body: Any = "", etag: int = 1) -> Reply:
    text = exact(orjson.dumps(body)) if body != "" else b""
    made = json_reply(200, text, [(b"etag", b'"%d"' % etag)])
    made.etag = b'"%d"' % etag
    return made


def bytes_for(count: int, size: int = 0) -> int:
    # Two or four letters of the extension, and one of the target.
    return count * (OVERHEAD_BYTES + len(b"demo") + 1 + size)


def found(cache: AnswerCache[Reply], name: str) -> Any:
    """Return the body and the ETag that are answered, or None if nothing is kept."""
    reply = cache.get(key(name))
    if reply is None:
        return None
    assert reply.etag is not None
    # The headers are those of this body.
    assert b"content-length: %d\r\n" % len(reply.body) in reply.head
    assert b"etag: %b\r\n" % reply.etag in reply.head
    return reply.body.decode(), int(reply.etag.strip(b'"'))


def commit_of(*tags: Tag, revision: int = 2, ordinal: int = 100, **values: Any) -> Commit:
    """Return a commit that touched these tags and changed these values of the instance i."""
    touched = TouchedHolder()
    touched.revision = revision
    for name, value in values.items():
        text, place = value if isinstance(value, tuple) else (value, 1)
        touched.rows[name] = DataRow(1, name, text, place, first_of(revision), 0, 0)
    holders = {("instance", "i"): touched} if values else {}
    return Commit(revision, set(tags), holders, ordinal)


def test_a_kept_answer_is_returned() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    kept = answer()

    cache.keep(key("a"), kept, OWNER, frozenset({A}))

    assert cache.get(key("a")) is kept
    assert cache.get(key("b")) is None
    assert cache.get(("somebody", b"other", b"a")) is None
    assert cache.get(("somebody else", b"demo", b"a")) is None


def test_a_commit_drops_the_answers_with_its_tags_and_no_others() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("one"), answer(), OWNER, frozenset({ALL_INSTANCES}))
    cache.keep(key("two"), answer(), OWNER, frozenset({ALL_INSTANCES, ALL}), shows="")
    cache.keep(key("three"), answer(), OWNER, frozenset({ALL}), shows="")
    cache.keep(key("other"), answer(), OTHER, frozenset({ALL_INSTANCES}))

    cache.apply(OWNER, commit_of(ALL_INSTANCES))

    assert [name for name in ("one", "two", "three", "other") if cache.get(key(name))] == [
        "three",
        "other",
    ]


def test_a_commit_that_touched_no_one_knows_what_drops_all_answers_of_its_extension() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("a"), answer(), OWNER, frozenset({A}), shows="a")
    cache.keep(key("b"), answer(), OTHER, frozenset({A}), shows="a")

    cache.apply(OWNER, Commit(2, tags=None))

    assert cache.get(key("a")) is None
    assert cache.get(key("b")) is not None


def test_the_answer_that_is_one_value_follows_its_changes() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("a"), answer({"a": 1}), OWNER, frozenset({A}), shows="a")
    cache.keep(key("b"), answer({}, 0), OWNER, frozenset({B}), shows="b")

    cache.apply(OWNER, commit_of(revision=2, a='{"x":18446744073709551615}'))
    changed = found(cache, "a"), found(cache, "b")
    cache.apply(OWNER, commit_of(revision=3, a=None, b="null"))

    assert changed == (('{"a":{"x":18446744073709551615}}', 2), ("{}", 0))
    assert (found(cache, "a"), found(cache, "b")) == (("{}", 3), ('{"b":null}', 3))


def test_an_answer_that_shows_more_than_the_value_is_dropped() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("a"), answer({"a": 1}), OWNER, frozenset({A}))
    cache.keep(key("all"), answer({"a": 1}), OWNER, frozenset({ALL}))

    cache.apply(OWNER, commit_of(a="2"))

    assert cache.get(key("a")) is None
    assert cache.get(key("all")) is None


def test_the_answer_that_is_all_values_follows_their_changes_and_their_order() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("all"), answer({"a": 1, "b": 2, "c": 3}), OWNER, frozenset({ALL}), shows="")

    cache.apply(OWNER, commit_of(revision=2, ordinal=10, a=("5", 1), d=("4", 12), e=("7", 11)))
    first = found(cache, "all")
    # Removed in one commit, set again in the next: such a key comes last.
    cache.apply(OWNER, commit_of(revision=3, ordinal=12, a=(None, 0), b=("8", 2)))
    cache.apply(OWNER, commit_of(revision=4, ordinal=12, a=('"again"', 13)))
    second = found(cache, "all")
    # Removed and set again in one commit.
    cache.apply(OWNER, commit_of(revision=5, ordinal=13, b=("9", 14)))

    assert first == ('{"a":5,"b":2,"c":3,"e":7,"d":4}', 2)
    assert second == ('{"b":8,"c":3,"e":7,"d":4,"a":"again"}', 4)
    assert found(cache, "all") == ('{"c":3,"e":7,"d":4,"a":"again","b":9}', 5)


def test_values_that_change_again_and_again_while_nobody_asks_take_no_memory() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("all"), answer({"a": 1}), OWNER, frozenset({ALL}), shows="")

    for number in range(200):
        cache.apply(OWNER, commit_of(revision=number, a=f'"{number}"'))
    kept = found(cache, "all")
    cache.apply(OWNER, commit_of(revision=300, a='"' + "x" * NOTED_BYTES + '"'))

    assert kept == ('{"a":"199"}', 199)
    assert cache.get(key("all")) is None


def test_a_list_that_a_commit_does_not_touch_gets_the_etag_of_the_head() -> None:
    owner = Owner()
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("list"), answer(["a"]), owner, frozenset({ALL_INSTANCES}), is_list=True)

    owner.etag = b'"7"'
    cache.apply(owner, commit_of(a="1", revision=7))

    assert found(cache, "list") == ('["a"]', 7)


def test_the_answer_unused_for_longest_is_dropped_first() -> None:
    cache: AnswerCache[Reply] = AnswerCache(bytes_for(4))
    for name in "abcd":
        cache.keep(key(name), answer(), OWNER, frozenset({A}))
    cache.get(key("a"))

    for _ in range(2):
        cache.keep(key("e"), answer(), OWNER, frozenset({A}))

    assert [name for name in "abcde" if cache.get(key(name))] == ["a", "c", "d", "e"]
    assert cache.size == bytes_for(4)


def test_a_full_cache_takes_an_answer_when_it_is_asked_for_again() -> None:
    cache: AnswerCache[Reply] = AnswerCache(bytes_for(4))
    for name in "abcd":
        cache.keep(key(name), answer(), OWNER, frozenset({A}))

    cache.keep(key("e"), answer(), OWNER, frozenset({A}))
    assert [name for name in "abcde" if cache.get(key(name))] == ["a", "b", "c", "d"]
    cache.keep(key("e"), answer(), OWNER, frozenset({A}))

    assert [name for name in "abcde" if cache.get(key(name))] == ["b", "c", "d", "e"]


def test_the_cache_never_exceeds_its_limit_of_bytes() -> None:
    limit = bytes_for(8, 500)
    cache: AnswerCache[Reply] = AnswerCache(limit)

    for number in range(1_000):
        name = str(number % 50)
        tags = frozenset[Tag]({("instance", "i", name)})
        cache.keep(key(name), answer("x" * (number % 2_000)), OWNER, tags, shows=name)
        # Also when an answer grows.
        values: dict[str, Any] = {name: '"' + "y" * (number % 3_000) + '"'}
        cache.apply(OWNER, commit_of(**values))

        assert cache.size <= limit


def test_one_large_answer_does_not_displace_all_others() -> None:
    cache: AnswerCache[Reply] = AnswerCache(bytes_for(8))
    cache.keep(key("small"), answer(), OWNER, frozenset({A}))

    cache.keep(key("large"), answer("x" * bytes_for(2)), OWNER, frozenset({A}))

    assert cache.get(key("large")) is None
    assert cache.get(key("small")) is not None


def test_a_limit_of_zero_keeps_nothing() -> None:
    cache: AnswerCache[Reply] = AnswerCache(0)

    cache.keep(key("a"), answer(), OWNER, frozenset({A}))

    assert cache.get(key("a")) is None


def test_keeping_again_replaces_answer_size_and_tags() -> None:
    cache: AnswerCache[Reply] = AnswerCache(MANY)
    cache.keep(key("a"), answer("x" * 700), OWNER, frozenset({ALL_INSTANCES}))
    new = answer("x" * 10)

    cache.keep(key("a"), new, OWNER, frozenset({B}))

    assert cache.size == bytes_for(1, len(new.body))
    cache.apply(OWNER, commit_of(ALL_INSTANCES))
    assert cache.get(key("a")) is new
    cache.apply(OWNER, commit_of(b="1"))
    assert cache.get(key("a")) is None


def test_nothing_is_left_behind_when_everything_is_dropped() -> None:
    cache: AnswerCache[Reply] = AnswerCache(bytes_for(4))
    owners = [Owner() for _ in range(3)]
    for number in range(50):
        tags = frozenset[Tag]({A, ("value", str(number))})
        cache.keep(key(str(number)), answer(), owners[number % 3], tags)

    for owner in owners:
        cache.remove_all(owner)

    assert cache.size == 0
    assert not cache._entries
    assert not cache._by_tag


def test_the_memory_that_is_counted_is_the_memory_that_is_taken() -> None:
    count = 2_000
    cache: AnswerCache[Reply] = AnswerCache(100 * MANY)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            name = f"key {number}"
            target = f"/api/plugins/valuetracker/instances/instance-{number}/data/{name}".encode()
            tags = frozenset[Tag]({("instance", f"instance-{number}", name)})
            reply = answer({name: "x" * 100})
            # As sent: the bytes of the headers are kept, too.
            assert reply.head
            cache.keep(("somebody", bytes(bytearray(b"demo")), target), reply, OWNER, tags, name)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 0.8 * cache.size <= taken <= cache.size
