"""The chart's points of before are there after the gateway was killed, and the time between is a gap."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Instance, running_instance

HISTORY = "/api/v1/clusters/standalone/history?minutes=60"


def points(instance: Instance, count: int) -> list[Any]:
    """As soon as there are ``count`` that are known."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            status, body = instance.rest("GET", HISTORY)
        except OSError:  # it starts
            status, body = 0, None
        if status == 200:
            known = [point for point in body["points"] if None not in point]
            if len(known) >= count:
                return list(body["points"])
        time.sleep(0.5)
    raise TimeoutError(f"no {count} points:\n{instance.logs()}")


def outlive(instance: Instance) -> None:
    """Kill a gateway and start it again: what was recorded before is there, and time has no holes."""
    before = points(instance, 2)
    name = "gateway-1" if instance.gateways > 1 else "gateway"
    instance.control("kill", name)
    time.sleep(11)  # time: longer than a step: the gap shows when nobody else writes
    instance.control("start", name)
    instance.wait_running(name)
    after = points(instance, len(before) + 1)
    assert [point for point in before if None not in point] == [
        point for point in after[: len(before)] if None not in point
    ]
    moments = [point[0] for point in after]
    assert moments == list(range(moments[0], moments[-1] + 1, 10_000))


@pytest.mark.timeout(400)
def test_history_outlives_the_gateway(tmp_path: Path) -> None:
    """One that is alone, and one of two. Both at once: they do nothing but wait for steps of ten seconds."""
    with (
        running_instance(tmp_path / "alone") as one,
        running_instance(tmp_path / "two", gateways=2) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        for ended in [pool.submit(outlive, instance) for instance in (one, two)]:
            ended.result()
