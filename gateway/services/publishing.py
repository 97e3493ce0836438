"""Messages published for REST requests: producers that requests share, and the outcome of each message.

A request without a producer name shares the producer of its partition and schema with others. The producer is closed
IDLE_S after its last request, so that it does not prevent the deletion of the topic. A producer name belongs to one
producer at a time: requests with the same name run one after the other, each with its own producer, which is closed
before its request is answered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from engine.base.budget import Budget
from engine.base.errors import (
    Conflict,
    Forbidden,
    MagnetarError,
    NotFound,
    NotReady,
    PreconditionFailed,
    Refusal,
)
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from engine.client.errors import RefusedError, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, PartitionChoice, Routing
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
    SendTimeoutError,
)
from engine.schema.kinds import Schema, SchemaKind, version_of
from engine.schema.wire_form import to_wire
from engine.wire import pulsar_pb2 as pb

PRODUCERS_MAX = 1_000
"""Shared producers at a time, one for each partition and schema."""
IDLE_S = 1.0
SEND_TIMEOUT_S = 10.0
IN_FLIGHT_BYTES_MAX = 32 << 20
"""Bytes of unconfirmed messages above which requests are refused; one request adds at most the bound of a body."""
NO_VERSION = -1
_OF_REQUESTS: dict[ServerError, type[Refusal]] = {
    ServerError.AuthorizationError: Forbidden,
    ServerError.IncompatibleSchema: Conflict,
    ServerError.InvalidTopicName: PreconditionFailed,
    ServerError.ProducerBusy: Conflict,
    ServerError.TopicNotFound: NotFound,
}
"""Refusals of a producer that refuse the whole request. Any other is the answer for each message."""


class Outgoing(NamedTuple):
    """A message to publish; with ``sequence_id`` None the producer assigns the next one."""

    message: OutgoingMessage
    sequence_id: int | None = None


class Published(NamedTuple):
    """The outcome of a request: results and partitions in the order of its messages; ``schema_version`` is NO_VERSION
    without a schema."""

    results: Sequence[SendResult]
    partitions: Sequence[int]
    schema_version: int


class _Receipts:
    """Results of the messages of one request that are sent to one topic."""

    def __init__(self, count: int) -> None:
        self.results: list[SendResult] = [SendResult(None, None)] * count
        self.are_complete = asyncio.get_running_loop().create_future()
        self._missing = count

    def add(self, result: SendResult) -> None:
        self.results[result.token[1]] = result
        self._missing -= 1
        if not self._missing and not self.are_complete.done():
            self.are_complete.set_result(None)


def _deliver(results: Sequence[SendResult]) -> None:
    for result in results:
        receipts: _Receipts = result.token[0]
        receipts.add(result)


class _Shared:
    """A producer with the number of requests that use it."""

    def __init__(self, producer: PartitionProducer, opening: "asyncio.Task[None]") -> None:
        self.producer = producer
        self.opening = opening
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        if self.producer.error is not None or self.opening.cancelled():
            return False
        return not self.opening.done() or self.opening.exception() is None

    async def close(self) -> None:
        self.opening.cancel()
        await self.producer.close()


class _PartResult(NamedTuple):
    """Results of the messages for one topic; ``failure``: the error that prevented attaching the producer."""

    results: Sequence[SendResult]
    schema_version: int
    failure: MagnetarError | None = None


class Publisher:
    """The producers of one event loop for REST requests."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._budget = Budget(IN_FLIGHT_BYTES_MAX)
        # Errors are raised where the tasks are awaited: none is logged here.
        self._tasks = TaskScope("publishing", lambda name, error: None)
        self._shared: dict[tuple[object, ...], _Shared] = {}
        self._named: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        start = client.entropy.below(1 << 16)
        self._choice = PartitionChoice(Routing.ROUND_ROBIN, Hashing.JAVA_STRING, start, 0)

    async def publish(
        self,
        topics: Sequence[TopicName],
        messages: Sequence[Outgoing],
        schema: Schema,
        name: str | None = None,
    ) -> Published:
        """Publish messages to ``topics``, the partitions of a topic or a single topic; return the result of each.

        The partition is chosen by a message's key, and in turn without a key. A message is reported as stored when the
        broker has confirmed it (W6). Raises Refusal when the whole request is refused, ClientError when no broker
        could be reached; nothing was sent then. When cancelled, messages may be stored or not.
        """
        if self._budget.high:
            raise NotReady("too many messages wait for brokers' receipts; try again later")
        now_ms = self._client.clock.wall_ms()
        chosen = [self._choice.of(outgoing.message, len(topics), now_ms) for outgoing in messages]
        runs: dict[int, list[Outgoing]] = {}
        for index, outgoing in zip(chosen, messages, strict=True):
            runs.setdefault(index, []).append(outgoing)
        parts = await asyncio.gather(
            *(self._publish(topics[index], run, schema, name) for index, run in runs.items())
        )
        if parts and all(part.failure is not None for part in parts):
            _raise_refusal(parts[0].failure)
        # Each part has its messages in their order: taken by partition, the results have the order of the request.
        by_index = {index: iter(part.results) for index, part in zip(runs, parts, strict=True)}
        results = [next(by_index[index]) for index in chosen]
        version = max((part.schema_version for part in parts), default=NO_VERSION)
        return Published(results, [topics[index].partition for index in chosen], version)

    async def _publish(
        self, topic: TopicName, run: Sequence[Outgoing], schema: Schema, name: str | None
    ) -> _PartResult:
        receipts = _Receipts(len(run))
        try:
            async with self._attached(topic, schema, name) as producer:
                version = producer.schema_version
                encoded = pb.MessageMetadata(schema_version=version).SerializePartialToString()
                for index, (message, _) in enumerate(run):
                    message.token = receipts, index
                    message.extra_metadata += encoded if version else b""
                _send(producer, run)
                await receipts.are_complete
                number = version_of(version)
                return _PartResult(receipts.results, NO_VERSION if number is None else number)
        except MagnetarError as error:
            return _PartResult([SendResult(None, None, error)] * len(run), NO_VERSION, error)

    def _attached(
        self, topic: TopicName, schema: Schema, name: str | None
    ) -> AbstractAsyncContextManager[PartitionProducer]:
        has_schema = schema.kind is not SchemaKind.NONE
        settings = ProducerSettings(
            name=name,
            send_timeout_s=SEND_TIMEOUT_S,
            schema=to_wire(schema.kind.value, schema) if has_schema else None,
            reattach_when_idle=False,
        )

        def make() -> PartitionProducer:
            return PartitionProducer(
                self._client, str(topic), settings, self._budget, _deliver, topic.partition
            )

        if name is not None:
            return self._own_producer(make, (str(topic), name))
        properties = frozenset(schema.properties.items())
        return self._shared_producer(make, (topic, schema.kind, schema.data, properties))

    @asynccontextmanager
    async def _shared_producer(
        self, make: Callable[[], PartitionProducer], key: tuple[object, ...]
    ) -> AsyncIterator[PartitionProducer]:
        """Lend the producer that is open under this key; without one, open it."""
        shared = self._shared.pop(key, None)
        if shared is None or not shared.usable:
            self._evict()
            producer = make()
            shared = _Shared(producer, self._tasks.spawn("open", producer.open()))
        self._shared[key] = shared  # at the end: the least recently used producer is first
        shared.users += 1
        if shared.idle is not None:
            shared.idle.cancel()
        try:
            # Shielded, because other requests wait for the same opening when this one is cancelled.
            await asyncio.shield(shared.opening)
            yield shared.producer
        finally:
            shared.users -= 1
            if not shared.users:
                loop = asyncio.get_running_loop()
                wait_s = IDLE_S if shared.usable else 0.0
                shared.idle = loop.call_later(wait_s, self._drop, key, shared)

    def _evict(self) -> None:
        """Close the least recently used idle producer when there are PRODUCERS_MAX. Raises NotReady when none is
        idle."""
        if len(self._shared) < PRODUCERS_MAX:
            return
        for key, shared in self._shared.items():
            if not shared.users:
                self._drop(key, shared)
                return
        raise NotReady("too many topics are published to at once; try again later")

    def _drop(self, key: tuple[object, ...], shared: _Shared) -> None:
        if shared.idle is not None:
            shared.idle.cancel()
        if self._shared.get(key) is shared:
            del self._shared[key]
        if not self._tasks.closed:
            self._tasks.spawn("leave", shared.close())

    @asynccontextmanager
    async def _own_producer(
        self, make: Callable[[], PartitionProducer], key: tuple[str, str]
    ) -> AsyncIterator[PartitionProducer]:
        """Lend a producer of this topic and name, which is closed after the request."""
        lock = self._named.setdefault(key, asyncio.Lock())
        try:  # the broker refuses a second producer of the name, so that requests wait for one another
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await lock.acquire()
        except TimeoutError:
            text = f"other requests publish under the name {key[1]}; try again later"
            raise NotReady(text) from None
        producer = make()
        try:
            await producer.open()
            yield producer
        finally:
            try:
                # Shielded, so that a cancelled request does not leave the name in use at the broker.
                await asyncio.shield(self._tasks.spawn("leave", producer.close()))
            finally:
                lock.release()

    async def close(self) -> None:
        """Close all producers. Requests that wait for receipts are not answered any more."""
        producers, self._shared = list(self._shared.values()), {}
        for shared in producers:
            if shared.idle is not None:
                shared.idle.cancel()
        await asyncio.gather(*(shared.close() for shared in producers))
        await self._tasks.close()


def _send(producer: PartitionProducer, run: Sequence[Outgoing]) -> None:
    if any(outgoing.sequence_id is not None for outgoing in run):
        for message, sequence_id in run:
            assert sequence_id is not None, "all or none have one"
            producer.send_as(message, sequence_id)
    else:
        producer.send([outgoing.message for outgoing in run])


def _raise_refusal(error: MagnetarError | None) -> None:
    """Raise the error by which no producer could be opened, if it refuses the whole request; return when it is the
    answer for each message."""
    if not isinstance(error, RefusedError):
        assert error is not None
        raise error
    kind = _OF_REQUESTS.get(error.code)
    if kind is not None:
        raise kind(str(error) or error.code.name) from error


def failure_of(error: MagnetarError) -> tuple[int, str]:
    """Return Pulsar's code and the reason for a message that was not confirmed: 1 when sending it again may help, else
    2."""
    text = str(error) or type(error).__name__
    if isinstance(error, SendTimeoutError):
        text += ": the message may be stored"
    return (1 if error.retriable else 2), text
