"""Runs on a real database and real files, played by the test: Celery's queue is a list, Spark a function."""

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection, connections

from gateway.jobs import outputs, services, spark, tasks
from gateway.jobs.models import JobRun, RunState
from gateway.services.clock import now_ms
from tests.support.admin.clusters import cluster_without_link
from tests.support.admin.gateway_client import Answer, Gateway

OVER = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
FILES = ("a.parquet", "b.parquet")
LONG_AGO_MS = 10 * services.QUEUE_PATIENCE_MS
STEPS = ("claim", "create", "half", "seal", "finish", "done")
"""Moments of an attempt: before its claim, before its directory, between two files, before they are counted, before
the row says so, after that."""


class Killed(BaseException):
    """The worker ends here."""


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Use the SQLite file ``path`` as the default database, for all threads: the tests' own is in memory, where a
    writer refuses all readers. PostgreSQL does not, and its test database is used."""
    if connection.vendor != "sqlite":
        yield
        return
    before, settings = connections["default"], connections.settings["default"]
    connections.settings["default"] = {**settings, "NAME": str(path)}
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"] = settings
        connections["default"] = before


def environment() -> dict[str, str]:
    """Return the variables by which another process uses the test database; none for a SQLite file, which is in its
    data directory."""
    if connection.vendor == "sqlite":
        return {}
    url = django_settings.DATABASE.database_url.rpartition("/")[0]
    return {"MAGNETAR_DATABASE_URL": f"{url}/{connection.settings_dict['NAME']}"}


def until(check: Callable[[], object]) -> None:
    """Wait for the heart's thread; fails when it never does what is waited for."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.002)


class Bench:
    """``messages``: what Celery's broker holds. ``works``: attempts that began to work, with the worker's number.
    ``ended``: what a process would have been ended for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch
        self.messages: list[tuple[str, int]] = []
        self.warmed: list[int] = []
        self.real_enqueue = services.enqueue
        self.works: list[tuple[int, int]] = []
        self.interrupted = threading.Event()
        self.ended: list[str] = []
        self.analysis: Callable[[JobRun, Path, Any], dict[str, Any]] = self.two_files
        self._at: dict[str, Callable[[], None]] = {}
        self._workers = itertools.count(1)
        monkeypatch.setattr(services, "enqueue", self._enqueue)
        self.real_in_background = services.in_background
        monkeypatch.setattr(services, "in_background", lambda work: work())
        monkeypatch.setattr(spark, "run_analysis", lambda *given: self.analysis(*given))
        monkeypatch.setattr(spark, "interrupt", lambda run: self.interrupted.set())
        monkeypatch.setattr(tasks, "end_process", self.ended.append)
        self._step("claim", services, "claim")
        self._step("create", outputs, "create")
        self._step("seal", outputs, "seal")
        self._step("finish", services, "finish", after="done")

    def _enqueue(self, *, run_id: str, attempt: int) -> bool:
        self.messages.append((run_id, attempt))
        return True

    def _step(self, name: str, module: Any, function: str, after: str = "") -> None:
        real = getattr(module, function)

        def stepped(*args: Any, **named: Any) -> Any:
            self._reach(name)
            result = real(*args, **named)
            if after:
                self._reach(after)
            return result

        self.patch.setattr(module, function, stepped)

    def _reach(self, step: str) -> None:
        self._at.pop(step, lambda: None)()

    def at(self, step: str, action: Callable[[], object]) -> None:
        """``action()`` when a worker next comes to ``step``."""
        assert step in STEPS
        self._at[step] = lambda: (action(), None)[1]

    def two_files(self, run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        """Run an analysis whose files and result name the attempt and the worker."""
        worker = next(self._workers)
        self.works.append((run.attempt, worker))
        text = f"attempt {run.attempt} by worker {worker}" + "." * worker
        progress("reading", 1, 2)
        (directory / FILES[0]).write_text(text)
        self._reach("half")
        (directory / FILES[1]).write_text(text)
        progress("reading", 2, 2)
        return {"by": text}

    def create(self) -> JobRun:
        """Create a run as a user's request does."""
        topic = "persistent://public/default/t"
        return services.create(analysis="topic-profile", parameters={"topic": topic})

    def work(self) -> None:
        """Let a worker process Celery's next message; it survives or is killed."""
        with suppress(Killed):
            tasks.execute(*self.messages.pop(0))

    def age(self) -> None:
        """Expire all leases, and the time after which a waiting run is sent again."""
        JobRun.objects.exclude(state__in=OVER).update(
            lease_until_ms=0, created_at=now_ms() - LONG_AGO_MS
        )

    def recover(self) -> list[str]:
        """Recover lost runs after a long time, as workers do every few seconds."""
        self.age()
        return services.recover()

    def between_statements(self, action: Callable[[], object]) -> AbstractContextManager[None]:
        """Call ``action()`` once within this block, right after the next statement that changed rows."""
        pending = [action]

        def watch(execute: Any, sql: str, *rest: Any) -> Any:
            result = execute(sql, *rest)
            if sql.startswith("UPDATE") and pending:
                pending.pop()()
            return result

        return connections["default"].execute_wrapper(watch)

    def settle(self, run: JobRun) -> JobRun:
        """Let workers continue until the run is over, then sweep the remaining files."""
        while (now := JobRun.objects.get(id=run.id)).state not in OVER:
            if not self.messages:
                self.recover()
            while self.messages:
                self.work()
        outputs.sweep()
        return now


class Shown:
    """A run as the REST API shows it."""

    def __init__(self, run: JobRun) -> None:
        call = Gateway(cluster_without_link())
        answer: Answer = call("GET", f"/api/v1/runs/{run.id}")
        assert answer.status == 200, answer
        self.body: dict[str, Any] = answer.json
        self.state = self.body["state"]
        self.files: dict[str, str] = {}
        for item in self.body["downloads"]:
            if item["bytes"] is None:
                continue  # made of the result
            answer = call("GET", item["href"])
            assert answer.status == 200, answer
            assert len(answer.body) == item["bytes"], "the reported size is the file's"
            self.files[item["name"]] = answer.body.decode()

    def check_one_attempt(self) -> str:
        """Check that result and files are of one attempt, the only one on disk; return what it wrote."""
        assert self.state == "succeeded", self.body
        by: str = self.body["result"]["by"]
        assert self.files == dict.fromkeys(FILES, by), "files and result are one attempt's"
        assert directories() == [f"{self.body['id']}.{self.body['attempt']}"]
        return by

    def check_nothing(self) -> None:
        """Check that neither the answer nor the disk has a result or a file."""
        assert (self.body["result"], self.files) == (None, {})
        assert directories() == []


def directories() -> list[str]:
    return sorted(path.name for path in outputs.root().glob("*"))


def prepare(directory: Path, template: Path, settings: Any) -> Path:
    """Prepare a data directory with a fresh database for ``settings``; return the database's path."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, data_dir=directory)
    shutil.copy(template, directory / "console.sqlite3")
    return directory / "console.sqlite3"
