"""A user of the wheel who starts an analysis: Spark is installed at that moment, and nothing is restarted."""

import json
import os
import platform
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gateway.standalone.on_demand.spark_packages import JAVA_MACHINES
from gateway.standalone.programs import ProgramMissingError, java_on_machine, redis_server
from tests.integration.wheel.installed import Installed
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

TOPIC = "persistent://public/default/orders"
MESSAGES = 5
INSTALLED_S, RUN_S = 1200.0, 300.0


@pytest.fixture(scope="module")
def user(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment as `python3 -m venv` makes it, without Spark."""
    if java_on_machine() is None and platform.machine() not in JAVA_MACHINES:
        pytest.skip("this machine has no Java, and there is no package of it for its processor")
    user = Installed(tmp_path_factory.mktemp("user"), wheel, "--seed")
    pip = [user.venv / "bin" / "pip", "download", "-q", "--no-deps", "-d", user.home, "celery"]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"Spark's packages cannot be had: {done.stderr.strip()[-300:]}")
    return user


def environment(user: Installed) -> dict[str, str]:
    """Return what the user has beside the environment: Redis, and this machine's way to packages."""
    try:
        redis = Path(redis_server()).parent
    except ProgramMissingError as error:
        pytest.skip(str(error))
    of_packages = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    return {**of_packages, "PATH": f"{user.environment()['PATH']}:{redis}"}


def call(base: str, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/api/v1{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None


def processes(user: Installed) -> dict[str, int]:
    """Return the ids of the instance's processes that run, by their names."""
    children = json.loads(user.run("status", "--json").stdout)
    return {child["name"]: child["pid"] for child in children if child["state"] == "running"}


def test_the_first_analysis_installs_spark_and_succeeds_without_a_restart(
    user: Installed, tmp_path: Path
) -> None:
    log = tmp_path / "dev.log"
    with user.instance(log, **environment(user)) as ready:
        base = ready["http"]
        orders = [f"order {number}" for number in range(MESSAGES)]
        at = ("--url", ready["pulsar"], "--admin-url", base)
        sent = user.run("produce", "--quiet", TOPIC, *orders, *at)
        assert sent.returncode == 0, sent.stderr
        before = processes(user)
        assert "broker-1" in before

        offer = call(base, "GET", "/spark")
        assert (offer["state"], offer["problems"]) == ("missing", [])
        assert 0 < offer["download_mb"] < offer["disk_mb"] < offer["peak_mb"]
        assert call(base, "POST", "/spark")["state"] in ("missing", "installing")
        until_blocking(
            lambda: call(base, "GET", "/spark")["state"] not in ("missing", "installing"),
            log.read_text,
            INSTALLED_S,
            poll_s=1.0,
        )
        installed = call(base, "GET", "/spark")
        assert installed["state"] == "installed", installed

        wanted = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}}
        path = f"/runs/{call(base, 'POST', '/runs', wanted)['id']}"
        until_blocking(
            lambda: call(base, "GET", path)["state"] not in ("queued", "running"),
            log.read_text,
            RUN_S,
            poll_s=1.0,
        )
        run = call(base, "GET", path)
        assert run["state"] == "succeeded", run["error"]
        summary = {row["key"]: row["value"] for row in run["result"]["summary"]}
        assert summary["messages"] == MESSAGES
        assert before.items() <= processes(user).items()
