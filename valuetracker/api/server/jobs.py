"""Routes of work that takes a while: verifying, and asking how far it is."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import ExtensionNotRegistered, InvalidId, JobNotFound
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint
from valuetracker.records import Begun, JobRecord
from valuetracker.runtime.jobs import Job
from valuetracker.runtime.repairing import verify_and_repair


def begin(call: Call, kind: str, work: Any, about: str) -> Begun:
    """Begin a job that the caller may ask for."""
    caller = call.caller
    jobs = call.service.jobs
    job = jobs.start(kind, caller.scope, work, about, caller.user, call.extension_id)
    return {"job": job.id}


async def verify(call: Call) -> Begun:
    """
    Verify an extension completely, while it is in use.

    Pages and indexes, the checksum of every row, every pointer from one row to another, the log of
    every character, chat and instance against its values, and every checkpoint. The result of the
    job has `sound`, and `findings`: what is wrong, and where.

    No value is changed. If only indexes or keyframes of a file are damaged, which follow from the
    rest, a new file in which they are made anew takes its place: then `repaired` is true, and the
    damaged file is in the trash folder.
    """
    extensions, extension_id = call.extensions, call.extension_id
    if extensions.registry.find_registered(extension_id) is None:
        raise ExtensionNotRegistered(extension_id)

    async def work(job: Job) -> Any:
        return await verify_and_repair(extensions, extension_id, job.report)

    return begin(call, "verify", work, f"{call.caller.user}/{extension_id}")


async def get_job(call: Call) -> JobRecord:
    """
    Read how far a job is, and what came of it.

    `status` is `running`, `done` (then `result` says what came of it) or `failed` (then `error`
    is the body of the refusal). A job can be asked for by the token that began it, and by admins.
    Jobs are forgotten when the server stops. The feed tells of them, too (`event: job`).
    """
    caller = call.caller
    return call.service.jobs.find(call.path["job"], caller.scope, caller.admin).record()


ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/verify",
        verify,
        returns=Begun,
        status=202,
        conditional=False,
    ),
    Endpoint(
        ("GET",),
        "/jobs/{job}",
        get_job,
        returns=JobRecord,
        raises=(InvalidId, JobNotFound),
        extension="none",
        access="public",
    ),
]
