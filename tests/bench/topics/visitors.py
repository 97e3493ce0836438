"""Clients of many topics over one connection: look up, subscribe, publish one message, acknowledge it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from engine.base.errors import MagnetarError
from engine.client.broker_link import Body, BrokerLink, LinkSettings
from engine.client.errors import RefusedError
from engine.client.lookup import Links
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from engine.wire.events import Delivered, Receipt
from tests.bench.raw import payload_of

AT_ONCE = 64
"""Topics under way at the same time."""
RETRY_S = 0.2
ANSWER_S = 90.0
PAYLOAD = payload_of(100)
SETTINGS = LinkSettings("bench", request_timeout_s=ANSWER_S, keep_alive_s=ANSWER_S)


class Visitor:
    """A producer or consumer that waits for its first receipt or message."""

    def __init__(self) -> None:
        self.first: asyncio.Future[Delivered | None] = asyncio.get_running_loop().create_future()

    def receipts(self, receipts: Sequence[Receipt]) -> None:
        self._arrived(None)

    def messages(self, messages: Sequence[Delivered]) -> None:
        self._arrived(messages[0])

    def _arrived(self, message: Delivered | None) -> None:
        if not self.first.done():
            self.first.set_result(message)

    def heard(self, kind: int, body: Body) -> None:
        pass

    def lost(self, error: MagnetarError) -> None:
        if not self.first.done():
            self.first.set_exception(error)


class Visitors:
    """An async context manager; one connection to each broker."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._links = Links(LoopNetwork(), SETTINGS, BrokerLink)

    async def __aenter__(self) -> "Visitors":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._links.close()

    async def each(
        self,
        topics: Iterable[str],
        visit: Callable[[str], Awaitable[object]],
        at_once: int = AT_ONCE,
    ) -> None:
        left = iter(topics)

        async def some() -> None:
            for topic in left:
                await visit(topic)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(some())

    async def subscribed(self, topic: str, *, patient: bool = False) -> tuple[BrokerLink, int]:
        """Look ``topic`` up and subscribe; the connection and the consumer's id. ``patient``: again while refused."""
        while True:
            try:
                await self._links.partitions(topic, self._url)
                link = await self._links.owner(topic, self._url)
                consumer_id, request_id = link.new_id(), link.new_id()
                await link.request(
                    request_id,
                    say.subscribe(topic, "s", 1, consumer_id, request_id, initial_position=1),
                )
                return link, consumer_id
            except RefusedError:
                if not patient:
                    raise
            await asyncio.sleep(RETRY_S)

    async def visit(self, topic: str, *, ack: bool) -> None:
        """Subscribe, publish one message, receive and acknowledge it if ``ack``, and leave."""
        link, consumer_id = await self.subscribed(topic)
        producer_id, request_id = link.new_id(), link.new_id()
        await link.request(request_id, say.producer(topic, producer_id, request_id))
        producer = link.producers[producer_id] = Visitor()
        link.send(say.send(producer_id, 0, PAYLOAD))
        await producer.first
        if ack:
            consumer = link.consumers[consumer_id] = Visitor()
            link.send(say.flow(consumer_id, 1))
            message = await consumer.first
            assert message is not None
            request_id = link.new_id()
            await link.request(
                request_id, say.ack(consumer_id, [message.position], request_id=request_id)
            )
            del link.consumers[consumer_id]
        del link.producers[producer_id]
        for close, client_id in (
            (say.close_producer, producer_id),
            (say.close_consumer, consumer_id),
        ):
            request_id = link.new_id()
            await link.request(request_id, close(client_id, request_id))
