"""
Copying files into a SillyTavern: a file with the same bytes is skipped, nothing is deleted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from valuetracker.bridge.folders import Folder
from valuetracker.bridge.install.paths import below
from valuetracker.bridge.records import CopyAction

logger = logging.getLogger(__name__)


@dataclass
class Copying:
    """A copy in progress; a `dry_run` only lists the actions."""

    roots: list[Path]
    dry_run: bool
    # The paths of actions are relative to this folder.
    base: Path
    actions: list[CopyAction] = field(default_factory=list)
    # Folders that the dry run has listed as made.
    _planned: set[Path] = field(default_factory=set)

    def count(self, action: str) -> int:
        return sum(each["action"] == action for each in self.actions)

    def copy_all(self, folder: Path, files: dict[str, bytes]) -> None:
        """Copy files, by their names relative to the folder."""
        for name, content in sorted(files.items()):
            self.copy(folder / name, content)

    def copy(self, path: Path, content: bytes) -> None:
        folder = self._open(path.parent)
        if folder is None:
            self._add_action("create", path)
            return
        with folder:
            found = folder.read(path.name)
            if found == content:
                self._add_action("skip", path)
                return
            if not self.dry_run:
                folder.write(path.name, content)
            self._add_action("create" if found is None else "update", path)

    def _open(self, path: Path) -> Folder | None:
        """Open a folder, and make it if it is missing; None if a dry run would make it."""
        root, names = below(path, self.roots)
        folder, at = Folder.open(root), root
        for name in names:
            at = at / name
            with folder:
                try:
                    child = folder.child(name)
                except FileNotFoundError:
                    if self.dry_run:
                        self._plan(at, path)
                        return None
                    self._add_action("mkdir", at)
                    child = folder.child(name, create=True)
            folder = child
        return folder

    def _plan(self, first: Path, last: Path) -> None:
        """List the folders from the first to the last that a dry run would make."""
        missing = [each for each in (last, *last.parents) if each.is_relative_to(first)]
        for each in reversed(missing):
            if each not in self._planned:
                self._planned.add(each)
                self._add_action("mkdir", each)

    def _add_action(self, action: str, path: Path) -> None:
        self.actions.append({"action": action, "path": self._relative(path)})
        if not self.dry_run:
            logger.debug("file copied", extra={"action": action, "path": str(path)})

    def _relative(self, path: Path) -> str:
        return (path.relative_to(self.base) if path.is_relative_to(self.base) else path).as_posix()
