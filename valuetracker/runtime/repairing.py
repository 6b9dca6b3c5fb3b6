"""
Repairing a damaged database as far as that is possible, and salvaging what is intact of it.

On PostgreSQL there is nothing to repair: it keeps its pages and indexes itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from pathlib import Path

from valuetracker.errors import DatabaseDamaged, ExtensionNotRegistered, ValueTrackerError
from valuetracker.records import Salvaged, Verified
from valuetracker.runtime.backup_files import new_file, sync
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.provisioning import Provisioning
from valuetracker.store.audit.audit import Report
from valuetracker.store.audit.repairing import rebuild_keyframes
from valuetracker.store.audit.verifying import verify
from valuetracker.store.transfer.lines import LineWriter
from valuetracker.store.transfer.salvaging import Salvage

logger = logging.getLogger(__name__)


async def verify_and_repair(extensions: Extensions, extension_id: str, report: Report) -> Verified:
    """
    Verify a database completely while it is in use.

    If it cannot be opened, what follows from the rest of it is made anew first.
    """
    repaired = await _is_damaged(extensions, extension_id) and await _repair(
        extensions, extension_id
    )
    result = await _verify(extensions, extension_id, report)
    result["repaired"] = repaired
    return result


async def _verify(extensions: Extensions, extension_id: str, report: Report) -> Verified:
    try:
        extension = await extensions.acquire(extension_id)
    except DatabaseDamaged as damage:
        return _damaged(extension_id, damage)
    try:
        await extension.database.verified()
        await extension.database.check_structure()
        return (await extension.read(verify, extension_id, report)).result
    except DatabaseDamaged as damage:
        return _damaged(extension_id, damage)
    finally:
        extensions.release(extension)


def _damaged(extension_id: str, damage: DatabaseDamaged) -> Verified:
    return {
        "extension": extension_id,
        "sound": False,
        "findings": [damage.message],
        "revision": 0,
        "rows": 0,
        "entries": 0,
        "checkpoints": 0,
        "repaired": False,
    }


async def _is_damaged(extensions: Extensions, extension_id: str) -> bool:
    try:
        extension = await extensions.acquire(extension_id)
    except DatabaseDamaged:
        return True
    try:
        await extension.database.verified()
        await extension.database.check_structure()
        return False
    except DatabaseDamaged:
        return True
    finally:
        extensions.release(extension)


async def _repair(extensions: Extensions, extension_id: str) -> bool:
    """Put a sound copy in the place of a damaged file; return false if there can be none."""
    engine = extensions.engine
    if not engine.copies_files:
        return False
    async with extensions.kept_closed(extension_id, "closed") as known:
        if known is None or known.location is None:
            return False
        location = known.location
        copy: Path | None = None
        try:
            known = await Provisioning(engine, extensions.registry).identified(known)
            copy = await engine.rebuild_file(location, known.identity or "", rebuild_keyframes)
            # After a crash its log counts as a part of it, and is a part of the copy.
            await engine.replace_file(location, copy)
        except ValueTrackerError as error:
            logger.error(
                "a database cannot be repaired",
                extra={"extension": extension_id, "reason": error.message},
            )
            return False
        finally:
            if copy is not None:
                with contextlib.suppress(OSError):
                    copy.unlink(missing_ok=True)
        # If the file was open for writing when the server last ran, its mark stays: nobody knows if
        # all of its log was there, so it is a new incarnation when it is opened.
        await extensions.registry.save(replace(known, stamp=None))
        logger.warning("a database was repaired", extra={"extension": extension_id})
        return True


async def salvage(extensions: Extensions, extension_id: str, path: Path) -> Salvaged:
    """
    Write what is intact of a database to a new file, an export, and say what is lost.

    The database stays as it is; nobody uses it meanwhile.
    """
    async with extensions.kept_closed(extension_id, "closed") as known:
        if known is None or known.location is None:
            raise ExtensionNotRegistered(extension_id)
        salvaging = Salvage()
        lost = await extensions.engine.read_intact(known.location, salvaging.take)

    def write() -> int:
        with new_file(path) as file:
            values = salvaging.write(extension_id, LineWriter(file))
        sync(path)
        return values

    values = await asyncio.to_thread(write)
    return {
        "extension": extension_id,
        "file": str(path),
        "values": values,
        "lost": lost + salvaging.lost,
    }
