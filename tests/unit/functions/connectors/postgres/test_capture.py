"""Changes of a real PostgreSQL become messages once each, in order, over kills of the source and of the server."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import fastavro
import psycopg
import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.postgres import changes_source
from engine.functions.connectors.postgres.changes_source import SETTINGS, ChangesSource
from engine.functions.connectors.spi import ConnectorError, Record
from tests.support.functions.connector_host import FakeContext, read_all
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql
from tests.support.waiting import until

pytestmark = [
    pytest.mark.skipif(programs() is None, reason="needs initdb and postgres"),
    pytest.mark.slow,
]

OTHERS = """
SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walsender')"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with running_postgresql("wal_level=logical", "wal_sender_timeout=60s") as postgresql:
        yield postgresql


@pytest.fixture
async def sql(server: PostgreSql) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    await connection.execute(OTHERS)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await forget(connection)
    yield connection
    await connection.close()


async def forget(connection: Any) -> None:
    """Remove all publications and slots."""
    for (name,) in await rows(connection, "SELECT pubname FROM pg_publication"):
        await connection.execute(f'DROP PUBLICATION "{name}"')
    for name, pid in await rows(
        connection, "SELECT slot_name, active_pid FROM pg_replication_slots"
    ):
        if pid is not None:
            await connection.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])
        await connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


async def forget_slots(connection: Any) -> None:
    for (name,) in await rows(connection, "SELECT slot_name FROM pg_replication_slots"):
        await until(partial(_dropped, connection, name))


async def _dropped(connection: Any, name: str) -> bool:
    try:
        await connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
    except psycopg.errors.ObjectInUse:
        return False
    return True


async def rows(connection: Any, query: str) -> list[Any]:
    return list(await (await connection.execute(query)).fetchall())


async def opened(
    server: PostgreSql, context: FakeContext | None = None, **settings: object
) -> ChangesSource:
    source = ChangesSource()
    given = {"url": server.url, "tables": ["t"], **settings}
    try:
        await source.open(checked(SETTINGS, given), context or FakeContext())
    except BaseException:
        await source.close()
        raise
    return source


async def committed(source: ChangesSource, context: FakeContext, last: Record) -> None:
    """Commit until ``last`` need not be read again: the end of its transaction may arrive after it."""

    async def is_durable() -> bool:
        await source.commit()
        position = json.loads(context.state["postgres.position"])
        return bool(position["next_number"] > (last.sequence or 0))

    reading = asyncio.get_running_loop().create_task(source.read())
    try:
        await until(is_durable)
    finally:
        reading.cancel()
        await asyncio.wait([reading])


def change(record: Record) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(record.value)
    return value


def ops(records: list[Record]) -> list[tuple[str, Any, Any]]:
    """Return operation, row before and row after of each."""
    return [(c["op"], c["before"], c["after"]) for c in map(change, records)]


async def test_each_kind_of_change_is_a_message_with_the_key_of_its_row(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = await opened(server, snapshot="never", tombstones=True)
    await sql.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    await sql.execute("UPDATE t SET v = 'b' WHERE id = 1")
    await sql.execute("UPDATE t SET id = 3 WHERE id = 2")
    await sql.execute("DELETE FROM t WHERE id = 1")
    await sql.execute("TRUNCATE t")
    records = await read_all(source, 9)
    await source.close()
    assert [r.properties["postgres.op"] for r in records] == list("ccuddcddt")
    values = [record for record in records if record.value]
    assert ops(values) == [
        ("c", None, {"id": 1, "v": "a"}),
        ("c", None, {"id": 2, "v": None}),
        ("u", None, {"id": 1, "v": "b"}),
        ("d", {"id": 2}, None),
        ("c", None, {"id": 3, "v": None}),
        ("d", {"id": 1}, None),
        ("t", None, None),
    ]
    keys = [None if r.key is None else json.loads(r.key)[1] for r in records]
    assert keys == [1, 2, 1, 2, 2, 3, 1, 1, None]
    assert records[0].key == '["public.t",1]'
    first = change(records[0])
    assert first["source"]["table"] == "t"
    assert first["source"]["transaction"] == change(records[1])["source"]["transaction"]
    assert records[0].event_time_ms == first["ts_ms"]


async def test_a_value_keeps_its_type_or_its_text(server: PostgreSql, sql: Any) -> None:
    await sql.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, b boolean, f float8, n numeric, j jsonb, d json, y bytea,"
        " at timestamptz, day date, a int[], u uuid, s text)"
    )
    insert = (
        "INSERT INTO t VALUES (%s, true, 1.5, 12345678901234567890.123, '{\"x\": [1, null]}', "
        "'\"\\ud800\"', '\\x00ff', '2026-01-02 03:04:05+02', 'infinity', '{1,2}', "
        "'00000000-0000-0000-0000-000000000001', 'ä\"\n')"
    )
    await sql.execute(insert.replace("%s", "1"))
    source = await opened(server)
    await sql.execute(insert.replace("%s", "9007199254740993"))
    await sql.execute("INSERT INTO t (id, f, j) VALUES (3, 'NaN', '1e400')")
    snapshot, streamed, odd = await read_all(source, 3)
    await source.close()
    expected = {
        **{"b": True, "f": 1.5, "n": "12345678901234567890.123", "j": {"x": [1, None]}},
        **{"d": "\ud800", "y": "AP8=", "at": "2026-01-02 01:04:05+00", "day": "infinity"},
        **{"a": "{1,2}", "u": "00000000-0000-0000-0000-000000000001", "s": 'ä"\n'},
    }
    assert change(snapshot)["after"] == {"id": 1, **expected}
    assert change(streamed)["after"] == {"id": 9007199254740993, **expected}
    after = change(odd)["after"]
    assert (after["f"], after["b"]) == ("NaN", None)
    assert after["j"] == int("1" + "0" * 400)


async def test_avro_values_have_one_schema_for_all_tables(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, j jsonb, f float8)")
    source = await opened(server, format="avro")
    await sql.execute("INSERT INTO t VALUES (1, '{\"x\": [1]}', 2)")
    (record,) = await read_all(source, 1)
    await source.close()
    assert source.schema is not None
    schema = json.loads(source.schema.schema_data)
    value: Any = fastavro.schemaless_reader(io.BytesIO(record.value), schema, None)
    assert value["after"] == {"id": 1, "j": '{"x":[1]}', "f": 2.0}
    assert (value["op"], value["before"], value["missing"]) == ("c", None, [])


async def test_rows_that_are_there_come_first_and_none_between_is_lost(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    await sql.execute('CREATE SCHEMA "o.d"; CREATE TABLE "o.d"."e ""f" (id int PRIMARY KEY)')
    await sql.execute('INSERT INTO "o.d"."e ""f" VALUES (7)')
    await sql.execute("INSERT INTO t SELECT generate_series(1, 2500)")
    await sql.execute("CREATE PUBLICATION every FOR ALL TABLES")
    context = FakeContext()
    source = await opened(server, context, tables=[], publication="every")
    await sql.execute("INSERT INTO t SELECT generate_series(2501, 2600)")
    records = await read_all(source, 2601)
    read = [c for c in map(change, records) if c["op"] == "r"]
    assert len(read) == 2501
    assert {c["source"]["snapshot"] for c in read} == {True}
    assert [c["after"]["id"] for c in map(change, records)] == [7, *range(1, 2601)]
    numbers = [record.sequence for record in records]
    assert numbers == sorted(set(numbers))
    await source.close()


async def test_a_snapshot_that_was_interrupted_begins_anew_under_higher_numbers(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    await sql.execute("INSERT INTO t SELECT generate_series(1, 300)")
    context = FakeContext()
    source = await opened(server, context, batch=100)
    before = list(await source.read())
    for record in before:
        record.ack()
    await source.commit()
    await source.close()
    await sql.execute("DELETE FROM t WHERE id = 1")
    source = await opened(server, context)
    again = await read_all(source, 299)
    assert [c["after"]["id"] for c in map(change, again)] == list(range(2, 301))
    assert (again[0].sequence or 0) > (before[-1].sequence or 0)
    await source.close()


async def test_changes_are_numbered_alike_over_kills_of_source_and_server(
    server: PostgreSql, sql: Any
) -> None:
    """Changes that are read again have the numbers that they had, and nothing that is not stored is missing."""
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    context = FakeContext()
    await (await opened(server, context, snapshot="never")).close()
    published: dict[int, bytes] = {}
    acked: set[int] = set()
    written = 0
    for step in range(8):
        connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
        for _ in range(5):
            count = 1 + step * 7
            first = written + 1
            written += count
            await connection.execute(
                f"INSERT INTO t SELECT n, 'v' || n FROM generate_series({first}, {written}) n"
            )
        await connection.close()
        source = await opened(server, context, snapshot="never", batch=40)
        for run in range(step + 1):
            if len(published) == written:
                break
            batch = [r for r in await source.read() if r.sequence is not None]
            for record in batch:
                assert record.sequence is not None
                assert published.setdefault(record.sequence, record.value) == record.value
            # Receipts come in any order, and some not at all before the end.
            for record in reversed(batch[: len(batch) - run % 3]):
                record.ack()
                acked.add(record.sequence or 0)
            if run % 2:
                await source.commit()
        if step % 3 == 2:
            server.kill()
            await source.close()
            server.start()
        else:
            # As a kill: acknowledgements since the commit are not reported.
            await source.close()
    source = await opened(server, context, snapshot="never")
    while len(published) < written:
        for record in await source.read():
            assert published.setdefault(record.sequence or 0, record.value) == record.value
    await source.close()
    ids = [json.loads(published[number])["after"]["id"] for number in sorted(published)]
    assert ids == list(range(1, written + 1))
    numbers = sorted(published)
    assert numbers == list(range(numbers[0], numbers[0] + written))


async def test_the_server_forgets_only_what_is_stored(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    context = FakeContext()
    source = await opened(server, context)
    await sql.execute("INSERT INTO t VALUES (1)")
    await sql.execute("INSERT INTO t VALUES (2)")
    first, two = await read_all(source, 2)
    two.ack()
    await source.commit()
    await source.close()
    source = await opened(server, context)
    again = await read_all(source, 2)
    assert [r.sequence for r in again] == [first.sequence, two.sequence]
    for record in again:
        record.ack()
    await committed(source, context, again[-1])
    await source.close()
    await sql.execute("INSERT INTO t VALUES (3)")
    source = await opened(server, context)
    (three,) = await read_all(source, 1)
    assert three.sequence == (two.sequence or 0) + 1
    await source.close()


async def test_nothing_is_confirmed_to_the_server_before_the_position_is_durable(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    context = FakeContext()
    source = await opened(server, context, snapshot="never")
    await sql.execute("INSERT INTO t VALUES (1)")
    (record,) = await read_all(source, 1)
    record.ack()

    async def fails(key: str, value: bytes) -> None:
        raise ConnectionError("the state cannot be stored")

    context.put_state = fails  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await committed(source, context, record)
    await source.close()
    del context.put_state  # type: ignore[attr-defined]
    source = await opened(server, context)
    (again,) = await read_all(source, 1)
    assert (again.sequence, again.value) == (record.sequence, record.value)
    await source.close()


async def test_the_log_of_other_tables_is_not_kept(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    source = await opened(server, FakeContext())
    reading = asyncio.get_running_loop().create_task(source.read())
    await sql.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    ((end,),) = await rows(sql, "SELECT pg_current_wal_lsn()::text")
    query = f"SELECT confirmed_flush_lsn >= '{end}'::pg_lsn FROM pg_replication_slots"

    async def is_confirmed() -> bool:
        await sql.execute("SELECT pg_logical_emit_message(false, 'wake', '')")
        await source.commit()
        return await rows(sql, query) == [(True,)]

    await until(is_confirmed)
    reading.cancel()
    await asyncio.wait([reading])
    await source.close()


async def test_columns_come_and_go(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = await opened(server, snapshot="never")
    await sql.execute("INSERT INTO t VALUES (1, 'a')")
    await sql.execute("ALTER TABLE t ADD w int DEFAULT 5")
    await sql.execute("INSERT INTO t VALUES (2, 'b', 6)")
    await sql.execute("ALTER TABLE t DROP v; ALTER TABLE t RENAME w TO x")
    await sql.execute("INSERT INTO t VALUES (3, 7)")
    records = await read_all(source, 3)
    await source.close()
    assert [c["after"] for c in map(change, records)] == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b", "w": 6},
        {"id": 3, "x": 7},
    ]


async def test_a_large_value_that_was_left_alone_is_named(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text)")
    await sql.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    source = await opened(server, snapshot="never")
    await sql.execute("INSERT INTO t VALUES (1, 0, repeat('x', 100000))")
    await sql.execute("UPDATE t SET n = 1")
    await sql.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    await sql.execute("UPDATE t SET n = 2")
    _, alone, whole = map(change, await read_all(source, 3))
    await source.close()
    assert (alone["after"], alone["missing"]) == ({"id": 1, "n": 1}, ["big"])
    assert whole["after"]["big"] == "x" * 100_000
    assert whole["before"]["n"] == 1
    assert "missing" not in whole


async def test_a_change_beyond_a_message_stops_or_loses_its_longest_value(
    server: PostgreSql, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_source, "MESSAGE_BYTES_MAX", 10_000)
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY, small text, big text)")
    context = FakeContext()
    source = await opened(server, context)
    await sql.execute("INSERT INTO t VALUES (1, 's', repeat('x', 20000))")
    with pytest.raises(
        ConnectorError,
        match=r'configs.tooLarge: the change of public.t with the key \["public.t",1\]',
    ):
        await read_all(source, 1)
    await source.close()
    source = await opened(server, context, tooLarge="omit")
    (record,) = await read_all(source, 1)
    await source.close()
    assert change(record)["after"] == {"id": 1, "small": "s"}
    assert change(record)["missing"] == ["big"]


async def test_a_table_cannot_be_written_anew_before_its_rows_are_read(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    source = await opened(server)
    altering = asyncio.get_running_loop().create_task(
        sql.execute("ALTER TABLE t ALTER id TYPE bigint")
    )
    (record,) = await read_all(source, 1)
    assert change(record)["op"] == "r"
    assert not altering.done()
    reading = asyncio.get_running_loop().create_task(source.read())
    await altering  # once the snapshot is read
    await sql.execute("INSERT INTO t VALUES (2)")
    (record,) = await reading
    assert change(record)["after"] == {"id": 2}
    await source.close()


async def test_a_partitioned_table_is_one_table(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    await sql.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    await sql.execute("INSERT INTO t VALUES (1)")
    source = await opened(server)
    await sql.execute("INSERT INTO t VALUES (2)")
    records = await read_all(source, 2)
    await source.close()
    assert [(c["op"], c["source"]["table"]) for c in map(change, records)] == [
        ("r", "t"),
        ("c", "t"),
    ]


# --- what cannot work ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"tables": []}, "configs.tables: there is no publication"),
        ({"tables": ["nope"]}, "configs.tables: there is no table nope"),
        ({"tables": ["keyless"]}, "configs.tables: keyless has no primary key"),
        (
            {"publication": "mine", "tables": ["t"]},
            "configs.tables: the publication mine has not t",
        ),
        (
            {"publication": "mine", "tables": [], "slot": "there"},
            "configs.slot: there is there already",
        ),
        ({"slot": "foreign"}, "configs.slot: foreign is a slot of test_decoding"),
        ({"url": "postgresql://u@127.0.0.1:1/x"}, "configs.url"),
    ],
)
async def test_settings_that_cannot_work_are_named(
    server: PostgreSql, sql: Any, settings: dict[str, object], text: str
) -> None:
    await sql.execute(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE keyless (x int);"
        "CREATE PUBLICATION mine FOR TABLE u"
    )
    for name, plugin in (("there", "pgoutput"), ("foreign", "test_decoding")):
        await sql.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [name, plugin])
    with pytest.raises(ConnectorError) as caught:
        await opened(server, **settings)
    assert text in str(caught.value)


async def test_a_user_without_the_right_to_replicate_has_a_clear_error(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    await sql.execute("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN")
    await sql.execute("CREATE PUBLICATION p FOR TABLE t; GRANT USAGE ON SCHEMA public TO plain")
    url = server.url.replace("magnetar@", "plain@")
    with pytest.raises(ConnectorError, match=r"configs.url: .*(?i:replication) role"):
        await opened(server, url=url, publication="p")
    await sql.execute("ALTER ROLE plain REPLICATION")
    with pytest.raises(ConnectorError, match=r"configs.tables: permission denied for table t"):
        await opened(server, url=url, publication="p", slot="s")
    await sql.execute("GRANT SELECT ON t TO plain")
    await sql.execute("INSERT INTO t VALUES (1)")
    source = await opened(server, url=url, publication="p", slot="s2")
    assert len(await read_all(source, 1)) == 1
    await source.close()


async def test_a_lost_slot_is_an_error_until_another_is_named(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    context = FakeContext()
    source = await opened(server, context, slot="one", snapshot="never")
    with pytest.raises(ConnectorError, match="one is in use by process"):
        await opened(server, context, slot="one", snapshot="never")
    await source.close()
    await forget_slots(sql)
    await sql.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ConnectorError, match="the slot one is gone, and with it the changes"):
        await opened(server, context, slot="one", snapshot="never")
    source = await opened(server, context, slot="two")
    (record,) = await read_all(source, 1)
    assert change(record)["op"] == "r"
    await source.close()


async def test_a_server_with_other_data_is_refused(server: PostgreSql, sql: Any) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    context = FakeContext()
    await (await opened(server, context, snapshot="never")).close()
    saved = json.loads(context.state[changes_source.STATE_KEY])
    for changed in ({"system": "1"}, {"lsn": "FFFF/0"}):
        context.state[changes_source.STATE_KEY] = json.dumps({**saved, **changed}).encode()
        with pytest.raises(ConnectorError, match=r"configs.url: the server has other data"):
            await opened(server, context, snapshot="never")


async def test_a_server_that_leaves_ends_the_read_with_one_reason(
    server: PostgreSql, sql: Any
) -> None:
    await sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = await opened(server)
    reading = asyncio.get_running_loop().create_task(source.read())
    await asyncio.sleep(0.05)  # time: the read waits for the server when the server is killed
    server.kill()
    with pytest.raises(ConnectorError, match=r"configs.url: the server ended the replication"):
        await asyncio.wait_for(reading, 30)
    await source.close()
    server.start()


async def test_a_level_of_the_log_that_is_too_low_is_an_error() -> None:
    with (
        running_postgresql("wal_level=replica") as other,
        pytest.raises(ConnectorError, match=r"configs.url: the server's wal_level is replica"),
    ):
        await opened(other)
