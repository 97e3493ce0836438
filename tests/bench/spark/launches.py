"""Seconds from the launch of an analysis to its progress and result, and from a cancellation to its end.

Run: python -m tests.bench.spark.launches [--rows N] [--rounds N]

Each round is an instance whose Redis, worker and Spark are not started: its first run is cold, the next ones are warm,
and the last one is cancelled as soon as it reads. Times are those that a reader of ``GET /api/v1/runs/ID`` sees.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from spark_jobs.jobs.kit.progress import ADDING_UP, READING
from tests.bench.spark.read_rows import published
from tests.support.instance import Instance, running_instance

TOPIC = "persistent://public/default/launched"
SIZE = 200
OVER = ("succeeded", "failed", "cancelled")
POLL_S = 0.02
WARM_RUNS = 5


def launched(instance: Instance, cancel: bool = False) -> dict[str, float]:
    """Return the seconds from the launch to each stage, and to the end; with ``cancel`` from the cancellation on."""
    began = time.monotonic()
    body = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}}
    status, run = instance.rest("POST", "/api/v1/runs", body)
    assert status == 201, run
    seen = {"answered": time.monotonic() - began}
    while run["state"] not in OVER:
        time.sleep(POLL_S)
        run = show(instance, run["id"])
        reads = run["stage"] in (READING, ADDING_UP)
        seen.setdefault("progress" if reads else run["stage"], time.monotonic() - began)
        if reads and cancel:
            began = time.monotonic()
            instance.rest("POST", f"/api/v1/runs/{run['id']}/cancel")
            while run["state"] not in OVER:
                run = show(instance, run["id"])
            assert run["state"] == "cancelled", run["state"]
            return {"cancelled": time.monotonic() - began}
    assert run["state"] == "succeeded", run["error"]
    return {**seen, "result": time.monotonic() - began}


def show(instance: Instance, run_id: str) -> dict[str, Any]:
    _, run = instance.rest("GET", f"/api/v1/runs/{run_id}")
    shown: dict[str, Any] = run
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder, running_instance(Path(folder)) as instance:
            retained = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
            instance.rest("POST", "/admin/v2/namespaces/public/default/retention", retained)
            published(instance, TOPIC, given.rows, SIZE, 1)
            runs = [("cold", False), *[("warm", False)] * WARM_RUNS, ("warm", True)]
            for kind, cancel in runs:
                for what, seconds in launched(instance, cancel).items():
                    times[f"{kind}: {what}"].append(seconds)
    for name, values in times.items():
        listed = " ".join(f"{value:.2f}" for value in values)
        print(f"{name:60} median {statistics.median(values):6.2f} s  of {listed}")


if __name__ == "__main__":
    main()
