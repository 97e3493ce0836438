"""The archive of Spark's classes, from which its Java starts in half the time: ``python -m
gateway.standalone.on_demand.class_archive`` makes it where it is missing.

Java writes the classes that a program used as it needs them in memory, when the program ends. An archive of another
Java or of other jars is ignored by Java.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.plan import python_path
from gateway.standalone.programs import ProgramMissingError, java_home, package_dir

ARCHIVE = "classes.jsa"
OPTIONS = "spark.driver.extraJavaOptions="
START_S, WORK_S, END_S = 300.0, 300.0, 300.0
"""Time within which the training server must start, do its work, and end with its archive written."""
HOST = "127.0.0.1"
WORK = "spark_jobs.warming"
"""Module that does what analyses do."""


def archive_of(spark_home: Path) -> Path:
    return spark_home / ARCHIVE


def with_archive(arguments: Sequence[str], spark_home: Path) -> list[str]:
    """Return the arguments of ``spark-submit`` with Java's option for the archive, if there is one."""
    archive = archive_of(spark_home)
    if not archive.exists() or " " in str(archive):  # Spark splits the options at blanks.
        return list(arguments)
    # Java would warn of an archive that is of other jars.
    used = f" -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"
    return [word + used if word.startswith(OPTIONS) else word for word in arguments]


def create() -> str:
    """Make the archive, by a server that does what an analysis does; return the problem, empty when it is there.

    Blocks for half a minute.
    """
    spark_home = package_dir("pyspark")
    if spark_home is None:
        return "Spark is not installed"
    archive = archive_of(spark_home)
    jars = (spark_home / "jars").glob("*.jar")
    newest = max((path.stat().st_mtime for path in jars), default=0.0)
    if archive.exists() and archive.stat().st_mtime > newest:
        return ""
    if not os.access(spark_home, os.W_OK) or " " in str(archive):
        return f"{archive} cannot be written, or its path has a blank"
    with tempfile.TemporaryDirectory() as folder:
        partial_archive = archive.with_suffix(f".{os.getpid()}")
        try:
            problem = _train(spark_home, java_home(Path(folder) / "java"), partial_archive, folder)
            if not problem:
                partial_archive.replace(archive)
        except (OSError, ProgramMissingError, subprocess.SubprocessError) as error:
            problem = str(error)
        finally:
            partial_archive.unlink(missing_ok=True)
    return problem


def _train(spark_home: Path, java: Path, archive: Path, folder: str) -> str:
    """Run a server that writes ``archive`` at its end; return the problem."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.python.daemon.module": "spark_jobs.daemon",
        "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive} {quick}",
    }
    command = [
        *(str(spark_home / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]
    env = {
        **os.environ,
        **python_path(),
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": folder,
        "PYSPARK_PYTHON": sys.executable,
        "LC_ALL": "C.UTF-8",
    }
    with (Path(folder) / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=env,
            stdout=log,
            stderr=log,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    try:
        until = time.monotonic() + START_S
        while (problem := _unreachable(port)) and server.poll() is None:
            if time.monotonic() > until:
                return f"Spark did not start in {START_S:g} s: {problem}"
            time.sleep(0.2)
        if not problem:
            work = [sys.executable, "-P", "-m", WORK, f"sc://{HOST}:{port}"]
            subprocess.run(work, env=env, check=True, timeout=WORK_S, stdout=subprocess.DEVNULL)
        server.send_signal(signal.SIGTERM)
        server.wait(END_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return "" if archive.exists() else "Java wrote no archive of Spark's classes"


def _unreachable(port: int) -> str:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    if text := create():
        sys.exit(text)
