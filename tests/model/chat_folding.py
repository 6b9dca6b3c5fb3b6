"""
Compare the server with the chat model after the log was folded.

The model folds nothing: the present stays as it was, and a message reads as before, or not at all.
"""

from __future__ import annotations

from typing import Any

from tests.model.chat_log import data_of
from tests.model.chat_points import PointComparison
from tests.model.chat_reading import path_of
from tests.support.answers import refused


class FoldingComparison(PointComparison):
    """Folds the log at the end of a story, in a few steps."""

    def end(self) -> None:
        super().end()
        self.fold()

    def fold(self) -> None:
        now = self.model.revision
        keeps = [now * 3 // 4, now // 2, now // 4, 3, 1]
        # Stories differ in which part of them is folded first.
        for keep in keeps[next(self.writes) % len(keeps) :]:
            answer = self.client.post("/compact", json={"keep": {"revisions": keep}})
            assert answer.status_code == 200, answer.text
            self.compare_present()
            self.read_as_of_all_messages()
            self.delete_checkpoints()
        for name in self.model.now.titles.values():
            self.show_again(name)
        self.read_as_of_all_messages()

    def delete_checkpoints(self) -> None:
        """Delete the checkpoints, which keep their states from being folded."""
        for chat, label in list(self.model.checkpoints):
            answer = self.client.delete(self.path_of_checkpoint(chat, label))
            assert answer.status_code == 200, answer.text
        self.model.checkpoints.clear()

    def read_as_of_all_messages(self) -> None:
        for chat, name in self.model.now.titles.items():
            chain = list(self.model.now.chains.get(chat, {}))
            for message in chain:
                self.read_folded(chat, name, message, message == chain[-1])

    def read_folded(self, chat: int, name: str, message: str, is_last: bool) -> None:
        answer = self.client.get(f"{path_of(name)}/state", params={"at": f"message:{message}"})
        if answer.status_code == 410 and not is_last:
            assert refused(answer)[1] == "compacted"
            return
        assert answer.status_code == 200, answer.text
        members, values = self.model.as_of(name, message)
        self.compare_contents_of(answer.json(), chat, members, values)

    def compare_contents_of(self, found: Any, chat: int, members: Any, values: Any) -> None:
        assert found["data"] == data_of(values, chat)
        listed = {each["instance"]["id"]: each["data"] for each in found["instances"]}
        assert listed == {id: data_of(values, id) for id in members}
        self.compare_counts(found, values, chat)

    def show_again(self, name: str) -> None:
        """Hide all messages and show the same chain again: the values are the same."""
        now = self.model.now
        chat = now.names[name]
        chain = now.chains.get(chat, {})
        anchors = [{"messageId": message, "swipe": swipe} for message, swipe in chain.items()]
        for shown in ([], anchors[::2], anchors):
            answer = self.client.post(f"{path_of(name)}/reconcile", json={"anchors": shown})
            assert answer.status_code == 200, answer.text
        found = self.get(f"{path_of(name)}/state")
        self.compare_contents_of(found, chat, now.members(chat), now.values)
