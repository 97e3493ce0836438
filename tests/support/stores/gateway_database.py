"""Tests of the gateway's database: which they are, where they stand, and empty tables for each.

All of them run on SQLite and on PostgreSQL in ``make test``. A test is one of them by its fixtures, not by a list.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # tests without Django do not need it
    from django.db.backends.base.base import BaseDatabaseWrapper

FOLDERS = (
    "tests/unit/gateway",
    "tests/unit/admin_ui",
    "tests/unit/access",
    "tests/security",
    "tests/golden/rest",
)
"""Folders of tests that may use the database: the run on PostgreSQL collects no others."""

ON_SQLITE_ALONE = {
    "tests/unit/admin_ui/audit/test_entry_search.py::"
    "test_each_filter_is_answered_in_the_order_of_the_list_without_a_sort": (
        "it reads SQLite's plan, which holds for any number of rows; that of PostgreSQL depends on how many there are"
    ),
    "tests/unit/gateway/test_audit_first.py::test_a_change_that_cannot_be_recorded_is_not_made[locked]": (
        "SQLite has one lock for all writers; locks of PostgreSQL: tests/integration/gateway/test_database_outages.py"
    ),
}
"""Tests of the database that PostgreSQL cannot run, with the reason."""

_KEPT = ("auth_permission", "django_content_type")
"""Tables that migrations fill and no test changes. Django's flush writes them anew after each test, which takes half of
the time of these tests."""


def uses_database(item: pytest.Item) -> bool:
    """Return whether a test uses the gateway's database."""
    names = getattr(item, "fixturenames", ())
    return bool({"db", "transactional_db"} & set(names)) or (
        item.get_closest_marker("django_db") is not None
    )


def check_folders(items: list[pytest.Item]) -> None:
    """Raise UsageError for a test of the database outside ``FOLDERS``: it would never run on PostgreSQL."""
    for item in items:
        if uses_database(item) and not item.nodeid.startswith(tuple(f"{f}/" for f in FOLDERS)):
            raise pytest.UsageError(
                f"{item.nodeid} uses the gateway's database outside of the folders that run on PostgreSQL: "
                "FOLDERS of tests/support/stores/gateway_database.py"
            )


def for_postgresql(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of the database; those of ``ON_SQLITE_ALONE`` are skipped with their reason."""
    selected = [item for item in items if uses_database(item)]
    for item in selected:
        if reason := ON_SQLITE_ALONE.get(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))
    return selected


def on_a_file(folder: Path) -> None:
    """Let the tests' SQLite have a file in ``folder``.

    Django's default is one in memory that the threads of the process share: there a table that is being written refuses
    every other reader and writer at once, for which an instance's file lets them wait.
    """
    from django.db import connections

    database = connections.databases["default"]
    if "sqlite3" in database["ENGINE"]:
        database["TEST"]["NAME"] = str(folder / "console.sqlite3")
        # No test survives a loss of power.
        options = database["OPTIONS"]
        options["init_command"] = options["init_command"].replace("FULL", "OFF")


def empty_tables(test_case: Any) -> None:
    """Delete all rows of the default database but those of ``_KEPT``, in place of Django's flush after a test."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        for table in _filled_tables(connection):
            # Foreign keys are checked at the commit.
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


def _filled_tables(connection: "BaseDatabaseWrapper") -> list[str]:
    """Return the tables that have rows, by one query."""
    from django.apps import apps

    tables = sorted({model._meta.db_table for model in apps.get_models(include_auto_created=True)})
    names = [table for table in tables if table not in _KEPT]
    asked = ", ".join(f"EXISTS (SELECT 1 FROM {connection.ops.quote_name(n)})" for n in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {asked}")
        row = cursor.fetchone()
    return [name for name, filled in zip(names, row, strict=True) if filled]
