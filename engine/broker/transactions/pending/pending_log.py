"""The log of one subscription's transactional acknowledgements: a managed ledger with one cursor.

Records that are not needed any more are acknowledged in that cursor, so that the ledgers are trimmed.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

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
from engine.wire import pulsar_pb2 as pb

CURSOR = "__pending_ack_state"
READ_ENTRIES, READ_BYTES = 1000, 1 << 20
"""Entries and bytes of one read at recovery."""


def log_name(topic: TopicName, subscription: str) -> str:
    """Return the name of the managed ledger with a subscription's log."""
    local = f"{topic.local}-{subscription}{PENDING_ACK_SUFFIX}"
    return f"{topic.namespace}/{topic.domain}/{encode_name(local)}"


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
    ``PendingAckLogs``."""

    __slots__ = ("_config", "_factory")

    def __init__(
        self, factory: ManagedLedgerFactory, config: Callable[[TopicPolicies], LedgerConfig]
    ) -> None:
        self._factory = factory
        self._config = config

    async def open(self, name: str, policies: TopicPolicies, *, make: bool) -> ManagedLedger | None:
        config = replace(
            self._config(policies),
            retention_s=0.0,
            retention_bytes=0,
            offload=None,
            entry_indexes=False,
            entry_times=False,
        )
        try:
            return await self._factory.open(name, config, make=make)
        except ManagedLedgerNotFoundError:
            return None

    async def delete(self, name: str) -> None:
        with suppress(ManagedLedgerNotFoundError):
            await self._factory.delete(name)
