"""Celery tasks: run an analysis on Spark, keep Spark warm. What a run is and how it stands is the database's to say."""

import asyncio
import logging
import os
import threading
import time
from typing import Any

import redis
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings
from django.db import Error as DatabaseTrouble
from django.db import close_old_connections
from redis.exceptions import RedisError

from engine.base.tasks import contained
from gateway.celery import app
from gateway.jobs import outputs, services, spark
from gateway.jobs.models import JobRun, RunState
from gateway.services.health.parts import WORKER_KEY_S, WORKER_PERIOD_S
from gateway.standalone.plan import WORKER_KEY

log = logging.getLogger(__name__)
BEAT_S = 0.5
CANCEL_PATIENCE_S = 2.0
"""How long a cancelled attempt may take to stop before its run is closed over its head."""
ANNOUNCE_S = 1.0
"""How long Redis may take to pass on that a run changed; the work waits for it."""
END_PATIENCE_S = 10.0
"""How long an attempt that is not wanted any more may go on before its process is ended, so that the worker has the
slot back: what hangs in a call to Spark obeys nobody."""
SILENT_S = 180.0
"""How long a run goes on without a sign of life from Spark, which tells its progress all the time."""
WARM_S = 180.0
"""How long warming Spark may take."""
RECOVER_S = 5.0
SWEEP_S = 600.0


@app.task(name=services.EXECUTE)  # type: ignore[untyped-decorator]
def execute(run_id: str, attempt: int) -> None:
    """Run one attempt to its end. A second delivery of the same message finds nothing to claim."""
    if not isinstance(run_id, str) or not isinstance(attempt, int):
        raise TypeError("jobs.execute takes a run id and an attempt number")
    run = services.claim(run_id=run_id, attempt=attempt)
    if run is None:
        return
    heart = _Heart(run)
    heart.start()
    try:
        notify(run.id)
        _attempt(run, heart)
    finally:
        heart.stop()
        outputs.discard(run)
        notify(run.id)


def _attempt(run: JobRun, heart: "_Heart") -> None:
    """Do the work and close the run. Database errors pass through: ``recover`` gives the run on."""
    try:
        directory = outputs.create(run)
        result = spark.run_analysis(run, directory, _Progress(run, heart))
        downloads = outputs.seal(directory)
        _close(run, heart, RunState.SUCCEEDED, result=result, downloads=downloads)
    except DatabaseTrouble:
        raise
    except Exception as error:
        if _close(run, heart, RunState.FAILED, error=spark.explain(error)) is RunState.FAILED:
            log.warning("run failed id=%s analysis=%s", run.id, run.analysis, exc_info=True)


def _close(run: JobRun, heart: "_Heart", state: RunState, **outcome: Any) -> RunState | None:
    """J5. How the run ended; None when it belongs to another attempt by now, or soon will."""
    closed = None if heart.lost else services.finish(run=run, state=state, **outcome)
    if closed is None:
        level = logging.INFO if heart.closed else logging.WARNING
        log.log(
            level, "late outcome dropped run=%s attempt=%d %s", run.id, run.attempt, state.value
        )
    return closed


@app.task(name=services.WARM)  # type: ignore[untyped-decorator]
def warm() -> None:
    """Start Spark and its Python and open this worker's session, so that the first click need not wait for it."""
    patience = threading.Timer(WARM_S, end_process, ("warming Spark",))
    patience.daemon = True
    patience.start()
    try:
        spark.warm(spark.session())
    except Exception as error:
        log.warning("Spark could not be warmed up: %s", spark.explain(error))
    finally:
        patience.cancel()


def end_process(what: str) -> None:
    """End this process of the worker's pool, in which ``what`` hangs; Celery starts another in its place."""
    log.warning("ending this process: %s does not end", what)
    logging.shutdown()
    os._exit(os.EX_TEMPFAIL)


def notify(run_id: str) -> None:
    """Wake the consoles that watch a run; they read the row themselves."""
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
    except (RedisError, OSError) as error:  # the console's own polling still sees the row
        log.warning("could not announce run %s: %s", run_id, error)


class _Progress:
    """Progress of a run for its row and its heart."""

    def __init__(self, run: JobRun, heart: "_Heart") -> None:
        self._run = run
        self._heart = heart

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Store how far the run is, and announce it."""
        self._heart.heard()
        try:
            services.report(run=self._run, stage=stage, done=done, total=total)
        except DatabaseTrouble as error:  # a busy database may cost a line of progress, not the run
            log.warning("could not report progress of run %s: %s", self._run.id, error)
        notify(self._run.id)

    def sign(self, **_: Any) -> None:
        """Spark's progress handler: whatever it tells, it answers."""
        self._heart.heard()


class _Heart(threading.Thread):
    """Renews the run's lease while it is worked on, and interrupts Spark when it should stop, again and again: what
    the attempt had not begun yet is interrupted when it does.

    ``lost``: no renewal succeeded for as long as a lease lasts. Another worker may have the run by now, so this one
    renews nothing any more.

    J6. A run that Spark has given no sign of life for SILENT_S fails. An attempt that goes on for END_PATIENCE_S after
    it should have stopped ends with its process.
    """

    def __init__(self, run: JobRun) -> None:
        super().__init__(name=f"heart-{run.id}", daemon=True)
        self._run = run
        self._stopping = threading.Event()
        self._renewed_s = time.monotonic()
        self._heard_s = time.monotonic()
        self._unwanted_s: float | None = None
        self._interrupt: threading.Thread | None = None
        self.lost = False
        self.closed = False
        """Whether the run was closed over the attempt's head, as cancelled or for want of a sign of life."""

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
        """Interrupt Spark without waiting for its answer; a cancelled run does not wait longer than its patience."""
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

    def heard(self) -> None:
        """Note a sign of life of what the attempt waits for."""
        self._heard_s = time.monotonic()

    def _is_silent(self) -> bool:
        """Whether there has been no sign of life for SILENT_S; the run is closed then."""
        if time.monotonic() - self._heard_s <= SILENT_S:
            return False
        error = f"Spark has given no sign of life for {SILENT_S:.0f} s; restart it, then start the run again"
        if services.finish(run=self._run, state=RunState.FAILED, error=error):
            self.closed = True
            log.warning("run failed id=%s: %s", self._run.id, error)
            notify(self._run.id)
        return True

    def _beat(self) -> bool:
        """Whether to go on."""
        began_s = time.monotonic()
        try:
            wanted = services.beat(run=self._run)
        except DatabaseTrouble as error:
            self.lost = time.monotonic() - self._renewed_s > services.LEASE_MS / 1000
            log.warning("heartbeat of run %s failed: %s", self._run.id, error)
            return not self.lost
        self._renewed_s = began_s
        return wanted

    def stop(self) -> None:
        self._stopping.set()
        self.join(5)


_stopping = threading.Event()


def _recover_for_ever() -> None:
    swept_s = 0.0
    while not _stopping.wait(RECOVER_S):
        try:
            for run_id in services.recover():
                notify(run_id)
            if not swept_s or time.monotonic() - swept_s > SWEEP_S:
                outputs.sweep()
                kept = settings.ENVIRONMENT
                outputs.prune(days=kept.run_days, runs_max=kept.runs_max, now_ms=services.now_ms())
                swept_s = time.monotonic()
        except Exception:
            log.warning("looking for lost runs failed", exc_info=True)
        finally:
            with contained("closing the database's connections"):
                close_old_connections()


def _be_heard() -> None:
    """Set the key by which gateways and the supervisor see that there is a worker."""
    failing = False
    client: redis.Redis | None = None
    while True:
        try:
            client = client or redis.from_url(
                app.conf.broker_url,
                socket_timeout=WORKER_PERIOD_S,
                socket_connect_timeout=WORKER_PERIOD_S,
            )
            client.set(WORKER_KEY, os.getpid(), ex=WORKER_KEY_S)
            failing = False
        except Exception as error:  # whatever it is, a worker that works must be seen again
            if not failing:
                unexpected = not isinstance(error, RedisError | OSError)
                log.warning("gateways cannot hear this worker: %s", error, exc_info=unexpected)
            failing = True
        if _stopping.wait(WORKER_PERIOD_S):
            return


@worker_ready.connect  # type: ignore[untyped-decorator]
def _begin_recovery(**_: Any) -> None:
    threading.Thread(target=_recover_for_ever, name="recover-runs", daemon=True).start()
    if app.conf.broker_url.startswith("redis"):
        threading.Thread(target=_be_heard, name="be-heard", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end_recovery(**_: Any) -> None:
    _stopping.set()
    # Whoever ends the worker ends its pool with it; a run that was under way is tried again when its lease is over.
    logging.getLogger("celery.worker.request").setLevel(logging.CRITICAL)
