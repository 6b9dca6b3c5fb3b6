from __future__ import annotations

from valuetracker.runtime.answer_cache import OVERHEAD_BYTES, AnswerCache
from valuetracker.store.rows.tags import Tag

A: Tag = ("value", "i", "a")
B: Tag = ("value", "i", "b")
BOTH: Tag = ("instance", "i")


def key(name: str) -> tuple[str, bytes, bytes]:
    return "somebody", b"demo", name.encode()


def bytes_for(count: int, size: int = 0) -> int:
    return count * (OVERHEAD_BYTES + size)


def test_a_kept_answer_is_returned() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(10))

    cache.keep(key("a"), "answer", 0, "owner", frozenset({A}))

    assert cache.get(key("a")) == "answer"
    assert cache.get(key("b")) is None
    assert cache.get(("somebody", b"other", b"a")) is None
    assert cache.get(("somebody else", b"demo", b"a")) is None


def test_a_commit_drops_the_answers_with_its_tags_and_no_others() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(10))
    cache.keep(key("a"), "a", 0, "owner", frozenset({A}))
    cache.keep(key("b"), "b", 0, "owner", frozenset({B}))
    cache.keep(key("both"), "both", 0, "owner", frozenset({A, BOTH}))
    cache.keep(key("other"), "other", 0, "other owner", frozenset({A}))

    cache.invalidate("owner", {A})

    assert cache.get(key("a")) is None
    assert cache.get(key("both")) is None
    assert cache.get(key("b")) == "b"
    assert cache.get(key("other")) == "other"


def test_invalidating_an_owner_drops_all_its_answers_and_nothing_else() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(10))
    cache.keep(key("a"), "a", 0, "owner", frozenset({A, B}))
    cache.keep(key("b"), "b", 0, "owner", frozenset({B}))
    cache.keep(key("c"), "c", 0, "other owner", frozenset({B}))

    cache.invalidate_all("owner")

    assert cache.get(key("a")) is None
    assert cache.get(key("b")) is None
    assert cache.get(key("c")) == "c"
    assert cache.size == bytes_for(1)


def test_invalidating_an_unknown_owner_or_tag_does_nothing() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(10))

    cache.invalidate("nobody", {A})
    cache.invalidate_all("nobody")

    assert cache.size == 0


def test_the_answer_unused_for_longest_is_dropped_first() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(4))
    for name in "abcd":
        cache.keep(key(name), name, 0, "owner", frozenset({A}))
    cache.get(key("a"))

    cache.keep(key("e"), "e", 0, "owner", frozenset({A}))

    assert [name for name in "abcde" if cache.get(key(name))] == ["a", "c", "d", "e"]
    assert cache.size == bytes_for(4)


def test_the_cache_never_exceeds_its_limit_of_bytes() -> None:
    cache: AnswerCache[int] = AnswerCache(bytes_for(8, 500))

    for number in range(1_000):
        cache.keep(key(str(number)), number, number % 2_000, "owner", frozenset({A}))

        assert cache.size <= bytes_for(8, 500)


def test_one_large_answer_does_not_displace_all_others() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(8))
    cache.keep(key("small"), "small", 0, "owner", frozenset({A}))

    cache.keep(key("large"), "large", bytes_for(2), "owner", frozenset({A}))

    assert cache.get(key("large")) is None
    assert cache.get(key("small")) == "small"


def test_a_limit_of_zero_keeps_nothing() -> None:
    cache: AnswerCache[str] = AnswerCache(0)

    cache.keep(key("a"), "a", 0, "owner", frozenset({A}))

    assert cache.get(key("a")) is None


def test_keeping_again_replaces_answer_size_and_tags() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(10))
    cache.keep(key("a"), "old", 700, "owner", frozenset({A}))

    cache.keep(key("a"), "new", 10, "owner", frozenset({B}))

    assert cache.size == bytes_for(1, 10)
    cache.invalidate("owner", {A})
    assert cache.get(key("a")) == "new"
    cache.invalidate("owner", {B})
    assert cache.get(key("a")) is None


def test_nothing_is_left_behind_when_everything_is_dropped() -> None:
    cache: AnswerCache[str] = AnswerCache(bytes_for(4))
    for number in range(50):
        cache.keep(key(str(number)), "x", 0, number % 3, frozenset({A, ("value", str(number))}))

    for owner in range(3):
        cache.invalidate_all(owner)

    assert cache.size == 0
    assert not cache._entries
    assert not cache._by_tag
