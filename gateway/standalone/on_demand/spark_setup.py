"""The supervisor's installation of Spark, a process beside its children that ends by itself."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.on_demand import spark_packages
from gateway.standalone.plan import python_path

STOP_S = 5.0
PROGRAM = "gateway.standalone.on_demand.spark_packages"


class SparkSetup:
    """Installs Spark into the environment of the instance, once at a time."""

    def __init__(
        self,
        data_dir: Path,
        report: Callable[[str], None],
        environment: spark_packages.Environment | None = None,
    ) -> None:
        self._progress = data_dir / "spark" / "setup.json"
        self._log = data_dir / "logs" / "spark-setup.log"
        self._report = report
        self._environment = environment or spark_packages.this_environment()
        self._process: asyncio.subprocess.Process | None = None
        self._waiter: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin an installation, unless one runs. Its outcome is reported and is in ``describe``."""
        if self._waiter is not None and not self._waiter.done():
            return
        self._report("installing Spark for analyses; log: " + str(self._log))
        environment = self._environment
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(environment.python, "-P", "-m", PROGRAM, "--progress", str(self._progress)),
                *("--lock", str(environment.lock)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **python_path()},
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        self._waiter = asyncio.get_running_loop().create_task(self._wait(self._process))

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        body = spark_packages.state_of(self._environment, self._progress)
        if code == 0:
            self._report("Spark is installed: analyses can run")
        elif code > 0:
            self._report(f"Spark was not installed: {body['message']}; log: {self._log}")

    async def describe(self) -> dict[str, Any]:
        """Return the state of the installation, its sizes in MB, and what analyses lack."""
        body = await asyncio.to_thread(self._describe)
        if self._waiter is not None and not self._waiter.done():
            body["state"] = "installing"  # Its process may not hold the environment yet.
        return body

    def _describe(self) -> dict[str, Any]:
        environment = self._environment
        body = spark_packages.state_of(environment, self._progress)
        problems = spark_packages.missing_for_runs()
        if body["state"] in ("missing", "failed"):
            refusal = spark_packages.why_not_installable(environment)
            problems += [refusal] if refusal else []
        return {
            **body,
            "download_mb": spark_packages.DOWNLOAD_MB,
            "disk_mb": spark_packages.DISK_MB,
            "peak_mb": spark_packages.PEAK_MB,
            "problems": problems,
            "command": environment.command,
        }

    async def stop(self) -> None:
        """End an installation that runs; the next one resumes it."""
        if self._process is None or self._waiter is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._waiter), STOP_S)
                return
