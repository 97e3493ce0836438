"""Replication of one topic to one cluster: entries behind a cursor, sent as they are stored and passed once they are
stored there (G2).

An entry is sent by its cluster of origin alone, and only to clusters that its publisher names, if any (G3). Whatever
fails ends the connection's producer, and the replicator continues at the first entry without a receipt.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from engine.admin.link_causes import LinkCause
from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError, WorldError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice, View
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.control.counters import Rate, Traffic
from engine.broker.control.rate_limit import RateLevel, RateLimit
from engine.broker.dispatch.facts import (
    MARKER,
    ORIGIN,
    TRANSACTION,
    EntryFacts,
    facts_of,
    places_of,
)
from engine.broker.dispatch.ports import Transactional
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import TopicPolicies
from engine.broker.ports import RemoteClusters
from engine.broker.topics.ports import Log, SubscriptionCursor
from engine.broker.topics.rates import TopicRates
from engine.broker.topics.subscriptions.cursor_moves import ForwardMoves
from engine.client.broker_link import BrokerLink
from engine.client.errors import REFUSALS, ClientError, RefusedError, ServerError
from engine.client.replicating_producer import ReplicatingProducer, SentRun
from engine.ledger.errors import LedgerError
from engine.managed.errors import ManagedLedgerError
from engine.wire.batches import read_metadata
from engine.wire.geo.markers import SENT
from engine.wire.geo.sent_entries import sent_entry, without_transactions
from engine.wire.geo.source_positions import origin_field

log = logging.getLogger(__name__)

CURSOR_PREFIX = "pulsar.repl."
UNANSWERED_MAX = 5_000
"""Entries sent and not stored yet: 50,000 a second over a round trip of 100 ms."""
UNANSWERED_BYTES_MAX = 8 << 20
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 60.0
STALL_S = 60.0
"""Time without a receipt after which the producer is replaced, although its connection lives."""
CLOSE_S = 5.0
_SCHEMA_VERSION = (b"\x82\x01",)
"""Tag of schema_version, field 16."""


UNCONFIRMED_S = 5
"""Time without a receipt after which it is reported."""
_CAUSES: dict[type[Exception], LinkCause] = {
    REFUSALS[ServerError.AuthenticationError]: LinkCause.RIGHTS,
    REFUSALS[ServerError.AuthorizationError]: LinkCause.RIGHTS,
    REFUSALS[ServerError.ProducerBlockedQuotaExceededError]: LinkCause.QUOTA,
    REFUSALS[ServerError.ProducerBlockedQuotaExceededException]: LinkCause.QUOTA,
    REFUSALS[ServerError.IncompatibleSchema]: LinkCause.SCHEMA,
    REFUSALS[ServerError.TopicNotFound]: LinkCause.TOPIC_MISSING,
    RefusedError: LinkCause.REFUSED,
    ClientError: LinkCause.UNREACHABLE,
    WorldError: LinkCause.STORAGE,
    LedgerError: LinkCause.STORAGE,
    ManagedLedgerError: LinkCause.STORAGE,
}
"""Causes by kind of error, of which the first that applies counts."""


class ReplicationBlocked(ClientError):
    """Entries cannot be sent until an operator changes something; the text states what."""

    retriable = True

    def __init__(self, text: str, cause: LinkCause) -> None:
        super().__init__(text)
        self.cause = cause


def cause_of(error: Exception) -> LinkCause:
    """Return the cause that an error stands for."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, LinkCause):
        return cause
    kinds = (cause for kind, cause in _CAUSES.items() if isinstance(error, kind))
    return next(kinds, LinkCause.FAILED)


class ReplicatedHost(Transactional, Protocol):
    """Parts of a topic that its replication uses."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    @property
    def policies(self) -> TopicPolicies: ...

    @property
    def rates(self) -> TopicRates: ...

    @property
    def closing(self) -> bool: ...

    @property
    def log(self) -> Log: ...

    @property
    def scope(self) -> TaskScope: ...

    def touched(self) -> None: ...


class MarkerReader(Protocol):
    """Reader of the markers that the other cluster wrote."""

    def wake(self) -> None:
        """Handle that the replicator connected."""
        ...

    async def received(self, remote: str, position: Position, kind: int, entry: bytes) -> None:
        """Handle a marker. Raises MagnetarError when it must be handled again later."""
        ...


class Replicator:
    """Sends the entries of a topic to the cluster ``remote``, until ``stop``."""

    def __init__(
        self,
        host: ReplicatedHost,
        remote: str,
        cursor: SubscriptionCursor,
        markers: MarkerReader | None = None,
    ) -> None:
        """``markers``: reader of the other cluster's markers; None where there are none."""
        self.remote = remote
        self._markers = markers
        self.cursor = cursor
        self.sent = Traffic()
        self.closed = False
        self.moves = ForwardMoves(self, cursor, host.log)
        self.expired = Rate()
        """Entries that expired before they were known to be stored there."""
        self.connected_ms = 0
        self.address = ""
        self.error = ""
        """The reason why nothing is sent; empty while the producer is attached."""
        self.stopped_ms = host.context.clock.wall_ms()
        """Time since when nothing is sent for the present cause, ms."""
        self._cause = LinkCause.CONNECTING
        self._oldest: tuple[Position, int] | None = None
        """The oldest entry that is not known to be stored there, with its publish time, as last found."""
        self._resting = False
        self.restarts = 0
        """Producers that were replaced because no receipt arrived, or waiting entries were not read."""
        self._host = host
        self._scope = TaskScope(f"replication of {host.name} to {remote}")
        self._wake = asyncio.Event()
        self._source = EntrySource(cursor, self._scope, host.context, self._wake.set, None, host)
        self._rate = RateLimit(host.context.clock, host.rates.published, RateLevel.TOPIC)
        self._throttle = Throttle(self._wake.set, by_entry=False, holds=lambda: True)
        self.apply_rates()
        self._origin = origin_field(host.context.identity.cluster)
        self._bytes = 0
        """Bytes that were sent and have no receipt."""
        self._progress_s = 0.0
        """Time at which entries were read last, or none waited."""
        self._check: asyncio.TimerHandle | None = None
        """The next check of progress, without which nothing may ever wake the replicator."""
        self._producer: ReplicatingProducer | None = None
        self._lost: Position | None = None
        """The last entry that was refused there although later ones were stored."""
        self._versions: dict[bytes, bytes] = {}
        """Versions of schemas there by those here, of the present producer."""

    @property
    def connected(self) -> bool:
        return self._producer is not None and self._producer.error is None

    @property
    def backlog(self) -> int:
        """Number of entries that are not known to be stored there, with those that need not be sent."""
        return self.cursor.backlog_entries()

    @property
    def delay_s(self) -> int:
        """Time since the oldest entry without a receipt was sent."""
        oldest_s = self._producer.oldest_s if self._producer is not None else None
        return 0 if oldest_s is None else int(self._host.context.clock.monotonic_s() - oldest_s)

    @property
    def _unanswered(self) -> int:
        """Number of entries without a receipt of the present producer."""
        return self._producer.unanswered if self._producer is not None else 0

    @property
    def cause(self) -> LinkCause | None:
        """The cause why nothing is sent, or not faster; None: entries are sent."""
        if not self.connected:
            return None if self._resting else self._cause
        if self.delay_s >= UNCONFIRMED_S:
            return LinkCause.UNCONFIRMED
        return LinkCause.RATE_LIMIT if self._throttle.stopped else None

    def oldest_ms(self) -> int | None:
        """Return when the first entry that is not known to be stored there was published, epoch milliseconds.

        0 without a backlog, None when it is not known. Nothing is read from storage: the result may be of an earlier
        entry, never of a later one.
        """
        if not self.backlog:
            return 0
        position, oldest = self._host.log.next_position(self.cursor.mark_delete), self._oldest
        if oldest is not None and oldest[0] == position:
            return oldest[1]
        summary = self._host.log.entry_summary_at_hand(position)
        if summary is not None:
            self._oldest = position, summary.publish_ms
            return summary.publish_ms
        return oldest[1] if oldest is not None and oldest[0] < position else None

    async def find_oldest(self) -> None:
        """Read the first entry's time from storage unless it is known. Raises the log's errors. Cancel-safe."""
        if self.oldest_ms() is None:
            position = self._host.log.next_position(self.cursor.mark_delete)
            summary = await self._host.log.entry_summary(position)
            self._oldest = position, summary.publish_ms
            self._host.touched()

    def start(self) -> None:
        """Begin to send."""
        self._scope.spawn("send", self._run())

    def apply_rates(self) -> None:
        """Apply the rate of the topic's policies, which may have changed."""
        settings = self._host.context.settings
        self._rate.set(self._host.policies.rates.replicator)
        self._throttle.by_entry = settings.dispatch_throttling_on_batch_message_enabled
        self._throttle.set((self._rate,))

    def wake(self) -> None:
        """Continue after entries were appended."""
        self._wake.set()

    def rest(self) -> None:
        """Disconnect until there is something to send, so that the topic there is not in use because of this one."""
        if self.connected and not self.backlog and not self._unanswered:
            self._resting = True
            self._wake.set()

    async def stop(self) -> None:
        """End, without waiting for receipts. Entries that were sent may be stored there and are sent again later."""
        self.closed = True
        self._source.close()
        self._throttle.close()
        await self._scope.close()

    def tick(self, elapsed_s: float) -> bool:
        """Compute the rates, as ``Rate.tick`` does."""
        is_active = self.sent.tick(elapsed_s)
        return self.expired.tick(elapsed_s) or is_active

    @property
    def _remotes(self) -> RemoteClusters:
        remotes = self._host.context.remotes
        assert remotes is not None, "a broker without remote clusters replicates no topic"
        return remotes

    # --- moves of the cursor by administrators and policies -------------------------------------

    @property
    def closing(self) -> bool:
        return self._host.closing

    def recheck_read_ahead(self) -> None:
        """Compare entries that were read ahead with the cursor again before they are sent."""
        self._source.acknowledged_ahead()

    def cursor_moved(self) -> None:
        """Continue behind the cursor after it was moved."""
        self._source.acknowledged_ahead()
        self._host.touched()
        self._wake.set()

    def count_expired(self, entries: int) -> None:
        self.expired.total += entries

    # --- one producer after the other -----------------------------------------------------------

    async def _run(self) -> None:
        context = self._host.context
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                await self._replicate(backoff)
                await self._rest(backoff)
            except MagnetarError as error:
                self._note(str(error), cause_of(error))
            except Exception as error:  # replication ends with the topic alone
                log.exception("replication fails topic=%s to=%s", self._host.name, self.remote)
                self._note(f"{type(error).__name__}: {error}", LinkCause.FAILED)
            # A read under way belongs to the time before: none may follow the rewind out of order.
            await self._source.settle()
            self._bytes = 0
            self._source.rewind()
            await asyncio.sleep(backoff.next_s(context.entropy.random()))

    async def _rest(self, backoff: Backoff) -> None:
        """Stay disconnected until there is something to send."""
        while not self.backlog:
            self._wake.clear()
            await self._wake.wait()
        self._resting = False
        backoff.reset()

    def _note(self, error: str, cause: LinkCause) -> None:
        if error != self.error:
            log.warning("replication stops topic=%s to=%s: %s", self._host.name, self.remote, error)
        if not self.error or cause is not self._cause:
            self.stopped_ms = self._host.context.clock.wall_ms()
        self.error, self._cause = error, cause
        self._host.touched()

    async def _replicate(self, backoff: Backoff) -> None:
        """Send with one producer until it ends. Raises MagnetarError with the reason; returns in order to rest."""
        host, name, remotes = self._host, self._host.name, self._remotes
        client = await remotes.client(self.remote)
        await remotes.check_shape(client, self.remote, name)
        link = await client.owner(name.full)
        producer = await self._attach(link)
        self._producer = producer
        self._versions.clear()
        self.connected_ms, self.address = host.context.clock.wall_ms(), link.peer_name
        try:
            await self._expire()
            if self.error:
                log.info("replication continues topic=%s to=%s", name, self.remote)
            self.error = ""
            host.touched()
            if self._markers is not None:
                self._markers.wake()
            await self._send_all(producer, backoff)
        finally:
            self._producer = None
            if self._check is not None:
                self._check.cancel()
                self._check = None
            await self._close(producer)
            self._lost = producer.overtaken or self._lost
            host.touched()

    async def _attach(self, link: BrokerLink) -> ReplicatingProducer:
        """Attach the producer there. Raises ReplicationBlocked, and as ``RawProducer.open``."""
        if not link.features.supports_repl_dedup_by_lid_and_eid:
            raise ReplicationBlocked(
                f"The brokers of {self.remote} do not name source positions: Apache Pulsar 3.0.11, 4.0.4 or newer is "
                "needed",
                LinkCause.VERSION,
            )
        return await self._open(link)

    async def _open(self, link: BrokerLink, *, stores: bool = True) -> ReplicatingProducer:
        return await ReplicatingProducer.attach(
            link,
            self._host.name.full,
            origin=self._host.context.identity.cluster,
            destination=self.remote,
            on_stored=self._stored,
            on_end=lambda error: self._wake.set(),
            stores=stores,
            lost=self._lost,
        )

    async def _expire(self) -> None:
        """Pass what became too old while nothing could be sent, without waiting for the next periodic check."""
        if ttl_s := self._host.policies.backlog.message_ttl_s:
            await self.moves.expire(self._host.context.clock.wall_ms() - ttl_s * 1000)

    async def _close(self, producer: ReplicatingProducer) -> None:
        """Detach the producer there, so that its name is free for the next one."""
        if producer.link.closing:
            return
        with suppress(MagnetarError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await producer.close()

    async def _send_all(self, producer: ReplicatingProducer, backoff: Backoff) -> None:
        self._progress_s = self._host.context.clock.monotonic_s()
        while producer.error is None:
            if self._resting:
                return
            self._wake.clear()
            room = UNANSWERED_MAX - producer.unanswered
            view = None
            if room > 0 and self._bytes < UNANSWERED_BYTES_MAX and self._throttle.opens():
                view = self._source.next(room)
            if view is not None:
                fits = min(room, self._throttle.fitting(view))
                if view.count > fits:
                    self._source.give_back(view.part(fits, view.count))
                    view = view.part(0, fits)
                await self._send(producer, view)
                await producer.link.room()
                self._progress_s = self._host.context.clock.monotonic_s()
                backoff.reset()
                continue
            self._check_progress(producer)
            if self._check is None:  # one timer for many waits
                loop = asyncio.get_running_loop()
                self._check = loop.call_later(STALL_S / 4, self._check_due)
            await self._wake.wait()
        raise producer.error

    @property
    def _is_stalled(self) -> bool:
        """True when entries wait that could be read, and none is being read."""
        log = self._host.log
        if not self.backlog or self._throttle.stopped or self._source.waiting_for != "append":
            return False
        # Entries from the first open transaction on cannot be read yet.
        return log.last_readable == log.last_confirmed

    def _check_due(self) -> None:
        self._check = None
        self._wake.set()

    def _check_progress(self, producer: ReplicatingProducer) -> None:
        """Raise ReplicationBlocked when what was sent has no receipt, or what waits is not read, for too long."""
        now_s = self._host.context.clock.monotonic_s()
        oldest_s = producer.oldest_s
        if oldest_s is not None:
            since_s, reason = oldest_s, "No receipt"
        elif self._is_stalled:
            since_s, reason = self._progress_s, "Entries wait, and none was read"
        else:
            since_s = self._progress_s = now_s
        if now_s - since_s >= STALL_S:
            self.restarts += 1
            raise ReplicationBlocked(
                f"{reason} within {STALL_S:g} s: the producer is replaced", LinkCause.UNCONFIRMED
            )

    async def _send(self, producer: ReplicatingProducer, view: View) -> None:
        run = view.run
        special = facts_of(run, ORIGIN | TRANSACTION | MARKER).special
        due: list[range] = []
        markers: set[int] = set()
        of_transactions: set[int] = set()
        if not special and type(view) is View:
            due.append(range(view.start, view.stop))
        else:
            passed: list[range] = []
            sends, judged = True, None
            for i in view.indexes:
                facts = special.get(i)
                # Facts of one object are of messages that one replicator sent; a marker has its own.
                if facts is not judged:
                    sends, judged = facts is None or await self._sends(run, i, facts), facts
                if sends and facts is not None and facts.marker is not None:
                    markers.add(i)
                elif sends and facts is not None and facts.transaction is not None:
                    of_transactions.add(i)
                into = due if sends else passed
                if into and into[-1].stop == i and not markers.intersection((i - 1, i)):
                    into[-1] = range(into[-1].start, i + 1)
                else:
                    into.append(range(i, i + 1))
            for some in passed:
                self._pass_over(run.ledger_id, run.first + some.start, len(some))
        if not due:
            return
        if of_transactions:
            run = without_transactions(run, of_transactions)
        versions = await self._versions_of(producer, run, due)
        for part in due:
            self._send_part(producer, run, part, versions, is_marker=part.start in markers)

    async def _sends(self, run: Slice, i: int, facts: EntryFacts) -> bool:
        """Return whether an entry of these facts is sent; handle it if it is a marker of the other cluster.

        What is read of a transaction is committed or aborted, since reads end before the first open one. Raises
        ReplicationBlocked where transactions are not enabled, and that is not known.
        """
        if not self._is_for(facts):
            # Each cluster's markers are handled once: by the replicator to that cluster.
            if facts.marker is not None and facts.replicated_from == self.remote and self._markers:
                await self._markers.received(
                    self.remote, run.position(i), facts.marker, run.entry(i)
                )
            return False
        if facts.marker is not None:
            return facts.marker in SENT
        if facts.transaction is not None and self._host.context.transaction_snapshots is None:
            raise ReplicationBlocked(
                f"Entry {run.position(i)} is of a transaction, and transactions are not enabled on this broker",
                LinkCause.TRANSACTION,
            )
        return facts.transaction not in self._host.aborted

    def _send_part(
        self,
        producer: ReplicatingProducer,
        run: Slice,
        part: range,
        versions: Mapping[int, bytes],
        *,
        is_marker: bool = False,
    ) -> None:
        """Send a marker, or consecutive messages, and count them as without a receipt."""
        now_s = self._host.context.clock.monotonic_s()
        if is_marker:
            i = part.start
            entry = sent_entry(run, i, self._origin, versions.get(i))
            sent = producer.send_marker(run.position(i), entry, now_s)
        else:
            sent = producer.send_from(run, part, self._origin, versions, now_s)
        if sent is not None:
            self._bytes += sum(sent.sizes)
        self._throttle.sent(View(run, part.start, part.stop))

    def _is_for(self, facts: EntryFacts) -> bool:
        """Return whether an entry of these facts is of this cluster and may be sent to the other one (G3)."""
        return not facts.replicated_from and (
            not facts.replicate_to or self.remote in facts.replicate_to
        )

    async def _versions_of(
        self, producer: ReplicatingProducer, run: Slice, due: Sequence[range]
    ) -> Mapping[int, bytes]:
        """Return the version there of the schema of each entry that has one, by its index; register missing ones."""
        named = self._versions_named(run, due)
        for here in named.values():
            if here not in self._versions:
                self._versions[here] = await self._remotes.register_schema(
                    producer.link, self._host.name, here
                )
        return {i: self._versions[here] for i, here in named.items()}

    @staticmethod
    def _versions_named(run: Slice, due: Sequence[range]) -> dict[int, bytes]:
        """Return the version here of the schema of each entry that names one, by its index."""
        named: dict[int, bytes] = {}
        for i in places_of(run, _SCHEMA_VERSION):
            if any(i in part for part in due):
                metadata = read_metadata(run.entry(i))
                if metadata is not None and metadata.HasField("schema_version"):
                    named[i] = metadata.schema_version
        return named

    # --- outcomes -------------------------------------------------------------------------------

    def _stored(self, sent: SentRun, count: int) -> None:
        """Pass entries that are stored there."""
        start = sent.done - count
        size = sum(sent.sizes[start : sent.done])
        self._bytes -= size
        self.sent.messages.total += (
            count if sent.counts is None else sum(sent.counts[start : sent.done])
        )
        self.sent.bytes.total += size
        self._pass_over(sent.ledger_id, sent.first + start, count)
        self._wake.set()

    def _pass_over(self, ledger_id: int, first: int, count: int) -> None:
        self.cursor.acknowledge_run(ledger_id, first, first + count)
        self._host.touched()
