"""The gateway's connections to a PostgreSQL that is away, stands still, only reads, is full or is locked."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import DatabaseError, OperationalError
from django.db.utils import load_backend

from gateway.database import refusals
from gateway.database.postgresql import base, bounded
from gateway.database.settings import WAIT_S, DatabaseSettings
from gateway.serve import MIGRATION_LOCK, _migrating
from gateway.services.health.parts import DatabaseServer, UnwellError
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql

pytestmark = pytest.mark.skipif(programs() is None, reason="initdb and postgres are missing")
Connect = Callable[[], Any]
BACK_S = 30.0
"""Longest time within which a server that is back is used."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with running_postgresql() as running:
        yield running


@pytest.fixture
def connect(server: PostgreSql, django_db_blocker: Any) -> Iterator[Connect]:
    """``connect()`` returns Django's connection of a thread; all are of one pool."""
    options = DatabaseSettings(server.url, database_connections_max=3).django(Path())
    defaults = settings.DATABASES["default"]
    missing = {name: value for name, value in defaults.items() if name not in options}
    wrappers: list[Any] = []

    def connect() -> Any:
        wrappers.append(
            load_backend(options["ENGINE"]).DatabaseWrapper({**missing, **options}, "outages")
        )
        wrappers[-1].inc_thread_sharing()
        return wrappers[-1]

    base.DatabaseWrapper._away_until_s.pop("outages", None)
    with django_db_blocker.unblock():
        yield connect
        for wrapper in wrappers:
            wrapper.close()
        wrappers[0].close_pool()


def ask(connection: Any, sql: str = "SELECT 1") -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


def check(server: PostgreSql) -> None:
    """Make the check of the gateway's health once, on a new connection."""
    checked = DatabaseServer(DatabaseSettings(server.url).parameters)
    try:
        asyncio.run(checked.check())
    finally:
        checked._connection.close()


def until_back(connection: Any) -> None:
    ends_at_s = time.monotonic() + BACK_S
    while True:
        try:
            assert ask(connection) == 1
            return
        except OperationalError:
            assert time.monotonic() < ends_at_s
            time.sleep(0.05)


@contextmanager
def refused(reason: str) -> Iterator[None]:
    with pytest.raises(DatabaseError) as error:
        yield
    assert refusals.reason_of(error.value) == reason, error.value.__cause__


def test_calls_are_refused_at_once_while_the_server_is_away_and_served_when_it_is_back(
    server: PostgreSql, connect: Connect
) -> None:
    """Measure many calls: requests of a gateway share one thread, and one that waited would delay all others. A single
    call may wait for the pool, before the outage is known."""
    connection, other = connect(), connect()
    assert ask(connection) == ask(other) == 1
    server.kill()
    began_s = time.monotonic()
    try:
        for _ in range(20):
            for caller in (connection, other, connect()):
                with refused(refusals.AWAY):
                    ask(caller)
        assert time.monotonic() - began_s < 2 * WAIT_S
    finally:
        server.start()
    until_back(connection)
    until_back(other)


def test_a_server_that_stands_still_costs_one_call_its_limit_and_the_next_nothing(
    server: PostgreSql, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "ANSWER_S", 0.3)
    connection = connect()
    assert ask(connection) == 1
    with server.frozen():
        with pytest.raises(OperationalError, match=r"did not answer within 0\.3 s"):
            ask(connection)
        with refused(refusals.AWAY):
            ask(connection)
        monkeypatch.setattr(base, "RETRY_S", 3600.0)
        with refused(refusals.AWAY):
            ask(connection)
        began_s = time.monotonic()
        for _ in range(20):
            with refused(refusals.AWAY):
                ask(connect())
        assert time.monotonic() - began_s < WAIT_S
    base.DatabaseWrapper._away_until_s["outages"] = 0.0
    until_back(connection)


def test_all_connections_in_use_are_no_outage(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = [connect() for _ in range(3)]
    for connection in connections:
        ask(connection)
    monkeypatch.setattr(connections[0].pool, "timeout", 0.05)
    with pytest.raises(OperationalError, match="couldn't get a connection"):
        ask(connect())
    connections[0].close()
    assert ask(connect()) == 1


def test_a_statement_that_waits_for_a_lock_is_ended_by_the_server(
    server: PostgreSql, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Look for the row: the server does not execute the statement later."""
    monkeypatch.setattr(bounded, "STATEMENT_S", 0.2)
    connection = connect()
    ask(connection, "CREATE TABLE held (n integer)")
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE held")
        with refused(refusals.SLOW):
            ask(connection, "INSERT INTO held VALUES (1)")
    assert ask(connection, "SELECT count(*) FROM held") == 0


def test_gateways_wait_for_one_that_migrates_for_long(
    server: PostgreSql, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "STATEMENT_S", 0.1)
    limits: list[str] = []

    def migrate(connection: Any) -> None:
        with _migrating(connection):
            limits.append(ask(connection, "SHOW statement_timeout"))
        limits.append(ask(connection, "SHOW statement_timeout"))

    with psycopg.connect(server.url, autocommit=True) as first:
        first.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        second = threading.Thread(target=migrate, args=(connect(),))
        second.start()
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'"
            " AND now() - query_start > interval '0.3 s'"
        )
        ends_at_s = time.monotonic() + BACK_S
        while first.execute(waiting).fetchone() is None:
            assert second.is_alive()
            assert time.monotonic() < ends_at_s
            time.sleep(0.02)
        assert limits == []
    second.join(BACK_S)
    assert limits == ["0", "100ms"]


def test_a_database_that_only_reads_or_is_full_is_named(
    server: PostgreSql, connect: Connect
) -> None:
    connection = connect()
    ask(connection, "CREATE TABLE rows_of_it (n integer)")
    with refused(refusals.FULL):
        ask(connection, "DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$")
    check(server)
    ask(connection, "SET default_transaction_read_only = on")
    with refused(refusals.READ_ONLY):
        ask(connection, "INSERT INTO rows_of_it VALUES (1)")
    assert ask(connection) == 1
    ask(connection, "SET default_transaction_read_only = off")
    ask(connection, "ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        with pytest.raises(UnwellError, match="the server only reads"):
            check(server)
    finally:
        ask(connection, "ALTER DATABASE postgres RESET default_transaction_read_only")
