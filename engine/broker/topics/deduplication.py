"""Deduplication: a message that a producer sends again is stored once, identified by producer name and sequence id.

The state is the highest stored sequence id by producer name. Only a stored message makes a duplicate (D14): while
entries of a name are pending, a message that may repeat one of them is not judged but waits for their outcome.
(Apache's broker refuses it, and the client sends it until the outcome is known.) The wait also keeps the order of a
producer's receipts. The outcome of entries whose append failed is known when their ledger is closed: its recovery may
add them to the log after all (``recovered``). Until then no message of the topic is judged.

Entries of another cluster's replicator are identified by their positions there instead of sequence ids: many producers'
messages share one replicator (G1). A position counts as one number (``place_of``). Markers are not judged.

The state is stored as Apache's broker does: in the properties of a cursor (``pulsar.dedup``), valid at its mark-delete
position. A topic that is loaded reads the entries behind it. The cursor keeps those entries from being trimmed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.errors import NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.policies import (
    DeduplicationPolicies,
)
from engine.broker.topics.ports import Log, SubscriptionCursor
from engine.broker.topics.publish import Producer, Publish, Stage, StagePlace
from engine.broker.topics.publishers import NAME_BYTES_MAX
from engine.broker.topics.recovered import RecoveredEntries
from engine.ledger.errors import LedgerError
from engine.managed.errors import AppendFailedError, CursorNotFoundError, ManagedLedgerError
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import COMPACTED_LEDGER, OWN_PREFIX
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.geo.source_positions import (
    origin_of,
    place_of,
    position_at,
    replicator_name,
    source_position,
)
from engine.wire.kernels import following, following_places, head_sequences
from engine.wire.varints import INT64_MAX

log = logging.getLogger(__name__)

CURSOR = "pulsar.dedup"
NOTHING = -1
"""Highest sequence id of a name that is not known."""
READY_WAIT_S = 5.0
"""Seconds for which a new producer waits for the state to be read, before it is refused and tries again."""
RETRY_MAX_S = 30.0
SNAPSHOT_BYTES_MAX = 2 << 20
"""Bound of the names in a snapshot, each its length and ``NAME_BYTES``: half of the largest state a cursor stores."""
NAME_BYTES = 16
LEDGER_SUFFIX, ENTRY_SUFFIX = "_LID", "_EID"
"""Ends of the two properties of a replicator's position."""
ESCAPE = "#magnetar.dedup:"
"""Prefix in a snapshot of producer names that would be another property of the cursor."""


class DeduplicationHost(Protocol):
    """Parts of a topic that its deduplication uses."""

    name: TopicName
    log: Log
    scope: TaskScope
    context: Context
    recovered: RecoveredEntries

    @property
    def producers(self) -> dict[str, Producer]: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...

    def arrange_stages(self) -> None: ...


class Deduplication:
    """Deduplication of one topic, a stage of it while it is on. ``status`` has Pulsar's names, for statistics."""

    __slots__ = (
        "_absent",
        "_cursor",
        "_earlier",
        "_earlier_ended",
        "_host",
        "_interval_ms",
        "_is_wanted",
        "_judges",
        "_last",
        "_last_error",
        "_pending",
        "_period",
        "_resolving",
        "_since_snapshot",
        "_snapshot_ms",
        "_stored",
        "_unresolved",
        "_waiting",
        "_work",
        "status",
    )
    place = StagePlace.DEDUPLICATION

    def __init__(self, host: DeduplicationHost) -> None:
        self._host = host
        self.status = "Disabled"
        self._last_error = ""
        self._is_wanted = False
        self._interval_ms = 0
        """Milliseconds between snapshots; 0 is never."""
        self._judges = False
        """True while deduplication is a stage of the topic."""
        self._period = 1
        """Number of the time during which it is on; runs judged in an earlier period are not in ``_pending``."""
        self._cursor: SubscriptionCursor | None = None
        self._work: asyncio.Task[None] | None = None
        self._stored: dict[str, int] = {}
        """Highest stored sequence id by producer name, in the order in which the names last published."""
        self._pending: dict[str, list[int]] = {}
        """Number of pending entries and the highest sequence id once they are stored, by producer name."""
        self._waiting: dict[str, deque[Publish]] = {}
        """Runs by producer name that wait for the outcome of the name's pending entries, in order."""
        self._resolving: asyncio.Task[None] | None = None
        """Task that finds out which entries are stored whose append failed; None when all outcomes are known."""
        self._unresolved: list[Publish] = []
        """Runs received while ``_resolving`` runs, in order, of one producer each."""
        self._earlier = 0
        """Number of pending entries that were appended before deduplication was on."""
        self._earlier_ended: asyncio.Future[None] | None = None
        """Future that is done when ``_earlier`` is zero."""
        self._absent: dict[str, int] = {}
        """Monotonic milliseconds since which a name has no producer, by name; the longest first."""
        self._last: Position | None = None
        """Last entry that the state includes; None when none was added since the snapshot."""
        self._since_snapshot = 0
        self._snapshot_ms = 0

    # --- on and off -----------------------------------------------------------------------------

    def apply(self, policies: DeduplicationPolicies) -> None:
        """Turn deduplication on or off in the background, as the topic's policies now require."""
        self._is_wanted = policies.enabled
        self._interval_ms = 1000 * policies.snapshot_interval_s
        if self._work is None and not self._settled:
            self._work = self._host.scope.spawn("deduplication", self._follow())

    @property
    def wanted(self) -> list[Stage]:
        """Deduplication itself as the only stage while it judges, else none."""
        return [self] if self._judges else []

    @property
    def _settled(self) -> bool:
        """True when it is on, or off without a stored cursor, as the policies require."""
        if self._is_wanted:
            return self.status == "Enabled"
        managed = self._host.log
        stored = CURSOR in managed.cursors or CURSOR in managed.unread_cursors
        return self.status == "Disabled" and not stored

    async def ready(self) -> None:
        """Wait until the stored sequence ids are known, which a new producer needs.

        Raises ServiceNotReady when they are not known within READY_WAIT_S.
        """
        if self._is_wanted and self.status != "Enabled":
            if self._work is not None:
                await asyncio.wait([self._work], timeout=READY_WAIT_S)
            if self._is_wanted and self.status != "Enabled":
                raise ServiceNotReady(
                    f"What is stored of {self._host.name} for deduplication is not known yet. "
                    f"{self._last_error}"
                )
        if self._resolving is not None:
            await asyncio.wait([self._resolving], timeout=READY_WAIT_S)
            if self._resolving is not None:
                raise ServiceNotReady(
                    f"Whether entries of {self._host.name} whose append failed are stored is not known yet"
                )

    def last_sequence(self, name: str) -> int:
        """Return the highest sequence id that is stored of producer ``name``, or a replicator's highest place; -1 when
        none is known."""
        return self._stored.get(name, NOTHING)

    async def _follow(self) -> None:
        """Turn deduplication on or off, and try again after failures for as long as the topic is loaded."""
        backoff = Backoff(0.1, RETRY_MAX_S)
        try:
            while not self._settled:
                try:
                    await (self._begin() if self._is_wanted else self._end())
                except Exception as error:
                    # Unexpected errors are retried, too: without the state every producer is refused (D14).
                    self.status, self._last_error = "Failed", str(error)
                    expected = isinstance(error, LedgerError | ManagedLedgerError | WorldError)
                    log.warning(
                        "deduplication fails topic=%s: %s",
                        self._host.name,
                        error,
                        exc_info=None if expected else error,
                    )
                    await asyncio.sleep(backoff.next_s(self._host.context.entropy.random()))
        finally:
            self._work = None

    async def _begin(self) -> None:
        self.status = "Recovering"
        managed = self._host.log
        cursor = await managed.open_cursor(
            CURSOR, InitialPosition.LATEST, durable=True, cursor_properties={}
        )
        self._cursor = cursor
        if not self._judges:
            # New entries are counted from here on, before older ones are read: none is missed between the two (D14).
            self._judges = True
            self._earlier = managed.stats().pending_entries
            self._host.arrange_stages()
        await self._wait_for_earlier()
        for name, sequence in _stored_state(cursor.properties).items():
            self._remember(name, sequence)
        start = cursor.mark
        first = managed.next_position(cursor.mark_delete)
        last = managed.last_confirmed
        stop = start + managed.entries_between(first, managed.next_position(last))
        async for base, run in cursor.entries_of(start, stop):
            for i in range(max(start - base, 0), min(stop - base, run.count)):
                self._remember_entry(run.entry(i))
        if start < stop:
            self._since_snapshot += stop - start
            self._last = max(self._last or last, last)
        self._snapshot_ms = self._now_ms()
        self.status, self._last_error = "Enabled", ""

    async def _wait_for_earlier(self) -> None:
        """Return when every entry that was pending before deduplication was on can be read or is known not stored."""
        if self._earlier:
            self._earlier_ended = asyncio.get_running_loop().create_future()
            await self._earlier_ended
        await self._host.recovered.settled(self._note_error)

    def _note_error(self, error: AppendFailedError) -> None:
        self._last_error = str(error)

    async def _end(self) -> None:
        self.status = "Removing"
        # Without deduplication nothing is a repetition: the kept runs are appended.
        for publish in self._take_kept():
            self._host.admitted(publish, self)
        self._judges = False
        self._host.arrange_stages()
        self._period += 1  # entries that are pending now are counted in the period before
        self._pending.clear()
        self._stored.clear()
        self._absent.clear()
        self._cursor, self._last, self._since_snapshot = None, None, 0
        try:
            await self._host.log.delete_cursor(CURSOR)
        except CursorNotFoundError:
            log.debug("cursor was gone topic=%s cursor=%s", self._host.name, CURSOR)
        self.status = "Disabled"

    def _remember(self, name: str, sequence: int) -> None:
        if sequence > self.last_sequence(name):
            # A snapshot without room for all names keeps those at the end, so the name moves there.
            self._stored.pop(name, None)
            self._stored[name] = sequence

    def _remember_entry(self, entry: bytes) -> None:
        """Remember the sequence id of an entry that was stored since the snapshot."""
        metadata = read_metadata(entry)
        if metadata is None or metadata.HasField("marker_type"):
            return
        position = source_position(metadata) if metadata.replicated_from else None
        if position is not None:
            # The name of the producer in the metadata is that of the origin's client.
            here = self._host.context.identity.cluster
            self._remember(replicator_name(metadata.replicated_from, here), place_of(*position))
            return
        if not _is_last(metadata):
            return
        name, highest = (
            metadata.producer_name,
            max(metadata.sequence_id, metadata.highest_sequence_id),
        )
        # Stored metadata is not trusted: no producer can have a longer name, and no SEND a greater number.
        if highest <= INT64_MAX and len(name) <= NAME_BYTES_MAX:
            self._remember(name, highest)

    # --- the stage ------------------------------------------------------------------------------

    def admit(self, publish: Publish) -> bool:
        owners = publish.owners
        if self._resolving is not None:
            self._keep_unresolved(publish)
            return False
        if owners is None:
            return self._admit(publish, publish.producer.name)
        # Only a run with a possible repetition is split into the parts of its producers.
        if self._all_new(publish, owners):
            return True
        for part in publish.parts():
            if self._admit(part, part.producer.name):
                self._host.admitted(part, self)
        return False

    def _all_new(self, publish: Publish, owners: list[Producer]) -> bool:
        """Return whether a run of several producers is new for each of them, and count it as pending if so."""
        if publish.chunk:
            return False
        shares: dict[str, list[int]] = {}
        for owner, (sequence, highest) in zip(owners, head_sequences(publish.heads), strict=True):
            share = shares.get(owner.name)
            if share is None:
                if owner.name in self._waiting:
                    return False
                share = shares[owner.name] = [0, self._top(owner.name)]
            if sequence <= share[1]:
                return False
            share[0] += 1
            share[1] = max(sequence, highest)
        for name, (entries, highest) in shares.items():
            self._pending.setdefault(name, [0, NOTHING])[0] += entries
            self._pending[name][1] = highest
        publish.judged = self._period
        return True

    def _admit(self, publish: Publish, name: str) -> bool:
        waiting = self._waiting.get(name)
        # A run behind one that waits must wait, too, so that the producer's order holds (D9).
        if waiting is not None:
            waiting.append(publish)
            return False
        # The common case, which needs one comparison: consecutive ids without chunks, all above the highest one.
        ids = _following(publish)
        if ids is not None and ids[0] > self._top(name):
            self._count_pending(publish, name, ids[1])
            return True
        return self._judge(publish, name)

    def _top(self, name: str) -> int:
        """Return the highest sequence id that is stored of ``name`` once all pending entries are."""
        pending = self._pending.get(name)
        return self.last_sequence(name) if pending is None else pending[1]

    def _judge(self, publish: Publish, name: str) -> bool:
        """Return whether the whole run is new and continues unchanged.

        Otherwise its new entries are passed on, its stored entries are answered, and everything behind the first entry
        that may repeat a pending one waits.
        """
        if publish.marker:
            self._count_pending(publish, name, self._top(name))
            return True
        ids = _ids(publish, 0, publish.run.count)
        start = 0
        while start < len(ids):
            top = self._top(name)
            stop = start
            while stop < len(ids) and ids[stop][0] > top:
                top = max(ids[stop])
                stop += 1
            if stop == len(ids) and start == 0:
                self._count_pending(publish, name, top)
                return True
            if stop > start:
                part = publish.part(range(start, stop))
                self._count_pending(part, name, top)
                self._host.admitted(part, self)
            elif name in self._pending:
                # A pending entry with this id may still fail, so it cannot be answered as a repetition yet (D14).
                unjudged = publish if start == 0 else publish.part(range(start, len(ids)))
                self._waiting[name] = deque([unjudged])
                return False
            elif max(ids[start]) > top:
                # A batch is one entry: one that is stored in part can be neither appended nor answered as stored.
                stop = start + 1
                publish.part(range(start, stop)).refuse(
                    NotAllowed(
                        f"A batch of the sequence ids {ids[start][0]} to {max(ids[start])} holds "
                        f"messages that are stored, up to {top}, and others"
                    )
                )
            else:
                while stop < len(ids) and max(ids[stop]) <= top:
                    stop += 1
                publish.part(range(start, stop)).repeated()
            start = stop
        return False

    def _count_pending(self, publish: Publish, name: str, highest: int) -> None:
        publish.judged = self._period
        pending = self._pending.get(name)
        if pending is None:
            pending = self._pending[name] = [0, self.last_sequence(name)]
        pending[0] += publish.run.count
        # All chunks of a message have its sequence id: before the last one the id is not complete.
        if publish.producer.origin or not publish.chunk or _ends_message(publish, 0):
            pending[1] = highest

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        self._last = publish.run.position(stop - 1)
        self._since_snapshot += stop - start
        for name, (entries, last) in _shares(publish, start, stop).items():
            self._remember_stored(publish, name, last)
            self._entries_ended(publish, name, entries)
        if self._since_snapshot >= self._host.context.settings.deduplication_entries_interval:
            self.take_snapshot()

    def _remember_stored(self, publish: Publish, name: str, i: int) -> None:
        """Remember entry ``i`` as the last stored one of ``name``."""
        if publish.marker:
            return
        if publish.producer.origin or not publish.chunk or _ends_message(publish, i):
            self._remember(name, max(_ids(publish, i, i + 1)[0]))

    def failed(self, publish: Publish, start: int) -> None:
        # The closing of the ledger may add these entries to the log: judge nothing before that is known (D14).
        for name, (entries, _) in _shares(publish, start, publish.run.count).items():
            self._entries_ended(publish, name, entries)
        if self._resolving is None and not self._host.scope.closed:
            self._resolving = self._host.scope.spawn("deduplication in doubt", self._resolve())

    def _entries_ended(self, publish: Publish, name: str, entries: int) -> None:
        """Count ``entries`` of ``name`` as no longer pending; with the last of them, judge the runs that wait."""
        # Runs of an earlier period are in no count of this one (D14).
        if publish.judged != self._period:
            self._earlier -= entries
            if not self._earlier and self._earlier_ended is not None:
                self._earlier_ended.set_result(None)
                self._earlier_ended = None
            return
        pending = self._pending.get(name)
        if pending is None:
            return
        pending[0] -= entries
        if pending[0] == 0:
            del self._pending[name]
            if name in self._waiting:
                # Later in the loop: the receipts of these entries are sent after this call and must be first (D9).
                asyncio.get_running_loop().call_soon(self._judge_waiting, name)

    def _judge_waiting(self, name: str) -> None:
        if name in self._pending or self._resolving is not None:
            return
        waiting = self._waiting.pop(name, deque())
        while waiting:
            publish = waiting.popleft()
            if publish.producer.closed:
                publish.drop()
            elif self._judge(publish, name):
                self._host.admitted(publish, self)
            unjudged = self._waiting.get(name)
            if unjudged is not None:  # it waits again, and the runs behind it with it
                unjudged.extend(waiting)
                return

    # --- in doubt -------------------------------------------------------------------------------

    def _keep_unresolved(self, publish: Publish) -> None:
        owners = publish.owners
        if owners is None:
            self._unresolved.append(publish)
            return
        for owner in dict.fromkeys(owners):
            indexes = [i for i, sender in enumerate(owners) if sender is owner]
            self._unresolved.append(publish.part(indexes))

    async def _resolve(self) -> None:
        """Judge the runs that were kept, once it is known which of the failed entries are stored."""
        await self._host.recovered.settled(self._refuse_kept)
        self._resolving = None
        for name in list(self._waiting):
            self._judge_waiting(name)
        unresolved, self._unresolved = self._unresolved, []
        for publish in unresolved:
            if publish.producer.closed:
                publish.drop()
            elif self.admit(publish):
                self._host.admitted(publish, self)

    def _refuse_kept(self, error: AppendFailedError) -> None:
        """Refuse the kept runs as a failed append does, and disconnect their producers: no ledger can be opened."""
        for publish in self._take_kept():
            publish.refuse(PersistenceError(f"The message could not be stored: {error}"))
            publish.producer.disconnect()

    def _take_kept(self) -> list[Publish]:
        """Remove and return the runs that wait for a judgement, in the order of each producer."""
        kept = [publish for waiting in self._waiting.values() for publish in waiting]
        kept += self._unresolved
        self._waiting.clear()
        self._unresolved = []
        return kept

    def add_recovered(self, run: Slice, i: int) -> None:
        """Remember entry ``i`` of ``run``, which the recovery of a ledger added to the log."""
        if self._judges:
            self._remember_entry(run.entry(i))
            position = run.position(i)
            self._last = max(self._last or position, position)
            self._since_snapshot += 1

    def end(self) -> None:
        """Drop the kept runs when the topic is closed: the clients send them again."""
        self._resolving = None
        for publish in self._take_kept():
            publish.drop()

    # --- the snapshot ---------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Store the present state with the cursor, as acknowledgements are stored; the next load begins with it."""
        # Before the older entries are read the state lacks them, and a snapshot would pass over them (D14).
        if self._cursor is None or self._last is None or self.status != "Enabled":
            return
        self._cursor.take_snapshot(
            self._last,
            {
                key: number
                for name in self._snapshot_names()
                for key, number in _properties(name, self._stored[name])
            },
        )
        self._last, self._since_snapshot = None, 0
        self._snapshot_ms = self._now_ms()

    def _now_ms(self) -> int:
        """Return monotonic milliseconds: names must not be forgotten because the wall clock is set forward (D14)."""
        return int(self._host.context.clock.monotonic_s() * 1000)

    def _snapshot_names(self) -> Iterable[str]:
        """Return the names for a snapshot: all, or as many as its bounds permit.

        Names with a producer are preferred, then those that were used last.
        """
        names_max = self._host.context.settings.deduplication_max_number_of_producers
        if len(self._stored) <= names_max and _size(self._stored) <= SNAPSHOT_BYTES_MAX:
            return self._stored
        attached = [name for name in self._stored if name in self._host.producers]
        recent = [name for name in self._stored if name not in self._absent]
        absent = [name for name in self._absent if name in self._stored]
        names: list[str] = []
        size = 0
        for name in dict.fromkeys([*reversed(attached), *reversed(recent), *reversed(absent)]):
            size += _size((name,))
            if len(names) == names_max or size > SNAPSHOT_BYTES_MAX:
                break
            names.append(name)
        return names[::-1]

    def check(self) -> None:
        """Take a snapshot when it is due, and forget names that had no producer for long. Called by the clock."""
        settings = self._host.context.settings
        now_ms = self._now_ms()
        if self._interval_ms and now_ms >= self._snapshot_ms + self._interval_ms:
            self.take_snapshot()
        producers = self._host.producers
        for name in self._stored:
            # A replicator goes on where it was, however long its link was cut: what it sends again is stored already.
            if name not in producers and not origin_of(name):
                self._absent.setdefault(name, now_ms)
        for name in [name for name in self._absent if name in producers]:
            del self._absent[name]
        longest_ms = settings.deduplication_producer_inactivity_timeout_minutes * 60_000
        spare = len(self._stored) - settings.deduplication_max_number_of_producers
        spare_bytes = _size(self._stored) - SNAPSHOT_BYTES_MAX
        for name, since_ms in list(self._absent.items()):
            if spare <= 0 and spare_bytes <= 0 and now_ms - since_ms < longest_ms:
                break
            if name not in self._pending:  # entries of a producer that left may still be stored
                del self._absent[name]
                self._stored.pop(name, None)
                spare -= 1
                spare_bytes -= _size((name,))


def _size(names: Iterable[str]) -> int:
    """Return an upper bound of the bytes that ``names`` take in a snapshot."""
    return sum(len(name.encode()) + NAME_BYTES for name in names)


def _following(publish: Publish) -> tuple[int, int] | None:
    """Return the first and the last id of a run's entries if they visibly follow one another and can be judged
    together, else None."""
    if not publish.producer.origin:
        return None if publish.chunk else following(publish.heads)
    places = None if publish.marker else following_places(publish.heads)
    return places and (place_of(*places[:2]), place_of(places[0], places[2]))


def _ids(publish: Publish, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the sequence id and the highest one of entries ``start`` to ``stop``, by which they are judged."""
    ids = head_sequences(publish.heads[start:stop])
    return [(place_of(*id), place_of(*id)) for id in ids] if publish.producer.origin else ids


def _properties(name: str, number: int) -> tuple[tuple[str, int], ...]:
    """Return the properties of a snapshot for a producer's name: two numbers for a replicator's place, as Apache's."""
    if not origin_of(name):
        return ((_property(name), number),)
    position = position_at(number)
    return ((name + LEDGER_SUFFIX, position.ledger_id), (name + ENTRY_SUFFIX, position.entry_id))


def _stored_state(properties: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of a snapshot by producer name; the reverse of ``_properties``."""
    stored: dict[str, int] = {}
    for key, number in properties.items():
        name = key.removesuffix(LEDGER_SUFFIX).removesuffix(ENTRY_SUFFIX)
        if name == key or not origin_of(name):
            stored[key.removeprefix(ESCAPE)] = number
        elif key.endswith(LEDGER_SUFFIX) and name + ENTRY_SUFFIX in properties:
            stored[name] = place_of(number, properties[name + ENTRY_SUFFIX])
    return stored


def _property(name: str) -> str:
    """Return the name of the cursor's property for a producer's name.

    It is the name itself, as in Apache's brokers, unless that is another property, such as a ledger to be deleted:
    clients choose producer names.
    """
    reserved = name.startswith((OWN_PREFIX, ESCAPE)) or name == COMPACTED_LEDGER
    return ESCAPE + name if reserved else name


def _ends_message(publish: Publish, i: int) -> bool:
    """Return whether entry ``i``, a chunk, is the last one of its message."""
    metadata = read_metadata(publish.run.entry(i))
    return metadata is None or _is_last(metadata)


def _shares(publish: Publish, start: int, stop: int) -> dict[str, tuple[int, int]]:
    """Return the number of entries from ``start`` to ``stop`` and the index of the last one, by producer name."""
    if publish.owners is None:
        return {publish.producer.name: (stop - start, stop - 1)}
    shares: dict[str, tuple[int, int]] = {}
    for i in range(start, stop):
        name = publish.owners[i].name
        shares[name] = (shares[name][0] + 1 if name in shares else 1, i)
    return shares


def _is_last(metadata: pb.MessageMetadata) -> bool:
    """Return whether an entry is no chunk, or the last one of its message."""
    return metadata.chunk_id + 1 >= metadata.num_chunks_from_msg
