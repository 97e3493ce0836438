"""A worker that is suspended by the operating system: its instances end before another worker starts them."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.support.functions.worker_processes import (
    FAST,
    WORKER,
    Publisher,
    backlog_of,
    contents,
    further_worker,
    instances_of,
    is_alive,
    send_form,
)
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NAME = "public/default/suspended"
INSIDE, OUT = (
    "persistent://public/default/suspended-in",
    "persistent://public/default/suspended-out",
)
CODE = """
import os, time
LOG = os.open({path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def process(x):
    os.write(LOG, b"%d %f\\n" % (os.getpid(), time.monotonic()))
    return x
"""
FOUND_S = 120.0


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("suspended"), **FAST) as made:
        yield made


def runs_of(path: Path) -> list[tuple[int, float, float]]:
    """Return the process and the first and last time of each uninterrupted run of calls."""
    runs: list[tuple[int, float, float]] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        pid, at = int(line.split()[0]), float(line.split()[1])
        if runs and runs[-1][0] == pid:
            runs[-1] = (pid, runs[-1][1], at)
        else:
            runs.append((pid, at, at))
    return runs


@pytest.mark.parametrize("with_instance", [False, True], ids=["worker", "worker-and-instance"])
def test_instances_of_suspended_workers_end_before_they_start_elsewhere(
    instance: Instance, client: pulsar.Client, tmp_path: Path, with_instance: bool
) -> None:
    suffix = f"-{with_instance}".lower()
    inside, out, name = INSIDE + suffix, OUT + suffix, NAME + suffix
    path = tmp_path / "calls.txt"
    config = {
        "className": "users_function",
        "inputs": [inside],
        "output": out,
        "subscriptionPosition": "Earliest",
        "processingGuarantees": "EFFECTIVELY_ONCE",
    }
    with further_worker(instance) as second:
        publisher = Publisher(client, inside)
        code = CODE.format(path=str(path))
        until_blocking(
            lambda: send_form(instance, "POST", name, config, code)[0] == 204,
            "the function to be created",
        )
        for _ in range(1 if with_instance else 3):
            workers = [instance.child(WORKER)["pid"], second.pid]
            until_blocking(
                lambda: runs_of(path) and is_alive(runs_of(path)[-1][0]), "a running instance"
            )
            victim = runs_of(path)[-1][0]
            worker = next(pid for pid in workers if victim in instances_of(pid))
            suspended = [worker, victim] if with_instance else [worker]
            for pid in suspended:
                os.kill(pid, signal.SIGSTOP)
            until_blocking(
                lambda: runs_of(path)[-1][0] != victim,  # noqa: B023
                "another worker to run the instance",
                bound_s=FOUND_S,
            )
            if with_instance:
                # It is suspended: what it does when it continues is nothing.
                continued = time.monotonic()
                os.kill(victim, signal.SIGCONT)
                until_blocking(lambda: not is_alive(victim), "the old instance to end")  # noqa: B023
                late = [run for run in runs_of(path) if run[0] == victim and run[2] > continued]
                assert not late
            else:
                assert not is_alive(victim), "it ended itself before another one started"
            os.kill(worker, signal.SIGCONT)
        published = publisher.close()
        until_blocking(
            lambda: backlog_of(instance, inside, name) == 0, "all to be processed", bound_s=FOUND_S
        )
        assert instance.rest("DELETE", f"/admin/v3/functions/{name}")[0] == 204
    runs = runs_of(path)
    assert len({pid for pid, _, _ in runs}) == len(runs), "no instance ran beside another"
    assert contents(client, inside) == list(range(published))
    assert contents(client, out) == list(range(published))
