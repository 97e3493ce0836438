"""One instance of a source or sink: its connector's runs of records from and to topics."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.tasks import contained
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import PartitionProducer, SendResult
from engine.functions.connectors.catalogue import sink_end, source_end
from engine.functions.connectors.connector_settings import checked, with_secrets
from engine.functions.connectors.spi import LostEndError, Record, Sink, Source
from engine.functions.instance.failed_messages import dead_letter
from engine.functions.instance.feed import (
    InputFeed,
    acknowledged,
    by_attachment,
    consumer_settings,
    queue_size,
)
from engine.functions.instance.figures import InstanceFigures
from engine.functions.instance.instance import COMPRESSIONS, InstanceEnded
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee
from engine.functions.instance.lanes import sequence_of
from engine.functions.instance.result_publishing import SETTINGS, InstancePublisher, not_busy
from engine.functions.instance.state.function_registers import FunctionRegisters
from engine.functions.instance.user.bridge import Bridge
from engine.functions.instance.user.secret_providers import SecretsProvider, provider_of
from engine.functions.instance.user.user_code import code_first, load
from engine.functions.instance.user.value_codecs import codec_of, input_codec, output_codec

COMMIT_EVERY_S = 1.0
ATTEMPTS_KEPT = 10_000
"""Failed messages whose attempts are counted here, because the broker does not count those of an ordered input."""


class ConnectorPlace:
    """The instance as its connector sees it (ConnectorContext)."""

    def __init__(
        self,
        plan: InstancePlan,
        clock: Clock,
        figures: InstanceFigures,
        state: FunctionRegisters,
        secrets: SecretsProvider,
    ) -> None:
        self.tenant, self.namespace, self.name = plan.tenant, plan.namespace, plan.name
        self.instance, self.instances = plan.instance, plan.parallelism
        self.guarantee = (
            "ATLEAST_ONCE" if plan.guarantee is ProcessingGuarantee.MANUAL else plan.guarantee.value
        )
        self.input_topics = [spec.topic for spec in plan.inputs]
        self.output_topic = plan.output.topic
        self.log = logging.getLogger(plan.name)
        self.clock = clock
        self._component = plan.component
        self._secrets = plan.secrets
        self._provider = secrets
        self._figures = figures
        self._state = state

    def secret(self, name: str) -> str | None:
        if name not in self._secrets:
            return None
        value = self._provider.provide_secret(name, self._secrets[name])
        return None if value is None else str(value)

    async def get_state(self, key: str) -> bytes | None:
        entry = await self._state.read(key)
        return None if entry is None else entry["value"]

    async def put_state(self, key: str, value: bytes) -> None:
        await self._state.write(key, value, None)

    def record_metric(self, name: str, value: float) -> None:
        self._figures.user_metric(name, value)

    def trouble(self, text: str) -> None:
        self.log.error("%s", text)
        self._figures.trouble(self._component, text, self.clock.wall_ms())


class ConnectorInstance:
    """One instance of a source or sink, as ``FunctionInstance`` is one of a function."""

    def __init__(
        self,
        plan: InstancePlan,
        client: PulsarClient,
        clock: Clock,
        figures: InstanceFigures,
        on_end: Callable[[BaseException], None],
    ) -> None:
        self.plan = plan
        self.figures = figures
        self.running = False
        self._client = client
        self._clock = clock
        self._on_end = on_end
        self._ended = False
        self._state = FunctionRegisters(plan, client, asyncio.get_running_loop(), Bridge(self._end))
        self._connector: Source | Sink | None = None
        self._work: asyncio.Task[None] | None = None
        self._publisher = InstancePublisher(client, self._stored, self._room)
        self._has_room = asyncio.Event()
        self._codec = codec_of("", "", {})
        self._feeds: list[InputFeed] = []
        self._runs: asyncio.Queue[tuple[InputFeed, Sequence[Incoming]]] = asyncio.Queue()
        self._lanes: dict[str, PartitionProducer] = {}
        self._attempts: dict[tuple[str, int, int, int], int] = {}
        self._stopping = False
        self._at_most_once = plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE

    async def start(self) -> None:
        """Open the connector and begin. Raises what the connector raises, and MagnetarError."""
        plan = self.plan
        secrets = await asyncio.to_thread(provider_of, plan.secrets_provider, plan.secrets_settings)
        place: Any = ConnectorPlace(plan, self._clock, self.figures, self._state, secrets)
        connector, settings = await asyncio.to_thread(self._made, place)
        self._connector = connector
        await connector.open(settings, place)
        work = (
            self._read_all(connector)
            if isinstance(connector, Source)
            else self._write_all(connector)
        )
        if isinstance(connector, Sink):
            for spec in plan.inputs:
                codec = input_codec(plan, spec)
                size = queue_size(plan, spec)
                feed = InputFeed(spec, codec, size, self._receive)
                self._feeds.append(feed)
                await feed.open(self._client, consumer_settings(plan, size), self._end)
        self.running = True
        self._work = self._client.spawn(plan.component, self._guarded(work))
        for feed in self._feeds:
            feed.begin()

    def _made(self, place: ConnectorPlace) -> tuple[Source | Sink, Mapping[str, Any]]:
        """Return the connector and its checked settings. Raises InstanceEnded for a class that is none."""
        with code_first(self.plan.code):
            return self._loaded(place)

    def _loaded(self, place: ConnectorPlace) -> tuple[Source | Sink, Mapping[str, Any]]:
        plan = self.plan
        output = plan.output
        if output.topic:
            self._codec = output_codec(output)
        if plan.builtin:
            end = source_end(plan.builtin) if plan.component == "source" else sink_end(plan.builtin)
            made: Source | Sink = end.create()
            settings = with_secrets(end.settings, plan.connector, place.secret)
            return made, checked(end.settings, settings)
        made = load(plan.class_name)()
        if not isinstance(made, Source if plan.component == "source" else Sink):
            raise InstanceEnded(
                f"{plan.class_name} is no {plan.component.capitalize()} of engine.functions.connectors.spi"
            )
        return made, plan.connector

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception:
            text = traceback.format_exc()
            self.figures.trouble(self.plan.component, text, self._clock.wall_ms())
            self._end(InstanceEnded(text))

    def _end(self, error: BaseException) -> None:
        if not self._ended and not self._stopping:
            self._ended, self.running = True, False
            for feed in self._feeds:
                feed.hold()
            self._on_end(error)

    async def stop(self, grace_s: float) -> None:
        """Settle what is held back within ``grace_s``, and leave."""
        self.running, self._stopping = False, True
        for feed in self._feeds:
            feed.hold()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        connector = self._connector
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                with contained("settling"):
                    if isinstance(connector, Sink) and not self._ended:
                        await connector.flush()
                    while isinstance(connector, Source) and self._publisher.budget.items:
                        self._has_room.clear()
                        await self._has_room.wait()
                    if isinstance(connector, Source):
                        await connector.commit()
        with contained("closing the connector"):
            if connector is not None:
                await connector.close()
        with contained("leaving the topics"):
            for feed in self._feeds:
                await feed.close()
            for producer in self._lanes.values():
                await producer.close()
            await self._publisher.close()
            await self._state.close()

    # --- a source --------------------------------------------------------------------------------

    async def _read_all(self, source: Source) -> None:
        output = self.plan.output
        if source.schema is not None:
            self._codec.schema = source.schema
        if self.plan.guarantee is not ProcessingGuarantee.EFFECTIVELY_ONCE:
            settings = replace(
                SETTINGS, compression=COMPRESSIONS[output.compression], schema=self._codec.schema
            )
            await self._publisher.open(output.topic, settings)
        committed = self._clock.monotonic_s()
        reading: asyncio.Task[Sequence[Record]] | None = None
        try:
            while True:
                while self._publisher.full:
                    self._has_room.clear()
                    await self._has_room.wait()
                if reading is None:
                    reading = self._client.spawn("read", source.read())  # type: ignore[arg-type, assignment]
                assert reading is not None
                await asyncio.wait([reading], timeout=COMMIT_EVERY_S)
                if reading.done():
                    records, reading = reading.result(), None
                    await self._publish(records)
                if self._clock.monotonic_s() - committed >= COMMIT_EVERY_S:
                    await source.commit()
                    committed = self._clock.monotonic_s()
        finally:
            if reading is not None:
                reading.cancel()

    async def _publish(self, records: Sequence[Record]) -> None:
        self.figures.received(len(records), self._clock.wall_ms())
        output = self.plan.output
        by_topic: dict[str, list[OutgoingMessage]] = {}
        for record in records:
            value = record.value
            data = value if isinstance(value, bytes) else self._codec.encode(value)
            message = OutgoingMessage(
                data,
                record,
                record.key,
                properties=record.properties,
                event_ms=record.event_time_ms or 0,
            )
            if self.plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE:
                await self._publish_once(record, message)
            else:
                by_topic.setdefault(record.topic or output.topic, []).append(message)
        for topic, messages in by_topic.items():
            self._publisher.send(topic, COMPRESSIONS[output.compression], messages)

    async def _publish_once(self, record: Record, message: OutgoingMessage) -> None:
        """Send a record under its own sequence id, unless it is stored."""
        if record.sequence is None:
            raise InstanceEnded("effectively once: the source gives its records no sequence")
        topic = record.topic or self.plan.output.topic
        lane = f"{topic} {record.partition}"
        producer = self._lanes.get(lane)
        if producer is None:
            if await self._client.partitions(topic):
                raise InstanceEnded(
                    f"effectively once: {topic} is partitioned; its order would not be one"
                )
            settings = replace(
                SETTINGS,
                name=f"{self.plan.full_name}-{record.partition}",
                schema=self._codec.schema,
                compression=COMPRESSIONS[self.plan.output.compression],
            )
            producer = PartitionProducer(
                self._client, topic, settings, self._publisher.budget, self._stored
            )
            await self._client.patiently(producer.open, timeout_s=60.0, is_final=not_busy)
            self._lanes[lane] = producer
        if record.sequence <= producer.stored_sequence_id:
            record.ack()
            return
        producer.send_as(message, record.sequence)

    def _stored(self, results: Sequence[SendResult]) -> None:
        now_ms = self._clock.wall_ms()
        written = 0
        for token, _, error in results:
            if not isinstance(token, Record):
                feed, message = token
                self._letter_stored(feed, message, error)
            elif error is None:
                token.ack()
                written += 1
            else:
                self._not_stored(token, error, now_ms)
        self.figures.written += written
        self.figures.processed([0.0] * written, now_ms)
        if not self._publisher.budget.items:
            self._has_room.set()

    def _not_stored(self, record: Record, error: BaseException, now_ms: int) -> None:
        """Fail a source's record. Those behind it may be stored already, so that only a new start reads it again."""
        text = f"{type(error).__name__}: {error}"
        if not self._ended:
            self.figures.trouble("source", text, now_ms)
        record.fail(error)
        if isinstance(self._connector, Source) and not self._connector.answers_senders:
            self._end(InstanceEnded(f"a record could not be stored: {text}"))

    def _room(self) -> None:
        self._has_room.set()

    # --- a sink ----------------------------------------------------------------------------------

    def _receive(self, feed: InputFeed, messages: Sequence[Incoming]) -> None:
        self.figures.received(len(messages), self._clock.wall_ms())
        self._runs.put_nowait((feed, messages))

    async def _write_all(self, sink: Sink) -> None:
        while True:
            feed, messages = await self._runs.get()
            count = len(messages)
            if self._at_most_once:
                messages = await self._acknowledged_first(messages)
            records = self._records(feed, messages)
            if records:
                began = self._clock.monotonic_s()
                try:
                    await sink.write(records)
                except Exception as error:
                    for record in records:
                        record.fail(error)
                took_s = self._clock.monotonic_s() - began
                latencies = [took_s / len(records)] * len(records)
                self.figures.processed(latencies, self._clock.wall_ms())
            feed.consumer.allow(count)

    async def _acknowledged_first(self, messages: Sequence[Incoming]) -> list[Incoming]:
        """Return the messages of which the broker has noted that they are acknowledged; it sends others again."""
        noted: list[Incoming] = []
        for attachment, run in by_attachment(messages):
            try:
                if await acknowledged(attachment, run):
                    noted += run
            except (MagnetarError, ConnectionError) as error:
                # They are redelivered, or lost: that is the promise.
                self.figures.trouble("system", str(error), self._clock.wall_ms())
        return noted

    def _records(self, feed: InputFeed, messages: Sequence[Incoming]) -> list[Record]:
        """Return the messages' records. A message that its schema or serde cannot read fails alone."""
        records: list[Record] = []
        for message in messages:
            try:
                records.append(self._record(feed, message))
            except Exception as error:
                self._failed(feed, message, error)
        return records

    def _record(self, feed: InputFeed, message: Incoming) -> Record:
        content = message.content
        value: Any = content
        if feed.plan.schema or feed.plan.serde:
            value = None if content is None else feed.codec.decode(content)
        ledger, entry = message.position
        return Record(
            value,
            message.key,
            message.properties,
            message.event_ms or None,
            message.topic,
            message.topic,
            sequence_of(message)
            if self.plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE
            else None,
            f"{ledger}:{entry}:{message.source.partition}:{message.batch_index}",
            on_settled=partial(self._settled, feed, message),
        )

    def _settled(
        self, feed: InputFeed, message: Incoming, record: Record, error: BaseException | None
    ) -> None:
        if error is not None:
            self._failed(feed, message, error)
            return
        self.figures.written += 1
        if self._attempts:
            self._attempts.pop(_place(message), None)
        if not self._ended and not self._at_most_once:
            feed.acknowledge(message)

    def _failed(self, feed: InputFeed, message: Incoming, error: BaseException) -> None:
        """Have a failed message redelivered, or make it a dead letter."""
        # Another message's failure has ended the instance: all that is unacknowledged is delivered again.
        if self._ended:
            return
        plan = self.plan
        text = "".join(traceback.format_exception(error))
        self.figures.trouble("sink", text, self._clock.wall_ms())
        if plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE or isinstance(
            error, LostEndError
        ):
            self._end(InstanceEnded(text))
        elif not self._at_most_once:
            if plan.retries is not None and self._tried(message) >= plan.retries:
                topic, letter = dead_letter(plan, message, text, (feed, message))
                self._publisher.send(topic, 0, [letter])
            else:
                feed.refuse(message)

    def _tried(self, message: Incoming) -> int:
        """Return how often a message has failed before, and count this time."""
        if not self.plan.ordered:
            return message.redelivery_count
        place = _place(message)
        if len(self._attempts) >= ATTEMPTS_KEPT:
            self._attempts.clear()
        before = self._attempts.get(place, 0)
        self._attempts[place] = before + 1
        return before

    def _letter_stored(
        self, feed: InputFeed, message: Incoming, error: BaseException | None
    ) -> None:
        if error is None:
            self._attempts.pop(_place(message), None)
            feed.acknowledge(message)
            return
        self.figures.trouble("system", f"dead letter: {error}", self._clock.wall_ms())
        feed.refuse(message)

    # --- questions -------------------------------------------------------------------------------

    async def trigger(self, topic: str, data: bytes) -> bytes | None:
        """Raise InstanceEnded: sources and sinks are not triggered."""
        raise InstanceEnded("only functions can be triggered")

    async def state_get(self, key: str) -> Mapping[str, Any] | None:
        return await self._state.read(key)

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None:
        await self._state.write(key, value, number)


def _place(message: Incoming) -> tuple[str, int, int, int]:
    return (message.topic, *message.position, message.batch_index)
