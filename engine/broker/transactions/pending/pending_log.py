"""The log of one subscription's transactional acknowledgements: a managed ledger with one cursor.

Records that are not needed any more are acknowledged in that cursor, so that the ledgers are trimmed.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from engine.base.names import PENDING_ACK_SUFFIX, TopicName, encode_name
from engine.base.ranges import bits_of, words_of
from engine.broker.policies import TopicPolicies
from engine.broker.settings import BatchedWrites
from engine.broker.transactions.log_batches import pending_ack_records
from engine.broker.transactions.ports import LogPlace
from engine.broker.transactions.record_writer import RecordWriter
from engine.managed.cursors.cursor import Cursor
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig
from engine.metadata.store import NoNodeError
from engine.wire import pulsar_pb2 as pb

CURSOR = "__pending_ack_state"
READ_ENTRIES, READ_BYTES = 1000, 1 << 20
"""Entries and bytes of one read at recovery."""


OWNER = "pendingAcksOf"
"""Property of a log: the subscription whose it is, as ``owner_text``."""


def log_name(topic: TopicName, subscription: str) -> str:
    """Return the name of the managed ledger with a subscription's log, by Apache's rule.

    It is not unique: subscription ``b-c`` of topic ``a`` has that of ``c`` of ``a-b``.
    """
    return _ledger_name(topic, f"{topic.local}-{subscription}")


def own_log_name(topic: TopicName, subscription: str) -> str:
    """Return the name of a subscription's log where another subscription has the log of ``log_name``."""
    digest = sha256(owner_text(topic, subscription).encode()).hexdigest()[:16]
    return _ledger_name(topic, f"{topic.local}-{subscription}-{digest}")


def owner_text(topic: TopicName, subscription: str) -> str:
    """Return what identifies a subscription among those whose logs could have one name."""
    return f"{topic.full} {encode_name(subscription)}"


def _ledger_name(topic: TopicName, local: str) -> str:
    return f"{topic.namespace}/{topic.domain}/{encode_name(local + PENDING_ACK_SUFFIX)}"


class PendingLog:
    """An open log."""

    __slots__ = ("_cursor", "ledger", "writer")

    def __init__(
        self, ledger: ManagedLedger, cursor: Cursor, batched: BatchedWrites | None
    ) -> None:
        self.ledger = ledger
        self.writer = RecordWriter(ledger, batched)
        self._cursor = cursor

    @classmethod
    async def of(cls, ledger: ManagedLedger, batched: BatchedWrites | None = None) -> "PendingLog":
        """Return the log in a managed ledger that was just opened."""
        return cls(ledger, await ledger.open_cursor(CURSOR, InitialPosition.EARLIEST), batched)

    async def records(self) -> AsyncIterator[tuple[LogPlace, pb.PendingAckMetadataEntry]]:
        """Iterate over the records that are still needed, in order. Raises LedgerError, StoredRecordError."""
        cursor = self._cursor
        cursor.rewind()
        while views := await cursor.read(READ_ENTRIES, READ_BYTES):
            for view in views:
                for i in view.indexes:
                    position = view.run.position(i)
                    records = pending_ack_records(view.run.entry(i))
                    words = cursor.ack_set(position)
                    needed = -1 if words is None else bits_of(words)
                    for member, record in enumerate(records):
                        if needed >> member & 1:
                            yield LogPlace(position, member, len(records)), record

    def drop(self, places: Iterable[LogPlace]) -> None:
        """Note that records are not needed any more; stored with the cursor's next write."""
        whole = []
        for place in places:
            if place.members == 1:
                whole.append(place.position)
            else:
                kept = ((1 << place.members) - 1) & ~(1 << place.member)
                self._cursor.acknowledge_batch(place.position, words_of(kept))
        self._cursor.acknowledge(whole)

    async def clear(self) -> None:
        """Note that no record is needed any more; durable on return. Raises ManagedLedgerError."""
        await self._cursor.clear()


class StoredPendingLogs:
    """The logs of the subscriptions of one broker's topics, with the quorums of their topics and no retention; see
    ``PendingAckLogs``.

    A log states whose it is, since Apache's rule can give two subscriptions the same name: the second one's log then
    has another. A log that states nothing, an Apache broker's, is taken for the subscription's that asks first.
    """

    __slots__ = ("_config", "_factory")

    def __init__(
        self, factory: ManagedLedgerFactory, config: Callable[[TopicPolicies], LedgerConfig]
    ) -> None:
        self._factory = factory
        self._config = config

    async def _name(self, topic: TopicName, subscription: str) -> str:
        """Return the name of the managed ledger that a subscription's log has, or would have."""
        common, own = log_name(topic, subscription), own_log_name(topic, subscription)
        try:
            owner = (await self._factory.properties(common)).get(OWNER)
        except NoNodeError:
            return own if await self._factory.exists(own) else common
        return common if owner in (None, owner_text(topic, subscription)) else own

    async def open(
        self, topic: TopicName, subscription: str, policies: TopicPolicies, *, make: bool
    ) -> ManagedLedger | None:
        name = await self._name(topic, subscription)
        properties = {OWNER: owner_text(topic, subscription)}
        config = replace(
            self._config(policies),
            retention_s=0.0,
            retention_bytes=0,
            offload=None,
            entry_indexes=False,
            entry_times=False,
        )
        try:
            ledger = await self._factory.open(name, config, properties, make=make)
            if ledger.properties.get(OWNER, properties[OWNER]) != properties[OWNER]:
                # The other subscription made it meanwhile, maybe here: it is left to that one.
                name = own_log_name(topic, subscription)
                ledger = await self._factory.open(name, config, properties, make=make)
            return ledger
        except ManagedLedgerNotFoundError:
            return None

    async def delete(self, topic: TopicName, subscription: str) -> None:
        name = await self._name(topic, subscription)
        with suppress(ManagedLedgerNotFoundError):
            await self._factory.delete(name)
