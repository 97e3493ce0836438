"""Entries of a stream of a real Redis are read once each, over kills, by instances that share them."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.redis_server.redis_source import SOURCE_SETTINGS, RedisSource
from engine.functions.connectors.spi import ConnectorError
from tests.support.functions.connector_host import FakeContext, read_all
from tests.support.functions.redis_process import RedisProcess, redis_program, running_redis

pytestmark = pytest.mark.skipif(redis_program() is None, reason="needs redis-server")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with running_redis() as process:
        yield process


@pytest.fixture
async def redis(server: RedisProcess) -> AsyncIterator[Any]:
    client = Redis.from_url(server.url)
    await client.flushall()
    yield client
    await client.aclose()


async def opened(server: RedisProcess, context: FakeContext, **settings: object) -> RedisSource:
    source = RedisSource()
    given = {"url": server.url, "stream": "s", "batch": 10, **settings}
    await source.open(checked(SOURCE_SETTINGS, given), context)
    return source


async def test_an_entry_is_a_record_with_its_fields(server: RedisProcess, redis: Any) -> None:
    await redis.xadd("s", {"a": "1", "k": "key"}, id="5-3")
    source = await opened(server, FakeContext(), keyField="k")
    (record,) = await source.read()
    assert json.loads(record.value) == {"a": "1", "k": "key"}
    assert (record.key, record.event_time_ms, record.sequence) == ("key", 5, 5 << 20 | 3)
    await source.close()
    source = await opened(server, FakeContext(), valueField="a", group="other")
    assert [record.value for record in await source.read()] == [b"1"]
    await source.close()


async def test_entries_not_acknowledged_are_read_again_after_a_kill(
    server: RedisProcess, redis: Any
) -> None:
    for n in range(35):
        await redis.xadd("s", {"n": n})
    seen: dict[int, bytes] = {}
    acked: set[int] = set()
    for step in range(4):
        source = await opened(server, FakeContext(), valueField="n")
        for run in range(step):
            for record in await source.read():
                assert record.sequence is not None
                assert record.sequence not in acked
                assert seen.setdefault(record.sequence, record.value) == record.value
                if run < step - 1:
                    record.ack()
                    acked.add(record.sequence)
        await source.commit()
        await source.close()
        server.kill()
        server.start()
    source = await opened(server, FakeContext(), valueField="n")
    for record in await read_all(source, 35 - len(acked)):
        seen[record.sequence or 0] = record.value
    await source.close()
    assert [seen[n] for n in sorted(seen)] == [b"%d" % n for n in range(35)]


async def test_entries_of_instances_that_are_no_more_are_read_by_the_first(
    server: RedisProcess, redis: Any
) -> None:
    for n in range(4):
        await redis.xadd("s", {"n": n})
    context = FakeContext(instance=2, instances=3)
    source = await opened(server, context, valueField="n", batch=2)
    gone = await source.read()
    await source.close()
    source = await opened(server, FakeContext(), valueField="n")
    records = await read_all(source, 4)
    assert {record.value for record in records} == {b"0", b"1", b"2", b"3"}
    again = [record for record in records if record.partition == "s-2"]
    assert [record.sequence for record in again] == [record.sequence for record in gone]
    await source.close()


async def test_a_new_group_may_begin_at_the_end(server: RedisProcess, redis: Any) -> None:
    await redis.xadd("s", {"n": "old"})
    source = await opened(server, FakeContext(), start="latest", valueField="n")
    await redis.xadd("s", {"n": "new"})
    assert [record.value for record in await source.read()] == [b"new"]
    await source.close()


async def test_fields_that_are_no_text_are_whole(server: RedisProcess, redis: Any) -> None:
    await redis.xadd("s", {"a": b"\xff\x00", "b": "\u00e4"})
    source = await opened(server, FakeContext())
    (record,) = await source.read()
    await source.close()
    assert json.loads(record.value) == {"a_base64": "/wA=", "b": "\u00e4"}


async def test_an_entry_that_was_trimmed_is_no_message_and_delays_none(
    server: RedisProcess, redis: Any
) -> None:
    await redis.xadd("s", {"n": 0})
    source = await opened(server, FakeContext(), valueField="n")
    await source.read()
    await source.close()
    await redis.xtrim("s", 0)
    await redis.xadd("s", {"n": 1})
    source = await opened(server, FakeContext(), valueField="n")
    assert [record.value for record in await read_all(source, 1)] == [b"1"]
    await source.commit()
    await source.close()
    (consumer,) = await redis.xinfo_consumers("s", "public/default/try")
    assert consumer["pending"] == 1


@pytest.mark.parametrize("entry", ["5-1048576", "9999999999999-0"])
async def test_an_id_whose_sequence_would_be_anothers_is_an_error(
    server: RedisProcess, redis: Any, entry: str
) -> None:
    await redis.xadd("s", {"n": 0}, id=entry)
    source = await opened(server, FakeContext(guarantee="EFFECTIVELY_ONCE"))
    with pytest.raises(ConnectorError, match=entry):
        await source.read()
    await source.close()
    source = await opened(server, FakeContext())
    assert len(await source.read()) == 1
    await source.close()
