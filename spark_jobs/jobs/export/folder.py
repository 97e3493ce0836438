"""The folder of an exported table: its files, and the state by which each message is in exactly one of them.

Tasks write below ``_staged``, which readers of Parquet folders skip. The driver commits a batch by replacing
``_state.json``: it names the new positions and the files to move into place. A file that was named but not moved is
moved when the folder is opened next; staged files that were not named are removed. So a run that is killed at any
moment neither loses nor doubles a row, and rows appear only once they are committed.
"""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spark_jobs.jobs.export import delta, iceberg
from spark_jobs.jobs.kit.messages import arrow_schema
from spark_jobs.pulsar_source.options import OptionError
from spark_jobs.pulsar_source.partitions import LedgerRange

VERSION = 1
STATE = "_state.json"
STAGED = "_staged"
LOCK_S = 15.0
"""Time for which a run waits for another one, such as one that was stopped a moment ago."""
LOGS = {"delta": delta.add_files, "iceberg": iceberg.add_files}
"""Functions that add the files of a batch to the log of a table, by the formats that have one."""
Positions = dict[str, tuple[int, int]]
"""Ledger and entry exported last, by topic or partition."""


@dataclass
class ExportState:
    """The committed state. ``columns`` and ``format``: of the table, which do not change. ``moving``: files of the last
    batch, ``staged``: the folder from which they are moved. ``batches``: how many were committed, the last one at
    ``committed_ms``. ``bytes``: of all files."""

    topic: str
    columns: list[str]
    positions: Positions = field(default_factory=dict)
    rows: int = 0
    files: int = 0
    unreadable: int = 0
    trimmed: int = 0
    moving: list[str] = field(default_factory=list)
    format: str = "parquet"
    batches: int = 0
    bytes: int = 0
    committed_ms: int = 0
    staged: str = STAGED
    version: int = VERSION

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files."""
        return arrow_schema(self.columns)


@dataclass(frozen=True)
class WrittenFiles:
    """Files and rows of one range, and the entries that could not be read. ``bytes``: of the files."""

    files: list[str]
    rows: int
    unreadable: int
    trimmed: int
    bytes: int = 0


@contextmanager
def opened(
    folder: Path, topic: str, columns: Sequence[str], table_format: str = "parquet"
) -> Iterator[ExportState]:
    """Lock the folder, finish or undo what an interrupted run left, and yield its state.

    Raises OptionError when another run writes it for LOCK_S, or when it holds another topic or other columns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "_lock").open("w") as lock:
        until_s = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until_s:
                    raise OptionError(f"another run is exporting to {folder}") from error
                time.sleep(0.1)
        state = _read(folder, topic, columns, table_format)
        _finish(folder, state)
        shutil.rmtree(folder / STAGED, ignore_errors=True)
        # A folder of its own: tasks of a run that was killed may still write to theirs.
        state.staged, state.moving = f"{STAGED}/{secrets.token_hex(4)}", []
        yield state


def _read(folder: Path, topic: str, columns: Sequence[str], table_format: str) -> ExportState:
    path = folder / STATE
    if not path.exists():
        return ExportState(topic, list(columns), format=table_format)
    document = json.loads(path.read_text())
    if document.get("version") != VERSION:
        raise OptionError(f"{path} has version {document.get('version')}, not {VERSION}")
    state = ExportState(**document)
    state.positions = {name: (place[0], place[1]) for name, place in state.positions.items()}
    if (state.topic, state.columns, state.format) != (topic, list(columns), table_format):
        raise OptionError(
            f"parameter name: {folder.name} holds {state.topic} as {state.format} with the columns"
            f" {', '.join(state.columns)}; choose another name"
        )
    return state


def commit(
    folder: Path,
    state: ExportState,
    positions: Mapping[str, tuple[int, int]],
    written: Sequence[WrittenFiles],
) -> None:
    """Commit the files of a batch, with which ``positions`` are reached."""
    state.positions |= positions
    state.moving = [file for part in written for file in part.files]
    state.files += len(state.moving)
    state.batches += 1
    state.committed_ms = time.time_ns() // 1_000_000
    state.bytes += sum(part.bytes for part in written)
    state.rows += sum(part.rows for part in written)
    state.unreadable += sum(part.unreadable for part in written)
    state.trimmed += sum(part.trimmed for part in written)
    temporary = folder / f"{STATE}.new"
    with temporary.open("w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / STATE)
    _sync(folder)
    _finish(folder, state)


def _finish(folder: Path, state: ExportState) -> None:
    """Let the files of the last batch appear, as far as that was not done."""
    _move(folder / state.staged, folder, state.moving)
    if add_files := LOGS.get(state.format):
        add_files(folder, state.schema, state.moving, state.batches)


def _move(staged: Path, folder: Path, files: Sequence[str]) -> None:
    """Move staged files into place, as far as that was not done."""
    targets = set()
    for name in files:
        source, target = staged / name, folder / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
            targets.add(target.parent)
    for parent in targets:
        _sync(parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def left(planned: Sequence[LedgerRange], positions: Positions) -> list[LedgerRange]:
    """Return what of the ranges was not exported."""
    remaining = []
    for ledger_range in planned:
        ledger_id, entry_id = positions.get(ledger_range.topic, (-1, -1))
        if ledger_range.ledger_id < ledger_id:
            continue
        if ledger_range.ledger_id == ledger_id:
            ledger_range = replace(ledger_range, first=max(ledger_range.first, entry_id + 1))
        if ledger_range.entries > 0:
            remaining.append(ledger_range)
    return remaining


def vanished(planned: Sequence[LedgerRange], positions: Positions) -> list[str]:
    """Return the topics whose last exported ledger does not exist any more: entries behind it may be gone as well."""
    known = {(ledger_range.topic, ledger_range.ledger_id) for ledger_range in planned}
    return [topic for topic, (ledger_id, _) in positions.items() if (topic, ledger_id) not in known]
