"""
Jobs: work that takes longer than a request should wait for.

A request begins a job and is answered at once; `GET /jobs/:id` says how far it has come, and so do
events of the feed. Jobs are kept in memory: those of a server that stops end with it, and leave
nothing half done.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from valuetracker.errors import JobNotFound, ValueTrackerError
from valuetracker.names import DEFAULT_USER
from valuetracker.records import JobEvent, JobRecord, now

logger = logging.getLogger(__name__)

# How many jobs that have ended are remembered.
KEPT_JOBS = 200
# How often readers of feeds are told how far a job is.
TOLD_EVERY_SECONDS = 0.5


class Job:
    """One piece of work: how far it is, and what came of it."""

    def __init__(
        self,
        kind: str,
        scope: str,
        about: str = "",
        user: str = DEFAULT_USER,
        extension_id: str = "",
    ) -> None:
        self.id = secrets.token_hex(8)
        self.kind = kind
        # Whose feeds tell of it: that of one extension, or of all if it is about no single one.
        self.user = user
        self.extension_id = extension_id
        # The extension or the backup that it is about.
        self.about = about
        # Who may ask for it, beside admins.
        self.scope = scope
        self.status = "running"
        self.done = self.total = 0
        self.result: Any = None
        self.error: dict[str, Any] | None = None
        self.started_at = now()
        self.ended_at: str | None = None

    def report(self, done: int, total: int) -> None:
        """Say how far it is; may be called on any thread."""
        self.done, self.total = done, total

    def event(self) -> JobEvent:
        """Return how far it is, without what came of it, which not every reader may know."""
        return {
            "at": self.ended_at or now(),
            "job": self.id,
            "kind": self.kind,
            "status": self.status,
            "done": self.done,
            "total": self.total,
        }

    def record(self) -> JobRecord:
        return {
            "id": self.id,
            "kind": self.kind,
            "status": self.status,
            "done": self.done,
            "total": self.total,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "result": self.result,
            "error": self.error,
        }


Work = Callable[[Job], Coroutine[Any, Any, Any]]


class Jobs:
    """The jobs of one server."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Called when a job has begun, has come further, or has ended.
        self.on_change: Callable[[Job], None] = lambda job: None

    def start(
        self,
        kind: str,
        scope: str,
        work: Work,
        about: str = "",
        user: str = DEFAULT_USER,
        extension_id: str = "",
    ) -> Job:
        """
        Begin some work; what it returns is the result of the job.

        While the same is done about the same for the same caller, that job is returned.
        """
        for each in self._jobs.values():
            same = (each.kind, each.scope, each.about) == (kind, scope, about)
            if same and each.status == "running":
                return each
        job = Job(kind, scope, about, user, extension_id)
        self._jobs[job.id] = job
        task = asyncio.get_running_loop().create_task(self._run(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._forget_oldest()
        return job

    def _forget_oldest(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.status != "running"]
        for id in ended[: max(0, len(ended) - KEPT_JOBS)]:
            del self._jobs[id]

    async def _run(self, job: Job, work: Work) -> None:
        self.on_change(job)
        telling = asyncio.get_running_loop().create_task(self._tell_often(job))
        try:
            job.result = await work(job)
            job.status = "done"
        except ValueTrackerError as error:
            job.error, job.status = error.body(), "failed"
        except asyncio.CancelledError:
            job.status = "failed"
            raise
        except Exception:
            logger.exception("a job has failed", extra={"kind": job.kind})
            job.error, job.status = ValueTrackerError().body(), "failed"
        finally:
            telling.cancel()
            job.ended_at = now()
            self.on_change(job)

    async def _tell_often(self, job: Job) -> None:
        """Tell how far a job is, if it has come further."""
        told = (job.done, job.total)
        while True:
            await asyncio.sleep(TOLD_EVERY_SECONDS)
            if told != (told := (job.done, job.total)):
                self.on_change(job)

    def find(self, id: str, scope: str, admin: bool) -> Job:
        """Return a job; raise if there is none, or it is somebody else's."""
        job = self._jobs.get(id)
        if job is None or not (admin or job.scope == scope):
            raise JobNotFound()
        return job

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
