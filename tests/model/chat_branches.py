"""
Checkpoints and branches in the chat model: points of a story with a name, or with a future.

A branch copies what belongs to its point, change by change and place by place, and is a chat
like any other from then on. Of the copies only the revisions are old.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.chat_log import Change, Owner, Place, Point, Source
from tests.model.chat_model import ChatModel


@dataclass(frozen=True)
class Origin:
    """Where a branch comes from: up to which moment, and which instance was made of which."""

    parent: int
    moment: int
    revision: int
    ids: dict[str, str]


class BranchModel(ChatModel):
    """The whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[int, Origin] = {}
        # By chat and name; they outlive whatever happens to the chat.
        self.checkpoints: dict[tuple[int, str], Point] = {}

    def heirs(self) -> dict[str, str]:
        """Every instance a branch has made, and of which."""
        return {new: old for each in self.origins.values() for old, new in each.ids.items()}

    def begun(self, owner: Owner) -> int | None:
        """The revision of the branch that made this chat or this instance, if one did."""
        for chat, origin in self.origins.items():
            if owner == chat or owner in origin.ids.values():
                return origin.revision
        return None

    # In the story of a branch, what it took over happened to itself

    def members_at(self, chat: int, revision: int) -> list[str]:
        origin = self.origins.get(chat)
        if origin is None or revision >= origin.revision:
            return super().members_at(chat, revision)
        then = self.members_at(origin.parent, min(revision, origin.moment))
        return [origin.ids[id] for id in then if id in origin.ids]

    def existed(self, id: str, revision: int) -> bool:
        for origin in self.origins.values():
            for old, new in origin.ids.items():
                if new == id and revision < origin.revision:
                    return self.existed(old, min(revision, origin.moment))
        return super().existed(id, revision)

    # Checkpoints

    def checkpoint(self, name: str, label: str, message: str | None = None) -> bool:
        """Whether it could be made: there may be one of that name."""
        chat = self.point(name).chat
        if (chat, label) in self.checkpoints:
            return False
        point = self.point(name, message=message)
        with self.request():
            self.checkpoints[chat, label] = point
        return True

    # Branches

    def branch(self, point: Point, name: str, ids: dict[str, str]) -> None:
        """A new chat of that name; `ids` are the new ones of the point's instances, by the old."""
        assert set(ids) == set(self.members(point))
        with self.request():
            self.touched = True
            chat = self._chat(name)
            self.origins[chat] = Origin(point.chat, point.limit - 1, self.revision, ids)
            self.now.instances |= dict.fromkeys(ids.values(), chat)
            self._take_places(point, chat)
            owners: dict[Owner, Owner] = {point.chat: chat}
            owners.update(ids)
            self._take_changes(point, owners)
            self._settle_values(chat)

    def _take_places(self, point: Point, chat: int) -> None:
        for place in point.places:
            own = place._replace(chat=chat)
            first_seen = point.then.first_seen[point.chat, place.message]
            self.now.seen.add(own)
            self.now.first_seen[chat, place.message] = first_seen
            # Hashes are not in the log: there are only those of now.
            if place in self.now.hashes:
                self.now.hashes[own] = self.now.hashes[place]
        for message, swipe in point.then.chains[point.chat].items():
            if Place(point.chat, message, swipe) in point.places:
                self.now.chains[chat][message] = swipe

    def _take_changes(self, point: Point, owners: dict[Owner, Owner]) -> None:
        taken = [
            change
            for change in self.log
            if change.row.owner in owners and self.belongs(point, change)
        ]
        # What a restore has brought back for good comes along, but counts only there.
        pinned = {each.number for change in taken for each in change.sources if each.pinned}
        pinned -= {change.number for change in taken}
        copies: dict[int, int] = {}
        for number in sorted({change.number for change in taken} | pinned):
            copies[number] = len(self.log)
            self._take(point, self.log[number], owners, copies)
            if number in pinned:
                self.now.dropped.add(copies[number])

    def _take(
        self, point: Point, change: Change, owners: dict[Owner, Owner], copies: dict[int, int]
    ) -> None:
        place = change.place
        if place is not None and place.chat is not None:
            is_own = place in point.places and change.number not in point.then.freed
            chat = owners[point.chat]
            assert isinstance(chat, int)
            place = place._replace(chat=chat) if is_own else None
        copy = replace(
            change,
            number=len(self.log),
            row=change.row._replace(owner=owners[change.row.owner]),
            place=place,
            sources=tuple(
                Source(copies[each.number], each.pinned)
                for each in change.sources
                if each.number in copies
            ),
            taken=True,
        )
        self.log.append(copy)
        self.now.length += 1

    def _settle_values(self, chat: int) -> None:
        """What the branch begins with: one derived state at its own revision."""
        self.now.clock += 1
        owners = [chat, *self.origins[chat].ids.values()]
        for row in dict.fromkeys(change.row for change in self.log if change.row.owner in owners):
            value, _ = self.recomputed(row)
            self._put(row, value)
            if value is not ...:
                self.now.reworked[row] = self.revision
