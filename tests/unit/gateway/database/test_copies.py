"""Copies of the console's database: SQLite while it is written, PostgreSQL by its own programs."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.database.copies import (
    DatabaseCopyError,
    copy_sqlite,
    dump_postgresql,
    restore_postgresql,
    tool_missing,
)
from gateway.database.settings import DatabaseSettings
from tests.support.stores.postgresql import programs, running_postgresql


def test_a_copy_has_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (n INTEGER)")
        writer.execute("INSERT INTO t VALUES (1)")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (2)")
        copy_sqlite(tmp_path / "a", tmp_path / "b")
        writer.execute("COMMIT")
    with closing(sqlite3.connect(tmp_path / "b")) as copy:
        assert copy.execute("SELECT n FROM t").fetchall() == [(1,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_damaged_database_is_not_copied(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as writer:
        writer.execute("CREATE TABLE t (n TEXT)")
        writer.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 100)
        writer.commit()
    data = bytearray((tmp_path / "a").read_bytes())
    data[4096 : 4096 + 200] = b"\xff" * 200
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DatabaseCopyError, match=r"damaged|malformed"):
        copy_sqlite(tmp_path / "a", tmp_path / "b")


def test_postgresql_without_its_client_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = DatabaseSettings(database_url="postgresql://u@h/n")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "--without-database" in tool_missing(settings, "pg_dump")
    assert tool_missing(DatabaseSettings(), "pg_dump") == ""
    with pytest.raises(DatabaseCopyError, match="pg_dump is not installed here"):
        dump_postgresql(settings, tmp_path / "dump")


@pytest.mark.slow
@pytest.mark.skipif(
    programs() is None or shutil.which("pg_dump") is None, reason="PostgreSQL is missing"
)
def test_postgresql_is_dumped_and_loaded_into_an_empty_database_alone(tmp_path: Path) -> None:
    import psycopg

    with running_postgresql() as server:
        settings = DatabaseSettings(database_url=server.url)
        parameters = settings.parameters()
        with psycopg.connect(**parameters, autocommit=True) as link:
            link.execute("CREATE TABLE t (n INTEGER)")
            link.execute("INSERT INTO t VALUES (7)")
            link.execute("CREATE DATABASE other")
        dump_postgresql(settings, tmp_path / "dump")
        with pytest.raises(DatabaseCopyError, match=r"pg_restore: .*already exists"):
            restore_postgresql(settings, tmp_path / "dump")
        other = DatabaseSettings(database_url=server.url.rpartition("/")[0] + "/other")
        restore_postgresql(other, tmp_path / "dump")
        with psycopg.connect(**other.parameters()) as link:
            row = link.execute("SELECT n FROM t").fetchone()
    assert row == (7,)
