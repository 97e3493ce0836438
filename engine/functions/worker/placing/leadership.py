"""The place in the coordination topic: the active consumer of its Failover subscription leads.

Brokers choose it as for Apache's workers, so both kinds can share a cluster. It alone fences nothing: a leader writes
by exclusive producers.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, restarting
from engine.client.broker_link import Body
from engine.client.client import PulsarClient
from engine.client.raw_consumer import FAILOVER, RawConsumer
from engine.wire.states import CommandType

log = logging.getLogger(__name__)

PARTICIPANTS = "participants"
OWN_WORKER = "magnetar"
"""Key in the metadata of a consumer that is a worker of ours, which is registered in the metadata store."""
RETRY_S_MAX = 5.0
CHECK_S = 0.5
"""Seconds between checks whether the candidate may stand."""


class Leadership:
    """One candidate; ``label`` names its consumer. ``on_change`` is called whenever ``active`` changes.

    It stands while ``eligible()``: one that has lost its session with the metadata store would keep the place and could
    not lead. ``start`` must be called inside the running loop.
    """

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        label: str,
        on_change: Callable[[], None],
        eligible: Callable[[], bool],
    ) -> None:
        self._client = client
        self._topic = topic
        self._label = label
        self._on_change = on_change
        self._eligible = eligible
        self._consumer: RawConsumer | None = None
        self._ended = asyncio.Event()
        self._tasks = TaskScope("leadership")
        self.active = False
        """True while the broker names this worker as the leader."""

    def start(self) -> None:
        self._tasks.spawn("stand", restarting("the election of the leader", self._stand))

    async def close(self) -> None:
        """Leave the place to another worker at once."""
        await self._tasks.close()
        consumer, self._consumer = self._consumer, None
        self._set(False)
        if consumer is not None and consumer.error is None:
            with suppress(MagnetarError):
                await consumer.close()

    async def _stand(self) -> None:
        backoff = Backoff(max_s=RETRY_S_MAX)
        while True:
            if not self._eligible():
                await asyncio.sleep(CHECK_S)
                continue
            self._ended.clear()
            try:
                link = await self._client.owner(self._topic)
                self._consumer = await RawConsumer.open(
                    link,
                    self._topic,
                    PARTICIPANTS,
                    FAILOVER,
                    name=self._label,
                    metadata={"id": self._label, OWN_WORKER: "true"},
                    on_messages=lambda messages: None,
                    on_event=self._on_event,
                    on_end=lambda error: self._lost(),
                )
                backoff.reset()
                while not self._ended.is_set():
                    if not self._eligible():
                        self._consumer.leave()
                        break
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CHECK_S):
                            await self._ended.wait()
            except MagnetarError as error:
                log.info("not a candidate now: %s", error)
            self._set(False)
            await asyncio.sleep(backoff.next_s(self._client.entropy.random()))

    def _on_event(self, kind: int, body: Body) -> None:
        if kind == CommandType.ACTIVE_CONSUMER_CHANGE:
            self._set(bool(body.is_active))

    def _lost(self) -> None:
        self._set(False)
        self._ended.set()

    def _set(self, active: bool) -> None:
        if self.active != active:
            self.active = active
            self._on_change()
