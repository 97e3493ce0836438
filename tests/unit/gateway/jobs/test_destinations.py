"""Files of runs at a configured URL, which count once their manifest is there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.jobs import destinations, outputs
from gateway.jobs.destinations import DestinationError
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench, Killed


@pytest.fixture
def published(bench: Bench, settings: Any, tmp_path: Path) -> Path:
    """Return the folder to which the environment's URL leads."""
    folder = tmp_path / "published"
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, output_url=folder.as_uri())
    return folder


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_run_that_succeeded_has_its_files_and_a_manifest(bench: Bench, published: Path) -> None:
    run = bench.create()
    bench.work()
    row = JobRun.objects.get(id=run.id)
    assert (row.state, row.output_url) == (RunState.SUCCEEDED, f"{published.as_uri()}/{run.id}.1")
    folder = published / f"{run.id}.1"
    assert names(folder) == ["a.parquet", "b.parquet", "manifest.json", "result.json"]
    assert json.loads((folder / "result.json").read_text()) == row.result
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [(file["name"], file["bytes"]) for file in manifest["files"]] == [
        (path.name, path.stat().st_size) for path in sorted(folder.glob("*.parquet"))
    ]
    JobRun.objects.update(finished_at=1)
    outputs.prune(days=1, runs_max=0, now_ms=10**15)
    assert names(published) == []


def test_a_worker_killed_while_it_copies_leaves_no_manifest(
    bench: Bench, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(system: Any, target: str, data: bytes) -> None:
        raise Killed

    run = bench.create()
    with monkeypatch.context() as patch:
        patch.setattr(destinations, "_write", killed)
        bench.work()
    assert JobRun.objects.get(id=run.id).state != RunState.SUCCEEDED
    assert names(published) == []
    (published / f"{run.id}.1").mkdir()
    (published / f"{run.id}.1" / "a.parquet").write_text("of a process that could not remove it")
    row = bench.settle(run)
    assert (row.state, row.output_url) == (RunState.SUCCEEDED, f"{published.as_uri()}/{run.id}.2")
    assert {name.split("/")[0] for name in names(published)} == {f"{run.id}.2"}


def test_a_run_fails_whose_files_cannot_be_copied(
    bench: Bench, published: Path, tmp_path: Path
) -> None:
    published.write_text("a file")
    run = bench.create()
    bench.work()
    row = JobRun.objects.get(id=run.id)
    assert (row.state, row.result, row.output_url) == (RunState.FAILED, None, "")
    assert f"DestinationError: the output URL {published.as_uri()} does not take" in row.error


def test_a_url_of_no_known_store_is_refused(tmp_path: Path) -> None:
    run = JobRun(id="r", attempt=1, analysis="a")
    with pytest.raises(DestinationError, match="nowhere://x"):
        destinations.publish("nowhere://x", run, tmp_path, {})
