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


def test_what_an_attempt_writes_after_its_end_is_swept_too(bench: Bench) -> None:
    """Spark may go on for a while after the worker that asked it was killed."""
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
