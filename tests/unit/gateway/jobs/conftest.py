"""A bench of runs on a database of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

import gateway.asgi  # noqa: F401 - with all it imports: here no test's time-out runs
from tests.unit.gateway.jobs.bench import Bench, database, prepare


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Path:
    """An empty SQLite file with all tables, to be copied; an empty file where the database is not SQLite."""
    path = tmp_path_factory.mktemp("runs") / "console.sqlite3"
    if connection.vendor != "sqlite":
        path.touch()
        return path
    with django_db_blocker.unblock(), database(path):
        call_command("migrate", verbosity=0)
    return path


@pytest.fixture
def bench(
    tmp_path: Path,
    migrated: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    transactional_db: None,
) -> Iterator[Bench]:
    with database(prepare(tmp_path, migrated, settings)):
        yield Bench(monkeypatch)
