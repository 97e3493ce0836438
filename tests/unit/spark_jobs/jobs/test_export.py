"""The folder of an exported table: each message is in exactly one file, wherever a run was killed."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table import StaticTable

from engine.base.errors import UnusableField
from spark_jobs import analysis
from spark_jobs.jobs.export import EXPORT, delta, iceberg, job, writing
from spark_jobs.jobs.export import folder as folder_module
from spark_jobs.jobs.export.folder import (
    STAGED,
    ExportState,
    WrittenFiles,
    commit,
    left,
    opened,
    vanished,
)
from spark_jobs.jobs.export.iceberg import with_field_ids
from spark_jobs.jobs.export.job import folder_of, result_of
from spark_jobs.jobs.export.writing import TABLE_COLUMNS, by_day, write_range
from spark_jobs.jobs.kit.messages import arrow_schema
from spark_jobs.pulsar_source.options import OptionError, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.support.analyses.runs import Shown
from tests.support.waiting import stays_blocking

TOPIC = "persistent://public/default/t"
COLUMNS = ("entry_id", "publish_time")


class KilledError(Exception):
    """The end of the process, at a step on the file system."""


def planned(entries: int, step: int) -> list[LedgerRange]:
    """Return the ranges of two partitions, each with a ledger of ten entries and one that grows."""
    return [
        LedgerRange(ledger, first, min(first + step, size) - 1, part, f"{TOPIC}-partition-{part}")
        for part in (0, 1)
        for ledger, size in ((1 + part, 10), (3 + part, entries))
        for first in range(0, size, step)
    ]


def written(staged: Path, ledger_range: LedgerRange) -> WrittenFiles:
    """Write a range as a task does, its first half on one day and the rest on another."""
    ids = [(ledger_range.ledger_id, e) for e in range(ledger_range.first, ledger_range.last + 1)]
    files = []
    for day, part in (("2026-01-01", ids[::2]), ("2026-01-02", ids[1::2])):
        if part:
            name = f"day={day}/{ledger_range.ledger_id}-{ledger_range.first}-{ledger_range.last}.parquet"
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                pa.table({"ledger": [p[0] for p in part], "entry": [p[1] for p in part]}),
                staged / name,
            )
            files.append(name)
    return WrittenFiles(files, len(ids), 0, 0)


def export(folder: Path, ranges: Sequence[LedgerRange]) -> None:
    with opened(folder, TOPIC, COLUMNS) as state:
        remaining = left(ranges, state.positions)
        for start in range(0, len(remaining), 3):
            part = remaining[start : start + 3]
            done = [written(folder / state.staged, ledger_range) for ledger_range in part]
            commit(folder, state, {r.topic: (r.ledger_id, r.last) for r in part}, done)


def rows(folder: Path) -> list[tuple[int, int]]:
    """Return what a reader of the folder finds now."""
    files = [path for path in folder.rglob("*.parquet") if STAGED not in path.parts]
    tables = [pq.read_table(path).to_pydict() for path in files]
    return sorted(pair for t in tables for pair in zip(t["ledger"], t["entry"], strict=True))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
def test_rows_are_exported_once_wherever_runs_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    allowed = 0
    replace = Path.replace

    def counted(self: Path, target: Path) -> Path:
        nonlocal allowed
        if allowed == 0:
            raise KilledError
        allowed -= 1
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", counted)
    killed = 0
    for attempt in range(100):
        allowed = steps
        try:
            # The topic grows, and a later run divides it in another way.
            export(tmp_path, planned(min(5 + attempt, 12), 3 + attempt % 4))
        except KilledError:
            killed += 1
        else:
            break
        assert len(set(rows(tmp_path))) == len(rows(tmp_path))
    assert killed
    allowed = 1000
    export(tmp_path, planned(15, 7))
    sizes = {1: 10, 2: 10, 3: 15, 4: 15}
    assert rows(tmp_path) == [(ledger, entry) for ledger in sizes for entry in range(sizes[ledger])]


def test_a_folder_belongs_to_one_topic_and_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOCK_S", 0.2)
    export(tmp_path, planned(4, 2))
    with (
        pytest.raises(OptionError, match="choose another name"),
        opened(tmp_path, "other", COLUMNS),
    ):
        pass
    with pytest.raises(OptionError, match="choose another name"), opened(tmp_path, TOPIC, ("key",)):
        pass
    with (
        opened(tmp_path, TOPIC, COLUMNS),
        pytest.raises(OptionError, match="another run is exporting"),
        opened(tmp_path, TOPIC, COLUMNS),
    ):
        pass


def test_a_run_waits_for_one_that_was_stopped_a_moment_ago(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        with opened(tmp_path, TOPIC, COLUMNS):
            next_run = thread.submit(export, tmp_path, planned(4, 2))
            stays_blocking(lambda: not next_run.done(), 0.3)
        next_run.result(60)
    assert len(rows(tmp_path)) == 28


def test_tasks_of_a_killed_run_do_not_write_among_those_of_the_next(tmp_path: Path) -> None:
    with opened(tmp_path, TOPIC, COLUMNS) as state:
        late = tmp_path / state.staged
    with opened(tmp_path, TOPIC, COLUMNS) as state:
        [ledger_range] = planned(2, 9)[:1]
        written(late, ledger_range)
        assert not (tmp_path / state.staged).exists()
        assert rows(tmp_path) == []


def test_a_ledger_that_vanished_is_named() -> None:
    ranges = planned(4, 2)
    assert vanished(ranges, {ranges[0].topic: (1, 3)}) == []
    trimmed = [ledger_range for ledger_range in ranges if ledger_range.ledger_id != 1]
    assert vanished(trimmed, {ranges[0].topic: (1, 3)}) == [ranges[0].topic]


def test_messages_are_divided_by_day_and_what_cannot_be_read_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [datetime(2026, 1, 1, 23, 59, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), None]
    names = (*TABLE_COLUMNS, "unread", "unread_entries")
    values: list[dict[str, Any]] = [
        {"publish_time": at, "value": value, "entry_id": i}
        for i, (at, value) in enumerate(zip(times, (b"x" * 5_000_000, None, b"\xff"), strict=True))
    ]
    values += [
        {"unread": "unreadable", "unread_entries": 1},
        {"unread": "trimmed", "unread_entries": 4},
    ]

    def rows_of_range(_: Any, __: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert tuple(columns) == names
        schema = arrow_schema(names)
        yield pa.RecordBatch.from_pylist([dict.fromkeys(names) | v for v in values], schema)

    monkeypatch.setattr(writing, "rows_of_range", rows_of_range)
    options = parse({"topic": "t", "metadata.url": "zk:nowhere:1"})
    part = write_range(options, LedgerRange(7, 0, 8, -1, TOPIC), TABLE_COLUMNS, tmp_path)
    assert (part.rows, part.unreadable, part.trimmed) == (3, 1, 4)
    assert part.bytes == sum((tmp_path / name).stat().st_size for name in part.files)
    assert part.files == [
        f"day={day}/0-7-0-8.parquet" for day in ("2026-01-01", "2026-01-02", "unknown")
    ]
    table = pq.ParquetFile(tmp_path / part.files[0]).read()
    assert table.column_names == list(TABLE_COLUMNS)
    assert len(table["value"][0].as_py()) == 5_000_000
    empty = pa.RecordBatch.from_pylist([], arrow_schema(("publish_time",)))
    assert by_day(empty) == []


def test_the_result_says_what_was_added_and_what_is_missing(tmp_path: Path) -> None:
    before = ExportState(TOPIC, ["key"], {TOPIC: (1, 5)}, rows=10, files=2, bytes=7)
    after = ExportState(
        TOPIC, ["key"], {TOPIC: (2, 0)}, rows=15, files=3, trimmed=2, bytes=17, committed_ms=99
    )
    ahead = [LedgerRange(2, 0, 3, topic=TOPIC), LedgerRange(5, 0, 1, topic="other")]
    grown = [(50, 12), (99, 15)]
    result = result_of(before, after, tmp_path, {"topic": TOPIC}, [TOPIC, TOPIC], ahead, grown)
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert (facts["added_rows"], facts["rows"], facts["trimmed"]) == (5, 15, 2)
    assert (facts["added_bytes"], facts["bytes"]) == (10, 17)
    assert (facts["behind"], facts["committed_at"]) == (5, 99)
    assert result["series"][0]["points"] == [[50, 12], [99, 15]]
    assert len(result["conclusions"]) == 4
    assert result["tables"][0]["rows"] == [["other", None, "5:1", 2], [TOPIC, "2:0", "2:3", 3]]


def test_the_folder_is_beside_the_outputs_of_runs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "runs" / "1.1", "persistent://public/default/a b", "table")
    assert folder == tmp_path / "exports" / "public" / "default" / "a+b" / "table"


class SparkHere:
    """The part of Spark's session that an export uses, in this process."""

    def range(self, start: int, stop: int, step: int, tasks: int) -> "SparkHere":
        self.batch = pa.RecordBatch.from_pydict({"id": [*range(start, stop, step)]})
        return self

    def mapInArrow(self, function: Any, schema: str) -> "SparkHere":
        self.rows = [row for batch in function([self.batch]) for row in batch.to_pylist()]
        return self

    def collect(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(**row) for row in self.rows]


def test_a_run_adds_what_is_new_since_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows_of_range(
        _: Any, given: LedgerRange, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        values = [
            dict.fromkeys(columns)
            | {"ledger_id": given.ledger_id, "entry_id": e, "publish_time": at}
            for e in range(given.first, given.last + 1)
        ]
        yield pa.RecordBatch.from_pylist(values, arrow_schema(columns))

    monkeypatch.setattr(writing, "rows_of_range", rows_of_range)
    added = []
    for run, entries in enumerate((5, 5, 12)):
        monkeypatch.setattr(job, "plan_topics", lambda _, size=entries: planned(size, 3))
        output_dir = tmp_path / "runs" / f"{run}.1"
        output_dir.mkdir(parents=True)
        parameters = {
            "topic": TOPIC,
            "name": "table",
            "format": "parquet",
            "decode": False,
            "follow_s": 0,
            "every_s": 10,
        }
        context = {"metadata.url": "zk:nowhere:1"}
        result = job.run(SparkHere(), parameters, context, progress=Shown(), output_dir=output_dir)
        added.append(next(s["value"] for s in result["summary"] if s["key"] == "added_rows"))
    assert added == [30, 0, 14]
    files = [*(tmp_path / "exports").rglob("*.parquet")]
    places = [
        (row["ledger_id"], row["entry_id"])
        for path in files
        for row in pq.ParquetFile(path).read(["ledger_id", "entry_id"]).to_pylist()
    ]
    sizes = {1: 10, 2: 10, 3: 12, 4: 12}
    assert sorted(places) == [(ledger, e) for ledger in sizes for e in range(sizes[ledger])]


# Delta and Iceberg


def added_to_log(folder: Path, table_format: str, last: int, day: str = "2026-01-01") -> None:
    """Export the entries of one ledger up to the last one as one batch of a table with a log."""
    ledger_range = LedgerRange(7, 0, last, -1, TOPIC)
    with opened(folder, TOPIC, COLUMNS, table_format) as state:
        for item in left([ledger_range], state.positions):
            name = f"day={day}/0-7-{item.first}-{item.last}.parquet"
            path = folder / state.staged / name
            path.parent.mkdir(parents=True)
            entries = [
                {"entry_id": entry, "publish_time": datetime(2026, 1, 1, tzinfo=UTC)}
                for entry in range(item.first, item.last + 1)
            ]
            schema = with_field_ids(arrow_schema(COLUMNS))
            pq.write_table(pa.Table.from_pylist(entries, schema), path)
            part = WrittenFiles([name], len(entries), 0, 0)
            commit(folder, state, {TOPIC: (7, item.last)}, [part])


def export_with_kills(
    folder: Path, table_format: str, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Export three batches; the runs of the last two are killed before and after the log has them."""

    def killed(*_: Any) -> None:
        raise KilledError

    def killed_behind(*given: Any) -> None:
        add(*given)
        raise KilledError

    added_to_log(folder, table_format, 4)
    for last, step in ((7, killed), (9, killed_behind)):
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setitem(folder_module.LOGS, table_format, step)
            added_to_log(folder, table_format, last)
        added_to_log(folder, table_format, last)
    with (
        pytest.raises(OptionError, match=f"as {table_format}"),
        opened(folder, TOPIC, COLUMNS),
    ):
        pass


def test_a_delta_table_has_each_row_once_wherever_runs_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_with_kills(tmp_path, "delta", delta.add_files, monkeypatch)
    table = DeltaTable(str(tmp_path))
    read = table.to_pyarrow_dataset().to_table()
    assert sorted(read["entry_id"].to_pylist()) == list(range(10))
    assert set(read["day"].to_pylist()) == {"2026-01-01"}
    assert table.transaction_version(delta.APP) == 3


def test_an_iceberg_table_has_each_row_once_wherever_runs_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_with_kills(tmp_path, "iceberg", iceberg.add_files, monkeypatch)
    table = StaticTable.from_metadata(str(tmp_path))
    assert sorted(table.scan().to_arrow()["entry_id"].to_pylist()) == list(range(10))
    assert (
        table.scan(row_filter="publish_time < '2026-01-01T00:00:00+00:00'").to_arrow().num_rows == 0
    )
    assert [entry["partition"] for entry in table.inspect.partitions().to_pylist()] == [
        {"day": date(2026, 1, 1)}
    ]
    assert table.properties[iceberg.BATCH] == "3"
    assert len(table.metadata.snapshots) == 3


def test_a_version_of_iceberg_metadata_without_its_hint_is_found(tmp_path: Path) -> None:
    for last in (1, 2):
        added_to_log(tmp_path, "iceberg", last)
    (tmp_path / "metadata" / "version-hint.text").write_text("1")
    added_to_log(tmp_path, "iceberg", 3)
    assert StaticTable.from_metadata(str(tmp_path)).scan().to_arrow().num_rows == 4


def test_an_iceberg_table_that_another_program_changes_meanwhile_keeps_its_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added_to_log(tmp_path, "iceberg", 1)
    store = iceberg._store

    def after_another(folder: Path, version: int, metadata: Any) -> Path:
        monkeypatch.setattr(iceberg, "_store", store)
        other = iceberg._opened(folder, arrow_schema(COLUMNS))
        with other.transaction() as transaction:
            transaction.set_properties({"comment": "of another program"})
        return store(folder, version, metadata)

    monkeypatch.setattr(iceberg, "_store", after_another)
    added_to_log(tmp_path, "iceberg", 2)
    table = StaticTable.from_metadata(str(tmp_path))
    assert table.properties["comment"] == "of another program"
    assert sorted(table.scan().to_arrow()["entry_id"].to_pylist()) == [0, 1, 2]


def test_old_snapshots_of_an_iceberg_table_are_removed_with_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "SNAPSHOTS_MAX", 5)
    monkeypatch.setattr(iceberg, "SNAPSHOTS_KEPT", 2)
    for last in range(8):
        added_to_log(tmp_path, "iceberg", last, f"2026-01-{last + 1:02}")
    table = StaticTable.from_metadata(str(tmp_path))
    assert len(table.metadata.snapshots) < 5
    lists = {Path(path).name for path in (s.manifest_list for s in table.metadata.snapshots)}
    assert {path.name for path in (tmp_path / "metadata").glob("snap-*")} == lists
    assert sorted(table.scan().to_arrow()["entry_id"].to_pylist()) == list(range(8))


@pytest.mark.parametrize(
    ("day", "days"), [("1970-01-02", 1), ("12345-01-01", 3789391), ("unknown", None)]
)
def test_days_of_folders_are_those_since_the_epoch(day: str, days: int | None) -> None:
    assert iceberg._days(day) == days


def test_columns_have_the_numbers_that_iceberg_gives_them() -> None:
    columns = pyarrow_to_schema(with_field_ids(arrow_schema(TABLE_COLUMNS)))
    assert columns.as_struct() == assign_fresh_schema_ids(columns).as_struct()
    assert columns.highest_field_id == len(TABLE_COLUMNS) + 2


def test_a_format_whose_package_is_missing_is_refused_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    EXPORT.check_packages({"format": "delta"})
    monkeypatch.setattr(analysis, "find_spec", lambda name: None if name == "deltalake" else name)
    EXPORT.check_packages({"format": "parquet"})
    with pytest.raises(UnusableField, match="the extra delta of magnetar") as refusal:
        EXPORT.check_packages({"format": "delta"})
    assert refusal.value.field == "parameters.format"
    # Without Spark the workers are elsewhere.
    monkeypatch.setattr(analysis, "find_spec", lambda _: None)
    EXPORT.check_packages({"format": "delta"})
