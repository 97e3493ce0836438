"""Files of runs (J2). Every attempt writes into a directory of its own; the run's row says whose files count.

``<data>/runs/<run id>.<attempt>/``: nobody sees it before the row says that this attempt succeeded, and from then on
nothing in it changes. So the one compare-and-set that closes a run publishes its files too, and a late attempt has
nothing to replace. Earlier versions kept the files of a run in ``<data>/runs/<run id>/``, which stay readable there.
"""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings

from gateway.jobs.models import JobRun, RunState

log = logging.getLogger(__name__)
ATTEMPT_DIRECTORY = re.compile(r"([0-9a-f]+)\.([0-9]+)")
EARLIER_STAGING = "staging"
"""Where earlier versions kept unfinished files; nothing writes there any more."""
OVER = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
PRUNED_AT_ONCE = 200
DAY_MS = 86_400_000


def root() -> Path:
    return Path(settings.ENVIRONMENT.data_dir) / "runs"


def directory_of(run: JobRun) -> Path:
    """The directory of the attempt that ``run`` was read in."""
    return root() / f"{run.id}.{run.attempt}"


def create(run: JobRun) -> Path:
    """Make the empty directory of a claimed attempt. Raises OSError."""
    made = directory_of(run)
    made.mkdir(parents=True)
    return made


def seal(directory: Path) -> list[dict[str, Any]]:
    """Names and sizes of the files, which from now on survive a power cut as the row will. Raises OSError."""
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
    """Where a file of a finished run is; ``name`` must be one of its downloads."""
    directory = directory_of(run)
    return (directory if directory.is_dir() else root() / run.id) / name


def discard(run: JobRun) -> None:
    """Remove the files of an attempt that is over, unless the row says that they count."""
    won = JobRun.objects.filter(id=run.id, attempt=run.attempt, state=RunState.SUCCEEDED)
    if not won.exists():
        _remove(directory_of(run))


def sweep() -> list[str]:
    """Remove what attempts left behind that were killed or overtaken; its names. Any number of workers may do so.

    Directories are listed before rows are read: an attempt is claimed before it makes its directory, and what no
    longer counts never counts again. Directories of runs that the database does not know are left alone.
    """
    if not root().is_dir():
        return []
    names = sorted(os.listdir(root()))
    rows = {row[0]: row[1:] for row in JobRun.objects.values_list("id", "attempt", "state")}
    left = [name for name in names if name == EARLIER_STAGING or _is_left(name, rows)]
    for name in left:
        _remove(root() / name)
    return left


def prune(*, days: int, runs_max: int, now_ms: int) -> list[str]:
    """Forget runs that were over more than ``days`` ago, and all but the newest ``runs_max``, with their files; 0 is no
    limit. At most PRUNED_AT_ONCE each time; their ids. A run that is over never changes again, so any number of workers
    may do so."""
    over = JobRun.objects.filter(state__in=OVER)
    found: list[JobRun] = []
    if days:
        found += over.filter(finished_at__lt=now_ms - days * DAY_MS).reverse()[:PRUNED_AT_ONCE]
    if runs_max:
        found += over[runs_max : runs_max + PRUNED_AT_ONCE]
    pruned = {run.id: run for run in found}
    for run in pruned.values():
        # Files before the row: what a crash leaves is a row without files, which the next time finds.
        _remove(directory_of(run))
        _remove(root() / run.id)
    JobRun.objects.filter(id__in=pruned, state__in=OVER).delete()
    return sorted(pruned)


def _is_left(name: str, rows: dict[str, tuple[int, str]]) -> bool:
    found = ATTEMPT_DIRECTORY.fullmatch(name)
    if found is None or found[1] not in rows:
        return False
    attempt, state = rows[found[1]]
    return attempt != int(found[2]) or state not in (RunState.RUNNING, RunState.SUCCEEDED)


def _remove(directory: Path) -> None:
    """Remove a tree that others may be removing too. What resists is left to the next sweep."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("could not remove %s: %s", directory, error)
