"""The worker's Spark Connect session: made once per process, kept warm, made again when the server was restarted."""

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.conf import settings

from gateway.jobs.models import JobRun

log = logging.getLogger(__name__)
START_TIMEOUT_S = 160.0
"""Longer than the supervisor waits for a Spark that is at work, shorter than a run waits for a sign of life."""
USER = "magnetar"
STARTING = "starting Spark, which takes about ten seconds"
RESTARTED = "Spark was stopped or restarted while the run was under way; start the run again"
_SESSION_LOST = re.compile(r"SESSION_NOT_FOUND|SESSION_CHANGED|SESSION_CLOSED|NO_ACTIVE_SESSION")
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): .+")
_lock = threading.Lock()
_session: Any = None


class SparkUnavailableError(Exception):
    """The Spark server cannot be reached; the message names the hop."""


def session_id() -> str:
    """One server-side session for all workers of an instance, so that any worker can interrupt a lost worker's job."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"magnetar:{settings.ENVIRONMENT.data_dir}"))


def session(waiting: Callable[[str], None] = lambda _: None) -> Any:
    """The session; starts the supervised server if any. Raises SparkUnavailableError.

    ``waiting`` is told what is waited for.
    """
    global _session
    if _lock.locked():
        waiting(STARTING)  # another thread of this worker does
    with _lock:
        if _session is not None and _answers(_session):
            return _session
        _session = _connect(waiting)
        return _session


def warm(spark: Any) -> None:
    """Have Spark start its Python and read nothing with it once. Raises Spark's errors."""
    from spark_jobs import (
        warming,
    )  # which its Python can import: this module needs Django's settings

    warming.warm(spark)


def _answers(spark: Any) -> bool:
    from pyspark.errors import PySparkException

    try:
        # a job: a server that was restarted answers what needs none, and refuses the session at the first one
        return bool(spark.sql("select 1").count() == 1)
    except (PySparkException, OSError, RuntimeError, ValueError):
        return False
    except Exception as error:  # grpc's errors share no base with pyspark's
        if type(error).__module__.startswith("grpc"):
            return False
        raise


def _connect(waiting: Callable[[str], None]) -> Any:
    remote = os.environ.get("SPARK_REMOTE", "")
    if not remote:
        raise SparkUnavailableError(
            "no Spark: set SPARK_REMOTE to a Spark Connect URL (sc://host:port)"
        )
    waiting(STARTING)
    with ThreadPoolExecutor(1) as beside:
        starting = beside.submit(_start_supervised_server)
        from pyspark.sql import SparkSession  # takes seconds, while the server starts

        starting.result()
    waiting("opening a session with Spark")
    url = f"{remote}/;user_id={USER};session_id={session_id()}"
    try:
        spark = SparkSession.builder.remote(url).create()
        log.info("spark session opened remote=%s version=%s", remote, spark.version)
    except Exception as error:
        raise SparkUnavailableError(f"Spark at {remote} does not answer: {error}") from error
    return spark


def _start_supervised_server() -> None:
    socket_path = settings.ENVIRONMENT.control_socket
    if not socket_path or not Path(socket_path).exists():
        return
    from gateway.standalone.control import NotRunningError, ask

    try:
        answer = ask(Path(socket_path), "start", "spark", timeout_s=START_TIMEOUT_S)
    except NotRunningError as error:
        raise SparkUnavailableError(f"the supervisor did not start Spark: {error}") from error
    if "error" in answer and "no child named" not in answer["error"]:
        raise SparkUnavailableError(f"the supervisor did not start Spark: {answer['error']}")


def tag(run: JobRun) -> str:
    return f"run-{run.id}-{run.attempt}"


def run_analysis(run: JobRun, staged: Path, progress: Any) -> dict[str, Any]:
    """Run the analysis of ``run``; files go to ``staged``. Returns the result of docs/formats/analysis-result.md.

    ``progress`` is called with stage, done and total; its ``sign`` whenever Spark tells how far it is.
    """
    from spark_jobs.jobs import JOBS

    progress("asking Spark", 0, 0)
    spark = session(lambda what: progress(what, 0, 0))
    for earlier in range(1, run.attempt):
        spark.interruptTag(f"run-{run.id}-{earlier}")  # what a lost worker left running
    spark.addTag(tag(run))
    spark.registerProgressHandler(progress.sign)
    try:
        context = {"metadata.url": settings.METADATA_URL}
        result: dict[str, Any] = JOBS[run.analysis](
            spark, run.parameters, context, progress=progress, output_dir=staged
        )
        return result
    finally:
        spark.removeProgressHandler(progress.sign)
        spark.removeTag(tag(run))


def interrupt(run: JobRun) -> None:
    """Stop the Spark operations of a run; harmless when there are none."""
    if _session is not None:
        _session.interruptTag(tag(run))


def explain(error: BaseException) -> str:
    """One paragraph for people: what a task's Python raised, or the first lines of the message, no stacks."""
    if _SESSION_LOST.search(str(error)):
        return RESTARTED
    lines = [line for line in str(error).split("JVM stacktrace")[0].splitlines() if line.strip()]
    raised = [line for line in lines if _CAUSE.match(line)]
    if raised and "Traceback (most recent call last)" in str(error):
        name, _, message = raised[-1].partition(": ")
        return f"{name.rpartition('.')[2]}: {message}"
    kept = [line for line in lines if not line.lstrip().startswith(("at ", "File "))]
    return f"{type(error).__name__}: {' '.join(kept[:4])}"
