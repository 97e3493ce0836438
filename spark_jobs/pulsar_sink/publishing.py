"""Publishing of one task's rows, which ends once every message has its receipt.

``engine.client`` publishes rather than the official client: it shows the highest sequence id that the broker has of a
producer's name, and its batches have the sequence ids that the rows determine.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.client.client import PulsarClient, is_final_at_first, partition_names
from engine.client.errors import (
    LostError,
    MessageTooLargeError,
    RefusedError,
    ServerError,
    UnreachableError,
)
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, key_hash
from engine.client.producing.partition_producer import (
    BatchSettings,
    PartitionProducer,
    ProducerSettings,
    SendResult,
    SendTimeoutError,
)
from spark_jobs.pulsar_sink.access import connected
from spark_jobs.pulsar_sink.numbering import NumberingError, TaskNumbers
from spark_jobs.pulsar_sink.options import Guarantee, SinkOptions
from spark_jobs.pulsar_sink.rows import RowColumns, messages_of

log = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX = 32 << 20
IN_FLIGHT_MESSAGES_MAX = 50_000
RUN_MESSAGES = 5_000
"""Messages after which a task checks whether it must wait for receipts."""
BUSY_WAIT_S = 90.0
"""Seconds for which a task waits until the broker has noticed the end of an earlier attempt."""
BUSY_PAUSE_S = 0.5

_REASONS = {
    ServerError.TopicNotFound: "the topic does not exist, and topics are not created by their first use",
    ServerError.AuthorizationError: "the role has no right to produce",
    ServerError.ProducerBlockedQuotaExceededError: "the backlog quota is exceeded",
    ServerError.ProducerBlockedQuotaExceededException: "the backlog quota is exceeded",
    ServerError.IncompatibleSchema: "the topic demands messages with a schema, which the sink does not name",
    ServerError.TopicTerminatedError: "the topic is terminated",
    ServerError.ProducerBusy: (
        f"another producer of the same name is connected for more than {BUSY_WAIT_S:g} s: an earlier attempt of this"
        " task, or another query with the same checkpoint or writeId"
    ),
}


_NO_CREDENTIALS = (
    "the broker demands credentials: set option authentication.file, or tls.certificateFile with"
    " authentication.method tls"
)


class SinkError(Exception):
    """Rows that are not stored; the message names topic and reason."""


class WrittenRows(WriterCommitMessage):
    """The rows of one task that are stored: ``rows`` by this attempt, ``repeated`` by an earlier one.

    ``unprotected``: namespaces without deduplication, where a task that runs again repeats messages.
    """

    def __init__(self, rows: int, repeated: int, unprotected: Sequence[str]) -> None:
        self.rows = rows
        self.repeated = repeated
        self.unprotected = tuple(unprotected)


def publish(
    options: SinkOptions,
    columns: RowColumns,
    numbers: TaskNumbers,
    batches: Iterator[pa.RecordBatch],
) -> WrittenRows:
    """Publish the rows of a task and return once all are stored. Blocks.

    Raises OptionError, RowError, NumberingError; SinkError when a message is not confirmed.
    """
    if options.order_by:
        batches = _ordered(batches, options.order_by)
    return asyncio.run(_publish(options, columns, numbers, batches))


def _ordered(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the task in the order of some columns. All are held in memory."""
    held = list(batches)
    if held:
        table = pa.Table.from_batches(held).sort_by([(name, "ascending") for name in names])
        yield from table.combine_chunks().to_batches(max_chunksize=10_000)


async def _publish(
    options: SinkOptions,
    columns: RowColumns,
    numbers: TaskNumbers,
    batches: Iterator[pa.RecordBatch],
) -> WrittenRows:
    client = connected(options)
    try:
        task = _Task(client, options, numbers)
        first_row = 0
        # In a thread, so that the client answers the broker while Spark computes the next rows.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            rows = messages_of(columns, batch, first_row)
            first_row += batch.num_rows
            for topic, messages in _by_topic(rows.topics, rows.messages, options.topic):
                await task.send(topic, messages)
        return await task.finish()
    finally:
        await client.close()


def _by_topic(
    topics: Sequence[str] | None, messages: Sequence[OutgoingMessage], topic: str
) -> Iterable[tuple[str, Sequence[OutgoingMessage]]]:
    if topics is None:
        return ((topic, messages),) if messages else ()
    runs: dict[str, list[OutgoingMessage]] = {}
    for name, message in zip(topics, messages, strict=True):
        runs.setdefault(name, []).append(message)
    return runs.items()


class _Topic:
    """A topic of a task. ``parts``: those of its partitions that the task publishes to."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.names = partition_names(name, partitions)
        self.partitions = partitions
        self.parts: dict[int, _Part] = {}
        self.without_key = count()


class _Part:
    """A topic, or one of its partitions, with its producer. ``rows``: those of the task so far. ``repeated``: how many
    of them, from the first, were stored by an earlier attempt."""

    def __init__(self, producer: PartitionProducer, repeated: int) -> None:
        self.producer = producer
        self.repeated = repeated
        self.rows = 0


class _Task:
    """The producers of one task."""

    def __init__(self, client: PulsarClient, options: SinkOptions, numbers: TaskNumbers) -> None:
        self._client = client
        self._options = options
        self._numbers = numbers
        self._budget = Budget(IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MESSAGES_MAX)
        self._topics: dict[str, _Topic] = {}
        self._unprotected: dict[str, None] = {}
        self._stored = 0
        self._failed: SendResult | None = None
        self._progress = asyncio.Event()
        self._hash = lru_cache(1 << 16)(lambda key: key_hash(Hashing.JAVA_STRING, key))

    async def send(self, name: str, messages: Sequence[OutgoingMessage]) -> None:
        """Send messages to a topic in their order. Raises SinkError, NumberingError."""
        topic = self._topics.get(name)
        if topic is None:
            try:
                partitions = await self._client.patiently(
                    lambda: self._client.partitions(name),
                    timeout_s=self._client.operation_timeout_s,
                    is_final=_is_final,
                )
            except MagnetarError as error:
                raise self._refused(name, error) from error
            topic = self._topics[name] = _Topic(name, partitions)
        if not topic.partitions:
            await self._send_to(topic, 0, messages)
            return
        runs: dict[int, list[OutgoingMessage]] = {}
        for message in messages:
            runs.setdefault(self._partition(topic, message), []).append(message)
        for index, run in runs.items():
            await self._send_to(topic, index, run)

    def _partition(self, topic: _Topic, message: OutgoingMessage) -> int:
        """Return the partition of a message, which is the same in each attempt: by its key, else by its number."""
        if message.key is not None:
            return self._hash(message.key) % topic.partitions
        batch = next(topic.without_key) // self._options.batch_messages
        return (batch + self._numbers.partition) % topic.partitions

    async def _send_to(
        self, topic: _Topic, index: int, messages: Sequence[OutgoingMessage]
    ) -> None:
        part = topic.parts.get(index)
        if part is None:
            part = topic.parts[index] = await self._open(topic, index, messages[0])
        start = min(max(part.repeated - part.rows, 0), len(messages))
        part.rows += len(messages)
        for at in range(start, len(messages), RUN_MESSAGES):
            part.producer.send(messages[at : at + RUN_MESSAGES])
            await asyncio.sleep(0)
            while self._budget.high and self._failed is None:
                await self._progressed()
            self._check()

    async def _open(self, topic: _Topic, index: int, first: OutgoingMessage) -> _Part:
        """Return a part whose next message has the number that follows those stored.

        Where nothing is stored under the name, the broker may have no deduplication. Then the first message is
        published, and the producer opened again: with deduplication the broker knows that message's number.
        """
        producer = await self._attached(topic, index)
        if self._options.guarantee is Guarantee.AT_LEAST_ONCE:
            return _Part(producer, 0)
        repeated = self._numbers.stored_rows(producer.stored_sequence_id)
        if repeated:
            log.info("%s rows of %s are stored by an earlier attempt", repeated, topic.names[index])
        if producer.stored_sequence_id < 0:
            stored = self._stored
            producer.send_as(first, self._numbers.first)
            producer.flush()
            while self._stored == stored and self._failed is None:
                await self._progressed()
            self._check()
            await producer.close()
            producer = await self._attached(topic, index)
            repeated = 1
            if producer.stored_sequence_id < 0:
                self._without_deduplication(topic)
        producer.resume_at(self._numbers.first + repeated)
        return _Part(producer, repeated)

    def _without_deduplication(self, topic: _Topic) -> None:
        namespace = str(TopicName.parse(topic.name).namespace)
        if self._options.guarantee is Guarantee.EXACTLY_ONCE:
            raise SinkError(
                f"{topic.name} is not written exactly once: deduplication is off in namespace {namespace}. Turn it on"
                f" (pulsar-admin namespaces set-deduplication {namespace} --enable), or leave out option"
                " deliveryGuarantee. One message of this task is stored"
            )
        self._unprotected[namespace] = None

    async def _attached(self, topic: _Topic, index: int) -> PartitionProducer:
        options = self._options
        named = options.guarantee is not Guarantee.AT_LEAST_ONCE
        settings = ProducerSettings(
            name=self._numbers.producer_name(topic.partitions) if named else None,
            send_timeout_s=float(options.send_timeout_s),
            batching=BatchSettings(options.batch_messages, options.batch_bytes)
            if options.batching
            else None,
            compression=options.codec,
            chunking=options.chunking,
        )
        name = topic.names[index]
        number = index if topic.partitions else -1
        loop = asyncio.get_running_loop()
        until = loop.time() + BUSY_WAIT_S
        while True:
            producer = PartitionProducer(
                self._client, name, settings, self._budget, self._results, number
            )
            try:
                await producer.open()
                return producer
            except MagnetarError as error:
                busy = isinstance(error, RefusedError) and error.code is ServerError.ProducerBusy
                if not busy or loop.time() >= until:
                    raise self._refused(name, error) from error
            await asyncio.sleep(BUSY_PAUSE_S)

    async def finish(self) -> WrittenRows:
        """Wait for all receipts and detach. Raises SinkError; NumberingError when earlier attempts had other rows."""
        parts = [part for topic in self._topics.values() for part in topic.parts.values()]
        for part in parts:
            part.producer.flush()
        while self._budget.items and self._failed is None:
            await self._progressed()
        self._check()
        for part in parts:
            if part.repeated > part.rows:
                raise NumberingError(
                    f"{part.repeated} rows for {part.producer.topic} were stored by an earlier attempt, which now has"
                    f" {part.rows}: a task that runs again must have the same rows in the same order"
                )
        await asyncio.gather(*(part.producer.close() for part in parts))
        rows = sum(part.rows for part in parts)
        return WrittenRows(self._stored, rows - self._stored, list(self._unprotected))

    def _results(self, results: Sequence[SendResult]) -> None:
        for result in results:
            if result.error is not None and self._failed is None:
                self._failed = result
        self._stored += len(results)
        self._progress.set()

    async def _progressed(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _check(self) -> None:
        """Raise SinkError once a message has failed."""
        if self._failed is None or self._failed.error is None:
            return
        row, error = self._failed.token, self._failed.error
        after = "Rows before it may be stored"
        if isinstance(error, SendTimeoutError):
            after = "It and rows before it may be stored"
        topics = ", ".join(self._topics)
        raise SinkError(
            f"row {row} of the task, for {topics}: {_reason(error, self._options)}. {after}"
        ) from error

    def _refused(self, topic: str, error: MagnetarError) -> SinkError:
        return SinkError(f"topic {topic} is not written: {_reason(error, self._options)}")


def _is_final(error: MagnetarError) -> bool:
    """Return whether an error ends the first request: a certificate that is not trusted stays so."""
    return is_final_at_first(error) or isinstance(error.__cause__, ssl.SSLCertVerificationError)


def _reason(error: MagnetarError, options: SinkOptions) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, UnreachableError):
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            return f"{text}. See options tls.trustCertsFile and tls.hostnameVerification"
        if isinstance(error.__cause__, LostError | ConnectionResetError | ssl.SSLError):
            return (
                f"{text}. Option serviceUrl needs pulsar+ssl:// for a port with TLS, else pulsar://"
            )
    if isinstance(error, RefusedError) and error.code is ServerError.AuthenticationError:
        given = "the credentials of option authentication.file were not accepted"
        return f"{given if options.method else _NO_CREDENTIALS} ({text})"
    if isinstance(error, MessageTooLargeError):
        return f"{text}; option chunkingEnabled stores it in parts"
    known = _REASONS.get(error.code) if isinstance(error, RefusedError) else None
    return f"{known} ({text})" if known else text
