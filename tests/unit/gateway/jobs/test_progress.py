"""Progress of a run, whatever order its reports arrive in."""

import pytest

from gateway.jobs import services
from gateway.jobs.models import JobRun
from tests.unit.gateway.jobs.bench import Bench


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
