"""The work of ``magnetar bench``."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Any

from engine.base.clock import SystemClock
from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Routing
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.client.raw_consumer import FROM_EARLIEST
from magnetar.command.connecting.admin import administered, topic_path
from magnetar.command.connecting.client import connected
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed
from magnetar.command.messages.progress import notice, progress
from magnetar.command.messages.sending import Sender
from magnetar.command.output import emit

_SENT = Struct(">d")
DRAIN_S = 5.0
QUEUE = 10_000
RUN = 500
PERCENTS = (50, 95, 99, 99.9)


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of the command. ``base``: the beginning of the topic's name; ``seconds``: of each part."""

    base: str
    seconds: float
    size: int
    rate: int
    partitions: int
    as_json: bool


class BenchTimes:
    """Times of one part, in seconds: from sending to the receipt, and to the arrival at the consumer."""

    def __init__(self) -> None:
        self.publish_s: list[float] = []
        self.arrival_s: list[float] = []
        self._now = SystemClock.monotonic_s
        self.arrived = asyncio.Event()

    def receipts(self, results: Sequence[SendResult]) -> None:
        now = self._now()
        self.publish_s += [now - result.token for result in results]

    def arrivals(self, run: Sequence[Incoming]) -> None:
        now = self._now()
        self.arrival_s += [
            now - _SENT.unpack_from(message.content)[0] for message in run if message.content
        ]
        self.arrived.set()

    def message(self, padding: bytes) -> OutgoingMessage:
        """Return a message that holds the time at which it is sent."""
        now = self._now()
        return OutgoingMessage(_SENT.pack(now) + padding, token=now)


def percentiles(times: Sequence[float]) -> dict[str, float | None]:
    """Return percentiles and the maximum in milliseconds; None for all without times."""
    ordered = sorted(times)

    def at(percent: float) -> float | None:
        if not ordered:
            return None
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1000, 3)

    return {f"p{percent:g}": at(percent) for percent in PERCENTS} | {"max": at(100)}


async def bench(address: ClusterAddress, options: BenchOptions) -> None:
    """Measure and print. Raises CommandFailed, MagnetarError. The topic is deleted whatever happens."""
    async with connected(address) as client, administered(address) as admin:
        topic = f"{options.base}-{client.entropy.hex(6)}"
        await client.answer_of_any(_ping_frame(topic))  # which fails at once when no broker answers
        tail = "/partitions" if options.partitions else ""
        await admin.call("PUT", f"{topic_path(topic)}{tail}", options.partitions or None)
        try:
            result = await _measure(client, topic, options)
        finally:
            with suppress(CommandFailed, MagnetarError):
                await admin.call("DELETE", f"{topic_path(topic)}{tail}?force=true")
    result["conditions"] = _conditions(address, topic, options)
    emit(result, options.as_json, lambda: text_of(result))


def _ping_frame(topic: str) -> Any:
    from engine.wire import client_commands as say

    return lambda link, request_id: say.partitioned_metadata(topic, request_id)


async def _measure(client: PulsarClient, topic: str, options: BenchOptions) -> dict[str, Any]:
    calm, fast = BenchTimes(), BenchTimes()
    state: dict[str, BenchTimes] = {"now": calm}
    consumer = await TopicConsumer.open(
        client,
        [topic],
        ConsumerSettings("bench", initial=FROM_EARLIEST, queue_size=QUEUE),
        on_messages=lambda run: _take(run, state["now"], consumer),
    )
    consumer.allow(QUEUE)
    try:
        notice(f"measuring latencies at {options.rate:,} messages/s for {options.seconds:g} s")
        single = ProducerSettings(routing=Routing.ROUND_ROBIN)
        calm_s = await _publish(client, topic, single, calm, options, options.rate)
        state["now"] = fast
        notice(f"publishing as fast as possible for {options.seconds:g} s")
        batched = ProducerSettings(
            routing=Routing.ROUND_ROBIN, batching=BatchSettings(delay_s=0.001)
        )
        fast_s = await _publish(client, topic, batched, fast, options, None)
    finally:
        await consumer.close()
    rate = len(fast.publish_s) / fast_s
    return {
        "latency": {
            "messages": len(calm.publish_s),
            "rate": round(len(calm.publish_s) / calm_s, 1),
            "publish_ms": percentiles(calm.publish_s),
            "end_to_end_ms": percentiles(calm.arrival_s),
        },
        "throughput": {
            "messages": len(fast.publish_s),
            "consumed": len(fast.arrival_s),
            "seconds": round(fast_s, 3),
            "messages_per_s": round(rate, 1),
            "bytes_per_s": round(rate * options.size),
        },
    }


def _take(run: Sequence[Incoming], measured: BenchTimes, consumer: TopicConsumer) -> None:
    measured.arrivals(run)
    for message in run:
        consumer.acknowledge(message)
    consumer.allow(len(run))


async def _publish(
    client: PulsarClient,
    topic: str,
    settings: ProducerSettings,
    measured: BenchTimes,
    options: BenchOptions,
    rate: int | None,
) -> float:
    """Publish for the time of a part and wait for receipts and arrivals, at most DRAIN_S. Return the seconds from the
    first message to the last receipt. Raises MagnetarError."""
    loop = asyncio.get_running_loop()
    padding = bytes(options.size - _SENT.size)
    sender = await Sender.open(client, topic, settings, measured.receipts)
    try:
        began = loop.time()
        until, number = began + options.seconds, 0
        async with progress(lambda: f"{sender.confirmed:,} messages"):
            while (now := loop.time()) < until:
                if rate:
                    number += 1
                    await sender.send([measured.message(padding)])
                    await asyncio.sleep(began + number / rate - loop.time())
                else:
                    await sender.send([measured.message(padding) for _ in range(RUN)])
                    await asyncio.sleep(0)
            async with asyncio.timeout(DRAIN_S):
                await sender.drained()
                now = loop.time()
                while len(measured.arrival_s) < sender.confirmed:
                    measured.arrived.clear()
                    await measured.arrived.wait()
    except TimeoutError:
        # Of what is not stored, a consumer that is slower than the producer receives a part.
        if sender.unknown or topic.startswith("persistent"):
            missing = sender.confirmed - len(measured.arrival_s)
            raise CommandFailed(
                f"{sender.unknown:,} receipts and {missing:,} messages did not arrive within "
                f"{DRAIN_S:g} s"
            ) from None
    finally:
        await sender.close()
    return now - began


def _conditions(address: ClusterAddress, topic: str, options: BenchOptions) -> dict[str, Any]:
    durable = topic.startswith("persistent")
    return {
        "network": "loopback: client and servers share this machine"
        if address.is_local
        else f"network to {address.url}",
        "message_bytes": options.size,
        "partitions": options.partitions,
        "durable": durable,
        "receipt": "after the ack quorum has stored the message"
        if durable
        else "none: nothing is stored",
        "clients": "one producer and one consumer in one Python process, which limits the rate",
    }


def text_of(result: dict[str, Any]) -> str:
    """Return the result as text, with its conditions."""
    latency, throughput, conditions = (
        result["latency"],
        result["throughput"],
        result["conditions"],
    )
    lines = [f"latency at {latency['rate']:,} messages/s (ms)"]
    for name, label in (
        ("publish_ms", "publish to receipt"),
        ("end_to_end_ms", "publish to consumer"),
    ):
        values = latency[name]
        shown = "  ".join(f"{key} {'?' if v is None else f'{v:.1f}'}" for key, v in values.items())
        lines.append(f"  {label:<20} {shown}")
    lines += [
        "throughput",
        f"  published {throughput['messages_per_s']:,.0f} messages/s,"
        f" {throughput['bytes_per_s'] / 1e6:,.1f} MB/s;"
        f" consumed {throughput['consumed']:,} of {throughput['messages']:,}",
        "conditions",
        f"  {conditions['network']}",
        f"  messages of {conditions['message_bytes']:,} bytes, {conditions['clients']}",
        f"  durable: {'yes' if conditions['durable'] else 'no'}; receipt {conditions['receipt']}",
    ]
    return "\n".join(lines)
