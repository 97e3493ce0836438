"""Progress of a run, whatever order its reports arrive in."""

from pathlib import Path
from typing import Any

import pytest

from gateway.jobs import services, tasks
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench, Killed


@pytest.mark.parametrize(
    ("reports", "shown"),
    [
        ([(1, 10), (5, 10), (3, 10)], (5, 10)),
        ([(5, 10), (5, 12)], (5, 12)),
        ([(7, 4)], (7, 7)),
    ],
)
def test_progress_never_goes_back(
    bench: Bench, reports: list[tuple[int, int]], shown: tuple[int, int]
) -> None:
    created = bench.create()
    run = services.claim(run_id=created.id, attempt=1)
    assert run is not None
    for done, total in reports:
        services.report(run=run, stage=f"{done} of {total}", done=done, total=total)
    row = JobRun.objects.get(id=run.id)
    assert (row.done, row.total) == shown
    assert row.stage == f"{reports[-1][0]} of {reports[-1][1]}"


def test_a_partial_result_is_stored_at_most_once_a_second(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[Any] = []

    def analysis(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        now_s = [100.0]
        monkeypatch.setattr(tasks.time, "monotonic", lambda: now_s[0])
        for number, later_s in enumerate((0.0, 0.4, 0.7)):
            now_s[0] += later_s
            progress.partial({"hits": number})
            stored.append(JobRun.objects.get(id=run.id).partial)
        monkeypatch.setattr(tasks, "PARTIAL_BYTES_MAX", 10)
        now_s[0] += 5
        progress.partial({"hits": "more than ten bytes"})
        stored.append(JobRun.objects.get(id=run.id).partial)
        if run.attempt == 1:
            raise Killed
        return {"hits": 9}

    bench.analysis = analysis
    run = bench.create()
    bench.work()
    assert stored == [{"hits": 0}, {"hits": 0}, {"hits": 2}, {"hits": 2}]
    bench.recover()
    claimed = services.claim(run_id=run.id, attempt=2)
    assert claimed is not None
    assert claimed.partial is None, "of another attempt"
    JobRun.objects.filter(id=run.id).update(state=RunState.QUEUED)
    bench.work()
    row = JobRun.objects.get(id=run.id)
    assert (row.state, row.result, row.partial) == (RunState.SUCCEEDED, {"hits": 9}, None)
