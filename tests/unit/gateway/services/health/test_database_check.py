"""The check of the console's database: a file that can be locked is not enough."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.services.health import parts
from gateway.services.health.checks import UnwellError
from gateway.services.health.parts import Database


def checked(path: Path) -> None:
    async def check() -> None:
        database = Database(path)
        try:
            await database.check()
        finally:
            await database.close()

    asyncio.run(check())


def create(path: Path) -> None:
    """Create a database as the console's, in its journal mode."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE django_migrations (name TEXT)")


def test_a_database_with_its_tables_is_well(tmp_path: Path) -> None:
    path = tmp_path / "console.sqlite3"
    create(path)
    checked(path)


@pytest.mark.parametrize("then", ["removed", "emptied", "damaged"])
async def test_one_connection_serves_until_the_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    path = tmp_path / "console.sqlite3"
    create(path)
    opened: list[object] = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        parts.sqlite3, "connect", lambda *args, **more: opened.append(1) or connect(*args, **more)
    )
    database = Database(path)
    for _ in range(5):
        await database.check()
    assert len(opened) == 1
    if then == "removed":
        path.unlink()
    else:
        path.write_bytes(b"" if then == "emptied" else b"not a database" * 1_000)
    with pytest.raises(UnwellError, match="cannot be written"):
        await database.check()
    path.unlink(missing_ok=True)
    for rest in tmp_path.glob("*-*"):
        rest.unlink()
    create(path)
    await database.check()
    await database.close()


@pytest.mark.parametrize("left", ["missing", "emptied", "damaged"])
def test_a_database_without_its_tables_is_not_well(tmp_path: Path, left: str) -> None:
    path = tmp_path / "console.sqlite3"
    if left != "missing":
        path.write_bytes(b"" if left == "emptied" else b"not a database" * 1_000)
    with pytest.raises(UnwellError, match="cannot be written"):
        checked(path)
