"""Brokers of an instance that stop, one after the other, or die, while clients publish to their topics."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.base.budget import Budget
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.net.network import LoopNetwork
from tests.crash.load import Load
from tests.support.instance import Instance

DRAIN_S = 60.0


class RollingRestart(NamedTuple):
    """Observations of its clients. ``longest_gap_s``: longest time without a receipt, of any topic."""

    confirmed: int
    again: int
    """Messages that were delivered more than once."""
    longest_gap_s: float
    problems: list[str]
    """Lost and reordered messages, and errors that a client reported."""


def broker_names(instance: Instance) -> list[str]:
    return [f"broker-{number + 1}" for number in range(instance.brokers)]


def service_url(instance: Instance) -> str:
    """Return the URL that names all brokers."""
    ports = [instance.child(name)["ports"]["pulsar"] for name in broker_names(instance)]
    return "pulsar://" + ",".join(f"127.0.0.1:{port}" for port in ports)


def rolling_restart(
    instance: Instance, topics: int, rate: float, *, settle_s: float = 1.0
) -> RollingRestart:
    """Stop and start each broker in turn while ``topics`` topics get ``rate`` messages a second each."""
    url = service_url(instance)
    loads = [
        Load(
            url,
            f"persistent://public/default/rolling-{number}",
            rate_max=rate,
            per_pause=1,
        )
        for number in range(topics)
    ]
    try:
        for load in loads:
            load.wait_confirmed(20, DRAIN_S)
            load.longest_gap_s = 0.0  # the first receipts come after the topic was made
        for name in broker_names(instance):
            instance.control("stop", name)
            time.sleep(settle_s)
            instance.control("start", name)
            time.sleep(settle_s)
        for load in loads:
            load.wait_confirmed(20, DRAIN_S)
    finally:
        problems, again = _ended(loads)
    return RollingRestart(
        sum(len(load.confirmed) for load in loads),
        again,
        max(load.longest_gap_s for load in loads),
        problems,
    )


def _ended(loads: Sequence[Load]) -> tuple[list[str], int]:
    """End all loads; return their problems, and the number of repeated deliveries."""
    problems: list[str] = []
    again = 0
    try:
        for load in loads:
            load.stop_sending()
        for number, load in enumerate(loads):
            if missing := load.drain(DRAIN_S):
                problems.append(f"topic {number} lost {len(missing)} messages")
            if load.failed:
                problems.append(f"topic {number} reported {load.failed[:3]}")
            if not load.in_order():
                problems.append(f"topic {number} was reordered")
            again += len(load.received) - len(set(load.received))
    finally:
        for load in loads:
            load.close()
    return problems, again


class Crowd:
    """Producers of many topics, by the engine's own client, which reattach whatever happens."""

    def __init__(self, instance: Instance, topics: Sequence[str]) -> None:
        self._topics = topics
        urls = [
            f"pulsar://127.0.0.1:{instance.child(name)['ports']['pulsar']}"
            for name in broker_names(instance)
        ]

        async def brokers() -> Sequence[str]:
            return urls

        self._client = PulsarClient(
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            brokers=brokers,
            settings=LinkSettings(connect_timeout_s=2.0, request_timeout_s=5.0),
            operation_timeout_s=120.0,
        )
        self._results: list[SendResult] = []
        self._producers: list[PartitionProducer] = []
        self._sent = 0

    async def open(self, at_once: int = 50) -> None:
        """Attach a producer to every topic."""
        settings, gate = ProducerSettings(send_timeout_s=0), asyncio.Semaphore(at_once)
        budget = Budget(1 << 30)
        self._producers = [
            PartitionProducer(self._client, topic, settings, budget, self._results.extend)
            for topic in self._topics
        ]

        async def open_one(producer: PartitionProducer) -> None:
            async with gate:
                await producer.open()

        await asyncio.gather(*map(open_one, self._producers))

    async def publish(self, timeout_s: float) -> float:
        """Publish to every topic; return the seconds until all receipts are there. Raises TimeoutError with their
        number."""
        began = time.monotonic()
        self._sent += len(self._producers)
        for producer in self._producers:
            producer.send([OutgoingMessage(b"x", None)])
        while len(self._results) < self._sent:
            if time.monotonic() - began > timeout_s:
                missing = self._sent - len(self._results)
                raise TimeoutError(f"{missing} of {len(self._producers)} topics are not served")
            await asyncio.sleep(0.01)
        assert not [result.error for result in self._results if result.error]
        return time.monotonic() - began

    async def close(self) -> None:
        await self._client.close()


def kill_for_good(instance: Instance, name: str) -> None:
    """Kill a child as a crash would; it stays down until it is started."""
    pid = instance.child(name)["pid"]
    os.kill(pid, signal.SIGSTOP)  # so that the supervisor's SIGTERM does not end it in order
    stopping = threading.Thread(target=instance.control, args=("stop", name))
    stopping.start()
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    stopping.join()


async def served_again(instance: Instance, topics: int, timeout_s: float) -> float:
    """Kill the broker that serves ``topics`` topics; return the seconds until all are served by the others."""
    namespace, broker = "public/crowd", "broker-1"
    status, _ = instance.rest(
        "PUT", f"/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": 4}}
    )
    assert status in (204, 409)
    crowd = Crowd(instance, [f"persistent://{namespace}/t{number}" for number in range(topics)])
    try:
        await crowd.open()
        await crowd.publish(timeout_s)
        await asyncio.to_thread(gather, instance, namespace, broker)
        await crowd.publish(timeout_s)
        await asyncio.to_thread(kill_for_good, instance, broker)
        return await crowd.publish(timeout_s)
    finally:
        await crowd.close()
        await asyncio.to_thread(instance.control, "start", broker)


def gather(instance: Instance, namespace: str, broker: str) -> None:
    """Move all bundles of a namespace to one broker."""
    destination = f"127.0.0.1:{instance.child(broker)['ports']['http']}"
    status, bundles = instance.rest("GET", f"/admin/v2/namespaces/{namespace}/bundles")
    assert status == 200, bundles
    edges = bundles["boundaries"]
    for low, high in pairwise(edges):
        path = (
            f"/admin/v2/namespaces/{namespace}/{low}_{high}/unload?destinationBroker={destination}"
        )
        status, answer = instance.rest("PUT", path, timeout_s=60.0)
        assert status == 204, answer
