"""Files of runs. Every attempt writes into its own directory, and the run's row names the attempt that counts (J2).

The directory ``<data>/runs/<run id>.<attempt>/`` is visible only after the row records that this attempt succeeded, and
never changes afterwards. So the compare-and-set that closes a run publishes its files too, and a late attempt cannot
replace them. Earlier versions stored the files of a run in ``<data>/runs/<run id>/``, where they stay readable.
"""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings

from gateway.jobs import destinations
from gateway.jobs.models import JobRun, RunState

log = logging.getLogger(__name__)
ATTEMPT_DIRECTORY = re.compile(r"([0-9a-f]+)\.([0-9]+)")
EARLIER_STAGING = "staging"
"""The directory of unfinished files of earlier versions, which is no longer written."""
OVER = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
PRUNED_AT_ONCE = 200
DAY_MS = 86_400_000


def root() -> Path:
    return Path(settings.ENVIRONMENT.data_dir) / "runs"


def directory_of(run: JobRun) -> Path:
    """Return the directory of the attempt that ``run`` was read in."""
    return root() / f"{run.id}.{run.attempt}"


def create(run: JobRun) -> Path:
    """Create the empty directory of a claimed attempt. Raises OSError."""
    directory = directory_of(run)
    directory.mkdir(parents=True)
    return directory


def seal(directory: Path) -> list[dict[str, Any]]:
    """Make the files durable before the row refers to them; return their names and sizes. Raises OSError."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    for path in (*files, directory, directory.parent):
        _sync(path)
    return [{"name": path.name, "bytes": path.stat().st_size} for path in files]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_of(run: JobRun, name: str) -> Path:
    """Return the path of a file of a finished run; ``name`` must be one of its downloads."""
    directory = directory_of(run)
    return (directory if directory.is_dir() else root() / run.id) / name


def discard(run: JobRun) -> None:
    """Remove the files of an attempt that is over, unless it is the one that succeeded."""
    succeeded = JobRun.objects.filter(id=run.id, attempt=run.attempt, state=RunState.SUCCEEDED)
    if not succeeded.exists():
        _remove(directory_of(run))
        if settings.ENVIRONMENT.output_url:
            attempts = range(run.attempt, run.attempt + 1)
            destinations.remove(settings.ENVIRONMENT.output_url, run, attempts)


def sweep() -> list[str]:
    """Remove directories of attempts that were killed or overtaken; return their names.

    Several workers may sweep at once. Directories are listed before rows are read: an attempt is claimed before it
    creates its directory, and an abandoned attempt is never resumed. Directories of runs that the database does not
    know are not touched.
    """
    if not root().is_dir():
        return []
    names = sorted(os.listdir(root()))
    rows = {row[0]: row[1:] for row in JobRun.objects.values_list("id", "attempt", "state")}
    leftovers = [name for name in names if name == EARLIER_STAGING or _is_leftover(name, rows)]
    for name in leftovers:
        _remove(root() / name)
    return leftovers


def prune(*, days: int, runs_max: int, now_ms: int) -> list[str]:
    """Delete runs with their files that ended more than ``days`` ago, and all but the newest ``runs_max``.

    Pinned ones are kept. 0 is no limit. At most PRUNED_AT_ONCE runs are deleted for each limit; returns the ids. A run
    that is over never changes again but for its pin, so several workers may prune at once.
    """
    over = JobRun.objects.filter(state__in=OVER, pinned=False)
    expired: list[JobRun] = []
    if days:
        expired += over.filter(finished_at__lt=now_ms - days * DAY_MS).reverse()[:PRUNED_AT_ONCE]
    if runs_max:
        expired += over[runs_max : runs_max + PRUNED_AT_ONCE]
    pruned = {run.id: run for run in expired}
    for run in pruned.values():
        # Files before the row: a crash then leaves a row without files, which the next call deletes.
        _remove(directory_of(run))
        _remove(root() / run.id)
        if run.output_url:
            destinations.remove(run.output_url.rpartition("/")[0], run, range(1, run.attempt + 1))
    JobRun.objects.filter(id__in=pruned, state__in=OVER, pinned=False).delete()
    return sorted(pruned)


def _is_leftover(name: str, rows: dict[str, tuple[int, str]]) -> bool:
    match = ATTEMPT_DIRECTORY.fullmatch(name)
    if match is None or match[1] not in rows:
        return False
    attempt, state = rows[match[1]]
    return attempt != int(match[2]) or state not in (RunState.RUNNING, RunState.SUCCEEDED)


def _remove(directory: Path) -> None:
    """Remove a tree that other workers may be removing too. An error is logged, and the next sweep tries again."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("could not remove %s: %s", directory, error)
