"""The wheel, and environments outside the checkout that have nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

ROOT = Path(__file__).parents[3]
STARTED_S = 60.0
RESOLUTION = os.environ.get("WHEEL_RESOLUTION", "")
PORTS = ("ZOOKEEPER", "BOOKIE", "BROKER", "HTTP", "BROKER_HTTP", "BOOKIE_HTTP", "REDIS", "SPARK")


def build(folder: Path, **variables: str) -> Path:
    """Build the wheel as `make wheel` does, without a new build of the console and the documentation."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    environment = {**os.environ, **variables}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    (wheel,) = folder.glob("magnetar-*.whl")
    return wheel


def uv() -> str:
    path = shutil.which("uv") or shutil.which("uv", path=ROOT / ".tools" / "bin")
    if path is None:
        pytest.skip("no uv on PATH or in .tools: the wheel is not installed")
    return path


class Installed:
    """An environment with the wheel, and a user who has nothing else."""

    def __init__(self, folder: Path, wheel: Path, *seeds: str) -> None:
        """Install the wheel; ``seeds`` are options of ``uv venv``. Skips the test where the packages cannot be had."""
        self.home = folder / "home"
        self.venv = folder / "venv"
        self.home.mkdir()
        create = [uv(), "venv", "-q", *seeds, "--python", sys.executable, str(self.venv)]
        subprocess.run(create, check=True)
        command = [uv(), "pip", "install", "-q", "--compile-bytecode", "--python"]
        command += [str(self.venv / "bin" / "python")]
        if RESOLUTION:
            command += ["--resolution", RESOLUTION]
        else:
            command += ["-c", str(ROOT / "requirements.lock")]
        # What `make dev` has installed is in the cache.
        for options in (["--offline"], []):
            done = subprocess.run([*command, *options, str(wheel)], capture_output=True, text=True)
            if done.returncode == 0:
                return
        pytest.skip(f"the packages of the wheel cannot be had: {done.stderr.strip()[-300:]}")

    @property
    def packages(self) -> Path:
        (folder,) = self.venv.glob("lib/python*/site-packages")
        return folder

    def environment(self, **variables: str) -> dict[str, str]:
        path = f"{self.venv / 'bin'}:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **variables}

    def run(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``magnetar`` to its end."""
        return subprocess.run(
            [self.venv / "bin" / "magnetar", *arguments],
            cwd=cwd or self.home,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=STARTED_S,
        )

    @contextmanager
    def running(
        self, *arguments: str, log: Path, stdout: int | IO[bytes] | None = None, **variables: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run ``magnetar`` for the length of the block; it must end with status 0 on SIGINT."""
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [self.venv / "bin" / "magnetar", *arguments],
                cwd=log.parent,
                env=self.environment(**variables),
                stdout=stdout or errors,
                stderr=errors,
            )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(STARTED_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def instance(self, log: Path, *options: str, **variables: str) -> Iterator[dict[str, Any]]:
        """Run ``magnetar dev`` on free ports for the length of the block; yield what it reports when it is ready."""
        ports = zip(PORTS, free_ports(len(PORTS)), strict=True)
        variables |= {f"MAGNETAR_{name}_PORT": str(port) for name, port in ports}
        output = log.with_suffix(".json")
        with (
            output.open("wb") as stdout,
            self.running("dev", "--json", *options, log=log, stdout=stdout, **variables) as process,
        ):

            def is_ready() -> bool:
                assert process.poll() is None, log.read_text()
                return output.read_text().endswith("\n")

            until_blocking(is_ready, log.read_text, STARTED_S)
            yield json.loads(output.read_text()) | {"variables": variables}
        assert output.read_text().count("\n") == 1
