"""
What the server is known to get wrong: the machine goes around it until it is mended.

With the last of them this file goes, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.chat_branches import BranchModel
from tests.chat_log import Place, Point, Step, differ

REMOVALS = ("remove", "clear", "override", "patch")


def removes_too_early(model: BranchModel, steps: Iterable[Step]) -> bool:
    """What is there to be removed is decided before a swipe nobody has seen hides another."""
    given = list(steps)
    return any(step.op in REMOVALS for step in given) and any(
        hides_another(model, step) for step in given
    )


def hides_another(model: BranchModel, step: Step) -> bool:
    now = model.now
    chat = now.names.get(step.chat or "")
    if step.instance is not None:
        home = now.instances.get(step.instance)
        if home is not None:
            chat = home
    if step.anchor is None or chat is None:
        return False
    return step.anchor[0] in now.chains[chat] and Place(chat, *step.anchor) not in now.seen


def forgets_who_left(model: BranchModel, point: Point) -> bool:
    """An instance has left the chat since: its changes are taken for what they are now."""
    now, then = model.now, point.then
    changed = (now.freed ^ then.freed) | (now.dropped ^ then.dropped)
    owners = [point.chat, *model.members(point)]
    return any(each.number in changed and each.row.owner in owners for each in model.log)


def knows_later_swipes(model: BranchModel, point: Point) -> bool:
    """Another swipe of a message was seen since: a branch takes its place over as hidden."""

    def is_later(place: Place) -> bool:
        seen = (point.chat, place.message) in point.then.first_seen
        return place.chat == point.chat and seen and place not in point.then.seen

    return any(is_later(place) for place in model.now.seen)


def leaves_what_is_older(model: BranchModel, point: Point) -> bool:
    """A message that follows was seen earlier: a restore leaves what it did as it is."""
    now, values = model.now, model.values_at(point)
    owners = [point.chat, *model.members(point)]
    for row in {change.row for change in model.log if change.row.owner in owners}:
        revisions = [change.revision for change in model.log if change.row == row]
        is_older = max([*revisions, now.reworked.get(row, 0)]) < point.limit
        if is_older and differ(now.values.get(row, ...), values.get(row, ...)):
            return True
    return False


def removes_heirs(model: BranchModel, point: Point) -> bool:
    """
    A restore would remove what a branch has made of an instance.

    It does so also if that was in another chat then, and what is removed is shown as of a
    message all the same.
    """
    heirs, members = model.heirs(), model.members(point)
    return any(id in heirs and id not in members for id in model.now.members(point.chat))
