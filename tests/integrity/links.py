"""Check that entries and flips name the ones before them, and that all counts are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.integrity.contents import Contents
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow, last_of
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.reader import verify_members
from valuetracker.store.rows.spaces import SPACES


def check_links_and_counts(contents: Contents) -> None:
    _check_links(contents)
    _check_ends(contents)
    _check_counts(contents)
    _check_flips(contents)


def _check_links(contents: Contents) -> None:
    """Check that every entry names the one before it in the log, of its subject, in its chat."""
    folded = last_of(contents.head.oldest)
    in_log = 0
    of_subject: dict[int, int] = defaultdict(int)
    in_chat: dict[int | None, int] = defaultdict(int)
    for entry in contents.entries:
        assert (entry.prev_in_log, entry.prev_of_subject) == (in_log, of_subject[entry.subject])
        if entry.chat is None:
            assert not entry.prev_in_chat
        elif entry.entry > folded:
            assert entry.prev_in_chat == in_chat[entry.chat] or entry.prev_in_chat <= folded
            in_chat[entry.chat] = entry.entry
        in_log = of_subject[entry.subject] = entry.entry
    taken: dict[int, int] = defaultdict(int)
    for entry in sorted(contents.taken, key=lambda entry: entry.entry):
        assert (entry.prev_in_log, entry.prev_of_subject, entry.prev_in_chat) == (
            0,
            taken[entry.subject],
            0,
        )
        taken[entry.subject] = entry.entry
    assert {row.number: row.last_taken for row in contents.holders if row.last_taken} == taken


def _check_ends(contents: Contents) -> None:
    """Check that the head, every subject and every chat name their last entry."""
    folded = last_of(contents.head.oldest)
    assert contents.head.last_entry == _last(contents.entries)
    of_subject: dict[int, list[EntryRow]] = defaultdict(list)
    for entry in contents.entries:
        of_subject[entry.subject].append(entry)
    subjects: list[CharacterRow | HolderRow | ChatRow] = [
        *contents.characters,
        *contents.holders,
        *contents.chats,
    ]
    for row in subjects:
        assert row.last_entry == _last(of_subject[row.number])
    for chat in contents.chats:
        last = _last(each for each in contents.entries if each.chat == chat.number)
        assert chat.last_in_chat == last or max(chat.last_in_chat, last) <= folded


def _last(entries: Iterable[EntryRow]) -> int:
    return max((entry.entry for entry in entries), default=0)


def _check_counts(contents: Contents) -> None:
    """Check that rows count their members, spaces, places, keys and anchored entries."""
    subjects = (*contents.characters, *contents.holders, *contents.chats)
    assert contents.head.subjects == len(subjects)
    assert contents.head.aliases == len(contents.aliases)
    members: dict[int, list[int]] = defaultdict(list)
    for member in contents.members:
        members[member.parent].append(member.holder)
    parents: list[CharacterRow | ChatRow] = [
        *contents.characters,
        *contents.chats,
    ]
    for parent in parents:
        verify_members(parent, members[parent.number])
    for chat in contents.chats:
        own = [row for row in contents.holders if row.chat == chat.number]
        spaces = [row.space for row in own if row.space in SPACES]
        assert [space for space in SPACES if chat.has_space(space)] == sorted(
            spaces, key=SPACES.index
        )
        assert chat.instances == sum(1 for row in own if row.space == "instance")
        assert chat.places == sum(1 for row in contents.places if row.chat == chat.number)
    for holder in contents.holders:
        holder.verify_rows([row for row in contents.data if row.holder == holder.number])
    anchored = Counter(entry.place for entry in (*contents.entries, *contents.taken))
    for place in contents.places:
        assert place.entries == (anchored[place.place] if place.chat else 0)


def _check_flips(contents: Contents) -> None:
    """Check that each flip of a place names the one before it, and the place the last."""
    moved: dict[int, int] = defaultdict(int)
    for flip in contents.flips:
        assert flip.prev_of_place == moved[flip.place]
        moved[flip.place] = flip.revision
    assert all(place.last_flip == moved[place.place] for place in contents.places)
