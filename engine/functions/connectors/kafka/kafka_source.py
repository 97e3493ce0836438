"""Records of Kafka topics as messages, by a consumer group."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import fields, text, texts, whole
from engine.functions.connectors.kafka.kafka_link import (
    KafkaReasons,
    check_reachable,
    cluster_fields,
    configuration,
    library,
)
from engine.functions.connectors.kafka.kafka_sink import SINK_SETTINGS, KafkaSink
from engine.functions.connectors.spi import (
    AckedPrefix,
    ConnectorContext,
    ConnectorError,
    Record,
    Source,
)
from engine.functions.connectors.tls_settings import PemFiles

SOURCE_SETTINGS = fields(
    ("bootstrapServers", "topics"),
    **cluster_fields(),
    topics=texts("Topics", "Kafka topics", least=1),
    group=text("Group", "Consumer group; empty: the source's name"),
    start=text(
        "Start", "Where a group without offsets begins", "earliest", choices=("earliest", "latest")
    ),
    batch=whole("Batch", "Records of one read at most", 1000, 1, 100_000),
)
POLL_S = 0.5
SESSION_MS = 10_000
"""Time after which the partitions of a killed instance move to others."""


class KafkaSource(Source):
    """A source of records. A record's sequence is its offset, and its partition that of Kafka."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``. Raises ConnectorError that names the setting."""
        self._settings, self._context = settings, context
        self._consumer: Any = None
        self._reading: asyncio.Future[list[Any]] | None = None
        self._acked: dict[tuple[str, int], AckedPrefix] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._kafka = library()
        group = settings.get("group") or f"{context.tenant}.{context.namespace}.{context.name}"
        reasons = KafkaReasons()
        with PemFiles(settings) as files:
            options = {
                **configuration(settings, f"magnetar-{context.instance}", files, reasons),
                "group.id": group,
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "auto.offset.reset": settings["start"],
                "isolation.level": "read_committed",
                "logger": context.log,
            }
            self._consumer = await asyncio.to_thread(self._kafka.Consumer, options)
        await asyncio.to_thread(check_reachable, self._consumer, settings["topics"], reasons)
        self._consumer.subscribe(settings["topics"], on_revoke=self._on_revoke)

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Forget partitions that move to another instance, which begins behind what was committed."""
        for partition in partitions:
            self._acked.pop((partition.topic, partition.partition), None)
            self._committed.pop((partition.topic, partition.partition), None)

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        while True:
            if self._reading is None:
                consume = partial(self._consumer.consume, self._settings["batch"], POLL_S)
                self._reading = asyncio.get_running_loop().run_in_executor(None, consume)
            # A cancellation leaves the read to the next call, or to ``close``.
            messages = await asyncio.shield(self._reading)
            self._reading = None
            records = [self._record(message) for message in messages]
            if records:
                return records

    def _record(self, message: Any) -> Record:
        """Return a record. Raises ConnectorError for the error that the library returns in a message's place."""
        if message.error() is not None:
            raise ConnectorError(message.error().str())
        partition = message.topic(), message.partition()
        prefix = self._acked.get(partition)
        if prefix is None:
            prefix = self._acked[partition] = AckedPrefix(message.offset() - 1)
            self._committed[partition] = message.offset()
        prefix.read(message.offset())
        kind, at_ms = message.timestamp()
        return Record(
            message.value() or b"",
            key=None if message.key() is None else message.key().decode(errors="replace"),
            properties={
                **{
                    name: (value or b"").decode(errors="replace")
                    for name, value in message.headers() or ()
                },
                **{"kafka.topic": partition[0], "kafka.partition": str(partition[1])},
                "kafka.offset": str(message.offset()),
            },
            event_time_ms=at_ms if kind != self._kafka.TIMESTAMP_NOT_AVAILABLE else None,
            partition=f"{partition[0]}-{partition[1]}",
            sequence=message.offset(),
            on_settled=partial(self._settled, prefix),
        )

    def _settled(self, prefix: AckedPrefix, record: Record, error: BaseException | None) -> None:
        if error is None and record.sequence is not None:
            prefix.ack(record.sequence)

    async def commit(self) -> None:
        """See ``Source``."""
        ends = {
            partition: prefix.position + 1
            for partition, prefix in self._acked.items()
            if prefix.position + 1 != self._committed[partition]
        }
        if not ends:
            return
        offsets = [self._kafka.TopicPartition(*partition, end) for partition, end in ends.items()]
        try:
            await asyncio.to_thread(self._consumer.commit, offsets=offsets, asynchronous=False)
        except self._kafka.KafkaException as error:
            raise ConnectorError(error.args[0].str()) from error
        self._committed |= ends

    async def close(self) -> None:
        """See ``Source``."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        if self._consumer is not None:
            await asyncio.to_thread(self._consumer.close)


KAFKA = BuiltIn(
    "kafka",
    "Reads and writes topics of Apache Kafka",
    source=ConnectorEnd(
        KafkaSource,
        SOURCE_SETTINGS,
        "effectively once",
        "Each record is published once, where the output topic deduplicates (EFFECTIVELY_ONCE).",
    ),
    sink=ConnectorEnd(
        KafkaSink,
        SINK_SETTINGS,
        "at least once",
        "A message is acknowledged once all replicas in sync have its record; after a failure there may be a second "
        "record of it, with the same header magnetar-message-id.",
    ),
    needs="connectors",
)
