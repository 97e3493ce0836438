"""A client of a cluster: connections that producers and consumers share, and asking again what failed in passing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.errors import (
    CostlyPatternError,
    LostError,
    NoAnswerError,
    NoBrokerError,
    UnreachableError,
)
from engine.client.lookup import Links
from engine.net.network import Network
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import RefusedError, ServerError

T = TypeVar("T")
Brokers = Callable[[], Awaitable[Sequence[str]]]
"""Service URLs, ``pulsar://host:port``, of the brokers that may be asked now; it may raise a MagnetarError."""

IMPATIENT_S = 1.0
"""How long a broker that is asked may be silent before another one is asked beside it."""
_SILENT: Final = (UnreachableError, LostError, NoAnswerError)
_BUSY: Final = frozenset(
    {
        ServerError.ProducerBusy,
        ServerError.ConsumerBusy,
        ServerError.ProducerBlockedQuotaExceededError,
        ServerError.ProducerBlockedQuotaExceededException,
        ServerError.TooManyRequests,
    }
)


def is_final_at_first(error: MagnetarError) -> bool:
    """Whether whoever opens something wants to hear this at once: it lasts, nobody is there, or the place is taken."""
    if isinstance(error, RefusedError) and error.code in _BUSY:
        return True
    return not error.retriable or isinstance(error, NoBrokerError)


def never_final(error: MagnetarError) -> bool:
    """Of whoever was there before and comes again, whatever it takes."""
    return False


class PulsarClient:
    """For the life of a process; ``close`` ends its connections, and with them what it was used for.

    ``operation_timeout_s`` bounds what is tried again while something is opened.
    """

    def __init__(
        self,
        *,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        brokers: Brokers,
        settings: LinkSettings | None = None,
        operation_timeout_s: float = 30.0,
    ) -> None:
        self.clock = clock
        self.entropy = entropy
        self.operation_timeout_s = operation_timeout_s
        self._links = Links(network, settings or LinkSettings(), BrokerLink)
        self._brokers = brokers
        self._asked = 0
        self._tasks = TaskScope("client")

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task of whoever uses the client, which ends with it at the latest. Raises LostError when closed."""
        if self._tasks.closed:
            work.close()
            raise LostError("the client is closed")
        return self._tasks.spawn(name, work)

    async def owner(self, topic: str) -> BrokerLink:
        """A connection to the broker that serves ``topic``, by way of any broker that answers. Cancel-safe.

        Raises RefusedError; NoBrokerError, UnreachableError, LostError or NoAnswerError when none answers.
        """
        return await self._ask_any(lambda url: self._links.owner(topic, url))

    async def partitions(self, topic: str) -> int:
        """Of a topic; 0 when it is not partitioned. Raises as ``owner``."""
        return await self._ask_any(lambda url: self._links.partitions(topic, url))

    async def schema(self, topic: str, version: bytes) -> pb.Schema:
        """A version of a topic's schema, as messages name it. Raises RefusedError, TopicNotFound when there is none,
        and as ``owner``."""

        async def ask(url: str) -> pb.Schema:
            link = await self._links.get(url)
            request_id = link.new_id()
            answer = await link.request(request_id, say.get_schema(topic, request_id, version))
            found: pb.Schema = answer.schema
            return found

        return await self._ask_any(ask)

    async def topics_matching(self, pattern: TopicName) -> list[str]:
        """Full names, without those of partitions but with every partition, of the topics in ``pattern``'s namespace
        whose local name it matches whole. Raises CostlyPatternError, and as ``owner``."""

        async def ask(url: str) -> list[str]:
            link = await self._links.get(url)
            request_id = link.new_id()
            frame = say.topics_of_namespace(
                str(pattern.namespace),
                request_id,
                mode=0 if pattern.persistent else 1,
                topics_pattern=str(pattern),
            )
            found = await link.request(request_id, frame)
            if not found.filtered:
                raise CostlyPatternError(f"the pattern is too costly to match: {pattern.local}")
            return list(found.topics)

        return await self._ask_any(ask)

    async def _ask_any(self, ask: Callable[[str], Awaitable[T]]) -> T:
        """Ask one broker after the other, each time beginning with another, until one answers."""
        urls = list(await self._brokers())
        if not urls:
            raise NoBrokerError("No broker is registered")
        self._asked += 1
        first = self._asked % len(urls)
        return await _first_answer(urls[first:] + urls[:first], ask)

    async def patiently(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_s: float | None,
        is_final: Callable[[MagnetarError], bool] = is_final_at_first,
    ) -> T:
        """What ``attempt`` returns, made again with rising pauses while what it raises is not final.

        Raises what is final at once, anything else when ``timeout_s`` (None: never) is over.
        Cancel-safe when ``attempt`` is.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        backoff = self.backoff()
        while True:
            try:
                async with asyncio.timeout_at(until):
                    return await attempt()
            except TimeoutError as error:
                raise NoAnswerError("no answer in time") from error
            except MagnetarError as error:
                if is_final(error):
                    raise
                pause = backoff.next_s(self.entropy.random())
                if self._tasks.closed or (until is not None and loop.time() + pause >= until):
                    raise
            await asyncio.sleep(pause)

    def backoff(self) -> Backoff:
        """Pauses between attempts to come again; draw from ``entropy``."""
        return Backoff(initial_s=0.1, max_s=5.0)

    async def close(self) -> None:
        """Safe to call twice."""
        await self._tasks.close()
        await self._links.close()


async def _first_answer(urls: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
    """What the first broker says, or, when it is silent for IMPATIENT_S or not there, who answers first of it and the
    others. A broker that stands still would take all the time there is. Cancel-safe when ``ask`` is."""
    if len(urls) == 1:
        return await ask(urls[0])
    loop = asyncio.get_running_loop()
    others: asyncio.Task[T] | None = None
    waits = True

    def begin() -> None:
        nonlocal others
        others = loop.create_task(_first_answer(urls[1:], ask))
        others.add_done_callback(ended)

    def ended(task: "asyncio.Task[T]") -> None:
        if task.cancelled() or not waits:
            return
        if not isinstance(task.exception(), _SILENT):
            patience.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as patience:
            timer = loop.call_later(IMPATIENT_S, begin)
            try:
                return await ask(urls[0])
            finally:
                waits = False
                timer.cancel()
    except TimeoutError:
        if others is None or not patience.expired():
            raise
        return others.result()
    except _SILENT:
        return await (others or _first_answer(urls[1:], ask))
    finally:
        if others is not None and not others.cancel() and not others.cancelled():
            others.exception()  # whatever it was, the first one answered


def partition_names(topic: str, count: int) -> list[str]:
    """Full names of the topics behind ``topic``: itself when ``count`` is 0."""
    if not count:
        return [topic]
    name = TopicName.parse(topic)
    return [str(name.partition_at(index)) for index in range(count)]
