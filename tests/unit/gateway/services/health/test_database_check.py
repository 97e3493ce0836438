"""The check of the console's database: a file that can be locked is not enough."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.services.health.checks import UnwellError
from gateway.services.health.parts import Database


def checked(path: Path) -> None:
    async def check() -> None:
        await Database(path).check()

    asyncio.run(check())


def test_a_database_with_its_tables_is_well(tmp_path: Path) -> None:
    path = tmp_path / "console.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE django_migrations (name TEXT)")
    checked(path)


@pytest.mark.parametrize("left", ["missing", "emptied", "damaged"])
def test_a_database_without_its_tables_is_not_well(tmp_path: Path, left: str) -> None:
    path = tmp_path / "console.sqlite3"
    if left != "missing":
        path.write_bytes(b"" if left == "emptied" else b"not a database" * 1_000)
    with pytest.raises(UnwellError, match="cannot be written"):
        checked(path)
