"""Links of one topic to its shadow topics: each states how far the topic's entries may be read (PIP-180).

A shadow topic reads the entries themselves from the bookies. So one SEND without a payload, with the position of the
last entry, stands for all before it, and at most one is on its way: what is published meanwhile is in the next.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import InvalidNameError, MagnetarError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.tasks import TaskScope, contained
from engine.broker.context import Context
from engine.broker.topics.ports import Log
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer
from engine.client.raw_producer import RawProducer
from engine.managed.errors import ShadowTopicError
from engine.tenancy.geo.shadow_topics import shadow_at
from engine.wire.geo.shadow_statements import shadow_link_name, statement

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 30.0
CLOSE_S = 5.0


class SourceHost(Protocol):
    """Parts of a topic that its links to shadow topics use."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    @property
    def log(self) -> Log: ...

    @property
    def transactions(self) -> TopicBuffer | None: ...


class ShadowLink:
    """States the end of a topic to one shadow topic, until ``stop``."""

    def __init__(self, host: SourceHost, shadow: TopicName) -> None:
        self.shadow = shadow
        self.error = ""
        """The reason why nothing is stated; empty while the producer is attached."""
        self._host = host
        self._scope = TaskScope(f"shadow of {host.name}")
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin to state."""
        self._scope.spawn("state", self._run())

    def wake(self) -> None:
        """Continue after entries were appended."""
        self._wake.set()

    async def stop(self) -> None:
        """End. The shadow topic keeps what was stated."""
        await self._scope.close()

    async def _run(self) -> None:
        context = self._host.context
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                await self._attach_and_state(backoff)
            except Exception as error:
                if not isinstance(error, MagnetarError):
                    log.exception("shadow link fails topic=%s", self._host.name)
                elif str(error) != self.error:
                    # A shadow topic that is missing, or not ready, is nothing that this broker could mend.
                    log.info(
                        "end is not stated to the shadow topic topic=%s shadow=%s: %s",
                        self._host.name,
                        self.shadow,
                        error,
                    )
                self.error = str(error)
            await asyncio.sleep(backoff.next_s(context.entropy.random()))

    async def _attach_and_state(self, backoff: Backoff) -> None:
        """State with one producer until it ends, also what an earlier one stated: the shadow topic's owner may be a new
        one. Raises MagnetarError with the reason."""
        context = self._host.context
        assert context.remotes is not None, "a broker without a client has no shadow topics"
        client = await context.remotes.client(context.identity.cluster)
        link = await client.owner(self.shadow.full)
        producer = await RawProducer.open(
            link,
            self.shadow.full,
            name=shadow_link_name(self._host.name, self.shadow),
            on_end=lambda error: self._wake.set(),
        )
        self.error = ""
        backoff.reset()
        try:
            stated, sequence = Position(-1, -1), 0
            while producer.error is None:
                self._wake.clear()
                if self._host.transactions is not None:
                    # The shadow topic does not know which of them are aborted.
                    raise ShadowTopicError("A topic with transactions has no shadow topics")
                last = self._host.log.last_readable
                if last == stated or last.entry_id < 0:
                    await self._wake.wait()
                    continue
                size = self._ledger_bytes(last)
                entry = statement(producer.name, last, size, context.clock.wall_ms())
                producer.send_position(sequence, entry, last)
                await producer.drained()
                stated, sequence = last, sequence + 1
            raise producer.error
        finally:
            if not producer.link.closing:
                with suppress(MagnetarError, TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await producer.close()

    def _ledger_bytes(self, last: Position) -> int:
        """Return the bytes of the entries of a ledger up to ``last``."""
        managed = self._host.log
        return managed.bytes_behind(Position(last.ledger_id, -1)) - managed.bytes_behind(last)


class ShadowLinks:
    """The links of one topic, by shadow topic, as its policies name them."""

    __slots__ = ("_host", "links")

    def __init__(self, host: SourceHost) -> None:
        self.links: dict[TopicName, ShadowLink] = {}
        self._host = host

    def apply(self, shadows: Iterable[str], scope: TaskScope) -> None:
        """Link the topic, a partition to the partition of the same number, to these shadow topics and no others."""
        wanted: set[TopicName] = set()
        for shadow in shadows:
            try:
                wanted.add(shadow_at(shadow, self._host.name.partition))
            except InvalidNameError as error:
                log.warning("policy of another program topic=%s: %s", self._host.name, error)
        for name in wanted - self.links.keys():
            self.links[name] = ShadowLink(self._host, name)
            self.links[name].start()
        for name in self.links.keys() - wanted:
            scope.spawn("end of a shadow link", self.links.pop(name).stop())

    def wake(self) -> None:
        """Continue after entries were appended."""
        for link in self.links.values():
            link.wake()

    async def close(self) -> None:
        """Stop all links, with the topic."""
        for link in self.links.values():
            with contained(f"end of the link to {link.shadow}"):
                await link.stop()
