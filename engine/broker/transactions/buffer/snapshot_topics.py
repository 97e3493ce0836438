"""The system topics of namespaces that hold snapshots of transactions: reads of the newest ones, and writes.

Nothing is kept in memory between reads: a topic's snapshot is needed when it is loaded, and topics that are loaded
together share one read.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope, restarting
from engine.broker.control.change_log import COMPACTION, FIRST_VERSION
from engine.broker.control.event_schemas import EventSchemas
from engine.broker.control.topic_policies import LINKS
from engine.broker.transactions.buffer.snapshots import TOPICS
from engine.client.broker_link import BrokerLink, Credentials
from engine.client.errors import LostError
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.schema.schema_registry import SchemaRegistry
from engine.tenancy import topics
from engine.wire.batches import BatchFormatError, Message, pack_entry, unpack_entry
from engine.wire.events import Delivered, Receipt

UNUSED_S = 60.0
"""Seconds without a write after which a producer is closed, so that it does not keep a namespace in use."""
Wanted = Callable[[str], bool]


class SnapshotLog:
    """One system topic. Methods raise ClientError, RefusedError, LedgerError, AvroError, the store's errors."""

    def __init__(
        self,
        topic: TopicName,
        schemas: EventSchemas,
        store: MetadataStore,
        links: Links[BrokerLink],
        service_url: str,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.topic = topic
        self.used_s = clock.monotonic_s()
        self._schemas = schemas
        self._store = store
        self._links = links
        self._service_url = service_url
        self._clock = clock
        self._entropy = entropy
        self._reads: list[tuple[Wanted, asyncio.Future[dict[str, Document]]]] = []
        """Reads that wait for the next scan."""
        self._scanning = asyncio.Lock()
        self._attaching = asyncio.Lock()
        self._producer: RawProducer | None = None
        self._sequence = 0
        self._unanswered: dict[int, asyncio.Future[Position]] = {}

    # --- reading --------------------------------------------------------------------------------

    async def read(self, wanted: Wanted) -> dict[str, Document]:
        """Return the newest value of each key that ``wanted`` accepts, as of now. Cancel-safe."""
        if not await topics.topic_exists(self._store, self.topic):
            return {}
        result: asyncio.Future[dict[str, Document]] = asyncio.get_running_loop().create_future()
        self._reads.append((wanted, result))
        async with self._scanning:
            # A scan that began after this call may have served it.
            if not result.done():
                reads, self._reads = self._reads, []
                await self._scan([read for read in reads if not read[1].done()])
        return result.result()

    async def _scan(
        self, reads: Sequence[tuple[Wanted, asyncio.Future[dict[str, Document]]]]
    ) -> None:
        """Read the topic once for several calls."""
        try:
            values = await self._values(lambda key: any(wanted(key) for wanted, _ in reads))
        except BaseException as error:
            for _, result in reads:
                if not result.done():
                    result.set_exception(
                        error if isinstance(error, MagnetarError) else LostError("not read")
                    )
                    result.exception()  # the caller may have been cancelled
            raise
        for wanted, result in reads:
            if not result.done():
                result.set_result({key: value for key, value in values.items() if wanted(key)})

    async def _values(self, wanted: Wanted) -> dict[str, Document]:
        link = await self._links.owner(self.topic.full, self._service_url)
        name = f"reader-{self._entropy.hex(5)}"
        reader = await RawReader.open(
            link, self.topic.full, name=name, compacted=True, create=False
        )
        values: dict[str, tuple[bytes, bytes]] = {}
        try:
            await self._schemas.load()
            async for entries in reader.until_last():
                await self._schemas.learn(entries)
                for entry in entries:
                    _take(entry, wanted, values)
        finally:
            if reader.consumer.error is None:
                with suppress(MagnetarError):
                    await reader.consumer.close()
        return {key: self._schemas.decode(*value) for key, value in values.items()}

    # --- writing --------------------------------------------------------------------------------

    async def write(self, key: str, value: Document | None) -> Position:
        """Store the value of a key, None to delete it; return where. After an error it may be stored."""
        self.used_s = self._clock.monotonic_s()
        async with self._attaching:
            producer = await self._attached()
        version, payload = FIRST_VERSION, b""
        if value is not None:
            version, payload = self._schemas.encode(value)
        self._sequence += 1
        sequence = self._sequence
        entry = pack_entry(
            [Message(None if value is None else payload, key, sequence_id=sequence)],
            producer_name=producer.name,
            publish_ms=self._clock.wall_ms(),
            extra={"schema_version": version, "uncompressed_size": len(payload)},
        )
        stored: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._unanswered[sequence] = stored
        try:
            producer.send([sequence], [entry])
            if producer.error is not None:
                raise producer.error
            return await stored
        finally:
            del self._unanswered[sequence]

    async def _attached(self) -> RawProducer:
        if self._producer is None or self._producer.error is not None:
            if not await topics.topic_exists(self._store, self.topic):
                await topics.require_namespace(self._store, self.topic)
                await topics.create_missing(self._store, self.topic)
            await self._schemas.ensure()
            link = await self._links.owner(self.topic.full, self._service_url)
            # Apache's subscription for compaction keeps entries until a compaction has read them.
            keeper = await RawConsumer.open(
                *(link, self.topic.full, COMPACTION, SHARED),
                on_messages=lambda messages: None,
                initial=FROM_EARLIEST,
            )
            await keeper.close()
            self._producer = await RawProducer.open(
                link, self.topic.full, on_receipts=self._stored, on_end=self._failed
            )
        return self._producer

    def _stored(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            stored = self._unanswered.get(receipt.sequence_id)
            if stored is not None and not stored.done():
                stored.set_result(receipt.position)

    def _failed(self, error: MagnetarError) -> None:
        for stored in self._unanswered.values():
            if not stored.done():
                stored.set_exception(error)

    async def close(self) -> None:
        """Detach the producer. Values that are being written may be stored."""
        producer, self._producer = self._producer, None
        self._failed(LostError("closed"))
        if producer is not None and producer.error is None:
            with suppress(MagnetarError):
                await producer.close()


def _take(entry: Delivered, wanted: Wanted, values: dict[str, tuple[bytes, bytes]]) -> None:
    """Note the values of wanted keys in an entry."""
    try:
        opened = unpack_entry(entry.entry)
    except BatchFormatError:
        return  # of no broker, whose entries have checksums that were verified
    for message in opened.messages:
        key = message.key
        if key is None or message.compacted_out or not wanted(key):
            continue
        if message.value:
            values[key] = opened.metadata.schema_version, message.value
        else:
            values.pop(key, None)


class SnapshotTopics:
    """All of them, as one broker uses them. Created inside a running loop; must be closed."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        schemas: SchemaRegistry,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        service_url: str,
        tls: ContextSource | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._clock = clock
        self._entropy = entropy
        self._service_url = service_url
        self._links = Links(network, replace(LINKS, tls=tls, credentials=credentials), BrokerLink)
        self._logs: dict[TopicName, SnapshotLog] = {}
        self._tasks = TaskScope("snapshots of transactions")
        self._tasks.spawn("unused", restarting("end of unused snapshots", self._close_unused))

    async def exist(self, namespace: NamespaceName) -> bool:
        """Return whether topics of the namespace may have transactions. Raises the store's errors."""
        nodes = [topics.ledger_path(namespace.topic(local)) for local in TOPICS]
        values, _ = await self._store.get_all(nodes)
        return any(value is not None for value in values)

    async def read(
        self, namespace: NamespaceName, local: str, wanted: Wanted
    ) -> Mapping[str, Document]:
        """Read as ``SnapshotLog.read``, of the topic ``local``."""
        return await self._log_of(namespace, local).read(wanted)

    async def write(
        self, namespace: NamespaceName, local: str, key: str, value: Document | None
    ) -> Position:
        """Write as ``SnapshotLog.write``, to the topic ``local``."""
        return await self._log_of(namespace, local).write(key, value)

    def _log_of(self, namespace: NamespaceName, local: str) -> SnapshotLog:
        if self._tasks.closed:
            raise LostError("the broker is shutting down")
        topic = namespace.topic(local)
        log = self._logs.get(topic)
        if log is None:
            log = self._logs[topic] = SnapshotLog(
                topic,
                EventSchemas(topic, self._schemas, TOPICS[local]),
                self._store,
                self._links,
                self._service_url,
                self._clock,
                self._entropy,
            )
        return log

    async def _close_unused(self) -> None:
        while True:
            await asyncio.sleep(UNUSED_S / 2)
            since_s = self._clock.monotonic_s() - UNUSED_S
            for log in [log for log in self._logs.values() if log.used_s < since_s]:
                await log.close()

    async def close(self) -> None:
        """End all reads and writes. Safe to call twice."""
        await self._tasks.close()
        self._links.abort()
        await asyncio.gather(*(log.close() for log in self._logs.values()))
