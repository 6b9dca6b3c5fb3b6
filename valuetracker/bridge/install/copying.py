"""
Copies files into a SillyTavern: bytes decide what is skipped, and nothing is deleted.
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
    """A copy that is under way, or only thought through (`dry_run`)."""

    roots: list[Path]
    dry_run: bool
    # What the paths of actions are relative to.
    base: Path
    actions: list[CopyAction] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    # Folders that a dry run would have made by now.
    _imagined: set[Path] = field(default_factory=set)

    def count(self, action: str) -> int:
        return sum(each["action"] == action for each in self.actions)

    def copy(self, folder: Path, files: dict[str, bytes]) -> None:
        """Put files, by their names relative to the folder, where they are not yet."""
        for name, content in sorted(files.items()):
            self.put(folder / name, content)

    def put(self, path: Path, content: bytes) -> None:
        folder = self._enter(path.parent)
        if folder is None:
            self._note("create", path)
            return
        with folder:
            found = folder.read(path.name)
            if found == content:
                self._note("skip", path)
                return
            if not self.dry_run:
                folder.write(path.name, content)
            self._note("create" if found is None else "update", path)

    def _enter(self, path: Path) -> Folder | None:
        """The folder, made if need be; None if a dry run would have to make it."""
        root, names = below(path, self.roots)
        folder, at = Folder.enter(root), root
        for name in names:
            at = at / name
            with folder:
                try:
                    child = folder.child(name)
                except FileNotFoundError:
                    if at not in self._imagined:
                        self._note("mkdir", at)
                        self.folders.append(self._relative(at))
                    if self.dry_run:
                        self._imagine(at, path)
                        return None
                    child = folder.child(name, create=True)
            folder = child
        return folder

    def _imagine(self, first: Path, last: Path) -> None:
        for each in [first, *(first / part for part in _steps(first, last))]:
            if each not in self._imagined:
                self._imagined.add(each)
                if each != first:
                    self._note("mkdir", each)
                    self.folders.append(self._relative(each))

    def _note(self, action: str, path: Path) -> None:
        self.actions.append({"action": action, "path": self._relative(path)})
        if not self.dry_run:
            logger.debug("file copied", extra={"action": action, "path": str(path)})

    def _relative(self, path: Path) -> str:
        return (path.relative_to(self.base) if path.is_relative_to(self.base) else path).as_posix()


def _steps(first: Path, last: Path) -> list[Path]:
    parts = last.relative_to(first).parts
    return [Path(*parts[: count + 1]) for count in range(len(parts))]
