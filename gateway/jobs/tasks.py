"""Celery tasks: run an analysis on Spark, keep Spark warm. What a run is and how it stands is the database's to say."""

import logging
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from django.db import close_old_connections

from gateway.celery import app
from gateway.jobs import services, spark
from gateway.jobs.models import JobRun, RunState

log = logging.getLogger(__name__)
BEAT_S = 1.0
RECOVER_S = 5.0


@app.task(name="jobs.execute")  # type: ignore[untyped-decorator]
def execute(run_id: str, attempt: int) -> None:
    """Run one attempt to its end. A second delivery of the same message finds nothing to claim."""
    if not isinstance(run_id, str) or not isinstance(attempt, int):
        raise TypeError("jobs.execute takes a run id and an attempt number")
    run = services.claim(run_id=run_id, attempt=attempt)
    if run is None:
        return
    notify(run.id)
    heart = _Heart(run)
    heart.start()
    staged = Path(tempfile.mkdtemp(prefix=f"{run.id}-", dir=_staging_root()))
    try:
        result = spark.run_analysis(run, staged, _progress(run))
        downloads = services.publish_outputs(run=run, staged=staged)
        services.finish(run=run, state=RunState.SUCCEEDED, result=result, downloads=downloads)
    except Exception as error:
        if heart.cancelled:
            services.finish(run=run, state=RunState.CANCELLED)
        else:
            log.warning("run failed id=%s analysis=%s", run.id, run.analysis, exc_info=True)
            services.finish(run=run, state=RunState.FAILED, error=spark.explain(error))
    finally:
        heart.stop()
        shutil.rmtree(staged, ignore_errors=True)
        notify(run.id)


@app.task(name="jobs.warm")  # type: ignore[untyped-decorator]
def warm() -> None:
    """Start Spark and open this worker's session, so that the first click need not wait for it."""
    try:
        spark.session()
    except Exception as error:
        log.warning("Spark could not be warmed up: %s", spark.explain(error))


def notify(run_id: str) -> None:
    """Wake the consoles that watch a run; they read the row themselves."""
    from asgiref.sync import async_to_sync
    from channels.layers import get_channel_layer

    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(f"run.{run_id}", {"type": "run.changed", "id": run_id})
    except OSError as error:  # Redis is down: the console's own polling still sees the row
        log.warning("could not announce run %s: %s", run_id, error)


def _staging_root() -> Path:
    root = services.output_dir("staging")
    root.mkdir(parents=True, exist_ok=True)
    return root


def _progress(run: JobRun) -> Any:
    def report(stage: str, done: int, total: int) -> None:
        services.report(run=run, stage=stage, done=done, total=total)
        notify(run.id)

    return report


class _Heart(threading.Thread):
    """Renews the run's lease while it is worked on, and interrupts Spark when it should stop."""

    def __init__(self, run: JobRun) -> None:
        super().__init__(name=f"heart-{run.id}", daemon=True)
        self._run = run
        self._stopping = threading.Event()
        self.cancelled = False

    def run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            try:
                if not services.beat(run=self._run):
                    self.cancelled = True
                    spark.interrupt(self._run)
            except Exception:
                log.warning("heartbeat of run %s failed", self._run.id, exc_info=True)
            finally:
                close_old_connections()

    def stop(self) -> None:
        self._stopping.set()
        self.join(5)


_stopping = threading.Event()


def _recover_for_ever() -> None:
    while not _stopping.wait(RECOVER_S):
        try:
            for run_id in services.recover():
                notify(run_id)
        except Exception:
            log.warning("looking for lost runs failed", exc_info=True)
        finally:
            close_old_connections()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _begin_recovery(**_: Any) -> None:
    threading.Thread(target=_recover_for_ever, name="recover-runs", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end_recovery(**_: Any) -> None:
    _stopping.set()
