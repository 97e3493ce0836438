"""Replicated subscriptions of one topic: their positions are translated for other clusters by snapshots (PIP-33, G4).

A snapshot begins with a request in this topic. Each other cluster answers with its last position, in its own topic,
from where the answer is sent here like a message. Who has consumed everything here up to the last answer has also
consumed everything there up to that position. With several other clusters there is a second round, because a message
of one of them may have been in another one before it was here. Its requests have another id, so that an answer of the
first round that arrives twice does not count as one of the second.

Everything is stored as markers: what was lost with a broker is read again, and only snapshots are made anew.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from engine.base.errors import InvalidNameError
from engine.base.ids import Position
from engine.base.names import TopicName, check_subscription
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.context import Context
from engine.broker.errors import NotAllowed
from engine.broker.topics.geo.replicated_position import ReplicatedPosition
from engine.broker.topics.ports import Log
from engine.broker.topics.subscriptions.cursor_moves import CursorMoves
from engine.managed.ledger import InitialPosition
from engine.wire.geo.markers import (
    ClusterSnapshot,
    SnapshotRequest,
    SnapshotResponse,
    SubscriptionUpdate,
    read_marker,
    request_marker,
    response_marker,
    snapshot_marker,
    update_marker,
)

log = logging.getLogger(__name__)

ECHO = "-echo"
"""End of the id of a snapshot that another cluster's snapshot caused; it causes none itself."""
TIMEOUT_DOUBLINGS_MAX = 5
"""Times that the time limit of a snapshot is doubled while the other clusters answer none."""


class Connected(Protocol):
    """The replicator of one cluster."""

    @property
    def connected(self) -> bool: ...


class ReplicatedSubscription(Protocol):
    """Parts of a subscription that its replication uses."""

    @property
    def moves(self) -> CursorMoves: ...

    @property
    def replication(self) -> ReplicatedPosition | None:
        """State of its replication; None for a subscription that is not replicated."""
        ...


class SubscriptionTable(Protocol):
    """The subscriptions of a topic."""

    @property
    def unread(self) -> Mapping[str, str]: ...

    @property
    def any_replicated(self) -> bool: ...

    def get(self, name: str, /) -> ReplicatedSubscription | None: ...

    async def create(
        self,
        name: str,
        initial: InitialPosition,
        properties: dict[str, str],
        *,
        replicated: bool,
    ) -> ReplicatedSubscription | None: ...


class ReplicatedTopic(Protocol):
    """Parts of a topic that the replication of its subscriptions uses."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    @property
    def closing(self) -> bool: ...

    @property
    def log(self) -> Log: ...

    @property
    def scope(self) -> TaskScope: ...

    @property
    def subscriptions(self) -> SubscriptionTable: ...

    def touched(self) -> None: ...


class _Pending:
    """A snapshot that is being made. ``began_at``: number of messages' entries that were stored when it began."""

    __slots__ = ("began_at", "began_s", "missing", "positions", "remotes", "request_id", "second")

    def __init__(
        self, request_id: str, remotes: frozenset[str], began_at: int, now_s: float
    ) -> None:
        self.request_id = request_id
        self.remotes = remotes
        self.missing = set(remotes)
        self.began_at = began_at
        self.began_s = now_s
        self.positions: dict[str, Position] = {}
        self.second = False
        """True in the second round."""


class _Written:
    """The outcome of the append of one marker. An ``AppendSink``."""

    __slots__ = ("_failed", "_stored")

    def __init__(self, stored: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._stored = stored
        self._failed = failed

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self._stored()

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        self._failed(error)


class ReplicatedSubscriptions:
    """Snapshots and updates of a topic that is sent to the clusters of ``replicators``."""

    def __init__(self, host: ReplicatedTopic, replicators: Mapping[str, Connected]) -> None:
        self._host = host
        self._replicators = replicators
        self._markers = 0
        """Markers that were stored since the topic was loaded."""
        self._covered = -1
        """Value of ``_messages`` when the last snapshot began; -1 before the first one, which is made in any case:
        what subscriptions had passed before the topic was loaded may not be known elsewhere."""
        self._outdated = False
        """True: one of several other clusters stored something since. It may have answered the last snapshot before it
        received from a third cluster what was stored here already."""
        self._pending: _Pending | None = None
        self._unanswered = 0
        """Snapshots that were given up since the last one was made."""
        self._work: asyncio.Task[None] | None = None

    @property
    def _here(self) -> str:
        return self._host.context.identity.cluster

    @property
    def _enabled(self) -> bool:
        return self._host.context.settings.enable_replicated_subscriptions

    @property
    def _messages(self) -> int:
        """Number of entries that were stored since the topic was loaded and are no markers."""
        return self._host.log.entries_added - self._markers

    # --- snapshots ------------------------------------------------------------------------------

    def markers_stored(self, count: int) -> None:
        """Note that ``count`` of the entries that were stored are markers."""
        self._markers += count

    def wake(self) -> None:
        """Begin to make snapshots when one is due: something was stored, or a replicator connected, or a subscription
        is replicated from now on."""
        if self._work is None and self._is_due():
            self._work = self._host.scope.spawn("snapshots", self._run())

    def _is_due(self) -> bool:
        host = self._host
        return (
            (self._messages != self._covered or self._outdated)
            and self._enabled
            and not host.closing
            and host.log.terminated is None
            and bool(self._replicators)
            and all(replicator.connected for replicator in self._replicators.values())
            and host.subscriptions.any_replicated
        )

    async def _run(self) -> None:
        """Make snapshots for as long as they are due, at most one in each interval."""
        settings = self._host.context.settings
        try:
            while self._pending is not None or self._is_due():
                await asyncio.sleep(
                    settings.replicated_subscriptions_snapshot_frequency_millis / 1000
                )
                self._continue()
        finally:
            self._work = None

    def _continue(self) -> None:
        """Give up the pending snapshot if it takes too long; begin one if there is none and it is due."""
        pending, now_s = self._pending, self._host.context.clock.monotonic_s()
        if pending is not None:
            limit_s = self._host.context.settings.replicated_subscriptions_snapshot_timeout_seconds
            if pending.remotes != self._replicators.keys():
                self._end_pending()
            elif now_s - pending.began_s >= limit_s << min(self._unanswered, TIMEOUT_DOUBLINGS_MAX):
                log.warning(
                    "snapshot of subscriptions timed out topic=%s without=%s",
                    self._host.name,
                    ",".join(sorted(pending.missing)),
                )
                self._unanswered += 1
                self._host.context.snapshots.timed_out += 1
                self._end_pending()
            else:
                return
        if self._is_due():
            remotes = frozenset(self._replicators)
            is_echo, self._outdated = self._messages == self._covered, False
            request_id = self._new_id() + ECHO * is_echo
            self._pending = _Pending(request_id, remotes, self._messages, now_s)
            self._host.context.snapshots.pending += 1
            self._request(self._pending)

    def _new_id(self) -> str:
        digits = self._host.context.entropy.hex(16)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _request(self, pending: _Pending) -> None:
        self._write(request_marker(SnapshotRequest(pending.request_id, self._here), self._now_ms()))

    def _answered(self, position: Position, response: SnapshotResponse) -> None:
        """Note another cluster's answer, which is stored here at ``position``."""
        pending = self._pending
        if (
            pending is None
            or response.snapshot_id != pending.request_id
            or response.cluster not in pending.missing
        ):
            return
        # The positions of the first round count: of what was behind them in the second, nothing is known.
        pending.positions.setdefault(response.cluster, response.position)
        pending.missing.discard(response.cluster)
        if pending.missing:
            return
        if len(pending.remotes) > 1 and not pending.second:
            pending.second = True
            pending.missing = set(pending.remotes)
            pending.request_id = self._new_id() + ECHO * pending.request_id.endswith(ECHO)
            self._request(pending)
            return
        snapshot = ClusterSnapshot(pending.request_id, position, pending.positions)
        self._write(
            snapshot_marker(snapshot, self._here, self._now_ms()), lambda: self._made(pending)
        )

    def _made(self, pending: _Pending) -> None:
        if self._pending is pending:
            took_s = self._host.context.clock.monotonic_s() - pending.began_s
            self._covered = pending.began_at
            self._unanswered = 0
            self._host.context.snapshots.made(took_s)
            self._end_pending()

    def _end_pending(self) -> None:
        if self._pending is not None:
            self._pending = None
            self._host.context.snapshots.pending -= 1

    def close(self) -> None:
        """End with the topic, or with its replication."""
        self._end_pending()

    # --- updates --------------------------------------------------------------------------------

    def update(self, subscription: str, snapshot: ClusterSnapshot) -> None:
        """Write the positions of a snapshot that a subscription passed, for the other clusters."""
        if self._enabled:
            self._write(
                update_marker(SubscriptionUpdate(subscription, snapshot.positions), self._now_ms())
            )

    async def received(self, remote: str, position: Position, kind: int, entry: bytes) -> None:
        """Handle a marker that the cluster ``remote`` wrote, which is stored here at ``position``.

        Raises ServiceNotReady when it must be handled again later. Cancel-safe.
        """
        marker = read_marker(entry, kind)
        if not self._enabled or self._host.closing:
            return
        if isinstance(marker, SnapshotRequest) and marker.source == remote:
            # The answer is stored behind this position, and is not sent before anything that is up to it.
            last = self._host.log.last_confirmed
            response = SnapshotResponse(marker.snapshot_id, self._here, last)
            self._write(response_marker(response, remote, self._now_ms()))
            if len(self._replicators) > 1 and not marker.snapshot_id.endswith(ECHO):
                self._outdated = True
                self.wake()
        elif isinstance(marker, SnapshotResponse) and marker.cluster == remote:
            self._answered(position, marker)
        elif isinstance(marker, SubscriptionUpdate) and self._here in marker.positions:
            await self._apply(remote, marker.subscription, marker.positions[self._here])

    async def _apply(self, remote: str, name: str, position: Position) -> None:
        """Move a subscription to where it is in the cluster ``remote``; create it when it is missing."""
        subscriptions = self._host.subscriptions
        if name in subscriptions.unread:
            return  # it exists, and is moved by the next update
        subscription = subscriptions.get(name)
        if subscription is None:
            try:
                if name == COMPACTION:
                    raise NotAllowed("It is of the topic's compaction")
                check_subscription(name)
                # At the beginning: what the other cluster's subscription needs must not be passed here.
                await subscriptions.create(name, InitialPosition.EARLIEST, {}, replicated=True)
            except (InvalidNameError, NotAllowed) as error:
                log.warning(
                    "subscription of %s is not created topic=%s: %s", remote, self._host.name, error
                )
                return
            subscription = subscriptions.get(name)
        if subscription is None or (state := subscription.replication) is None:
            return
        # A position that an unwritten ledger begins with is behind the last entry.
        subscription.moves.pass_over(min(position, self._host.log.last_confirmed))
        state.applied_ms, state.applied_from = self._now_ms(), remote
        self._host.touched()

    # --- markers --------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._host.context.clock.wall_ms()

    def _write(self, entry: bytes, then: Callable[[], None] = lambda: None) -> None:
        """Append a marker, and call ``then`` when it is stored."""

        def stored() -> None:
            self._markers += 1
            then()

        def failed(error: Exception) -> None:
            log.warning("marker is not stored topic=%s: %s", self._host.name, error)
            self._end_pending()

        self._host.log.append(Slice(entry, [0, len(entry)], len(entry)), _Written(stored, failed))
