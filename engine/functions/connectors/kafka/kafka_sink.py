"""Messages as records of a Kafka topic."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engine.functions.connectors.connector_settings import fields, text
from engine.functions.connectors.kafka.kafka_link import (
    ANSWER_S,
    KafkaReasons,
    check_reachable,
    cluster_fields,
    configuration,
    library,
)
from engine.functions.connectors.spi import (
    ConnectorContext,
    ConnectorError,
    LostEndError,
    Record,
    Sink,
)
from engine.functions.connectors.tls_settings import PemFiles

SINK_SETTINGS = fields(
    ("bootstrapServers", "topic"),
    **cluster_fields(),
    topic=text("Topic", "Kafka topic", pattern=r"^[A-Za-z0-9._-]{1,249}$"),
    compression=text(
        "Compression",
        "Of batches of records",
        "lz4",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
)
MESSAGE_ID = "magnetar-message-id"
"""Header of a record with the message's id, by which a consumer knows a repetition."""
POLL_S = 0.1


class KafkaSink(Sink):
    """A sink of records, in the order of the messages of a key; all replicas in sync have a record that counts."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Sink``. Raises ConnectorError that names the setting."""
        self._topic = settings["topic"]
        self._kafka = library()
        name = f"magnetar-{context.tenant}-{context.namespace}-{context.name}-{context.instance}"
        reasons = KafkaReasons()
        with PemFiles(settings) as files:
            options = {
                **configuration(settings, name, files, reasons),
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": settings["compression"],
                "delivery.timeout.ms": int(ANSWER_S * 1000),
                "logger": context.log,
            }
            self._producer = await asyncio.to_thread(self._kafka.Producer, options)
        await asyncio.to_thread(check_reachable, self._producer, [self._topic], reasons)

    async def write(self, records: Sequence[Record]) -> None:
        """See ``Sink``."""
        outcomes: list[tuple[Record, Any]] = []
        for record in records:
            try:
                await self._send(record, outcomes)
            except self._kafka.KafkaException as error:
                record.fail(self._error(error.args[0]))
            except (OverflowError, ValueError) as error:  # such as an event time beyond 64 bits
                record.fail(ConnectorError(f"Kafka cannot hold the message: {error}"))
        await asyncio.to_thread(self._producer.flush, ANSWER_S + 1)
        for record, problem in outcomes:
            if problem is None:
                record.ack()
            else:
                record.fail(self._error(problem))
        if any(not record.settled for record in records):
            raise LostEndError(f"Kafka stored not all records within {ANSWER_S:g} s")

    async def _send(self, record: Record, outcomes: list[tuple[Record, Any]]) -> None:
        """Give a record to the library, once that has room for it."""
        send = partial(
            self._producer.produce,
            self._topic,
            record.payload,
            record.key,
            headers=[*record.properties.items(), (MESSAGE_ID, record.message_id)],
            on_delivery=lambda error, _: outcomes.append((record, error)),
            **({} if record.event_time_ms is None else {"timestamp": record.event_time_ms}),
        )
        while True:
            try:
                send()
                return
            except BufferError:  # the library's queue is full
                await asyncio.to_thread(self._producer.poll, POLL_S)

    def _error(self, problem: Any) -> ConnectorError:
        """Return a record's error: its own where only its size is wrong, else one of the cluster."""
        text = f"{self._topic}: {problem.str()}"
        too_large = problem.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
        return ConnectorError(text) if too_large else LostEndError(text)

    async def close(self) -> None:
        """See ``Sink``. The library ends its connections when the producer goes."""
        self._producer = None
