"""Messages are rows of a real PostgreSQL, once each, over kills of the instance and of the server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.postgres.rows_sink import SETTINGS, RowsSink
from engine.functions.connectors.spi import ConnectorError, LostEndError
from tests.support.functions.connector_host import FakeContext, Settlements
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql

pytestmark = [
    pytest.mark.skipif(programs() is None, reason="needs initdb and postgres"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with running_postgresql() as postgresql:
        yield postgresql


@pytest.fixture
async def sql(server: PostgreSql) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    await connection.execute("DROP SCHEMA public CASCADE")
    await connection.execute("CREATE SCHEMA public")
    yield connection
    await connection.close()


async def opened(
    server: PostgreSql, context: FakeContext | None = None, **settings: object
) -> RowsSink:
    sink = RowsSink()
    given = {"url": server.url, "table": "t", **settings}
    await sink.open(checked(SETTINGS, given), context or FakeContext())
    return sink


async def rows(sql: Any, query: str) -> list[Any]:
    return list(await (await sql.execute(query)).fetchall())


async def test_each_message_is_one_row_of_its_own_table_over_repetitions(
    server: PostgreSql, sql: Any
) -> None:
    seen = Settlements()
    for begin in (0, 2, 5):
        sink = await opened(server)
        await sink.write(
            [seen.record(n, b"\x00%d" % n, key=f"k{n}") for n in range(begin, begin + 5)]
        )
        await sink.close()
    stored = await rows(sql, "SELECT message_id, key, properties, value FROM t ORDER BY value")
    assert [row[0] for row in stored] == [f"7:{n}:0:-1" for n in range(10)]
    assert stored[3][1:] == ("k3", {"n": "3"}, b"\x003")
    assert len(seen.acked) == 15


async def test_fields_are_columns_and_a_repeated_message_is_inserted_once(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute(
        "CREATE TABLE t (id int, \"Name\" text DEFAULT 'none', at timestamptz, extra jsonb, mid text UNIQUE)"
    )
    seen = Settlements()
    for _ in range(2):
        sink = await opened(server, mode="insert", idColumn="mid")
        await sink.write(
            [
                seen.record(1, b'{"id": 1, "Name": "a", "at": "2026-01-02T03:04:05Z"}'),
                seen.record(2, {"id": 2, "extra": {"x": [1]}}),
            ]
        )
        await sink.close()
    stored = await rows(
        sql, 'SELECT id, "Name", extract(day from at)::int, extra FROM t ORDER BY id'
    )
    assert stored == [(1, "a", 2, None), (2, "none", None, {"x": [1]})]


async def test_an_upsert_replaces_the_row_of_its_key(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    sink, seen = await opened(server, mode="upsert", keyColumns=["id"]), Settlements()
    for _ in range(2):
        values = [
            b'{"id": 1, "v": "a"}',
            b'{"id": 2, "v": "b"}',
            b'{"id": 1, "v": "c"}',
            b'{"id": 3}',
        ]
        await sink.write([seen.record(n, value) for n, value in enumerate(values)])
    await sink.close()
    assert await rows(sql, "SELECT id, v FROM t ORDER BY id") == [(1, "c"), (2, "b"), (3, None)]


async def test_a_row_that_is_refused_fails_alone(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int CHECK (id < 10))")
    sink, seen = await opened(server, mode="insert"), Settlements()
    values = [b'{"id": 1}', b'{"id": 11}', b'{"id": "x"}', b'{"other": 1}', b"text", b'{"id": 2}']
    await sink.write([seen.record(n, value) for n, value in enumerate(values)])
    await sink.close()
    assert await rows(sql, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert sorted(record.sequence or 0 for record, _ in seen.failed) == [1, 2, 3, 4]
    assert "no column other" in str({r.sequence: e for r, e in seen.failed}[3])


async def test_in_order_nothing_overtakes_a_row_that_is_refused(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int CHECK (id < 10))")
    context, seen = FakeContext(guarantee="EFFECTIVELY_ONCE"), Settlements()
    sink = await opened(server, context, mode="insert")
    with pytest.raises(psycopg.IntegrityError):
        await sink.write([seen.record(n, b'{"id": %d}' % n) for n in (1, 11, 2)])
    await sink.close()
    assert await rows(sql, "SELECT id FROM t") == [(1,)]
    assert [record.sequence for record in seen.acked] == [1]


HOSTILE = (
    b'{"id": 1, "v": "a\\u0000b"}',
    b'{"id": 2, "v": "\\ud800"}',
    b'{"id": 3, "v": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"id": 99999999999999999999}',
    b'{"id": 4, "v": "\xff"}',
    b'{"id": 5, "v": {"a": "\\u0000"}}',
    b'{"id": 6, "v": NaN, "n": NaN}',
    b'{"id": 7, "at": "no time"}',
    b'{"id": 8, "indexed": "' + b"".join(b"%04x" % (n * 7919 % 65536) for n in range(4000)) + b'"}',
    b"",
    b"null",
)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_value_fails_alone(server: PostgreSql, sql: Any, hostile: bytes) -> None:
    await sql.execute(
        'CREATE TABLE t (id int, v text, n int, at timestamptz, indexed text UNIQUE COLLATE "C")'
    )
    sink, seen = await opened(server, mode="insert"), Settlements()
    await sink.write(
        [seen.record(0, b'{"id": 10}'), seen.record(1, hostile), seen.record(2, b'{"id": 11}')]
    )
    await sink.close()
    assert await rows(sql, "SELECT id FROM t ORDER BY id") == [(10,), (11,)]
    ((record, error),) = seen.failed
    assert record.sequence == 1
    assert not isinstance(error, LostEndError)


async def test_hostile_metadata_fails_alone(server: PostgreSql, sql: Any) -> None:
    sink, seen = await opened(server), Settlements()
    records = [seen.record(n, b"x", key="k\x00" if n == 1 else "k") for n in range(4)]
    records[2].event_time_ms = 1 << 63
    records[3].properties = {"a": "\x00"}
    await sink.write(records)
    await sink.close()
    assert len(await rows(sql, "SELECT * FROM t")) == 1
    assert sorted(record.sequence or 0 for record, _ in seen.failed) == [1, 2, 3]


async def test_a_dropped_table_ends_the_sink_and_is_made_at_the_next_start(
    server: PostgreSql, sql: Any
) -> None:
    sink, seen = await opened(server), Settlements()
    await sink.write([seen.record(0, b"x")])
    await sql.execute("DROP TABLE t")
    with pytest.raises(LostEndError, match="does not exist"):
        await sink.write([seen.record(1, b"x"), seen.record(2, b"x")])
    await sink.close()
    assert not seen.failed
    sink = await opened(server)
    await sink.write([seen.record(1, b"x"), seen.record(2, b"x")])
    await sink.close()
    assert len(await rows(sql, "SELECT * FROM t")) == 2


@pytest.mark.parametrize(
    ("change", "settings", "text"),
    [
        ("ALTER TABLE t DROP COLUMN v", {}, "column"),
        ("ALTER TABLE t DROP CONSTRAINT t_id_key", {"idColumn": "id"}, "no unique"),
        ("ALTER ROLE magnetar SET default_transaction_read_only = on", {}, "read-only"),
        ("REVOKE INSERT ON t FROM app", {}, "permission denied"),
    ],
)
async def test_a_table_that_takes_no_row_fails_no_message(
    server: PostgreSql, sql: Any, change: str, settings: dict[str, object], text: str
) -> None:
    await sql.execute("CREATE TABLE t (id text CONSTRAINT t_id_key UNIQUE, v text)")
    await sql.execute("DROP ROLE IF EXISTS app")
    await sql.execute("CREATE ROLE app LOGIN")
    await sql.execute("GRANT USAGE ON SCHEMA public TO app")
    await sql.execute("GRANT INSERT, SELECT ON t TO app")
    url = server.url.replace("magnetar@", "app@") if "app" in change else server.url
    if "ROLE magnetar" in change:
        await sql.execute(change)
    sink, seen = await opened(server, url=url, mode="insert", **settings), Settlements()
    try:
        if "ROLE magnetar" not in change:
            await sql.execute(change)
        with pytest.raises(LostEndError, match=text):
            await sink.write([seen.record(n, b'{"v": "x"}') for n in range(3)])
        assert not seen.acked
        assert not seen.failed
    finally:
        await sink.close()
        await sql.execute("ALTER ROLE magnetar RESET default_transaction_read_only")


async def test_sinks_that_lock_rows_in_other_orders_both_write_theirs(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    seen = Settlements()
    sinks = [await opened(server, mode="upsert", keyColumns=["id"]) for _ in range(2)]
    for turn in range(3):
        orders = (range(600), range(599, -1, -1))
        runs = [
            [seen.record(n, b'{"id": %d, "v": %d}' % (n, turn)) for n in order] for order in orders
        ]
        await asyncio.gather(*(sink.write(run) for sink, run in zip(sinks, runs, strict=True)))
    for sink in sinks:
        await sink.close()
    assert not seen.failed
    assert len(seen.acked) == 3600


async def test_a_killed_server_loses_and_repeats_nothing(server: PostgreSql, sql: Any) -> None:
    acked: set[int] = set()
    for step in range(3):
        sink, seen = await opened(server), Settlements()
        for run in range(3):
            numbers = range(step * 20 + run * 10, step * 20 + run * 10 + 10)
            records = [seen.record(n, b"%d" % n) for n in numbers if n not in acked]
            if run == 2:
                server.kill()
                with pytest.raises(LostEndError):
                    await sink.write(records)
            else:
                await sink.write(records)
        acked |= {record.sequence or 0 for record in seen.acked}
        await sink.close()
        server.start()
    assert acked == set(range(60))
    connection = await psycopg.AsyncConnection.connect(server.url)
    stored = await rows(connection, "SELECT value FROM t")
    await connection.close()
    assert sorted(int(value) for (value,) in stored) == list(range(60))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "insert"}, "configs.table: there is no table t"),
        ({"mode": "upsert"}, "configs.keyColumns"),
        ({"mode": "insert", "table": "known", "idColumn": "nope"}, "configs.idColumn"),
        ({"mode": "upsert", "table": "known", "keyColumns": ["nope"]}, "configs.keyColumns"),
        ({"url": "postgresql://u@127.0.0.1:1/x", "password": "secret"}, "configs.url"),
    ],
)
async def test_settings_that_cannot_work_are_named(
    server: PostgreSql, sql: Any, settings: dict[str, object], text: str
) -> None:
    await sql.execute("CREATE TABLE known (id int)")
    sink = RowsSink()
    given = {"url": server.url, "table": "t", **settings}
    with pytest.raises(ConnectorError) as caught:
        await sink.open(checked(SETTINGS, given), FakeContext())
    await sink.close()
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)
