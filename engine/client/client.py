"""A client of a cluster: shared connections of producers and consumers, and retries of transient failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeVar

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
    SentAwayError,
    UnreachableError,
)
from engine.client.lookup import Links
from engine.net.network import Network
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import RefusedError, ServerError

log = logging.getLogger(__name__)

T = TypeVar("T")
Brokers = Callable[[], Awaitable[Sequence[str]]]
"""Returns service URLs, ``pulsar://host:port``, of the available brokers; may raise a MagnetarError."""

IMPATIENT_S = 1.0
"""Seconds of a broker's silence after which another broker is queried in parallel."""
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


class Reassigned(NamedTuple):
    """The end of a producer or consumer by its broker, and the connection on which that arrived."""

    link: BrokerLink
    sent_away: SentAwayError


def reassigned_by(error: MagnetarError, link: BrokerLink) -> Reassigned | None:
    """Return how the client was sent away; None when its producer or consumer ended for another reason."""
    return Reassigned(link, error) if isinstance(error, SentAwayError) else None


def is_final_at_first(error: MagnetarError) -> bool:
    """Return whether an error ends an opening at once: it is permanent, no broker is known, or the place is taken."""
    if isinstance(error, RefusedError) and error.code in _BUSY:
        return True
    return not error.retriable or isinstance(error, NoBrokerError)


def never_final(error: MagnetarError) -> bool:
    """Return False: a producer or consumer that was attached before retries whatever the error."""
    return False


class PulsarClient:
    """A client for the lifetime of a process. ``close`` ends its connections and all producers and consumers on them.

    ``operation_timeout_s`` bounds the retries while something is opened.
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
        self._queries = 0
        self._tasks = TaskScope("client")

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the client at the latest. Raises LostError when the client is closed."""
        if self._tasks.closed:
            work.close()
            raise LostError("the client is closed")
        return self._tasks.spawn(name, work)

    async def owner(self, topic: str, moved: Reassigned | None = None) -> BrokerLink:
        """Return a connection to the broker that serves ``topic``, looked up at any broker that answers. Cancel-safe.

        ``moved``: how the previous broker sent the client away. The broker that it named is taken without a lookup when
        it can be reached.

        Raises RefusedError; NoBrokerError, UnreachableError, LostError or NoAnswerError when no broker answers.
        """
        if moved is not None and (moved.sent_away.url or moved.sent_away.url_tls):
            try:
                async with asyncio.timeout(IMPATIENT_S):
                    return await self._links.assigned(*moved)
            except (MagnetarError, ValueError, TimeoutError) as error:
                log.debug("%s is looked up: %s", topic, error)
        return await self._ask_any(lambda url: self._links.owner(topic, url))

    async def owner_url(self, topic: str) -> str:
        """Return the service URL of the broker that serves ``topic``. Raises as ``owner``."""
        url, _ = await self._ask_any(lambda at: self._links.place(topic, at))
        return url

    async def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0 when it is not partitioned. Raises as ``owner``."""
        return await self._ask_any(lambda url: self._links.partitions(topic, url))

    async def schema(self, topic: str, version: bytes) -> pb.Schema:
        """Return a version of a topic's schema, as messages name it.

        Raises RefusedError, TopicNotFound when there is none, and as ``owner``.
        """

        async def ask(url: str) -> pb.Schema:
            link = await self._links.get(url)
            request_id = link.new_id()
            answer = await link.request(request_id, say.get_schema(topic, request_id, version))
            schema: pb.Schema = answer.schema
            return schema

        return await self._ask_any(ask)

    async def answer_of_any(self, frame: Callable[[BrokerLink, int], bytes]) -> Any:
        """Return the body of any broker's answer to a request, whose frame ``frame`` makes of the connection and the
        request's id. It must be safe to repeat. Raises what ``frame`` raises, and as ``owner``."""

        async def ask(url: str) -> Any:
            link = await self._links.get(url)
            request_id = link.new_id()
            return await link.request(request_id, frame(link, request_id))

        return await self._ask_any(ask)

    async def topics_matching(self, pattern: TopicName) -> list[str]:
        """Return full names of the topics in ``pattern``'s namespace whose whole local name it matches.

        Partitions are listed instead of their partitioned topics. Raises CostlyPatternError, and as ``owner``.
        """

        async def ask(url: str) -> list[str]:
            link = await self._links.get(url)
            request_id = link.new_id()
            frame = say.topics_of_namespace(
                str(pattern.namespace),
                request_id,
                mode=0 if pattern.persistent else 1,
                topics_pattern=str(pattern),
            )
            answer = await link.request(request_id, frame)
            if not answer.filtered:
                raise CostlyPatternError(f"the pattern is too costly to match: {pattern.local}")
            return list(answer.topics)

        return await self._ask_any(ask)

    async def _ask_any(self, ask: Callable[[str], Awaitable[T]]) -> T:
        """Return the first broker's answer; each call begins with another broker."""
        urls = list(await self._brokers())
        if not urls:
            raise NoBrokerError("No broker is registered")
        self._queries += 1
        first = self._queries % len(urls)
        return await _first_answer(urls[first:] + urls[:first], ask)

    async def patiently(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_s: float | None,
        is_final: Callable[[MagnetarError], bool] = is_final_at_first,
    ) -> T:
        """Return the result of ``attempt``, repeated with rising pauses while its errors are not final.

        Raises a final error at once, any other when ``timeout_s`` (None: never) is over. Cancel-safe when ``attempt``
        is.
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
        """Return the pauses between attempts to reconnect; draw from ``entropy``."""
        return Backoff(initial_s=0.1, max_s=5.0)

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        await self._tasks.close()
        await self._links.close()


async def _first_answer(urls: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
    """Return the answer of the first broker; after IMPATIENT_S of silence or a lost connection, of whichever broker
    answers first.

    A broker that hangs would otherwise use up all the time. Cancel-safe when ``ask`` is.
    """
    if len(urls) == 1:
        return await ask(urls[0])
    loop = asyncio.get_running_loop()
    others: asyncio.Task[T] | None = None
    waiting = True

    def begin() -> None:
        nonlocal others
        others = loop.create_task(_first_answer(urls[1:], ask))
        others.add_done_callback(ended)

    def ended(task: "asyncio.Task[T]") -> None:
        if task.cancelled() or not waiting:
            return
        if not isinstance(task.exception(), _SILENT):
            patience.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as patience:
            timer = loop.call_later(IMPATIENT_S, begin)
            try:
                return await ask(urls[0])
            finally:
                waiting = False
                timer.cancel()
    except TimeoutError:
        if others is None or not patience.expired():
            raise
        return others.result()
    except _SILENT:
        return await (others or _first_answer(urls[1:], ask))
    finally:
        if others is not None and not others.cancel() and not others.cancelled():
            others.exception()  # marks it as retrieved: the first broker's answer counts


def partition_names(topic: str, count: int) -> list[str]:
    """Return the full names of the topics behind ``topic``: itself when ``count`` is 0."""
    if not count:
        return [topic]
    name = TopicName.parse(topic)
    return [str(name.partition_at(index)) for index in range(count)]
