"""Parts of an instance are killed while a run reads: the run ends, and succeeds only with its result."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.jobs.models import RunState
from spark_jobs.jobs.kit.progress import READING
from tests.bench.spark.read_rows import published
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC = "persistent://public/default/read-while-killed"
MESSAGES, SIZE = 200_000, 200
OVER = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
RUN_S = 300.0
SUCCEED = {"redis": 1, "gateway": 1, "worker": 2, "spark": 2}
"""Parts without which a run succeeds, with the number of its attempts. Others may end it."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("killed-runs")) as running:
        retained = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        running.rest("POST", "/admin/v2/namespaces/public/default/retention", retained)
        published(running, TOPIC, MESSAGES, SIZE, 1)
        yield running


def shown(instance: Instance, run_id: str) -> dict[str, Any]:
    """Return the run, also of a gateway that is just being restarted."""
    answer: dict[str, Any] = {}

    def answered() -> bool:
        try:
            status, body = instance.rest("GET", f"/api/v1/runs/{run_id}")
        except OSError:
            return False
        answer.update(body)
        return status == 200

    until_blocking(answered, instance.logs)
    return answer


def over(instance: Instance, run_id: str) -> bool:
    return shown(instance, run_id)["state"] in OVER


@pytest.mark.parametrize("part", ["worker", "spark", "redis", "gateway", "bookie-1"])
def test_a_run_ends_after_a_part_was_killed_while_it_reads(instance: Instance, part: str) -> None:
    body = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}}
    _, run = instance.rest("POST", "/api/v1/runs", body)
    until_blocking(
        lambda: (now := shown(instance, run["id"]))["stage"] == READING or now["state"] in OVER,
        instance.logs,
        RUN_S,
    )
    assert not over(instance, run["id"]), "the run was over before the part was killed"
    began = time.monotonic()
    instance.kill(part)
    until_blocking(lambda: over(instance, run["id"]), instance.logs, RUN_S, poll_s=0.1)
    done = shown(instance, run["id"])
    print(f"{part}: {done['state']} after {time.monotonic() - began:.1f} s, {done['error']}")
    if part in SUCCEED:
        assert (done["state"], done["attempt"]) == (RunState.SUCCEEDED, SUCCEED[part]), done
    if done["state"] == RunState.SUCCEEDED:
        assert done["result"]["input"]["messages"] == MESSAGES
        assert all(
            instance.rest("GET", item["href"])[0] == 200
            for item in done["downloads"]
            if item["bytes"]
        )
    else:
        assert done["state"] == RunState.FAILED
        assert done["error"]
        assert (done["result"], done["downloads"]) == (None, [])
    instance.wait_running(part)
