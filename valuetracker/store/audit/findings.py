"""The findings of an audit: what is wrong, and where."""

from __future__ import annotations

# So many findings are named; one damaged row often causes many.
MOST_FINDINGS = 50


class TooMany(Exception):
    """Enough findings: the rest would say the same."""


class Findings:
    """Collects findings, each as a sentence."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        # The subject that is looked at.
        self.where = ""

    def expect(self, holds: bool, sentence: str) -> None:
        """Add a finding unless something holds."""
        if not holds:
            self.add(sentence)

    def add(self, sentence: str) -> None:
        self.sentences.append(f"{self.where}: {sentence}" if self.where else sentence)
        if len(self.sentences) >= MOST_FINDINGS:
            raise TooMany
