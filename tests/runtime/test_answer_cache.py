from __future__ import annotations

from valuetracker.runtime.answer_cache import OVERHEAD_BYTES, Memory
from valuetracker.store.rows.tags import Tag

A: Tag = ("value", "i", "a")
B: Tag = ("value", "i", "b")
BOTH: Tag = ("instance", "i")


def key(name: str) -> tuple[str, bytes, bytes]:
    return "somebody", b"demo", name.encode()


def room_for(count: int, size: int = 0) -> int:
    return count * (OVERHEAD_BYTES + size)


def test_what_is_kept_is_given_back() -> None:
    memory: Memory[str] = Memory(room_for(10))

    memory.keep(key("a"), "answer", 0, "owner", frozenset({A}))

    assert memory.get(key("a")) == "answer"
    assert memory.get(key("b")) is None
    assert memory.get(("somebody", b"other", b"a")) is None
    assert memory.get(("somebody else", b"demo", b"a")) is None


def test_a_commit_drops_what_depends_on_what_it_touched_and_nothing_else() -> None:
    memory: Memory[str] = Memory(room_for(10))
    memory.keep(key("a"), "a", 0, "owner", frozenset({A}))
    memory.keep(key("b"), "b", 0, "owner", frozenset({B}))
    memory.keep(key("both"), "both", 0, "owner", frozenset({A, BOTH}))
    memory.keep(key("other"), "other", 0, "other owner", frozenset({A}))

    memory.forget("owner", {A})

    assert memory.get(key("a")) is None
    assert memory.get(key("both")) is None
    assert memory.get(key("b")) == "b"
    assert memory.get(key("other")) == "other"


def test_forgetting_an_owner_drops_all_of_his_and_nothing_else() -> None:
    memory: Memory[str] = Memory(room_for(10))
    memory.keep(key("a"), "a", 0, "owner", frozenset({A, B}))
    memory.keep(key("b"), "b", 0, "owner", frozenset({B}))
    memory.keep(key("c"), "c", 0, "other owner", frozenset({B}))

    memory.forget_all("owner")

    assert memory.get(key("a")) is None
    assert memory.get(key("b")) is None
    assert memory.get(key("c")) == "c"
    assert memory.size == room_for(1)


def test_forgetting_what_nobody_keeps_is_no_mistake() -> None:
    memory: Memory[str] = Memory(room_for(10))

    memory.forget("nobody", {A})
    memory.forget_all("nobody")

    assert memory.size == 0


def test_the_answer_unused_for_longest_makes_room() -> None:
    memory: Memory[str] = Memory(room_for(4))
    for name in "abcd":
        memory.keep(key(name), name, 0, "owner", frozenset({A}))
    memory.get(key("a"))

    memory.keep(key("e"), "e", 0, "owner", frozenset({A}))

    assert [name for name in "abcde" if memory.get(key(name))] == ["a", "c", "d", "e"]
    assert memory.size == room_for(4)


def test_it_never_holds_more_than_its_bytes() -> None:
    memory: Memory[int] = Memory(room_for(8, 500))

    for number in range(1_000):
        memory.keep(key(str(number)), number, number % 2_000, "owner", frozenset({A}))

        assert memory.size <= room_for(8, 500)


def test_one_answer_does_not_push_out_all_the_others() -> None:
    memory: Memory[str] = Memory(room_for(8))
    memory.keep(key("small"), "small", 0, "owner", frozenset({A}))

    memory.keep(key("large"), "large", room_for(2), "owner", frozenset({A}))

    assert memory.get(key("large")) is None
    assert memory.get(key("small")) == "small"


def test_a_limit_of_nothing_keeps_nothing() -> None:
    memory: Memory[str] = Memory(0)

    memory.keep(key("a"), "a", 0, "owner", frozenset({A}))

    assert memory.get(key("a")) is None


def test_keeping_again_replaces_answer_size_and_tags() -> None:
    memory: Memory[str] = Memory(room_for(10))
    memory.keep(key("a"), "old", 700, "owner", frozenset({A}))

    memory.keep(key("a"), "new", 10, "owner", frozenset({B}))

    assert memory.size == room_for(1, 10)
    memory.forget("owner", {A})
    assert memory.get(key("a")) == "new"
    memory.forget("owner", {B})
    assert memory.get(key("a")) is None


def test_nothing_is_left_behind_when_everything_is_dropped() -> None:
    memory: Memory[str] = Memory(room_for(4))
    for number in range(50):
        memory.keep(key(str(number)), "x", 0, number % 3, frozenset({A, ("value", str(number))}))

    for owner in range(3):
        memory.forget_all(owner)

    assert memory.size == 0
    assert not memory._kept
    assert not memory._by_tag
