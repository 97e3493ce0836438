"""Messages published on behalf of REST's callers: producers that requests share, and what became of each message.

Without a name a request shares the producer of its partition and schema with all others; it leaves the topic IDLE_S
after its last request, so that nobody who then deletes the topic is in its way. A name is one producer's alone: such
requests come one after the other, each with a producer of its own, which has left before its request is answered.
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
from gateway.services import clients

PRODUCERS_MAX = 1_000
"""That requests share at a time; one for each partition and schema."""
IDLE_S = 1.0
SEND_TIMEOUT_S = 10.0
IN_FLIGHT_BYTES_MAX = 32 << 20
"""Of all requests; a request of more than its body's bound there is not."""
NO_VERSION = -1
_OF_REQUESTS: dict[ServerError, type[Refusal]] = {
    ServerError.AuthorizationError: Forbidden,
    ServerError.IncompatibleSchema: Conflict,
    ServerError.InvalidTopicName: PreconditionFailed,
    ServerError.ProducerBusy: Conflict,
    ServerError.TopicNotFound: NotFound,
}
"""Refusals of a producer that are the request's own. What others say of the topic, each message is answered with."""


class Outgoing(NamedTuple):
    """``sequence_id`` None: the next one of the producer's."""

    message: OutgoingMessage
    sequence_id: int | None = None


class Published(NamedTuple):
    """``results`` are in the order of the messages, whose partitions they name; ``schema_version`` is NO_VERSION
    without one."""

    results: Sequence[SendResult]
    partitions: Sequence[int]
    schema_version: int


class _Receipts:
    """Of the messages of one request that go to one topic."""

    def __init__(self, count: int) -> None:
        self.results: list[SendResult] = [SendResult(None, None)] * count
        self.all_here = asyncio.get_running_loop().create_future()
        self._missing = count

    def take(self, result: SendResult) -> None:
        self.results[result.token[1]] = result
        self._missing -= 1
        if not self._missing and not self.all_here.done():
            self.all_here.set_result(None)


def _deliver(results: Sequence[SendResult]) -> None:
    for result in results:
        receipts: _Receipts = result.token[0]
        receipts.take(result)


class _Shared:
    """A producer and how many requests use it."""

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


class _Part(NamedTuple):
    """What became of the messages of one topic; ``failure`` when it could not be attached to."""

    results: Sequence[SendResult]
    schema_version: int
    failure: MagnetarError | None = None


class Publisher:
    """Of one event loop."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._budget = Budget(IN_FLIGHT_BYTES_MAX)
        self._tasks = TaskScope("publishing", lambda name, error: None)  # whoever waits is told
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
        """Messages to ``topics``, which are the partitions of one or one alone: by their keys, without a key in turn.

        W6: a message is reported stored when the broker has confirmed it. Raises what the whole request is refused
        with: a Refusal, or a ClientError when no broker could be asked; nothing was sent then. When cancelled, messages
        may be stored or not.
        """
        if self._budget.high:
            raise NotReady("too many messages wait for brokers' receipts; try again later")
        now_ms = self._client.clock.wall_ms()
        chosen = [self._choice.of(one.message, len(topics), now_ms) for one in messages]
        runs: dict[int, list[Outgoing]] = {}
        for index, one in zip(chosen, messages, strict=True):
            runs.setdefault(index, []).append(one)
        parts = await asyncio.gather(
            *(self._publish(topics[index], run, schema, name) for index, run in runs.items())
        )
        if parts and all(part.failure is not None for part in parts):
            _raise_refusal(parts[0].failure)
        rest = {index: iter(part.results) for index, part in zip(runs, parts, strict=True)}
        results = [next(rest[index]) for index in chosen]
        version = max((part.schema_version for part in parts), default=NO_VERSION)
        return Published(results, [topics[index].partition for index in chosen], version)

    async def _publish(
        self, topic: TopicName, run: Sequence[Outgoing], schema: Schema, name: str | None
    ) -> _Part:
        receipts = _Receipts(len(run))
        try:
            async with self._attached(topic, schema, name) as producer:
                version = producer.schema_version
                named = pb.MessageMetadata(schema_version=version).SerializePartialToString()
                for index, (message, _) in enumerate(run):
                    message.token = receipts, index
                    message.extra_metadata += named if version else b""
                _send(producer, run)
                await receipts.all_here
                number = version_of(version)
                return _Part(receipts.results, NO_VERSION if number is None else number)
        except MagnetarError as error:
            return _Part([SendResult(None, None, error)] * len(run), NO_VERSION, error)

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
            return self._alone(make, (str(topic), name))
        properties = frozenset(schema.properties.items())
        return self._together(make, (topic, schema.kind, schema.data, properties))

    @asynccontextmanager
    async def _together(
        self, make: Callable[[], PartitionProducer], key: tuple[object, ...]
    ) -> AsyncIterator[PartitionProducer]:
        """The producer that others opened under this key, or else one that is opened now."""
        shared = self._shared.pop(key, None)
        if shared is None or not shared.usable:
            self._make_room()
            producer = make()
            shared = _Shared(producer, self._tasks.spawn("open", producer.open()))
        self._shared[key] = shared  # behind those that were used before
        shared.users += 1
        if shared.idle is not None:
            shared.idle.cancel()
        try:
            await asyncio.shield(shared.opening)
            yield shared.producer
        finally:
            shared.users -= 1
            if not shared.users:
                loop = asyncio.get_running_loop()
                wait_s = IDLE_S if shared.usable else 0.0
                shared.idle = loop.call_later(wait_s, self._drop, key, shared)

    def _make_room(self) -> None:
        """Raises NotReady when every producer is used."""
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
    async def _alone(
        self, make: Callable[[], PartitionProducer], key: tuple[str, str]
    ) -> AsyncIterator[PartitionProducer]:
        """A producer of this topic and name for one request."""
        lock = self._named.setdefault(key, asyncio.Lock())
        try:
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
                await asyncio.shield(self._tasks.spawn("leave", producer.close()))
            finally:
                lock.release()

    async def close(self) -> None:
        """Leave all topics. What waits for receipts is not answered any more."""
        shared, self._shared = list(self._shared.values()), {}
        for each in shared:
            if each.idle is not None:
                each.idle.cancel()
        await asyncio.gather(*(each.close() for each in shared))
        await self._tasks.close()


def _send(producer: PartitionProducer, run: Sequence[Outgoing]) -> None:
    if any(one.sequence_id is not None for one in run):
        for message, sequence_id in run:
            assert sequence_id is not None, "all or none have one"
            producer.send_as(message, sequence_id)
    else:
        producer.send([one.message for one in run])


def _raise_refusal(error: MagnetarError | None) -> None:
    """Raises what refuses a whole request, for what no producer could be opened by; returns for what each message is
    answered with."""
    if not isinstance(error, RefusedError):
        assert error is not None
        raise error
    kind = _OF_REQUESTS.get(error.code)
    if kind is not None:
        raise kind(str(error) or error.code.name) from error


_publishers: dict[asyncio.AbstractEventLoop, Publisher] = {}


def publisher() -> Publisher:
    """Of the running loop; made when first asked for."""
    loop = asyncio.get_running_loop()
    found = _publishers.get(loop)
    if found is None:
        found = _publishers[loop] = Publisher(clients.client())
    return found


def failure_of(error: MagnetarError) -> tuple[int, str]:
    """Pulsar's code of a message that was not stored, as far as is known, and why: 1 when sending it again may help."""
    text = str(error) or type(error).__name__
    if isinstance(error, SendTimeoutError):
        text += ": the message may be stored"
    return (1 if error.retriable else 2), text
