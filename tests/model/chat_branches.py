"""
Checkpoints and branches in the chat model.

A branch copies every change and every place up to its point, and is a chat like any other from
then on. The copies keep the revisions of the originals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.chat_log import Change, Owner, Place, Point, Source
from tests.model.chat_model import ChatModel


@dataclass(frozen=True)
class Origin:
    """The origin of a branch: parent, moment, and the new ids of its instances by the old."""

    parent: int
    moment: int
    revision: int
    ids: dict[str, str]


class BranchModel(ChatModel):
    """The whole model: values, chats, checkpoints and branches."""

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[int, Origin] = {}
        # By chat and name; a checkpoint stays whatever happens to the chat.
        self.checkpoints: dict[tuple[int, str], Point] = {}

    def instance_copies(self) -> dict[str, str]:
        """Return the instances that branches copied: the old id by the new one."""
        return {new: old for each in self.origins.values() for old, new in each.ids.items()}

    def branched_at(self, owner: Owner) -> int | None:
        """Return the revision of the branch that made this chat or instance, if one did."""
        for chat, origin in self.origins.items():
            if owner == chat or owner in origin.ids.values():
                return origin.revision
        return None

    # Before the branch was made, its past is that of its parent

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
        """Make a checkpoint; return False if the chat has one of that name."""
        chat = self.point(name).chat
        if (chat, label) in self.checkpoints:
            return False
        point = self.point(name, message=message)
        with self.request():
            self.checkpoints[chat, label] = point
        return True

    # Branches

    def branch(self, point: Point, name: str, ids: dict[str, str]) -> None:
        """Make a branch; `ids` has the new ids of the point's instances, by the old ones."""
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
            self._derive_values(chat)

    def _take_places(self, point: Point, chat: int) -> None:
        for place in point.places:
            own = place._replace(chat=chat)
            first_registered = point.then.first_registered[point.chat, place.message]
            self.now.registered.add(own)
            self.now.first_registered[chat, place.message] = first_registered
            # The log has no hashes, so a branch takes over the present ones.
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
        # A change that a restore has pinned is copied, too, but counts only in that restore.
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

    def _derive_values(self, chat: int) -> None:
        """Give the branch its first values: derived changes at its own revision."""
        self.now.clock += 1
        owners = [chat, *self.origins[chat].ids.values()]
        for row in dict.fromkeys(change.row for change in self.log if change.row.owner in owners):
            value, _ = self.recompute(row)
            self._put(row, value)
            if value is not ...:
                self.now.reworked[row] = self.revision
