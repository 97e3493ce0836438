"""Files of runs on disk: what is synced, what is swept, what earlier versions left."""

from pathlib import Path

import pytest

from gateway.jobs import outputs, services
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import FILES, Bench, Shown, directories


def test_files_are_durable_before_the_row_points_to_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = outputs._sync

    def noted(path: Path) -> None:
        real(path)
        synced.append(path.name)

    monkeypatch.setattr(outputs, "_sync", noted)
    before: list[str] = []
    bench.at("finish", lambda: before.extend(synced))
    run = bench.create()
    bench.work()
    assert before == [*FILES, f"{run.id}.1", "runs"]


def test_a_file_that_cannot_be_synced_fails_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(outputs, "_sync", fails)
    run = bench.create()
    bench.work()
    assert Shown(run).state == "failed"
    Shown(run).check_nothing()


def row(state: RunState, attempt: int) -> str:
    run = JobRun(analysis="a", title="t", parameters={}, created_at=1, state=state, attempt=attempt)
    run.save(force_insert=True)
    return run.id


@pytest.mark.usefixtures("bench")
def test_a_sweep_keeps_what_counts_and_what_it_does_not_know() -> None:
    ids = {state: row(state, 2) for state in RunState}
    kept = {f"{ids[RunState.SUCCEEDED]}.2", f"{ids[RunState.RUNNING]}.2"}
    kept |= {"0123456789abcdef.1", "0123456789abcdef", ids[RunState.SUCCEEDED], "notes.1"}
    left = {f"{run_id}.{attempt}" for run_id in ids.values() for attempt in (1, 2)} - kept
    left |= {"staging"}  # of an earlier version
    for name in kept | left:
        (outputs.root() / name).mkdir(parents=True)
        (outputs.root() / name / "file").write_text("x")
    assert outputs.sweep() == sorted(left)
    assert set(directories()) == kept
    assert outputs.sweep() == []


@pytest.mark.usefixtures("bench")
def test_a_sweep_before_the_first_run_finds_nothing() -> None:
    assert outputs.sweep() == []


def test_two_sweeps_at_once_do_not_disturb_each_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        name = f"{row(RunState.FAILED, 1)}.1"
        (outputs.root() / name).mkdir(parents=True)
        (outputs.root() / name / "file").write_text("x")
    real = outputs._remove

    def other_first(directory: Path) -> None:
        monkeypatch.setattr(outputs, "_remove", real)
        outputs.sweep()
        real(directory)

    monkeypatch.setattr(outputs, "_remove", other_first)
    outputs.sweep()
    assert directories() == []


def test_files_that_an_attempt_writes_after_its_end_are_swept_too(bench: Bench) -> None:
    """Sweep late files: Spark may continue for a while after its worker was killed."""
    run = bench.create()
    bench.at("half", lambda: services.cancel(run_id=run.id))
    bench.work()
    (outputs.root() / f"{run.id}.1" / ".scan").mkdir(parents=True)
    outputs.sweep()
    Shown(run).check_nothing()


def test_files_of_an_earlier_version_can_still_be_downloaded(bench: Bench) -> None:
    run = bench.create()
    where = outputs.root() / run.id
    where.mkdir(parents=True)
    for name in FILES:
        (where / name).write_text("of old")
    JobRun.objects.filter(id=run.id).update(
        state=RunState.SUCCEEDED,
        attempt=2,
        result={"by": "of old"},
        downloads=[{"name": name, "bytes": 6} for name in FILES],
    )
    outputs.sweep()
    assert Shown(run).files == dict.fromkeys(FILES, "of old")


@pytest.mark.usefixtures("bench")
def test_old_runs_are_deleted_with_their_files_and_others_stay() -> None:
    """Check that runs are deleted by age and by number, and only those that are over: the others are pending work."""
    day = 86_400_000

    def made(state: RunState, finished_at: int | None, created_at: int) -> str:
        run = JobRun(
            analysis="a",
            title="t",
            parameters={},
            state=state,
            created_at=created_at,
            finished_at=finished_at,
        )
        run.save(force_insert=True)
        (outputs.root() / f"{run.id}.1").mkdir(parents=True)
        return run.id

    waiting = made(RunState.QUEUED, None, 1)
    working = made(RunState.RUNNING, None, 2)
    old = [made(state, 10 * day, 3) for state in outputs.OVER]
    newer = [made(RunState.SUCCEEDED, 50 * day, 10 + number) for number in range(3)]

    def pruned(days: int, runs_max: int) -> list[str]:
        return outputs.prune(days=days, runs_max=runs_max, now_ms=60 * day)

    assert pruned(0, 0) == []
    assert pruned(51, 6) == []
    assert pruned(30, 0) == sorted(old)
    assert pruned(0, 2) == [newer[0]]
    kept = {waiting, working, *newer[1:]}
    assert set(JobRun.objects.values_list("id", flat=True)) == kept
    assert set(directories()) == {f"{run_id}.1" for run_id in kept}
