"""The only writer of the audit log in this process: a thread that commits in groups.

All jobs that wait when a transaction ends are the next transaction. A single caller waits for one commit; a hundred
callers that arrive together wait for two. An entry is durable when ``begin`` returns, its outcome when ``end`` returns.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction

from admin_ui.audit.chain import (
    CHAINED,
    add_links,
    entry_link,
    locked_head,
    outcome_link,
    remove_links,
)
from admin_ui.models import AuditEntry
from gateway.clusters.registry import Clusters

log = logging.getLogger(__name__)

GROUP_MAX = 256
WAITING_MAX = 10_000
LATE_MAX = 10_000
LATE_RETRY_S = 1.0
PRUNE_S = 600.0
FIRST_PRUNE_S = 60.0
PRUNED_AT_ONCE = 1_000
DAY_MS = 86_400_000
TABLE = AuditEntry._meta.db_table
NAMES = (*CHAINED, "changes")
COLUMNS = f"({', '.join(NAMES)})"
ROW = f"({', '.join(['%s'] * len(NAMES))})"


class NotRecordedError(Exception):
    """The audit log cannot be written; the change must not be made."""


class _Outcome(NamedTuple):
    key: int
    status: int
    changes: str


class _Job(NamedTuple):
    """An entry to add, or the outcome of one, and the future of its caller."""

    what: AuditEntry | _Outcome
    done: "asyncio.Future[Exception | None]"


class AuditWriter:
    """Writes entries for coroutines of any event loop: a part of the process's clusters, which it has once for all of
    them. Its thread ends with the process."""

    def __init__(self, clusters: Clusters) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._late: deque[_Outcome] = deque(maxlen=LATE_MAX)
        self._failing_since: float | None = None
        self._refused = 0
        self._prune_at_s = time.monotonic() + FIRST_PRUNE_S
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()

    def _retention(self) -> tuple[int, int]:
        """Return the days and the number of entries that are kept; 0: no limit."""
        return settings.ENVIRONMENT.audit_days, settings.ENVIRONMENT.audit_entries_max

    async def begin(self, entry: AuditEntry) -> None:
        """Commit ``entry`` and set its key. Raises NotRecordedError. When cancelled, the entry may be committed or
        not."""
        if self._jobs.qsize() >= WAITING_MAX:
            raise NotRecordedError(f"{WAITING_MAX} entries are waiting already")
        error = await self._do(entry)
        if error is not None:
            raise NotRecordedError(str(error)) from error

    async def end(self, entry: AuditEntry, status: int, changes: str = "") -> None:
        """Commit the status that the call of ``entry`` was answered with, and its changes.

        Never raises: the change was made or refused, and the caller must receive that answer. An outcome that cannot be
        written is tried again every second. Until then, and when the process ends before, the entry has no outcome.
        """
        await self._do(_Outcome(entry.pk, status, changes))

    def close(self) -> None:
        """End the thread after all waiting jobs are written. For tests."""
        self._jobs.put(None)
        self._thread.join()

    def _do(self, what: AuditEntry | _Outcome) -> "asyncio.Future[Exception | None]":
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(what, done))
        return done

    # Methods of the thread

    def _work(self) -> None:
        try:
            while self._write_next():
                self._prune_in_time()
        finally:
            connection.close()

    def _write_next(self) -> bool:
        """Write the next group; False at the end."""
        try:
            job = self._jobs.get(timeout=LATE_RETRY_S if self._late else PRUNE_S)
        except queue.Empty:
            if self._late:
                self._write([])
            return True
        group: list[_Job] = []
        while job is not None:
            group.append(job)
            if len(group) == GROUP_MAX or self._jobs.empty():
                break
            job = self._jobs.get()  # does not block: this thread is the only reader
        self._write(group)
        return job is not None

    def _write(self, group: Sequence[_Job]) -> None:
        entries = [job.what for job in group if isinstance(job.what, AuditEntry)]
        outcomes = [job.what for job in group if isinstance(job.what, _Outcome)]
        error: Exception | None = None
        try:
            self._commit(entries, [*self._late, *outcomes])
        except Exception as caught:  # after any error the entries count as not committed: their changes are refused
            error = caught
            connection.close()  # the next group connects again: the server may have recovered
            self._late.extend(outcomes)
            self._report_failure(error, len(entries))
        else:
            self._late.clear()
            self._report_recovery()
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[_Job]] = defaultdict(list)
        for job in group:
            by_loop[job.done.get_loop()].append(job)
        for loop, jobs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_finish, jobs, error)
            except RuntimeError:  # the loop is closed, and with it the callers
                continue

    def _commit(self, entries: list[AuditEntry], outcomes: list[_Outcome]) -> None:
        # Plain SQL on Django's connection: the ORM needs twice as long to build these statements as they take to run.
        by_outcome: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        for key, status, changes in outcomes:
            by_outcome[status, changes].append(key)
        with transaction.atomic(), connection.cursor() as cursor:
            if entries:
                rows = ",".join([ROW] * len(entries))
                values = [value for entry in entries for value in _values(entry)]
                cursor.execute(f"INSERT INTO {TABLE} {COLUMNS} VALUES {rows} RETURNING id", values)
                for entry, (key,) in zip(entries, cursor.fetchall(), strict=True):
                    entry.pk = key  # SQLite and PostgreSQL return the rows in the order given
            for (status, changes), keys in by_outcome.items():
                marks = ",".join(["%s"] * len(keys))
                cursor.execute(
                    f"UPDATE {TABLE} SET status = %s, changes = %s WHERE id IN ({marks})",
                    [status, changes, *keys],
                )
            links = [entry_link(entry) for entry in entries]
            links += [outcome_link(*outcome) for outcome in outcomes]
            if links:
                add_links(cursor, locked_head(cursor), links)

    def _prune_in_time(self) -> None:
        """Remove old entries when it is due. It is done between groups and in small parts, so that a caller hardly
        waits for it."""
        if time.monotonic() < self._prune_at_s:
            return
        try:
            has_more = self._prune(int(time.time() * 1000))
        except Exception as error:  # the log grows meanwhile, which refuses no change
            log.warning("old entries of the audit log are not removed error=%r", error)
            connection.close()
            has_more = False
        self._prune_at_s = time.monotonic() + (LATE_RETRY_S if has_more else PRUNE_S)

    def _prune(self, now_ms: int) -> bool:
        """Remove the oldest entries beyond the retention; return whether there may be more of them."""
        days, entries_max = self._retention()
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id, at_ms FROM {TABLE} ORDER BY id LIMIT {PRUNED_AT_ONCE}")
            oldest: list[tuple[int, int]] = cursor.fetchall()
            cursor.execute(f"SELECT MAX(id) FROM {TABLE}")
            newest = cursor.fetchone()[0] or 0
            before_ms = now_ms - days * DAY_MS if days else 0
            # Ids rise with time and are removed from the low end only, so the newest id gives the number of entries
            # without a count over the table.
            keep_from = newest - entries_max + 1 if entries_max else 0
            expired = [
                key
                for key, _ in takewhile(
                    lambda row: row[1] < before_ms or row[0] < keep_from, oldest
                )
            ]
            if expired:
                with transaction.atomic():
                    cursor.execute(f"DELETE FROM {TABLE} WHERE id <= %s", [expired[-1]])
                    remove_links(cursor, expired[-1])
        return len(expired) == PRUNED_AT_ONCE

    def _report_failure(self, error: Exception, refused: int) -> None:
        """Log a failure, once per outage."""
        self._refused += refused
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            log.error("audit log cannot be written, changes are refused error=%r", error)

    def _report_recovery(self) -> None:
        if self._failing_since is not None:
            took_s = time.monotonic() - self._failing_since
            log.warning("audit log is written again after_s=%.0f refused=%d", took_s, self._refused)
            self._failing_since, self._refused = None, 0


def _values(entry: AuditEntry) -> tuple[int | str, ...]:
    """Return the values of an entry in the order of ``COLUMNS``."""
    return tuple(getattr(entry, name) for name in NAMES)


def _finish(jobs: Sequence[_Job], error: Exception | None) -> None:
    for job in jobs:
        if not job.done.done():
            job.done.set_result(error)
