"""A WebSocket and a client library's consumer, reader and producer, played by the test in its own loop."""

import asyncio
import json
from typing import Any

import _pulsar
import pulsar
import pulsar.asyncio


async def settled() -> None:
    """Whatever is ready has run: nothing here waits for time or for other threads."""
    for _ in range(12):
        await asyncio.sleep(0)


def identity(number: int) -> pulsar.MessageId:
    return pulsar.MessageId(-1, 7, number, -1)


class Socket:
    """Frames that went out are in ``out``; ``say`` brings one in, ``hang_up`` ends it. While ``reads`` is cleared the
    client takes nothing."""

    def __init__(self) -> None:
        self.closed = False
        self.close_code = 0
        self.out: list[dict[str, Any]] = []
        self.inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()

    def say(self, **frame: Any) -> None:
        self.inbox.put_nowait(json.dumps(frame))

    def hang_up(self) -> None:
        self.inbox.put_nowait(None)

    async def send_text(self, text: str) -> None:
        await self.reads.wait()
        self.out.append(json.loads(text))

    async def next_text(self) -> str | None:
        text = await self.inbox.get()
        self.closed = self.closed or text is None
        return text

    async def close(self, code: int, reason: str = "") -> None:
        self.closed, self.close_code = True, code


class Message:
    """A received message: id and content from ``number``."""

    def __init__(self, number: int, redeliveries: int = 0) -> None:
        self.number = number
        self._redeliveries = redeliveries

    def message_id(self) -> pulsar.MessageId:
        return identity(self.number)

    def data(self) -> bytes:
        return b"%d" % self.number

    def properties(self) -> dict[str, str]:
        return {}

    def publish_timestamp(self) -> int:
        return 1

    def redelivery_count(self) -> int:
        return self._redeliveries

    def event_timestamp(self) -> int:
        return 0

    def partition_key(self) -> str:
        return ""


class Consumer:
    """What the library would have received is put into ``queue``; acknowledgements are kept by number."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue()
        self.acknowledged: list[int] = []
        self.refused: list[int] = []
        self.failing = False

    def deliver(self, *numbers: int) -> None:
        for number in numbers:
            self.queue.put_nowait(Message(number))

    async def receive(self) -> Message:
        return await self.queue.get()

    async def acknowledge(self, which: pulsar.MessageId) -> None:
        if self.failing:
            raise pulsar.asyncio.PulsarException(_pulsar.Result.NotConnected)
        self.acknowledged.append(which.entry_id())

    async def negative_acknowledge(self, which: pulsar.MessageId) -> None:
        self.refused.append(which.entry_id())


class Reader(pulsar.asyncio.Reader):
    """As Consumer, for the reader endpoint."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue()

    async def read_next(self) -> Any:
        return await self.queue.get()


class Producer:
    """Sends wait in ``sending`` by content until ``confirm`` or ``fail``."""

    def __init__(self) -> None:
        self.sending: dict[bytes, asyncio.Future[pulsar.MessageId]] = {}
        self.count = 0

    async def send(self, content: bytes, **_: Any) -> pulsar.MessageId:
        self.count += 1
        self.sending[content] = asyncio.get_running_loop().create_future()
        return await self.sending[content]

    def confirm(self, content: bytes, number: int) -> None:
        self.sending.pop(content).set_result(identity(number))

    def fail(self, content: bytes, error: Exception) -> None:
        self.sending.pop(content).set_exception(error)
