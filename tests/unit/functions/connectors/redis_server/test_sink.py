"""Messages are in a real Redis, once each with order, over kills of the instance and of the server."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.redis_server.redis_sink import SINK_SETTINGS, RedisSink
from engine.functions.connectors.spi import ConnectorError, LostEndError
from tests.support.functions.connector_host import FakeContext, Settlements
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


async def opened(server: RedisProcess, context: FakeContext, **settings: object) -> RedisSink:
    sink = RedisSink()
    await sink.open(checked(SINK_SETTINGS, {"url": server.url, **settings}), context)
    return sink


async def test_each_mode_writes_its_form(server: RedisProcess, redis: Any) -> None:
    for mode in ("set", "hash", "list", "stream", "publish"):
        sink, seen = await opened(server, FakeContext(), mode=mode, name=f"{mode}:"), Settlements()
        await sink.write([seen.record(n, b"v%d" % n, key=f"k{n}") for n in range(3)])
        await sink.close()
        assert len(seen.acked) == 3
    assert await redis.get("set:k1") == b"v1"
    assert await redis.hget("hash:", "k2") == b"v2"
    assert await redis.lrange("list:", 0, -1) == [b"v0", b"v1", b"v2"]
    entry = (await redis.xrange("stream:"))[1][1]
    assert entry == {b"value": b"v1", b"message_id": b"7:1:0:-1", b"key": b"k1"}


async def test_keys_expire_and_lists_are_cut(server: RedisProcess, redis: Any) -> None:
    sink, seen = await opened(server, FakeContext(), expireSeconds=100), Settlements()
    await sink.write([seen.record(1, b"x", key="k")])
    await sink.close()
    assert 0 < await redis.ttl("k") <= 100
    sink = await opened(server, FakeContext(), mode="list", name="l", maxLength=2)
    await sink.write([seen.record(n, b"%d" % n) for n in range(5)])
    await sink.close()
    assert await redis.lrange("l", 0, -1) == [b"3", b"4"]


async def test_in_order_each_message_is_written_once_over_kills(
    redis: Any, server: RedisProcess
) -> None:
    context = FakeContext(guarantee="EFFECTIVELY_ONCE")
    # Delivery begins behind what the broker knows to be acknowledged.
    for begin in [0, 3, 1, 10, 0]:
        sink, seen = await opened(server, context, mode="list", name="l"), Settlements()
        await sink.write([seen.record(n, b"%d" % n) for n in range(begin, begin + 7)])
        await sink.write([seen.record(n, b"%d" % n) for n in range(begin + 4, begin + 12)])
        await sink.close()
        assert {record.sequence for record in seen.acked} == set(range(begin, begin + 12))
        server.kill()
        server.start()
    assert await redis.lrange("l", 0, -1) == [b"%d" % n for n in range(22)]


async def test_a_server_that_is_gone_fails_the_run_and_acknowledges_nothing(
    server: RedisProcess, redis: Any
) -> None:
    sink, seen = await opened(server, FakeContext(), mode="list", name="l"), Settlements()
    server.kill()
    try:
        with pytest.raises(LostEndError):
            await sink.write([seen.record(1, b"x")])
        assert not seen.acked
        await sink.close()
        with pytest.raises(ConnectorError, match=r"configs\.url"):
            await opened(server, FakeContext())
    finally:
        server.start()
    sink = await opened(server, FakeContext(), mode="list", name="l")
    await sink.write([seen.record(1, b"x")])
    await sink.close()
    assert await redis.lrange("l", 0, -1) == [b"x"]


async def test_a_key_of_another_type_fails_no_message(server: RedisProcess, redis: Any) -> None:
    await redis.set("l", "no list")
    sink, seen = await opened(server, FakeContext(), mode="list", name="l"), Settlements()
    with pytest.raises(LostEndError, match="WRONGTYPE"):
        await sink.write([seen.record(1, b"x")])
    await sink.close()
    assert not seen.acked
    assert not seen.failed


async def test_messages_without_a_key_fail_alone_where_one_is_needed(
    server: RedisProcess, redis: Any
) -> None:
    sink, seen = await opened(server, FakeContext()), Settlements()
    await sink.write([seen.record(1, b"x"), seen.record(2, b"y", key="k")])
    await sink.close()
    assert [record.sequence for record, _ in seen.failed] == [1]
    assert await redis.get("k") == b"y"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"mode": "list"}, "configs.name"),
        ({"url": "redis://127.0.0.1:1"}, "configs.url"),
    ],
)
async def test_settings_that_cannot_work_are_named(
    server: RedisProcess, settings: dict[str, object], field: str
) -> None:
    with pytest.raises(ConnectorError) as caught:
        await opened(server, FakeContext(), **settings)
    assert field in str(caught.value)
