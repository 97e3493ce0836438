"""Schedules of analyses: each time has one run, as the owner, whatever process looks and whenever it is killed."""

from typing import Any

import pytest

from engine.base.errors import Conflict, NotFound, UnusableField
from gateway.jobs import outputs, schedules, services
from gateway.jobs.cron import HOUR_MS
from gateway.jobs.models import JobRun, RunState, Schedule
from tests.unit.gateway.jobs.bench import Bench, Killed

LAUNCH: dict[str, Any] = {
    "analysis": "topic-profile",
    "parameters": {"topic": "persistent://public/default/t"},
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the time, in a list, by which schedules and runs live."""
    now = [1_000_000_000_000]
    for module in (schedules, services):
        monkeypatch.setattr(module, "now_ms", lambda: now[0])
    return now


def due(clock: list[int]) -> Schedule:
    """Return a schedule of every hour whose first time has just come."""
    schedule = schedules.create(**LAUNCH, every_hours=1, user="ann")
    clock[0] += HOUR_MS
    return schedule


def test_each_time_has_one_run_of_the_owner(bench: Bench, clock: list[int]) -> None:
    schedule = schedules.create(**LAUNCH, every_hours=1, user="ann")
    assert schedules.start_due() == []
    for hour in (1, 2):
        clock[0] += HOUR_MS
        [started] = schedules.start_due()
        assert schedules.start_due() == []
        run = JobRun.objects.get(id=started)
        assert (run.created_by, run.schedule, run.state) == ("ann", schedule.id, RunState.QUEUED)
        assert (run.kind, run.target) == ("topic", LAUNCH["parameters"]["topic"])
        schedule.refresh_from_db()
        assert (schedule.last_at, schedule.next_at) == (clock[0], clock[0] + HOUR_MS)
        assert schedules.last_runs([schedule.id])[schedule.id].id == started
        assert len(bench.messages) == hour


def test_times_that_passed_unseen_are_one_run(bench: Bench, clock: list[int]) -> None:
    schedule = schedules.create(**LAUNCH, expression="0 * * * *")
    clock[0] += 30 * HOUR_MS
    assert len(schedules.start_due()) == 1
    schedule.refresh_from_db()
    assert clock[0] < (schedule.next_at or 0) <= clock[0] + HOUR_MS


def test_two_processes_that_look_at_once_start_one_run(bench: Bench, clock: list[int]) -> None:
    schedule = due(clock)
    [read_before] = Schedule.objects.all()
    assert len(schedules.start_due()) == 1
    assert schedules._start(read_before) is None
    assert JobRun.objects.filter(schedule=schedule.id).count() == 1


def test_a_process_killed_between_the_two_leaves_the_time_to_the_next(
    bench: Bench, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = due(clock)

    def killed(**_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(services, "create", killed)
        with pytest.raises(Killed):
            schedules.start_due()
    assert not JobRun.objects.exists()
    [started] = schedules.start_due()
    assert JobRun.objects.get(id=started).schedule == schedule.id


def test_a_schedule_whose_analysis_is_gone_says_so_and_delays_no_other(
    bench: Bench, clock: list[int]
) -> None:
    gone, stays = due(clock), schedules.create(**LAUNCH, every_hours=1)
    Schedule.objects.filter(id=gone.id).update(analysis="gone")
    Schedule.objects.filter(id=stays.id).update(next_at=clock[0])
    assert len(schedules.start_due()) == 1
    gone.refresh_from_db()
    assert "there is no 'gone'" in gone.error
    assert (gone.next_at or 0) > clock[0]


def test_a_schedule_has_one_way_to_name_its_times(bench: Bench) -> None:
    for times in ({}, {"expression": "* * * * *", "every_hours": 1}):
        with pytest.raises(UnusableField, match=r"either cron or every_hours"):
            schedules.create(**LAUNCH, **times)


def test_the_number_of_schedules_is_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SCHEDULES_MAX", 1)
    first = schedules.create(**LAUNCH, every_hours=1)
    with pytest.raises(Conflict, match="there are 1 schedules"):
        schedules.create(**LAUNCH, every_hours=1)
    schedules.delete(schedule_id=first.id)
    with pytest.raises(NotFound):
        schedules.get(schedule_id=first.id)


def test_pinned_runs_are_kept(bench: Bench) -> None:
    runs = [bench.create() for _ in range(3)]
    JobRun.objects.update(state=RunState.FAILED, finished_at=1)
    services.pin(run_id=runs[0].id, pinned=True)
    assert outputs.prune(days=1, runs_max=1, now_ms=10**15) == sorted(run.id for run in runs[1:])
    services.pin(run_id=runs[0].id, pinned=False)
    assert outputs.prune(days=1, runs_max=0, now_ms=10**15) == [runs[0].id]
