"""The work of ``magnetar consume`` and ``magnetar tail`` (P2)."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import click

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.ranges import words_of
from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import Attachment, ConsumerSettings
from engine.client.consuming.incoming import Batch, Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.consuming.topic_reader import TopicReader
from engine.client.raw_consumer import FROM_EARLIEST, FROM_LATEST
from magnetar.command.connecting.client import connected, partitions
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed
from magnetar.command.messages.progress import count, notice
from magnetar.command.messages.schemas import Decoding
from magnetar.command.messages.shown import document, json_line, line
from magnetar.command.messages.starts import EARLIEST, Start, of_partition, places

AT_ONCE = 1000
"""Messages that are received and not printed yet."""
LOST_S = 1.0
"""Seconds without a connection after which that is reported."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of the commands. ``kind``: number of the subscription's type. ``timeout_s`` None: without end."""

    start: Start
    count: int | None = None
    subscription: str | None = None
    kind: int = 0
    timeout_s: float | None = None
    acknowledge: bool = True
    until_end: bool = False
    verbose: bool = False
    raw: bool = False
    as_json: bool = False


class Received:
    """Messages that consumers received, in the order of their arrival. ``error``: the one that ended a consumer."""

    def __init__(self) -> None:
        self._waiting: list[Incoming] = []
        self._changed = asyncio.Event()
        self.error: MagnetarError | None = None

    def add(self, run: Sequence[Incoming]) -> None:
        self._waiting += run
        self._changed.set()

    def end(self, error: MagnetarError) -> None:
        self.error = error
        self._changed.set()

    async def next(self, timeout_s: float | None) -> list[Incoming]:
        """Return what has arrived, nothing after ``timeout_s``. Raises the consumer's error after its messages.
        Cancel-safe."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._waiting:
                    if self.error is not None:
                        raise self.error
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return []
        run, self._waiting = self._waiting, []
        return run


async def read(connection: ClusterAddress, topic: str, options: ReadOptions) -> None:
    """Print messages until the options' end. Raises CommandFailed, MagnetarError.

    A message is acknowledged after its line was written.
    """
    async with connected(connection) as client, AsyncExitStack() as stack:
        arrivals = Received()
        consumers = await _open(client, connection, topic, options, arrivals)
        for consumer in consumers:
            stack.push_async_callback(consumer.close)
        tasks = TaskScope("notices")
        stack.push_async_callback(tasks.close)
        tasks.spawn("connection", _report_losses(consumers))
        printer = Printer(Decoding(client), options)
        ends = await _ends(consumers) if options.until_end else None
        for consumer in consumers:
            consumer.allow(min(AT_ONCE, options.count or AT_ONCE))
        acknowledged = Acknowledgements(consumers[0]) if options.subscription else None
        try:
            await _print_all(arrivals, consumers, printer, acknowledged, ends)
        finally:
            if acknowledged is not None:
                acknowledged.send_parts()


async def _open(
    client: PulsarClient,
    connection: ClusterAddress,
    topic: str,
    options: ReadOptions,
    arrivals: Received,
) -> list[TopicConsumer]:
    if options.subscription:
        await client.partitions(topic)  # which fails at once when no broker answers
        settings = ConsumerSettings(
            options.subscription,
            options.kind,
            initial=FROM_EARLIEST if options.start == EARLIEST else FROM_LATEST,
            queue_size=min(AT_ONCE, options.count or AT_ONCE),
        )
        return [
            await TopicConsumer.open(
                client, [topic], settings, on_messages=arrivals.add, on_end=arrivals.end
            )
        ]
    topics = of_partition(await partitions(client, topic), options.start)
    starts = await places(connection, topics, options.start)
    if options.start.is_named:
        starts = [(topic, options.start.message_id)]  # one reader, which follows new partitions
    readers: list[TopicConsumer] = []
    for name, message_id in starts:
        readers.append(
            await TopicReader.open_at(
                client,
                name,
                message_id,
                on_messages=arrivals.add,
                on_end=arrivals.end,
                inclusive=True,
            )
        )
    return readers


async def _report_losses(consumers: Sequence[TopicConsumer]) -> None:
    """Report when topics lose their broker, and when they have one again."""
    lost = False
    while True:
        await asyncio.sleep(LOST_S)
        without = [a.topic for consumer in consumers for a in consumer.attachments if a.raw is None]
        if without and not lost:
            notice(f"the connection to the broker of {without[0]} is lost; connecting again")
        elif lost and not without:
            notice("connected again")
        lost = bool(without)


class Printer:
    """Writes messages to the standard output. ``printed`` counts them."""

    def __init__(self, decoding: Decoding, options: ReadOptions) -> None:
        self.options = options
        self.printed = 0
        self._decoding = decoding
        # A terminal is not given bytes that may change its state.
        self._exact = options.raw and not options.as_json and not sys.stdout.isatty()

    async def write(self, run: Sequence[Incoming]) -> None:
        """Write each message, and return once all were accepted by the system. Raises CommandFailed."""
        if not run:
            return
        if self._exact:
            output: str | bytes = b"".join(message.content or b"" for message in run)
        else:
            output = "\n".join([await self._row(message) for message in run])
        try:
            click.echo(output, nl=not self._exact)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandFailed(
                f"cannot write the output after {count(self.printed)}: {error.strerror}"
            ) from error
        self.printed += len(run)

    async def _row(self, message: Incoming) -> str:
        options = self.options
        decoded, value = (False, None)
        if not options.raw:
            decoded, value = await self._decoding.value(message)
        if options.as_json:
            return json_line(document(message, value, decoded=decoded))
        return line(message, value, decoded=decoded, verbose=options.verbose)


class Acknowledgements:
    """Acknowledgements of written messages. Of a batch that was written in part, those messages alone are
    acknowledged."""

    def __init__(self, consumer: TopicConsumer) -> None:
        self._consumer = consumer
        self._parts: dict[tuple[Attachment, Position], Batch] = {}

    def add(self, run: Sequence[Incoming]) -> None:
        for message in run:
            self._consumer.acknowledge(message)
            batch = message.batch
            if batch is not None:
                place = message.source, message.position
                if batch.left:
                    self._parts[place] = batch
                else:
                    self._parts.pop(place, None)

    def send_parts(self) -> None:
        """Acknowledge the written messages of batches that were not written completely."""
        self._consumer.flush()
        for (attachment, position), batch in self._parts.items():
            if attachment.raw is not None:
                attachment.raw.acknowledge([position], ack_set=words_of(batch.left))


async def _print_all(
    arrivals: Received,
    consumers: Sequence[TopicConsumer],
    printer: Printer,
    acknowledged: Acknowledgements | None,
    ends: "dict[Attachment, Position] | None",
) -> None:
    options = printer.options
    while options.count is None or printer.printed < options.count:
        if ends is not None and not ends:
            return
        arrived = await arrivals.next(options.timeout_s)
        if not arrived:
            _check_timeout(printer)
            return
        run = _wanted(arrived, options, printer.printed)
        await printer.write(run)
        if acknowledged is not None and options.acknowledge:
            acknowledged.add(run)
        if ends is not None:
            _drop_reached(ends, arrived)
        room = len(arrived)
        if options.count is not None:
            room = min(room, options.count - printer.printed)
        for consumer in consumers:
            consumer.allow(room)


def _wanted(arrived: list[Incoming], options: ReadOptions, printed: int) -> list[Incoming]:
    since_ms = options.start.since_ms
    if since_ms is not None:
        arrived = [message for message in arrived if message.publish_ms >= since_ms]
    return arrived if options.count is None else arrived[: options.count - printed]


def _check_timeout(printer: Printer) -> None:
    """Raise CommandFailed when fewer messages arrived than were asked for."""
    options = printer.options
    if options.count is not None and printer.printed < options.count:
        raise CommandFailed(
            f"{printer.printed:,} of {count(options.count)} arrived; then none for "
            f"{options.timeout_s:g} s"
        )


async def _ends(consumers: Sequence[TopicConsumer]) -> "dict[Attachment, Position]":
    """Return the last entry of each topic as it is now, of those that have one behind the start."""
    ends = {}
    for consumer in consumers:
        for attachment in consumer.attachments:
            if attachment.raw is not None and await attachment.has_more():
                ends[attachment] = await attachment.raw.last_position()
    return ends


def _drop_reached(ends: "dict[Attachment, Position]", run: Sequence[Incoming]) -> None:
    """Remove the topics whose last message is in ``run``."""
    for message in run:
        end, batch = ends.get(message.source), message.batch
        if end is None or message.position < end:
            continue
        if message.position > end or batch is None or message.batch_index == batch.size - 1:
            del ends[message.source]
