"""A late attempt while the next one is at work: the row is the next one's (J1)."""

from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench


def test_a_late_attempt_changes_nothing_of_the_one_at_work(bench: Bench) -> None:
    created = bench.create()
    late = services.claim(run_id=created.id, attempt=1)
    assert late is not None
    bench.recover()
    present = services.claim(run_id=created.id, attempt=2)
    assert present is not None
    services.report(run=present, stage="second", done=1, total=10)
    JobRun.objects.filter(id=created.id).update(lease_until_ms=1)

    assert not services.beat(run=late)
    services.report(run=late, stage="first", done=9, total=10)
    assert services.finish(run=late, state=RunState.SUCCEEDED, result={"by": "first"}) is None
    row = JobRun.objects.get(id=created.id)
    assert (row.state, row.attempt, row.stage, row.done) == (RunState.RUNNING, 2, "second", 1)
    assert row.lease_until_ms == 1

    finished = services.finish(run=present, state=RunState.SUCCEEDED, result={"by": "second"})
    assert finished is RunState.SUCCEEDED
    assert JobRun.objects.get(id=created.id).result == {"by": "second"}
