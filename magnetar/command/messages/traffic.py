"""The work of ``magnetar demo``: producers and consumers of example topics, until a time or Ctrl-C."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import click

from engine.base.clock import SystemClock
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.errors import RefusedError, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Routing
from engine.client.producing.partition_producer import ProducerSettings
from engine.client.raw_consumer import FROM_EARLIEST, KEY_SHARED, SHARED
from engine.wire import pulsar_pb2 as pb
from gateway.standalone import demo as examples
from magnetar.command.connecting.admin import Admin, administered, refusal
from magnetar.command.connecting.client import connected
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.messages.progress import notice, progress
from magnetar.command.messages.sending import Sender
from magnetar.command.messages.shown import json_line

TICK_S = 0.1
REFUSED_EVERY = 20
"""A payment of so many is refused until it is a dead letter."""
REDELIVERIES = 3
SLOW_SHARE = 0.3
"""Part of the messages that the slow subscription handles."""
STUCK_MAX = 500
"""Messages that the stuck consumer holds without an acknowledgement."""
ALLOWED = 1000
ALREADY = 409
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "celsius", "type": "double"},
        {"name": "at", "type": "long"},
    ],
}
READING_SCHEMA = pb.Schema(name="Reading", schema_data=json.dumps(READING).encode(), type="Json")


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command. ``rate``: messages a second; ``seconds`` 0: until Ctrl-C."""

    rate: float
    seconds: float
    as_json: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """The traffic of one topic: its part of the rate, and its messages by number."""

    topic: str
    share: float
    body: Callable[[int], tuple[str, dict[str, Any]]]
    partitions: int = 0
    schema: pb.Schema | None = None


def _reading(number: int) -> tuple[str, dict[str, Any]]:
    sensor = f"sensor-{number * 7 % 12:02d}"
    celsius = 18 + (number % 97) / 10 - (number % 13) / 5
    return sensor, {"sensor": sensor, "celsius": round(celsius, 1), "at": number}


_BODIES = {topic.name: topic for topic in examples.TOPICS}
FLOWS = (
    Flow("orders", 0.4, _BODIES["orders"].body, partitions=_BODIES["orders"].partitions),
    Flow("payments", 0.2, _BODIES["payments"].body),
    Flow("clicks", 0.3, _BODIES["clicks"].body),
    Flow("readings", 0.1, _reading, schema=READING_SCHEMA),
)


class TrafficCounts:
    """Numbers of the run, for its report."""

    def __init__(self) -> None:
        self.published = self.consumed = self.refused = 0

    def text(self) -> str:
        return f"{self.published:,} published, {self.consumed:,} consumed, {self.refused:,} refused"


async def demo(address: ClusterAddress, options: DemoOptions) -> None:
    """Run the traffic. Raises CommandFailed, MagnetarError. Ctrl-C ends it as its time does."""
    counts = TrafficCounts()
    # A dead letter that is under way at the end is redelivered by the next run: no reason to warn.
    logging.getLogger("engine.client").setLevel(logging.ERROR)
    async with connected(address) as client, AsyncExitStack() as stack:
        async with administered(address) as admin:
            await _prepare(admin)
        consumers = await _consumers(client, options, counts)
        for consumer in consumers:
            stack.push_async_callback(consumer.close)
        notice(f"traffic in {examples.NAMESPACE}: {options.rate:g} messages/s; Ctrl-C ends")
        try:
            async with asyncio.timeout(options.seconds or None), progress(counts.text):
                await _publish_all(client, options, counts)
        except TimeoutError:
            pass
        finally:
            row = {
                "published": counts.published,
                "consumed": counts.consumed,
                "refused": counts.refused,
            }
            click.echo(json_line(row) if options.as_json else counts.text())


async def check_reachable(address: ClusterAddress) -> None:
    """Raise the error of a broker or a REST interface that does not answer, or refuses the credentials."""
    async with connected(address) as client:
        try:
            await client.partitions(_full("orders"))
        except RefusedError as error:
            # Before the first demo its namespace does not exist.
            if error.code != ServerError.TopicNotFound:
                raise
    async with administered(address) as admin:
        await admin.call("GET", "/admin/v2/brokers/version")


async def _prepare(admin: Admin) -> None:
    """Create namespace and topics, which may exist. Raises CommandFailed."""
    namespace = f"/admin/v2/namespaces/{examples.NAMESPACE}"
    await _create(admin, namespace)
    await admin.call("POST", f"{namespace}/retention", examples.RETENTION)
    for flow in FLOWS:
        path = f"/admin/v2/persistent/{examples.NAMESPACE}/{flow.topic}"
        if flow.partitions:
            await _create(admin, f"{path}/partitions", flow.partitions)
        else:
            await _create(admin, path)


async def _create(admin: Admin, path: str, body: Any = None) -> None:
    status, data = await admin.answer("PUT", path, body)
    if status >= 300 and status != ALREADY:
        raise refusal(status, data)


async def _consumers(
    client: PulsarClient, options: DemoOptions, counts: TrafficCounts
) -> list[TopicConsumer]:
    """Open the consumers. Raises MagnetarError."""
    opened: list[TopicConsumer] = []

    async def attach(
        topic: str,
        subscription: str,
        kind: int,
        handle: Callable[[TopicConsumer, Incoming], None],
        **more: Any,
    ) -> TopicConsumer:
        settings = ConsumerSettings(subscription, kind, initial=FROM_EARLIEST, **more)

        def take(run: Sequence[Incoming]) -> None:
            for message in run:
                handle(consumer, message)

        consumer = await TopicConsumer.open(client, [_full(topic)], settings, on_messages=take)
        opened.append(consumer)
        return consumer

    def keep_up(consumer: TopicConsumer, message: Incoming) -> None:
        consumer.acknowledge(message)
        counts.consumed += 1
        consumer.allow(1)

    def check(consumer: TopicConsumer, message: Incoming) -> None:
        if _is_refused(message):
            consumer.refuse(message)
            counts.refused += 1
        else:
            consumer.acknowledge(message)
            counts.consumed += 1
        consumer.allow(1)

    def archive(consumer: TopicConsumer, message: Incoming) -> None:
        consumer.acknowledge(message)
        counts.consumed += 1
        pause_s = 1 / (SLOW_SHARE * options.rate)
        asyncio.get_running_loop().call_later(pause_s, consumer.allow, 1)

    def ignore(consumer: TopicConsumer, message: Incoming) -> None:
        """Keep the message unacknowledged, as a consumer with a deadlock does."""

    try:
        for name in ("billing", "shipping"):
            (await attach("orders", name, KEY_SHARED, keep_up)).allow(ALLOWED)
        dead_letters = f"persistent://{examples.NAMESPACE}/payments-fraud-check-DLQ"
        fraud_check = await attach(
            "payments", "fraud-check", SHARED, check,
            nack_delay_s=1.0, redeliveries_max=REDELIVERIES, dead_letters=dead_letters,
        )  # fmt: skip
        fraud_check.allow(ALLOWED)
        (await attach("clicks", "archive", SHARED, archive)).allow(1)
        (await attach("clicks", "stuck", SHARED, ignore)).allow(STUCK_MAX)
        (await attach("readings", "dashboard", SHARED, keep_up)).allow(ALLOWED)
    except BaseException:
        for consumer in opened:
            await consumer.close()
        raise
    return opened


def _is_refused(message: Incoming) -> bool:
    try:
        number = json.loads(message.content or b"{}")["payment"]
        return bool(number % REFUSED_EVERY == 0)
    except (ValueError, KeyError, TypeError):
        return False


async def _publish_all(client: PulsarClient, options: DemoOptions, counts: TrafficCounts) -> None:
    async with AsyncExitStack() as stack:
        senders: list[tuple[Flow, Sender]] = []
        for flow in FLOWS:
            settings = ProducerSettings(schema=flow.schema, routing=Routing.ROUND_ROBIN)

            def count(results: Sequence[Any]) -> None:
                counts.published += len(results)

            sender = await Sender.open(client, _full(flow.topic), settings, count)
            stack.push_async_callback(sender.close)
            stack.push_async_callback(sender.settled, 2.0)
            senders.append((flow, sender))
        loop, clock = asyncio.get_running_loop(), SystemClock()
        began = loop.time()
        # Numbers continue those of earlier runs: no run reaches one message a millisecond and topic for long.
        numbers = {flow.topic: clock.wall_ms() for flow in FLOWS}
        due = dict.fromkeys(numbers, 0)
        while True:
            elapsed = loop.time() - began
            for flow, sender in senders:
                target = int(elapsed * options.rate * flow.share)
                messages = []
                while due[flow.topic] < target:
                    due[flow.topic] += 1
                    numbers[flow.topic] += 1
                    messages.append(_message(flow, numbers[flow.topic], sender))
                if messages:
                    await sender.send(messages)
                elif sender.error is not None:
                    raise sender.error
            await asyncio.sleep(TICK_S)


def _message(flow: Flow, number: int, sender: Any) -> OutgoingMessage:
    key, body = flow.body(number)
    version = sender.producer.schema_version
    return OutgoingMessage(
        json.dumps(body).encode(),
        key=key,
        properties={"source": "demo"},
        extra_metadata=pb.MessageMetadata(schema_version=version).SerializePartialToString()
        if version
        else b"",
    )


def _full(topic: str) -> str:
    return f"persistent://{examples.NAMESPACE}/{topic}"
