"""Refusals of either broker, and a table view, as Apache's own Java client reports them: equal, and nothing hangs."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client.talk import on_both
from tests.oracle.conftest import Side
from tests.oracle.ledgers_java import LEAN, OPEN, SOURCE, compile_driver

QUOTA = {"limitSize": 1000, "limitTime": -1}
POLICIES: dict[str, list[tuple[str, Any]]] = {
    "topics": [("autoTopicCreation", {"allowAutoTopicCreation": False})],
    "subscriptions": [("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})],
    "many": [
        ("maxProducersPerTopic", 2),
        ("maxConsumersPerSubscription", 2),
        ("maxSubscriptionsPerTopic", 2),
    ],
    "types": [("subscriptionTypesEnabled", ["Shared", "Failover"])],
    "bytes": [("schemaValidationEnforced", True)],
    "schemas": [("isAllowAutoUpdateSchema", False)],
    "hold": [("backlogQuota", {**QUOTA, "policy": "producer_request_hold"})],
    "exception": [("backlogQuota", {**QUOTA, "policy": "producer_exception"})],
}


def prepare(side: Side) -> None:
    for name, policies in POLICIES.items():
        path = f"/admin/v2/namespaces/public/refusing-{name}"
        assert side.put(path) in (204, 409)
        for policy, value in policies:
            assert side.post(f"{path}/{policy}", value) == 204, policy


def report(side: Side, classes: str) -> list[str]:
    prepare(side)
    flags = [f"--add-opens={package}=ALL-UNNAMED" for package in OPEN]
    log = f"-Dlog4j2.configurationFile={Path(SOURCE) / 'log4j2.properties'}"
    done = subprocess.run(
        ["java", *LEAN.split(), *flags, log, "-cp", classes, "RefusalsDriver", side.url, side.http],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("told ")]


@pytest.mark.timeout(900)
def test_refusals_are_reported_alike(
    sides: tuple[Side, Side], tmp_path_factory: pytest.TempPathFactory
) -> None:
    classes = compile_driver(tmp_path_factory.mktemp("classes"), SOURCE / "RefusalsDriver.java")
    theirs, ours = on_both(sides, partial(report, classes=classes))
    assert ours == theirs
    assert not [line for line in ours if "HANGS" in line or "FAILED" in line]
