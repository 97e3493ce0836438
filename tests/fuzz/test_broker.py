"""A whole broker under conversations of any kind: it serves others meanwhile, without errors or leftovers."""

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

from engine.broker.dispatch.consumer import SubscriptionType
from tests.fuzz.conversations import Conversations
from tests.support.broker_bench import opened

CONVERSATIONS = 150


async def test_a_broker_serves_honest_clients_under_hostile_conversations(tmp_path: Path) -> None:
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    async with opened(tmp_path) as bench:
        _, honest = await bench.join(SubscriptionType.SHARED)
        sessions = bench.sessions()
        for number, data in enumerate(islice(Conversations(seed=5), CONVERSATIONS)):
            session = sessions.accept()
            session.send = bytearray().extend  # type: ignore[method-assign, assignment]
            session.send_parts = lambda parts: None  # type: ignore[method-assign]
            session.data_received(data[: number * 10])
            await asyncio.sleep(0)
            if not session.closing:
                session.data_received(data[number * 10 :])
            await bench.publish(1)
            session.closed(None)
        async with asyncio.timeout(120):
            while len(honest.received) < CONVERSATIONS:
                await asyncio.sleep(0.001)
        assert honest.received == sorted(set(honest.received))
        assert sessions.count == 0
        for topic in bench.registry:
            consumers = sum(len(sub.consumers) for sub in topic.subscriptions.values())
            assert (len(topic.producers), consumers) == (0, topic is bench.topic), topic.name
    assert not broken, broken[0]
