"""Copies of the console's database, taken while gateways run, and their return."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from gateway.database.settings import DatabaseSettings

DUMP_S = 3600.0


class DatabaseCopyError(Exception):
    """A copy failed. The text is one line for the operator."""


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite file as it is at one moment, checked and synced. Writers are not blocked.

    Raises DatabaseCopyError.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True)) as origin,
            closing(sqlite3.connect(target)) as copy,
        ):
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            result = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise DatabaseCopyError(f"{source} cannot be copied: {error}") from error
    if result != "ok":
        raise DatabaseCopyError(f"{source} is damaged: {result}")
    with target.open("rb") as file:
        os.fsync(file.fileno())


def dump_postgresql(settings: DatabaseSettings, target: Path) -> None:
    """Write PostgreSQL's database into a file by pg_dump. Raises DatabaseCopyError."""
    _run("pg_dump", settings, "--format=custom", "--no-owner", f"--file={target}")
    with target.open("rb") as file:
        os.fsync(file.fileno())


def restore_postgresql(settings: DatabaseSettings, source: Path) -> None:
    """Load a file of ``dump_postgresql`` into an empty database by pg_restore, all of it or nothing.

    Raises DatabaseCopyError.
    """
    name = str(settings.parameters()["dbname"])
    _run("pg_restore", settings, "--single-transaction", "--no-owner", f"--dbname={name}", source)


def tool_missing(settings: DatabaseSettings, tool: str) -> str:
    """Return what to do without pg_dump or pg_restore; empty where it is there, or is not needed."""
    if not settings.database_url or shutil.which(tool):
        return ""
    return (
        f"the console's database is in PostgreSQL, and {tool} is not installed here. Install PostgreSQL's client, or"
        " give --without-database and copy the database by PostgreSQL's own means"
    )


def _run(tool: str, settings: DatabaseSettings, *arguments: str | Path) -> None:
    if problem := tool_missing(settings, tool):
        raise DatabaseCopyError(problem)
    try:
        done = subprocess.run(
            [tool, "--no-password", *map(str, arguments)],
            env={**os.environ, **_environment(settings)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DUMP_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatabaseCopyError(f"{tool}: {error}") from error
    if done.returncode:
        raise DatabaseCopyError(f"{tool}: {done.stderr.strip()[-500:]}")


def _environment(settings: DatabaseSettings) -> Mapping[str, str]:
    """Return libpq's variables: the password is on no command line."""
    names = {
        **{"user": "PGUSER", "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE"},
        **{"password": "PGPASSWORD", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"},
        **{"sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"},
    }
    try:
        parameters = settings.parameters()
    except OSError as error:
        raise DatabaseCopyError(f"database_password: {error}") from error
    return {names[key]: str(value) for key, value in parameters.items() if value and key in names}
