"""Log of the changes of one namespace's topic policies: a system topic, read from its start, followed and written."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.log import bound
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.control.event_schemas import EventSchemas
from engine.client.broker_link import BrokerLink
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.tenancy import topics
from engine.tenancy.avro import AvroError
from engine.wire.batches import BatchFormatError, Message, pack_entry, unpack_entry
from engine.wire.events import Delivered

RETRY_S_MAX = 1.0
"""Longest pause before the topic is looked up again: its next owner should be found within a second or so."""
LASTING = 6
"""Consecutive failures, some seconds, from which a warning is logged. An unload or a deletion causes fewer."""
FIRST_VERSION = bytes(8)
"""Version of the topic's schema in messages without a payload."""

COMPACTION = "__compaction"

Origin = tuple[str, int]
"""Producer name and sequence id of a message, unique in a log."""


@dataclass(frozen=True, slots=True)
class LatestEvent:
    """Last event of a key. ``unread``: the reason when it cannot be decoded; ``event`` is empty then."""

    position: Position
    event: Document
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """One event that was applied: the last event of its key ``before`` and ``after`` it, None without one."""

    key: str
    origin: Origin
    before: LatestEvent | None
    after: LatestEvent | None


class Events:
    """Last event of each key, from a log's entries in their order."""

    def __init__(self, schemas: EventSchemas) -> None:
        self._schemas = schemas
        self.latest: dict[str, LatestEvent] = {}

    def take(self, entries: Iterable[Delivered]) -> list[Applied]:
        """Apply entries; return their events."""
        return [applied for entry in entries for applied in self._take(entry)]

    def _take(self, entry: Delivered) -> list[Applied]:
        position = entry.position
        try:
            opened = unpack_entry(entry.entry)
        except BatchFormatError as error:
            bound(__name__).error("entry %s of a change log is damaged: %s", position, error)
            return []
        version = opened.metadata.schema_version
        return [
            self._put(position, (opened.producer_name, message.sequence_id), message, version)
            for message in opened.messages
            if message.key is not None and not message.compacted_out
        ]

    def _put(self, position: Position, origin: Origin, message: Message, version: bytes) -> Applied:
        assert message.key is not None
        before = self.latest.pop(message.key, None)
        if message.value:
            self.latest[message.key] = self._latest(position, message.value, version)
        return Applied(message.key, origin, before, self.latest.get(message.key))

    def _latest(self, position: Position, payload: bytes, version: bytes) -> LatestEvent:
        try:
            return LatestEvent(position, self._schemas.decode(version, payload))
        except AvroError as error:
            return LatestEvent(position, {}, unread=str(error))


class ChangeLog:
    """A change log that is followed until ``close``, across changes of its owner. Created inside a running loop.

    ``on_change`` is called with each key whose event changed after the log was first read.
    """

    def __init__(
        self,
        topic: TopicName,
        *,
        store: MetadataStore,
        schemas: EventSchemas,
        links: Links[BrokerLink],
        service_url: str,
        clock: Clock,
        entropy: Entropy,
        on_change: Callable[[str], None],
    ) -> None:
        self.topic = topic
        self.changing = asyncio.Lock()
        """Lock held from a change's read to the end of its write, so that changes of this broker do not overlap."""
        self._store = store
        self._links = links
        self._service_url = service_url
        self._clock = clock
        self._entropy = entropy
        self._on_change = on_change
        self._schemas = schemas
        self._events = Events(schemas)
        self._known = asyncio.Event()
        self._current = asyncio.Event()
        self._touched = asyncio.Event()
        self._awaited: dict[Origin, asyncio.Future[Applied]] = {}
        self._producer: RawProducer | None = None
        self._sequence = 0
        self._log = bound(__name__, topic=topic)
        self._tasks = TaskScope(f"changes {topic.namespace}")
        self._tasks.spawn("follow", self._follow())

    async def known(self) -> None:
        """Wait until the log was read to its end for the first time; ``latest`` is valid from then on. Cancel-safe."""
        await self._known.wait()

    async def current(self) -> None:
        """Wait until the log is being followed, so that ``latest`` lags by a moment at most. Cancel-safe."""
        await self._current.wait()

    def latest(self, key: str) -> LatestEvent | None:
        """Return the last event of ``key``, None without one, as of the last time the log could be read."""
        return self._events.latest.get(key)

    @property
    def keys(self) -> list[str]:
        """Keys that have an event."""
        return list(self._events.latest)

    async def append(self, key: str, event: Document | None, *, local: str | None) -> Applied:
        """Write an event, None to delete the key; wait until it is stored and ``latest`` has it or a later one.

        ``local``: the only cluster that it is for. Raises AvroError when it does not fit the log's schema, ClientError,
        RefusedError, LedgerError, the store's errors. After AvroError nothing is written; after any other error, or
        when cancelled, the event may be stored.
        """
        if event is not None:
            # Before the topic is created: an event that does not fit creates nothing.
            self._schemas.encode(event)
        producer = await self._attached()
        version, payload = FIRST_VERSION, b""
        if event is not None:
            version, payload = self._schemas.encode(event)
        self._sequence += 1
        origin = (producer.name, self._sequence)
        entry = pack_entry(
            [Message(payload or None, key, sequence_id=self._sequence)],
            producer_name=producer.name,
            publish_ms=self._clock.wall_ms(),
            extra={
                "schema_version": version,
                "uncompressed_size": len(payload),
                "replicate_to": [local] if local is not None else [],
            },
        )
        seen: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        self._awaited[origin] = seen
        try:
            producer.send([self._sequence], [entry])
            await producer.drained()
            return await seen
        finally:
            del self._awaited[origin]

    async def _attached(self) -> RawProducer:
        if self._producer is None or self._producer.error is not None:
            if not await topics.topic_exists(self._store, self.topic):
                await topics.require_namespace(self._store, self.topic)
                await topics.create_missing(self._store, self.topic)
            await self._schemas.ensure()
            link = await self._links.owner(self.topic.full, self._service_url)
            await self._hold(link)
            self._producer = await RawProducer.open(link, self.topic.full)
        return self._producer

    async def _hold(self, link: BrokerLink) -> None:
        """Create Apache's subscription for compaction, which keeps entries until a compaction has read them."""
        keeper = await RawConsumer.open(
            link,
            self.topic.full,
            COMPACTION,
            SHARED,
            on_messages=lambda messages: None,
            initial=FROM_EARLIEST,
        )
        await keeper.close()

    # --- following -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        backoff = Backoff(max_s=RETRY_S_MAX)
        failures = 0
        stop = self._store.watch(topics.ledger_path(self.topic), lambda _: self._touched.set())
        try:
            while True:
                self._touched.clear()
                try:
                    if await topics.topic_exists(self._store, self.topic):
                        await self._read(backoff)
                    else:
                        self._restart(Events(self._schemas), [])
                        await self._touched.wait()
                except Exception as error:
                    failures = 1 if self._current.is_set() else failures + 1
                    expected = isinstance(error, MagnetarError)
                    if failures in (1, LASTING):
                        level = logging.INFO if expected and failures == 1 else logging.WARNING
                        self._log.log(
                            level,
                            "topic policies cannot be followed now: %s",
                            error,
                            exc_info=None if expected else error,
                        )
                    self._current.clear()
                    await asyncio.sleep(backoff.next_s(self._entropy.random()))
        finally:
            stop()

    async def _read(self, backoff: Backoff) -> None:
        """Read the log from its start and follow it. Raises ClientError or RefusedError when the connection ends."""
        link = await self._links.owner(self.topic.full, self._service_url)
        name = f"reader-{self._entropy.hex(5)}"
        reader = await RawReader.open(link, self.topic.full, name=name, compacted=True)
        try:
            await self._schemas.load()
            events = Events(self._schemas)
            entries = await reader.rest()
            await self._schemas.learn(entries)
            self._restart(events, events.take(entries))
            backoff.reset()
            while True:
                entries = await reader.next()
                await self._schemas.learn(entries)
                for applied in events.take(entries):
                    self._on_change(applied.key)
                    self._resolve(applied)
        finally:
            if reader.consumer.error is None:
                with suppress(MagnetarError):
                    await reader.consumer.close()

    def _restart(self, events: Events, applied: list[Applied]) -> None:
        """Replace the events by those of a log that was read again from its start."""
        previous, self._events = self._events.latest, events
        if self._known.is_set():
            for key in previous.keys() | events.latest.keys():
                if previous.get(key) != events.latest.get(key):
                    self._on_change(key)
        self._known.set()
        self._current.set()
        for event in applied:
            self._resolve(event)

    def _resolve(self, applied: Applied) -> None:
        """Resolve the ``append`` that waits for this event, if there is one."""
        appended = self._awaited.get(applied.origin)
        if appended is not None and not appended.done():
            appended.set_result(applied)

    async def close(self) -> None:
        """Stop following; calls that wait here end by their own time limits."""
        await self._tasks.close()
        producer, self._producer = self._producer, None
        if producer is not None and producer.error is None:
            with suppress(MagnetarError):
                await producer.close()
