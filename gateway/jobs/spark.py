"""The worker's Spark Connect session, opened once per process and again when the server was restarted."""

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from django.conf import settings

from gateway.jobs.models import JobRun
from gateway.jobs.stores import context_of, holders_for
from spark_jobs.catalogue import ANALYSES

log = logging.getLogger(__name__)
START_TIMEOUT_S = 620.0
"""Time within which the supervisor must start Spark: longer than the supervisor itself waits for a busy Spark."""
STARTING_S = 20.0
"""Interval of the signs of life while Spark starts, shorter than ``gateway.jobs.tasks.SILENT_S``."""
USER = "magnetar"
STARTING = "starting Spark, which takes about ten seconds"
LOST = "Spark was stopped or restarted"
RESTARTED = f"{LOST} while the run was under way; start the run again"
_SESSION_LOST = re.compile(r"SESSION_NOT_FOUND|SESSION_CHANGED|SESSION_CLOSED|NO_ACTIVE_SESSION")
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): .+")
_lock = threading.Lock()
_session: Any = None


class SparkUnavailableError(Exception):
    """The Spark server cannot be reached. The message names the hop that failed."""


def session_id() -> str:
    """Return the id of the server-side session, the same for all workers of an instance.

    So any worker can interrupt the operations of a lost one.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"magnetar:{settings.ENVIRONMENT.data_dir}"))


def session(waiting: Callable[[str], None] = lambda _: None) -> Any:
    """Return the session; start the supervised server if there is one. Raises SparkUnavailableError.

    ``waiting`` is called with a text of what it waits for.
    """
    global _session
    if _lock.locked():
        waiting(STARTING)  # Another thread of this worker is starting it.
    with _lock:
        if _session is not None and _answers(_session):
            return _session
        _session = _connect(waiting)
        return _session


def warm(spark: Any) -> None:
    """Run an empty read once, so that Spark starts its Python processes. Raises Spark's errors."""
    # The code is in spark_jobs, since Spark's Python cannot import this module, which needs Django's settings.
    from spark_jobs import warming

    warming.warm(spark)


def _answers(spark: Any) -> bool:
    from pyspark.errors import PySparkException

    try:
        # It must run a job: a restarted server answers requests without a job, and refuses the session at the first.
        return bool(spark.sql("select 1").count() == 1)
    except (PySparkException, OSError, RuntimeError, ValueError):
        return False
    except Exception as error:  # Errors of grpc have no base class in common with those of pyspark.
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
    with ThreadPoolExecutor(1) as executor:
        starting = executor.submit(_start_supervised_server)
        from pyspark.sql import SparkSession  # The import takes seconds, while the server starts.

        while not wait([starting], STARTING_S).done:
            waiting(STARTING)
        starting.result()
    waiting("opening a session with Spark")
    _use_token()
    url = f"{remote}/;user_id={USER};session_id={session_id()}"
    try:
        spark = SparkSession.builder.remote(url).create()
        log.info("spark session opened remote=%s version=%s", remote, spark.version)
    except Exception as error:
        raise SparkUnavailableError(f"Spark at {remote} does not answer: {error}") from error
    return spark


def _use_token() -> None:
    """Have Spark's client present the token of SPARK_CONNECT_TOKEN_FILE; its URL would be in messages."""
    path = os.environ.get("SPARK_CONNECT_TOKEN_FILE")
    if not path:
        return
    try:
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = Path(path).read_text().strip()
    except OSError as error:
        raise SparkUnavailableError(
            f"SPARK_CONNECT_TOKEN_FILE {path} cannot be read: {error.strerror}"
        ) from error


def _start_supervised_server() -> None:
    socket_path = settings.ENVIRONMENT.control_socket
    if not socket_path or not Path(socket_path).exists():
        return
    from gateway.standalone.control import NotRunningError, send_request

    try:
        answer = send_request(Path(socket_path), "start", "spark", timeout_s=START_TIMEOUT_S)
    except NotRunningError as error:
        raise SparkUnavailableError(f"the supervisor did not start Spark: {error}") from error
    if "error" in answer and "no child named" not in answer["error"]:
        raise SparkUnavailableError(f"the supervisor did not start Spark: {answer['error']}")


def tag(run: JobRun) -> str:
    return f"run-{run.id}-{run.attempt}"


def run_analysis(run: JobRun, staged: Path, progress: Any) -> dict[str, Any]:
    """Run the analysis of ``run`` with files in ``staged``; return a result as in docs/formats/analysis-result.md.

    ``progress`` is called with stage, done and total; its ``begin_work`` once Spark is there, and its ``sign`` whenever
    Spark reports progress.
    """
    analysis = ANALYSES[run.analysis]
    progress("asking Spark", 0, 0)
    spark = session(lambda stage: progress(stage, 0, 0))
    for earlier in range(1, run.attempt):
        # A lost worker's operations may still be running.
        spark.interruptTag(f"run-{run.id}-{earlier}")
    progress.begin_work()
    spark.addTag(tag(run))
    spark.registerProgressHandler(progress.sign)
    try:
        asked = {"holders": holders_for(run)} if analysis.asks_holders else {}
        return analysis.load()(
            spark, run.parameters, context_of(run), progress=progress, output_dir=staged, **asked
        )
    finally:
        spark.removeProgressHandler(progress.sign)
        spark.removeTag(tag(run))


def interrupt(run: JobRun) -> None:
    """Stop the Spark operations of a run; harmless when there are none."""
    if _session is not None:
        _session.interruptTag(tag(run))


def is_lost(error: BaseException) -> bool:
    """Return whether the error is that Spark's server ended, or was started again, under a run."""
    return _SESSION_LOST.search(str(error)) is not None


def explain(error: BaseException) -> str:
    """Return one paragraph for users: the exception of a task's Python code, or the first lines of the message.

    Stack traces are left out.
    """
    if is_lost(error):
        return RESTARTED
    lines = [line for line in str(error).split("JVM stacktrace")[0].splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    if causes and "Traceback (most recent call last)" in str(error):
        name, _, message = causes[-1].partition(": ")
        return f"{name.rpartition('.')[2]}: {message}"
    texts = [line for line in lines if not line.lstrip().startswith(("at ", "File "))]
    return f"{type(error).__name__}: {' '.join(texts[:4])}"
