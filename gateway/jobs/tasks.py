"""Celery tasks that run an analysis on Spark and keep Spark warm. The state of a run is in the database alone."""

import asyncio
import json
import logging
import os
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any

import redis
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from redis.exceptions import RedisError

from engine.base.tasks import contained
from engine.net.service_manager import notices
from gateway.celery import app
from gateway.jobs import background, destinations, outputs, schedules, services, spark
from gateway.jobs.models import JobRun, RunState
from gateway.jobs.owners import check_owner
from gateway.services.clock import now_ms
from gateway.services.health.parts import WORKER_KEY_S, WORKER_PERIOD_S
from gateway.standalone.plan import WORKER_KEY

log = logging.getLogger(__name__)
BEAT_S = 0.5
CANCEL_PATIENCE_S = 2.0
"""Time within which a cancelled attempt must stop; then its run is closed while the attempt still runs."""
ANNOUNCE_S = 1.0
"""Time within which Redis must forward that a run changed; the work waits for it."""
END_PATIENCE_S = 10.0
"""Time within which an attempt that should stop must end. Then its process is ended, so that the worker's slot is free:
a call to Spark that hangs cannot be interrupted."""
SILENT_S = 180.0
"""Time after which a run fails without a sign of life from Spark, which reports progress continuously."""
WARM_S = 660.0
"""Time within which warming Spark must end."""
PARTIAL_S = 1.0
"""The shortest time between two partial results of a run."""
PARTIAL_BYTES_MAX = 1_000_000
RECOVER_S = 5.0
SWEEP_S = 600.0


class RunStoppedError(Exception):
    """The attempt should stop: its run was cancelled, closed, or taken over."""


@app.task(name=services.EXECUTE)  # type: ignore[untyped-decorator]
def execute(run_id: str, attempt: int) -> None:
    """Run one attempt to its end. A second delivery of the same message has nothing to claim."""
    if not isinstance(run_id, str) or not isinstance(attempt, int):
        raise TypeError("jobs.execute takes a run id and an attempt number")
    run = services.claim(run_id=run_id, attempt=attempt)
    if run is None:
        return
    heartbeat = _Heartbeat(run)
    heartbeat.start()
    try:
        notify(run.id)
        _attempt(run, heartbeat)
    finally:
        heartbeat.stop()
        outputs.discard(run)
        notify(run.id)


def _attempt(run: JobRun, heartbeat: "_Heartbeat") -> None:
    """Run the analysis and close the run. Errors of the database are raised: ``recover`` then queues the run again."""
    try:
        check_owner(run)
        directory = outputs.create(run)
        result = spark.run_analysis(run, directory, _Progress(run, heartbeat))
        downloads = outputs.seal(directory)
        outcome: dict[str, Any] = {"result": result, "downloads": downloads}
        if url := settings.ENVIRONMENT.output_url:
            outcome["output_url"] = destinations.publish(url, run, directory, result)
        _close(run, heartbeat, RunState.SUCCEEDED, **outcome)
    except DatabaseError:
        raise
    except RunStoppedError as error:
        _close(run, heartbeat, RunState.FAILED, error=str(error))
    except Exception as error:
        note(run, traceback.format_exc()[-services.ERROR_CHARACTERS_MAX // 2 :])
        again = spark.is_lost(error) and not heartbeat.lost
        if again and services.retry(run=run, reason=spark.LOST):
            return
        if _close(run, heartbeat, RunState.FAILED, error=spark.explain(error)) is RunState.FAILED:
            log.warning("run failed id=%s analysis=%s", run.id, run.analysis, exc_info=True)


def note(run: JobRun, text: str) -> None:
    """Add a line to the run's log. An error of the database is only logged: a line does not end a run."""
    try:
        services.note(run=run, text=text)
    except DatabaseError as error:
        log.warning("could not note in the log of run %s: %s", run.id, error)


def _close(
    run: JobRun, heartbeat: "_Heartbeat", state: RunState, **outcome: Any
) -> RunState | None:
    """Close the run and return its final state; None when another attempt has it now or soon will (J5)."""
    closed = None if heartbeat.lost else services.finish(run=run, state=state, **outcome)
    if closed is None:
        level = logging.INFO if heartbeat.closed else logging.WARNING
        log.log(
            level, "late outcome dropped run=%s attempt=%d %s", run.id, run.attempt, state.value
        )
    return closed


@app.task(name=services.WARM)  # type: ignore[untyped-decorator]
def warm() -> None:
    """Start Spark and its Python and open this worker's session, so that the first analysis does not wait for it."""
    patience = threading.Timer(WARM_S, end_process, ("warming Spark",))
    patience.daemon = True
    patience.start()
    try:
        spark.warm(spark.session())
    except Exception as error:
        log.warning("Spark could not be warmed up: %s", spark.explain(error))
    finally:
        patience.cancel()


@app.task(name=background.TASK)  # type: ignore[untyped-decorator]
def work_in_background(module: str, key: str) -> None:
    """Do the work of an app on a key."""
    background.perform(module, key)


def end_process(what: str) -> None:
    """End this process of the worker's pool, since ``what`` hangs in it; Celery starts another process."""
    log.warning("ending this process: %s does not end", what)
    logging.shutdown()
    os._exit(os.EX_TEMPFAIL)


def notify(run_id: str) -> None:
    """Notify the consoles that watch a run; they read the row themselves. An error is only logged."""
    from asgiref.sync import async_to_sync
    from channels.layers import get_channel_layer

    layer = get_channel_layer()
    if layer is None:
        return

    async def announce() -> None:
        async with asyncio.timeout(ANNOUNCE_S):
            await layer.group_send(f"run.{run_id}", {"type": "run.changed", "id": run_id})

    try:
        async_to_sync(announce)()
    except (RedisError, OSError) as error:  # The consoles poll the row as well.
        reason = str(error) or f"no answer within {ANNOUNCE_S:g} s"  # a time-out has no text
        log.warning("could not announce run %s: %s", run_id, reason)


class _Progress:
    """Callback for the progress of a run, which is stored in its row and noted by its heartbeat."""

    def __init__(self, run: JobRun, heartbeat: "_Heartbeat") -> None:
        self._run = run
        self._heartbeat = heartbeat
        self._stage = ""
        self._shown_s = -PARTIAL_S
        """The time of the last partial result."""

    def begin_work(self) -> None:
        """Store that Spark is there: the time of the run without Spark's start counts from now on."""
        try:
            services.begin_work(run=self._run)
        except DatabaseError as error:
            log.warning("could not store that run %s began to work: %s", self._run.id, error)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Store the progress of the run and notify the consoles. Raises RunStoppedError, which ends a job that waits:
        Spark has nothing of it to interrupt."""
        if self._heartbeat.is_unwanted:
            raise RunStoppedError("the run was stopped")
        self._heartbeat.note_sign_of_life()
        if stage != self._stage:
            self._stage = stage
            note(self._run, stage)
        try:
            services.report(run=self._run, stage=stage, done=done, total=total)
        except DatabaseError as error:
            # A busy database may lose a report of progress, but does not end the run.
            log.warning("could not report progress of run %s: %s", self._run.id, error)
        notify(self._run.id)

    def partial(self, result: Mapping[str, Any]) -> None:
        """Store an incomplete result and notify the consoles; one that comes within a second is left out."""
        self._heartbeat.note_sign_of_life()
        now_s = time.monotonic()
        if now_s - self._shown_s < PARTIAL_S:
            return
        if (size := len(json.dumps(result))) > PARTIAL_BYTES_MAX:
            log.warning("partial result of run %s has %d bytes: not shown", self._run.id, size)
            return
        self._shown_s = now_s
        try:
            services.report_partial(run=self._run, result=result)
        except DatabaseError as error:
            log.warning("could not store the partial result of run %s: %s", self._run.id, error)
        notify(self._run.id)

    def sign(self, **_: Any) -> None:
        """Note a sign of life; Spark calls it with any report of progress."""
        self._heartbeat.note_sign_of_life()


class _Heartbeat(threading.Thread):
    """The thread that renews the lease of a run, and interrupts Spark when the attempt should stop.

    It interrupts repeatedly, since the attempt may start further operations. A run without a sign of life from Spark
    for SILENT_S fails. The process of an attempt that still runs END_PATIENCE_S after it should have stopped is ended
    (J6).
    """

    def __init__(self, run: JobRun) -> None:
        super().__init__(name=f"heartbeat-{run.id}", daemon=True)
        self._run = run
        self._stopping = threading.Event()
        self._renewed_s = time.monotonic()
        self._sign_of_life_s = time.monotonic()
        self._unwanted_s: float | None = None
        """The time since which the attempt should stop."""
        self._interrupt: threading.Thread | None = None
        self.lost = False
        """True once no renewal succeeded for the duration of a lease. Another worker may have the run now, so the lease
        is not renewed any more."""
        self.closed = False
        """True once the run was closed while the attempt still ran: as cancelled, or without a sign of life."""

    def run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            try:
                if self.lost or not self._beat() or self._is_silent():
                    self._stop_attempt()
            except Exception:
                log.warning("heartbeat of run %s failed", self._run.id, exc_info=True)
            finally:
                close_old_connections()

    def _stop_attempt(self) -> None:
        """Interrupt Spark without waiting for its answer; close a cancelled run after CANCEL_PATIENCE_S."""
        now_s = time.monotonic()
        if self._interrupt is None or not self._interrupt.is_alive():
            self._interrupt = threading.Thread(
                target=spark.interrupt, args=(self._run,), name=f"stop-{self._run.id}", daemon=True
            )
            self._interrupt.start()
        if self._unwanted_s is None:
            self._unwanted_s = now_s
        late = now_s - self._unwanted_s > CANCEL_PATIENCE_S
        if late and not self.lost and services.close_cancelled(run=self._run):
            self.closed = True
            log.info("run cancelled, its attempt is still stopping run=%s", self._run.id)
            notify(self._run.id)
        if now_s - self._unwanted_s > END_PATIENCE_S:
            end_process(f"run {self._run.id}")

    @property
    def is_unwanted(self) -> bool:
        """True once the attempt should stop."""
        return self._unwanted_s is not None

    def note_sign_of_life(self) -> None:
        """Restart the time of SILENT_S."""
        self._sign_of_life_s = time.monotonic()

    def _is_silent(self) -> bool:
        """Return whether there was no sign of life for SILENT_S; if so, close the run as failed."""
        if time.monotonic() - self._sign_of_life_s <= SILENT_S:
            return False
        error = f"Spark has given no sign of life for {SILENT_S:.0f} s; restart it, then start the run again"
        if services.finish(run=self._run, state=RunState.FAILED, error=error):
            self.closed = True
            log.warning("run failed id=%s: %s", self._run.id, error)
            notify(self._run.id)
        return True

    def _beat(self) -> bool:
        """Renew the lease; return whether the attempt should continue."""
        began_s = time.monotonic()
        try:
            wanted = services.beat(run=self._run)
        except DatabaseError as error:
            self.lost = time.monotonic() - self._renewed_s > services.LEASE_MS / 1000
            log.warning("heartbeat of run %s failed: %s", self._run.id, error)
            return not self.lost
        self._renewed_s = began_s
        return wanted

    def stop(self) -> None:
        self._stopping.set()
        self.join(5)


_stopping = threading.Event()


def _recover_runs_for_ever() -> None:
    swept_s = 0.0
    while not _stopping.wait(RECOVER_S):
        try:
            for run_id in services.recover():
                notify(run_id)
            schedules.start_due()
            if not swept_s or time.monotonic() - swept_s > SWEEP_S:
                outputs.sweep()
                limits = settings.ENVIRONMENT
                outputs.prune(days=limits.run_days, runs_max=limits.runs_max, now_ms=now_ms())
                swept_s = time.monotonic()
        except Exception:
            log.warning("recovering lost runs failed", exc_info=True)
        finally:
            with contained("closing the database's connections"):
                close_old_connections()


def _renew_worker_key_for_ever() -> None:
    """Renew the key in Redis by which gateways and the supervisor detect that there is a worker."""
    failing = False
    client: redis.Redis | None = None
    while True:
        try:
            client = client or redis.from_url(
                settings.REDIS.redis_url,
                **settings.REDIS.options(),
                socket_timeout=WORKER_PERIOD_S,
                socket_connect_timeout=WORKER_PERIOD_S,
            )
            client.set(WORKER_KEY, os.getpid(), ex=WORKER_KEY_S)
            failing = False
        except Exception as error:  # After any error, a worker that works must be detected again.
            if not failing:
                unexpected = not isinstance(error, RedisError | OSError)
                log.warning("gateways cannot detect this worker: %s", error, exc_info=unexpected)
            failing = True
        if _stopping.wait(WORKER_PERIOD_S):
            return


@worker_ready.connect  # type: ignore[untyped-decorator]
def _begin_recovery(**_: Any) -> None:
    notices.notify(notices.READY)  # it consumes from the queue
    threading.Thread(target=_recover_runs_for_ever, name="recover-runs", daemon=True).start()
    if settings.REDIS.redis_url:
        threading.Thread(target=_renew_worker_key_for_ever, name="worker-key", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end_recovery(**_: Any) -> None:
    notices.stopping()
    _stopping.set()
    # The supervisor ends the pool's processes with the worker, for which Celery would log stack traces. A run that was
    # under way is tried again when its lease has expired.
    logging.getLogger("celery.worker.request").setLevel(logging.CRITICAL)
