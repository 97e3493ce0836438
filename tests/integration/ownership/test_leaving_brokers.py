"""Three brokers as processes: they are restarted one after the other under load, and one dies for good."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.instance import Instance, running_instance
from tests.support.instances.rolling import broker_names, rolling_restart, served_again

GAP_MAX_S = 5.0
"""A second on a machine of its own (``python -m tests.bench.topics --only rolling``); the rest is for a busy one."""
SERVED_MAX_S = 40.0
"""Ten seconds on a machine of its own; the rest is for a busy one."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("leaving"), brokers=3) as running:
        yield running


def test_a_rolling_restart_loses_and_reorders_nothing(instance: Instance) -> None:
    result = rolling_restart(instance, topics=6, rate=40.0, settle_s=0.3)
    print(f"longest time without a receipt {result.longest_gap_s:.2f} s, {result}")
    assert result.problems == []
    assert result.longest_gap_s < GAP_MAX_S
    logs = "".join(log(instance, name) for name in broker_names(instance))
    assert "bundle moved" in logs
    assert "instead of moved" not in logs


def log(instance: Instance, name: str) -> str:
    path: Path = instance.data_dir / "logs" / f"{name}.log"
    return path.read_text(errors="replace")


def test_topics_of_a_killed_broker_are_served_again(instance: Instance) -> None:
    took_s = asyncio.run(served_again(instance, 200, SERVED_MAX_S))
    print(f"200 topics were served again after {took_s:.1f} s")
    instance.wait_running("broker-1")


def test_a_broker_is_listed_with_its_ports_and_bundles(instance: Instance) -> None:
    child = instance.child("broker-2")
    assert child == {
        "name": "broker-2",
        "cluster": "standalone",
        "pid": child["pid"],
        "ports": child["ports"],
        "state": "running",
        "restarts": 0,
    }
    broker = f"127.0.0.1:{child['ports']['http']}"
    path = f"/admin/v2/brokers/standalone/{broker}/ownedNamespaces"
    status, owned = instance.rest("GET", path)
    assert status == 200
    assert all(entry["is_active"] for entry in owned.values())
