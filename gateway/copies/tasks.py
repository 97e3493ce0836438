"""The Celery task that makes a copy. Its state is in the database alone."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from celery.signals import worker_ready, worker_shutting_down
from django.db import Error as DatabaseError
from django.db import close_old_connections

from engine.base.errors import MagnetarError
from gateway.celery import app
from gateway.clusters.acting_clients import ActingClient
from gateway.clusters.configured import configured_clusters
from gateway.copies import services
from gateway.copies.models import CopyJob, CopyMode, CopyState
from gateway.http.auth.access import rights_are_judged
from gateway.services.copying.copier import CopiedCounts, CopyProgress, MessageCopier
from gateway.services.copying.reading import SourcePlace
from gateway.services.copying.retrying import until_done
from gateway.services.copying.undoing import CopyUndoer
from gateway.services.engine_link import Engine, EngineLink

log = logging.getLogger(__name__)
BEAT_S = 1.0
RECOVER_S = 5.0
STOP_S = 10.0
"""Time in which work that is to stop reports what it was sending: a resumed copy would send that again."""
T = TypeVar("T")


class _EndedError(Exception):
    """The attempt must end: a stop was requested, or another attempt has the copy."""


@app.task(name=services.EXECUTE)  # type: ignore[untyped-decorator]
def execute(job_id: str, attempt: int) -> None:
    """Make one attempt at a copy. A second delivery of the same message has nothing to claim."""
    job = services.claim(job_id=job_id, attempt=attempt)
    if job is None:
        return
    try:
        refusal = asyncio.run(_attempt(job))
        services.finish(job=job, state=CopyState.SUCCEEDED, error=refusal)
    except _EndedError:
        services.close_stopped(job=job)
    except DatabaseError:
        raise  # its lease expires, and it is queued again
    except Exception as error:
        log.warning("copy failed id=%s", job.id, exc_info=not isinstance(error, MagnetarError))
        services.finish(job=job, state=CopyState.FAILED, error=str(error) or type(error).__name__)


async def _attempt(job: CopyJob) -> str:
    """Work until the copy is made or must end; return why a message was refused, empty for none.

    Rights are judged by brokers, for the role that created it.
    """
    clusters = configured_clusters(asyncio.get_running_loop())
    cluster = clusters.named(job.cluster)
    role = job.created_by if rights_are_judged() else ""
    acting = cluster.clients.use(role)
    work = asyncio.ensure_future(_work(job, cluster.link, acting))
    try:
        return await _watch(job, work)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await acting.client.close()
        await cluster.link.aclose()


async def _work(job: CopyJob, link: EngineLink, acting: ActingClient) -> str:
    task, place, counts = services.task_of(job), SourcePlace(*job.place), CopiedCounts(**job.counts)

    async def report(progress: CopyProgress) -> None:
        if not await _in_thread(lambda: services.report(job=job, progress=progress)):
            raise _EndedError

    async def cannot_open(problem: str) -> None:
        await report(CopyProgress(place, counts, problem))

    opened = await until_done(link.engine, cannot_open)
    engine = Engine(opened.store, opened.admin, opened.cluster, job.created_by)
    if job.mode == CopyMode.UNDO:
        again = job.attempt > 1
        await CopyUndoer(engine, task, place, counts, report, again=again).run()
        return ""
    copier = MessageCopier(engine, acting.client, task, place, counts, report)
    await copier.run()
    return copier.refusal and f"Not all messages were copied: {copier.refusal}"


async def _watch(job: CopyJob, work: "asyncio.Future[str]") -> str:
    """Renew the lease while ``work`` is done; return its result. Raises what it raises, and _EndedError when it must
    end at once."""
    renewed_s, stop_s = time.monotonic(), math.inf
    while True:
        done, _ = await asyncio.wait({work}, timeout=BEAT_S)
        if done:
            return work.result()
        try:
            stopping = await _in_thread(lambda: services.beat(job=job))
        except DatabaseError as error:
            log.warning("the lease of copy %s is not renewed: %s", job.id, error)
        else:
            if stopping is None:
                raise _EndedError
            renewed_s = time.monotonic()
            if stopping:
                stop_s = min(stop_s, renewed_s + STOP_S)
        if time.monotonic() >= min(renewed_s + services.LEASE_MS / 1000, stop_s):
            raise _EndedError


async def _in_thread(work: Callable[[], T]) -> T:
    def run() -> T:
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.to_thread(run)


_stopping = threading.Event()


def _recover_for_ever() -> None:
    while not _stopping.wait(RECOVER_S):
        try:
            services.recover()
        except Exception:
            log.warning("recovering lost copies failed", exc_info=True)
        finally:
            close_old_connections()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _begin_recovery(**_: object) -> None:
    threading.Thread(target=_recover_for_ever, name="recover-copies", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end_recovery(**_: object) -> None:
    _stopping.set()
