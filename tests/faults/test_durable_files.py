"""Files that these functions made, moved or removed survive a power cut at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.faults.disk import Disk
from tests.faults.shim import Shim

# Each works in the folder `root`.
DEEDS = {
    "folders": "durable.make_folders(root / 'a' / 'b' / 'c')",
    "folders below one that was not synced": (
        "(root / 'a').mkdir(); durable.make_folders(root / 'a' / 'b')"
    ),
    "a folder that was not synced": "(root / 'a').mkdir(); durable.make_folders(root / 'a')",
    "a file": "durable.write_file(root / 'new', b'new')",
    "a file replaced": "durable.write_file(root / 'old', b'new')",
    "files removed": "durable.remove_files([root / 'old', root / 'folder' / 'other'])",
    "files moved": (
        "durable.move_files([(root / 'old', root / 'folder' / 'moved'),"
        " (root / 'folder' / 'other', root / 'other')])"
    ),
    "a file of the bridge": "Folder.open(root).write('new', b'new')",
    "a file of the bridge replaced": "Folder.open(root).write('old', b'new')",
    "a file of the bridge that must be new": "Folder.open(root).write('new', b'n', replace=False)",
    "folders of the bridge": "Folder.open(root, ('a', 'b'), create=True).write('new', b'new')",
    "a file of the bridge removed": "Folder.open(root).remove('old')",
    "a folder of the bridge removed": "Folder.open(root).remove_folder('empty')",
}
SCRIPT = """
import sys
from pathlib import Path
from valuetracker import durable
from valuetracker.bridge.folders import Folder
root = Path(sys.argv[1])
exec(sys.argv[2])
"""


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None
        for each in folder.rglob("*")
    }


@pytest.mark.parametrize("deed", DEEDS)
def test_what_was_done_survives_a_power_cut(shim: Shim, tmp_path: Path, deed: str) -> None:
    for name in ("old", "folder/other", "empty/"):
        path = shim.root / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_bytes(name.encode())
    before = tmp_path / "before"
    shutil.copytree(shim.root, before)

    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(shim.root), DEEDS[deed]],
        env={**os.environ, **shim.environment},
        check=True,
    )

    assert content(shim.root) != content(before)
    for model in ("strict", "chaos"):
        disk = Disk(shim.root, before, model)
        for record in shim.records():
            disk.apply(record)
        disk.save(tmp_path / model, Random(0), "none")
        assert content(tmp_path / model) == content(shim.root)
