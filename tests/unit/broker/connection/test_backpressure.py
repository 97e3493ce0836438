"""Bounds of the entries that a broker holds for producers while slow storage has not confirmed them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.broker.connection.session import PUBLISH_SHARE_BYTES
from engine.broker.connection.sessions import Sessions
from engine.broker.topics.publish import Publish, StagePlace
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from tests.support.broker_bench import NAME, Bench, opened, until
from tests.support.raw_client import entry_of

SIZE = 16 << 10
ENTRY = entry_of(bytes(SIZE))
PRODUCERS = 4
EACH_MAX = 1 << 20
ALL_MAX = 3 << 20
SENT = 12 << 20
"""Bytes that each producer sends, more than sockets buffer."""
READ = 512 << 10
"""Bytes, more than one read of a socket returns."""


class SlowStorage:
    """Publish stage that holds back the entries of producers whose names begin with ``prefix``."""

    place = StagePlace.DEDUPLICATION

    def __init__(self, prefix: str = "") -> None:
        self.kept: list[Publish] = []
        self._prefix = prefix

    def admit(self, publish: Publish) -> bool:
        if not publish.producer.name.startswith(self._prefix):
            return True
        self.kept.append(publish)
        return False

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


@contextlib.asynccontextmanager
async def served(each_max: int = EACH_MAX) -> AsyncIterator[tuple[Bench, Sessions, int]]:
    """Serve a topic over sessions with small budgets; yield the bench, the sessions and their port."""
    async with opened() as bench:
        settings = replace(
            bench.context.settings,
            max_pending_publish_bytes_per_connection=each_max,
            max_message_publish_buffer_size=ALL_MAX,
        )
        context = replace(bench.context, settings=settings)
        everything = bench.everything
        sessions = Sessions(context, bench.registry, everything, everything, bench.schemas)
        server = await LoopNetwork().listen("127.0.0.1", 0, sessions.accept)
        yield bench, sessions, server.port
        await sessions.close()
        server.close()
        await until(lambda: sessions.count == 0)


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
    writer.write(say.connect("test"))
    return reader, writer


@pytest.mark.timeout(300)
async def test_fast_producers_over_slow_storage_are_not_read_beyond_the_budgets() -> None:
    async with served() as (bench, sessions, port):
        slow = SlowStorage()
        bench.topic.stages = (slow,)
        writers = []
        for i in range(PRODUCERS):
            _, writer = await connected(port)
            writer.write(say.producer(NAME.full, 1, 2, producer_name=f"p{i}"))
            writers.append(writer)
        await until(lambda: len(bench.topic.producers) == PRODUCERS)
        sends = [say.send(1, i, ENTRY) for i in range(SENT // SIZE)]

        async def flood(writer: asyncio.StreamWriter) -> None:
            for send in sends:
                writer.write(send)
                await writer.drain()

        floods = [asyncio.create_task(flood(writer)) for writer in writers]
        budget = sessions._publish_budget
        await until(lambda: budget.high)
        before = -1
        while before != budget.bytes:  # until nothing more is read
            before = budget.bytes
            await asyncio.sleep(0.3)
        assert budget.bytes <= ALL_MAX + PRODUCERS * READ
        for session in sessions._open:
            assert session.publish_budget.bytes <= EACH_MAX + READ
        assert not any(task.done() for task in floods), "the producers wait with unsent entries"
        own = sum(
            min(session.publish_budget.bytes, PUBLISH_SHARE_BYTES) for session in sessions._open
        )
        assert sum(publish.run.size for publish in slow.kept) == budget.bytes + own
        bench.topic.stages = ()
        for publish in slow.kept:
            bench.topic.log.append(publish.run, publish)
        await asyncio.gather(*floods)
        await until(lambda: bench.topic.published.messages.total == PRODUCERS * len(sends))
        await until(lambda: budget.bytes == 0)
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_a_producer_of_a_stalled_topic_leaves_budget_for_others() -> None:
    async with served(each_max=2 * ALL_MAX) as (bench, sessions, port):
        stuck = SlowStorage("greedy")
        bench.topic.stages = (stuck,)
        _, greedy = await connected(port)
        greedy.write(say.producer(NAME.full, 1, 2, producer_name="greedy"))
        await until(lambda: len(bench.topic.producers) == 1)
        greedy.writelines(say.send(1, i, ENTRY) for i in range(2 * ALL_MAX // SIZE))
        await until(lambda: sessions._publish_budget.high)
        _, other = await connected(port)
        other.write(say.producer(NAME.full, 1, 2, producer_name="other"))
        await until(lambda: len(bench.topic.producers) == 2)
        for sent in range(1, 9):
            other.write(say.send(1, sent, ENTRY))
            await until(lambda sent=sent: bench.topic.published.messages.total == sent)
        assert sessions._publish_budget.high
        for publish in stuck.kept:
            bench.topic.log.append(publish.run, publish)
        bench.topic.stages = ()
        for writer in (greedy, other):
            writer.close()
            await writer.wait_closed()
