"""An effectively-once instance that loses its input partition again and again processes all of it in the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.names import TopicName
from engine.broker.dispatch.choose.active import choose_active
from engine.broker.errors import TopicNotFound
from engine.broker.policies import DeduplicationPolicies, TopicPolicies
from engine.client.client import PulsarClient
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, RawConsumer
from engine.functions.instance.feed import FeedConsumer
from engine.functions.instance.figures import InstanceFigures
from engine.functions.instance.instance import FunctionInstance
from engine.functions.instance.instance_plan import (
    InputPlan,
    InstancePlan,
    OutputPlan,
    ProcessingGuarantee,
)
from tests.support.broker_bench import NAME, Bench, Everything
from tests.support.waiting import until
from tests.unit.client.consuming.client_bench import client_of

MESSAGES = 300
QUEUED = 50
"""Messages that the instance may hold: it processes none any more once it has lost the room of so many."""
LOSSES = 3
CODE = "import time\n\ndef process(x):\n    time.sleep(0.002)\n    return x\n"
OUT = "persistent://public/default/lost-out"


@pytest.fixture
async def bench() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of() as made:
        yield made


async def backlog(broker: Bench) -> int:
    """Return how many messages are not acknowledged, wherever the topic is loaded now."""
    topic = await broker.registry.get(NAME, create=False)
    return topic.subscriptions["s"].cursor.backlog_entries()


class LosingInstance:
    """An instance, and the ways in which it loses its partition."""

    def __init__(self, broker: Bench, client: PulsarClient, folder: Path, output: str) -> None:
        module = f"lost_partitions_{folder.name.replace('-', '_')}"
        (folder / f"{module}.py").write_text(CODE)
        plan = InstancePlan(
            "public",
            "default",
            "lost",
            module,
            code=[str(folder)],
            folder=str(folder),
            guarantee=ProcessingGuarantee.EFFECTIVELY_ONCE,
            inputs=[InputPlan(NAME.full, queue_size=QUEUED)],
            subscription="s",
            from_earliest=True,
            output=OutputPlan(output),
        )
        self.ends: list[BaseException] = []
        self._broker = broker
        self._client = client
        figures = InstanceFigures(plan.labels)
        self.instance = FunctionInstance(plan, client, SystemClock(), figures, self.ends.append)

    @property
    def consumer(self) -> FeedConsumer:
        return self.instance._feeds[0].consumer

    async def lose_by_unload(self) -> None:
        """Have the broker close the consumer."""
        await self._broker.registry.unload(NAME)

    async def lose_by_link(self) -> None:
        """End the connection."""
        for link in self._client._links._open.values():
            link.abort()

    async def lose_to_another(self) -> None:
        """Have another consumer be the active one for a moment, of which nothing is acknowledged."""
        own = self.consumer.settings.name

        def active(name: str) -> bool:
            names = sorted([own, name])
            chosen = choose_active([(0, member) for member in names], -1, NAME.full)
            return chosen == names.index(name)

        name = next(name for name in map(str, count()) if active(name))
        received: list[int] = []
        other = await RawConsumer.open(
            await self._client.owner(NAME.full),
            NAME.full,
            "s",
            FAILOVER,
            name=name,
            initial=FROM_EARLIEST,
            on_messages=lambda messages: received.append(len(messages)),
        )
        other.flow(10)

        async def active_now() -> bool:
            return bool(received) or not await backlog(self._broker)

        await until(active_now, "the other consumer")
        await other.close()

    async def lose_twice(self) -> None:
        """Lose it again before the producers of the results are open."""
        await self.lose_by_unload()
        await until(lambda: self.consumer.attachments[0].raw is not None, "the consumer")
        await self.lose_by_link()


LOST_BY: dict[str, Callable[[LosingInstance], Awaitable[None]]] = {
    "unload": LosingInstance.lose_by_unload,
    "link": LosingInstance.lose_by_link,
    "another": LosingInstance.lose_to_another,
    "twice": LosingInstance.lose_twice,
}


class NoState(Everything):
    """Namespaces without the topic of a function's state."""

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        if not allow_create:
            raise TopicNotFound(f"{topic} does not exist")
        return 0


@pytest.mark.parametrize("has_state", [False, True], ids=["no-state", "state"])
@pytest.mark.parametrize("output", ["", OUT], ids=["no-output", "output"])
@pytest.mark.parametrize("lost_by", list(LOST_BY))
async def test_a_lost_partition_takes_no_room_in_the_queue(
    bench: tuple[Bench, PulsarClient], tmp_path: Path, lost_by: str, output: str, has_state: bool
) -> None:
    broker, client = bench
    if not has_state:
        broker.everything.__class__ = NoState
    broker.everything.in_force = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
    await broker.publish(MESSAGES)
    losing = LosingInstance(broker, client, tmp_path, output)

    async def left(most: int, behind: str) -> None:
        async def reached() -> bool:
            return await backlog(broker) <= most

        await until(reached, f"results behind {behind}", bound_s=30)

    await losing.instance.start()
    try:
        for number in range(1, LOSSES + 1):
            await left(MESSAGES - number * MESSAGES // (LOSSES * 2), f"{number - 1} losses")
            await LOST_BY[lost_by](losing)
        await left(0, "all losses")
        await until(lambda: losing.consumer.allowed == QUEUED, lambda: f"{losing.consumer.allowed}")
        assert losing.ends == []
    finally:
        await losing.instance.stop(10)
