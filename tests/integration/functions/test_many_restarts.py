"""A thousand restarts of instances leave nothing: no process, descriptor, folder, consumer, producer or topic."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.net.http_client import IDLE_S
from tests.support.functions.worker_processes import FAST, WORKER, instances_of, send_form
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

INSTANCES = 20
RESTARTS = {
    "thread": int(os.environ.get("THREAD_RESTARTS", "200")),
    "process": int(os.environ.get("PROCESS_RESTARTS", "60")),
}
"""Restarts of instances by runtime; a restart of a process takes seconds of CPU."""
NAME = "public/default/restarted"
INSIDE, OUT, LOG = (f"persistent://{NAME}-{end}" for end in ("in", "out", "log"))
DESCRIPTORS_SPARE = 2
"""Descriptors that come and go with the tests' own calls."""
CODE = "def process(x):\n    return x\n"


@pytest.fixture(scope="module", params=["thread", pytest.param("process", marks=pytest.mark.long)])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, runtime: str) -> Iterator[Instance]:
    settings = {**FAST, "MAGNETAR_FUNCTIONS_WORKER_FUNCTION_RUNTIME": runtime}
    with running_instance(tmp_path_factory.mktemp("restarts"), **settings) as made:
        yield made


def stats_of(instance: Instance, topic: str) -> dict[str, Any]:
    status, stats = instance.rest("GET", f"/admin/v2/persistent/{topic.split('://')[1]}/stats")
    return dict(stats) if status == 200 else {"subscriptions": {}, "publishers": []}


def consumers_of(instance: Instance) -> set[tuple[str, ...]]:
    subscription = stats_of(instance, INSIDE)["subscriptions"].get(NAME, {"consumers": []})
    return {
        (str(consumer["consumerName"]), str(consumer["connectedSince"]), str(consumer["address"]))
        for consumer in subscription["consumers"]
    }


def descriptors_of(instance: Instance) -> dict[str, int]:
    """Return how many descriptors the processes have that see each restart."""
    pids = {name: instance.child(name)["pid"] for name in (WORKER, "broker-1")}
    return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}


class Usage:
    """Resources that an instance uses at a moment; ``descriptors`` are the fewest in the time in which connections
    that are kept for further requests end. Up to 16 of those are no leak."""

    def __init__(self, instance: Instance) -> None:
        self.worker = instance.child(WORKER)["pid"]
        self.broker = instance.child("broker-1")["pid"]
        self.descriptors = descriptors_of(instance)
        until = time.monotonic() + IDLE_S + 5.0  # time: idle connections are kept for so long
        while time.monotonic() < until:
            for name, count in descriptors_of(instance).items():
                self.descriptors[name] = min(self.descriptors[name], count)
            time.sleep(0.5)  # time: between looks
        self.threads = len(os.listdir(f"/proc/{self.worker}/task"))
        self.processes = len(instances_of(self.worker))
        folder = instance.data_dir / "functions"
        self.folders = sum(path.is_dir() for path in folder.rglob("*"))
        self.topics = sorted(instance.rest("GET", "/admin/v2/persistent/public/default")[1])
        self.consumers = len(consumers_of(instance))
        self.producers = [
            len(stats_of(instance, topic)["publishers"]) for topic in (INSIDE, OUT, LOG)
        ]
        status = Path(f"/proc/{self.worker}/status").read_text()
        self.worker_mib = int(status.split("VmRSS:")[1].split()[0]) // 1024


def test_restarts_leave_nothing(instance: Instance, runtime: str) -> None:
    config = {
        "className": "users_function",
        "inputs": [INSIDE],
        "output": OUT,
        "logTopic": LOG,
        "parallelism": INSTANCES,
    }
    until_blocking(
        lambda: send_form(instance, "POST", NAME, config, CODE)[0] == 204, "the function"
    )

    def restarted(before: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
        until_blocking(
            lambda: len(now := consumers_of(instance)) == INSTANCES and not now & before,
            lambda: f"all instances to run again: {len(consumers_of(instance))} do",
            bound_s=180,
        )
        return consumers_of(instance)

    consumers = restarted(set())
    began, rounds = time.monotonic(), RESTARTS[runtime] // INSTANCES
    before = None
    for number in range(rounds):
        if number == max(1, rounds // 10):
            before = Usage(instance)  # behind the first ones, which fill caches
        status, answer = instance.rest("POST", f"/admin/v3/functions/{NAME}/restart", timeout_s=60)
        assert status == 204, answer
        consumers = restarted(consumers)
    took_s = time.monotonic() - began
    assert before is not None
    after = Usage(instance)
    print(f"{runtime}: {rounds * INSTANCES} restarts in {took_s:.0f} s", vars(before), vars(after))
    assert (after.worker, after.broker) == (before.worker, before.broker)
    for (
        name,
        count,
    ) in after.descriptors.items():  # each restart could leave one, and there were hundreds
        assert count <= before.descriptors[name] + DESCRIPTORS_SPARE, name
    assert after.processes == (INSTANCES if runtime == "process" else 0)
    assert after.threads <= before.threads + DESCRIPTORS_SPARE
    assert (after.folders, after.topics) == (before.folders, before.topics)
    assert (after.consumers, after.producers) == (before.consumers, before.producers)
    assert instance.rest("DELETE", f"/admin/v3/functions/{NAME}")[0] == 204
    until_blocking(lambda: not consumers_of(instance), "all consumers to leave")
