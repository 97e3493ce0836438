"""``magnetar doctor`` while parts of an instance are frozen or stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow]
PARTS = {
    "zookeeper": "metadata",
    "bookie-1": "bookie bookie-1",
    "broker-1": "broker 127.0.0.1:{BROKER_HTTP}",
    "gateway": "REST http://127.0.0.1:{HTTP}",
}
"""The processes of an instance, and the parts that other machines see of them."""
BOUND_S = 40
"""Bound of the command: ten seconds of a quiet machine."""


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        yield killed


def problems(instance: Instance) -> tuple[int, set[str]]:
    """Run the command; return its status and the parts with a problem."""
    addresses = ("--url", instance.url, "--admin-url", instance.http)
    folder = ("--data-dir", str(instance.data_dir))
    command = [sys.executable, "-m", "magnetar", "doctor", "--json", *folder]
    began = time.monotonic()
    done = subprocess.run([*command, *addresses], capture_output=True, check=False)
    assert time.monotonic() - began < BOUND_S
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    return done.returncode, {
        finding["part"] for finding in report["findings"] if finding["severity"] == "problem"
    }


def is_well(instance: Instance) -> bool:
    return problems(instance) == (0, set())


@pytest.mark.parametrize("name", PARTS)
def test_a_frozen_part_is_named(instance: Instance, name: str) -> None:
    until_blocking(lambda: is_well(instance), instance.logs)
    seen = PARTS[name].format(**instance.ports)
    os.kill(instance.child(name)["pid"], signal.SIGSTOP)
    try:
        status, here = problems(instance)
    finally:
        os.kill(instance.child(name)["pid"], signal.SIGCONT)
    assert status == 1
    assert f"process {name}" in here
    assert {part for part in here if part.startswith("process ")} == {f"process {name}"}
    # A frozen broker whose session ends while the command runs is named by the address that was given.
    assert here & ({seen, f"broker {instance.url}"} if name == "broker-1" else {seen})


def test_a_stopped_part_is_named(instance: Instance) -> None:
    until_blocking(lambda: is_well(instance), instance.logs)
    instance.control("stop", "bookie-1")
    try:
        status, here = problems(instance)
    finally:
        instance.control("start", "bookie-1")
    assert status == 1
    assert "process bookie-1" in here
    # The bookie's own page is gone at once; that ledgers lack a bookie is known when its session has ended.
    assert here & {"new ledgers", "bookie bookie-1"}
