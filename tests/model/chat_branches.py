"""
Checkpoints and branches in the chat model.

A branch copies every change and every place up to its point, and is a chat like any other from
then on. The copies keep the revisions of the originals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.chat_log import Change, Event, Owner, Point, Source
from tests.model.chat_model import ChatModel


@dataclass(frozen=True)
class Origin:
    """The origin of a branch: its parent, and the new ids of its instances by the old."""

    parent: int
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
            self.origins[chat] = Origin(point.chat, self.revision, ids)
            self._take_places(point, chat)
            self._take_events(point, chat, ids)
            for id in ids.values():
                self._bind(id, chat)
            owners: dict[Owner, Owner] = {point.chat: chat}
            owners.update(ids)
            self._take_changes(point, owners)
            self._derive_values(chat)

    def _take_places(self, point: Point, chat: int) -> None:
        story = point.then.stories[point.chat][: point.end]
        self.now.stories[chat] = list(story)
        for place in point.then.registered:
            if place.chat == point.chat and place.message in story:
                own = place._replace(chat=chat)
                self.now.registered.add(own)
                # The log has no hashes, so a branch takes over the present ones.
                if place in self.now.hashes:
                    self.now.hashes[own] = self.now.hashes[place]
        for message, swipe in point.then.chains[point.chat].items():
            if message in story:
                self.now.chains[chat][message] = swipe

    def _take_events(self, point: Point, chat: int, ids: dict[str, str]) -> None:
        story = self.now.stories[chat]
        for event in point.then.events:
            # In another chat it stood at no message of this one.
            is_here = event.chat == point.chat
            stands = event.stands if is_here else None
            if event.id in ids and (stands is None or stands in story):
                own = chat if is_here else event.chat
                self.now.events.append(Event(ids[event.id], event.op, own, stands))

    def _take_changes(self, point: Point, owners: dict[Owner, Owner]) -> None:
        taken = [
            change
            for change in self.log
            if change.row.owner in owners and self.belongs(point, change)
        ]
        # A change that a restore has pinned is copied, too, but counts only in that restore.
        named = [each for change in taken for each in change.sources or ()]
        pinned = {each.number for each in named if each.pinned}
        pinned -= {change.number for change in taken}
        copies: dict[int, int] = {}
        for number in sorted({change.number for change in taken} | pinned):
            copies[number] = len(self.log)
            self._take(point, self.log[number], owners, copies, number in pinned)

    def _take(
        self,
        point: Point,
        change: Change,
        owners: dict[Owner, Owner],
        copies: dict[int, int],
        named_only: bool,
    ) -> None:
        chat = owners[point.chat]
        assert isinstance(chat, int)
        place, stands = change.place, change.stands
        follows = change.number not in point.then.freed and not named_only
        if place is not None and place.chat is not None:
            place = place._replace(chat=chat) if follows and place.chat == point.chat else None
        if stands is not None:
            stands = (chat, stands[1]) if follows and stands[0] == point.chat else None
        sources = change.sources
        if sources is not None:
            sources = tuple(
                Source(copies[number], pinned) for number, pinned in sources if number in copies
            )
        self.log.append(
            replace(
                change,
                number=len(self.log),
                row=change.row._replace(owner=owners[change.row.owner]),
                place=place,
                stands=stands,
                sources=sources,
                taken=True,
                named_only=named_only,
            )
        )
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
