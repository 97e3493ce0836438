"""Deduplication: what a producer sends again is stored once, told apart by producer name and sequence id.

What is known of a name is the highest sequence id that is stored. Only that makes a duplicate (D14): while something of
the name is under way, nothing that may be the same is judged, it waits for the outcome (Apache's broker refuses it, and
the client comes again until it is known). The producers' receipts keep their order so, too. What becomes of entries
whose append has failed is known when their ledger is closed, which may bring them into the log after all
(``recovered``): until then nothing is judged at all.

As Apache's broker does it the state is the properties of a cursor (``pulsar.dedup``), as of its mark-delete position;
a topic that is loaded reads the entries behind it. So no entry is trimmed that is needed to know what was stored.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.errors import NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.ports import TopicPolicies
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
from engine.wire.kernels import following, head_sequences
from engine.wire.varints import INT64_MAX

log = logging.getLogger(__name__)

CURSOR = "pulsar.dedup"
NOTHING = -1
"""The highest sequence id of a name that is not known."""
READY_WAIT_S = 5.0
"""How long a producer that comes waits for the state to be read, before it is told to come again."""
RETRY_MAX_S = 30.0
SNAPSHOT_BYTES_MAX = 2 << 20
"""Of the names in a snapshot, by ``NAME_BYTES`` and their length: half of the largest state that a cursor stores."""
NAME_BYTES = 16
ESCAPE = "#magnetar.dedup:"
"""Stands in a snapshot before names that mean something else among a cursor's properties."""


class DeduplicationHost(Protocol):
    """What it needs of its topic."""

    name: TopicName
    log: Log
    policies: TopicPolicies
    scope: TaskScope
    context: Context
    recovered: RecoveredEntries

    @property
    def producers(self) -> dict[str, Producer]: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...

    def arrange_stages(self) -> None: ...


class Deduplication:
    """Of one topic; a stage of it while it is on. ``status``: by Pulsar's names, for statistics."""

    __slots__ = (
        "_absent",
        "_cursor",
        "_doubting",
        "_earlier",
        "_flying",
        "_held",
        "_host",
        "_judges",
        "_landed_earlier",
        "_last",
        "_period",
        "_since_snapshot",
        "_snapshot_ms",
        "_stored",
        "_waiting",
        "_wanted",
        "_why",
        "_work",
        "status",
    )
    place = StagePlace.DEDUPLICATION

    def __init__(self, host: DeduplicationHost) -> None:
        self._host = host
        self.status = "Disabled"
        self._why = ""
        self._wanted = False
        self._judges = False
        """It is a stage of the topic."""
        self._period = 1
        """Rises whenever it was on: what was judged in an earlier period is not among ``_flying``."""
        self._cursor: SubscriptionCursor | None = None
        self._work: asyncio.Task[None] | None = None
        self._stored: dict[str, int] = {}
        """The highest stored sequence id by producer name."""
        self._flying: dict[str, list[int]] = {}
        """Of names with entries under way: how many, and the highest sequence id when they are stored."""
        self._waiting: dict[str, deque[Publish]] = {}
        self._doubting: asyncio.Task[None] | None = None
        """Runs while it is not known whether entries whose append has failed are stored."""
        self._held: list[Publish] = []
        """What came meanwhile, in order, of one producer each."""
        self._earlier = 0
        """Entries under way that were appended before it was on."""
        self._landed_earlier: asyncio.Future[None] | None = None
        """Done when there are none of them."""
        self._absent: dict[str, int] = {}
        """Names without a producer, since which monotonic millisecond; longest first."""
        self._last: Position | None = None
        """The last entry that the state is of; None: none since the snapshot."""
        self._since_snapshot = 0
        self._snapshot_ms = 0

    # --- on and off -----------------------------------------------------------------------------

    def apply(self) -> None:
        """The topic's policies may be others."""
        self._wanted = self._host.policies.deduplication
        if self._work is None and not self._settled:
            self._work = self._host.scope.spawn("deduplication", self._follow())

    @property
    def wanted(self) -> list[Stage]:
        """The stages that it is now."""
        return [self] if self._judges else []

    @property
    def _settled(self) -> bool:
        """Whether it is on, or off without leaving a cursor behind, as wanted."""
        if self._wanted:
            return self.status == "Enabled"
        managed = self._host.log
        left = CURSOR in managed.cursors or CURSOR in managed.unread_cursors
        return self.status == "Disabled" and not left

    async def ready(self) -> None:
        """Whether it is known what is stored of a producer that comes. Raises ServiceNotReady."""
        if self._wanted and self.status != "Enabled":
            if self._work is not None:
                await asyncio.wait([self._work], timeout=READY_WAIT_S)
            if self._wanted and self.status != "Enabled":
                raise ServiceNotReady(
                    f"What is stored of {self._host.name} for deduplication is not known yet. "
                    f"{self._why}"
                )
        if self._doubting is not None:
            await asyncio.wait([self._doubting], timeout=READY_WAIT_S)
            if self._doubting is not None:
                raise ServiceNotReady(
                    f"Whether entries of {self._host.name} whose append failed are stored is not known yet"
                )

    def last_sequence(self, name: str) -> int:
        """The highest sequence id that is stored of producer ``name``; -1: none is known."""
        return self._stored.get(name, NOTHING)

    async def _follow(self) -> None:
        """What fails is tried again for as long as the topic lives."""
        backoff = Backoff(0.1, RETRY_MAX_S)
        try:
            while not self._settled:
                try:
                    await (self._begin() if self._wanted else self._end())
                except Exception as error:
                    # Also what nothing here provides for: producers are refused until the state is known.
                    self.status, self._why = "Failed", str(error)
                    expected = isinstance(error, LedgerError | ManagedLedgerError | WorldError)
                    log.warning(
                        "deduplication fails topic=%s: %s",
                        *(self._host.name, error),
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
            # From now on what is stored is noted; what was stored before is read.
            self._judges = True
            self._earlier = managed.stats().pending_entries
            self._host.arrange_stages()
        await self._know_earlier()
        for name, sequence in cursor.properties.items():
            self._remember(name.removeprefix(ESCAPE), sequence)
        start = cursor.mark
        first = managed.next_position(cursor.mark_delete)
        last = managed.last_confirmed
        stop = start + managed.entries_between(first, managed.next_position(last))
        async for base, run in cursor.entries_of(start, stop):
            for i in range(max(start - base, 0), min(stop - base, run.count)):
                self._recall(run.entry(i))
        if start < stop:
            self._since_snapshot += stop - start
            self._last = max(self._last or last, last)
        self._snapshot_ms = self._now_ms()
        self.status, self._why = "Enabled", ""

    async def _know_earlier(self) -> None:
        """Return when what was under way before it was on is stored and can be read, or is known not to be."""
        if self._earlier:
            self._landed_earlier = asyncio.get_running_loop().create_future()
            await self._landed_earlier
        await self._host.recovered.settled(self._not_yet)

    def _not_yet(self, error: AppendFailedError) -> None:
        self._why = str(error)

    async def _end(self) -> None:
        self.status = "Removing"
        for publish in self._take_kept():
            self._host.admitted(publish, self)
        self._judges = False
        self._host.arrange_stages()
        self._period += 1  # what is under way was counted in the one before
        self._flying.clear()
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
            self._stored.pop(name, None)  # moved to the end: a cut snapshot keeps the last ones
            self._stored[name] = sequence

    def _recall(self, entry: bytes) -> None:
        """An entry stored since the snapshot."""
        metadata = read_metadata(entry)
        if metadata is None or metadata.HasField("marker_type") or not _is_last(metadata):
            return
        name, highest = (
            metadata.producer_name,
            max(metadata.sequence_id, metadata.highest_sequence_id),
        )
        # No producer has another name and no SEND another number, whatever the entry says.
        if highest <= INT64_MAX and len(name) <= NAME_BYTES_MAX:
            self._remember(name, highest)

    # --- the stage ------------------------------------------------------------------------------

    def admit(self, publish: Publish) -> bool:
        owners = publish.owners
        if self._doubting is not None:
            self._hold(publish)
            return False
        if owners is None:
            return self._admit(publish, publish.producer.name)
        if self._all_new(publish, owners):
            return True
        for part in publish.parts():
            if self._admit(part, part.producer.name):
                self._host.admitted(part, self)
        return False

    def _all_new(self, publish: Publish, owners: list[Producer]) -> bool:
        """Whether what several producers sent in one run goes on as it is, seen to be new of each of them."""
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
            self._flying.setdefault(name, [0, NOTHING])[0] += entries
            self._flying[name][1] = highest
        publish.judged = self._period
        return True

    def _admit(self, publish: Publish, name: str) -> bool:
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(publish)
            return False
        ids = following(publish.heads)
        if ids is not None and ids[0] > self._top(name) and not publish.chunk:
            self._fly(publish, name, ids[1])
            return True
        return self._judge(publish, name)

    def _top(self, name: str) -> int:
        """The highest sequence id that is stored of ``name`` when all that is under way is."""
        flying = self._flying.get(name)
        return self.last_sequence(name) if flying is None else flying[1]

    def _judge(self, publish: Publish, name: str) -> bool:
        """Whether all of it goes on as it is. Else what is new has gone on, what is stored is answered, and from the
        first on that may be either it waits."""
        ids = head_sequences(publish.heads)
        start = 0
        while start < len(ids):
            top = self._top(name)
            stop = start
            while stop < len(ids) and ids[stop][0] > top:
                top = max(ids[stop])
                stop += 1
            if stop == len(ids) and start == 0:
                self._fly(publish, name, top)
                return True
            if stop > start:
                part = publish.part(range(start, stop))
                self._fly(part, name, top)
                self._host.admitted(part, self)
            elif name in self._flying:
                rest = publish if start == 0 else publish.part(range(start, len(ids)))
                self._waiting[name] = deque([rest])
                return False
            elif max(ids[start]) > top:
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

    def _fly(self, publish: Publish, name: str, highest: int) -> None:
        publish.judged = self._period
        flying = self._flying.get(name)
        if flying is None:
            flying = self._flying[name] = [0, self.last_sequence(name)]
        flying[0] += publish.run.count
        if not publish.chunk or _ends_message(publish, 0):
            flying[1] = highest

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        self._last = publish.run.position(stop - 1)
        self._since_snapshot += stop - start
        for name, (entries, last) in _shares(publish, start, stop).items():
            self._note(publish, name, last)
            self._landed(publish, name, entries)
        if self._since_snapshot >= self._host.context.settings.deduplication_entries_interval:
            self.take_snapshot()

    def _note(self, publish: Publish, name: str, i: int) -> None:
        """Entry ``i`` is stored, and with it all that ``name`` sent before."""
        if not publish.chunk or _ends_message(publish, i):
            highest = max(head_sequences(publish.heads[i : i + 1])[0])
            self._remember(name, highest)

    def failed(self, publish: Publish, start: int) -> None:
        for name, (entries, _) in _shares(publish, start, publish.run.count).items():
            self._landed(publish, name, entries)
        if self._doubting is None and not self._host.scope.closed:
            self._doubting = self._host.scope.spawn("deduplication in doubt", self._resolve())

    def _landed(self, publish: Publish, name: str, entries: int) -> None:
        """So many entries of ``name`` are under way no more. When none is, what waits is judged, behind the receipts of
        these."""
        if publish.judged != self._period:
            self._earlier -= entries
            if not self._earlier and self._landed_earlier is not None:
                self._landed_earlier.set_result(None)
                self._landed_earlier = None
            return
        flying = self._flying.get(name)
        if flying is None:
            return
        flying[0] -= entries
        if flying[0] == 0:
            del self._flying[name]
            if name in self._waiting:
                asyncio.get_running_loop().call_soon(self._go_on, name)

    def _go_on(self, name: str) -> None:
        if name in self._flying or self._doubting is not None:
            return
        waiting = self._waiting.pop(name, deque())
        while waiting:
            publish = waiting.popleft()
            if publish.producer.closed:
                publish.drop()
            elif self._judge(publish, name):
                self._host.admitted(publish, self)
            rest = self._waiting.get(name)
            if rest is not None:
                rest.extend(waiting)
                return

    # --- in doubt -------------------------------------------------------------------------------

    def _hold(self, publish: Publish) -> None:
        owners = publish.owners
        if owners is None:
            self._held.append(publish)
            return
        for owner in dict.fromkeys(owners):
            own = [i for i, one in enumerate(owners) if one is owner]
            self._held.append(publish.part(own))

    async def _resolve(self) -> None:
        """Judge what was held once it is known which of the entries that failed are stored."""
        await self._host.recovered.settled(self._refuse_kept)
        self._doubting = None
        for name in list(self._waiting):
            self._go_on(name)
        held, self._held = self._held, []
        for publish in held:
            if publish.producer.closed:
                publish.drop()
            elif self.admit(publish):
                self._host.admitted(publish, self)

    def _refuse_kept(self, error: AppendFailedError) -> None:
        """There is no ledger: as an append would, refuse what is kept, and let its producers come again with it."""
        for publish in self._take_kept():
            publish.refuse(PersistenceError(f"The message could not be stored: {error}"))
            publish.producer.disconnect()

    def _take_kept(self) -> list[Publish]:
        """What waits for a judgement, in the order of each producer; from now on it does not."""
        kept = [publish for waiting in self._waiting.values() for publish in waiting]
        kept += self._held
        self._waiting.clear()
        self._held = []
        return kept

    def take_recovered(self, run: Slice, i: int) -> None:
        """Entry ``i`` of ``run`` came into the log by the recovery of a ledger."""
        if self._judges:
            self._recall(run.entry(i))
            position = run.position(i)
            self._last = max(self._last or position, position)
            self._since_snapshot += 1

    def end(self) -> None:
        """The topic is closed: its clients send again what is kept."""
        self._doubting = None
        for publish in self._take_kept():
            publish.drop()

    # --- the snapshot ---------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """The state now is what a load begins with; stored as acknowledgements are."""
        if self._cursor is None or self._last is None or self.status != "Enabled":
            return
        self._cursor.take_snapshot(
            self._last,
            {_property(name): self._stored[name] for name in self._kept()},
        )
        self._last, self._since_snapshot = None, 0
        self._snapshot_ms = self._now_ms()

    def _now_ms(self) -> int:
        """Monotonic: when somebody sets the clock forward no name is forgotten for it."""
        return int(self._host.context.clock.monotonic_s() * 1000)

    def _kept(self) -> Iterable[str]:
        """Return the names that go into a snapshot: all, or as many as its bounds allow, those in use first and of the
        others those that were used last."""
        names_max = self._host.context.settings.deduplication_max_number_of_producers
        if len(self._stored) <= names_max and _size(self._stored) <= SNAPSHOT_BYTES_MAX:
            return self._stored
        first = [name for name in self._stored if name in self._host.producers]
        rest = [name for name in self._stored if name not in self._absent]
        last = [name for name in self._absent if name in self._stored]
        kept: list[str] = []
        size = 0
        for name in dict.fromkeys([*reversed(first), *reversed(rest), *reversed(last)]):
            size += _size((name,))
            if len(kept) == names_max or size > SNAPSHOT_BYTES_MAX:
                break
            kept.append(name)
        return kept[::-1]

    def check(self) -> None:
        """By the clock: a snapshot when it is time, and names that nobody has used for long are forgotten."""
        settings = self._host.context.settings
        now_ms = self._now_ms()
        interval_ms = 1000 * self._host.policies.snapshot_interval_s
        if interval_ms and now_ms >= self._snapshot_ms + interval_ms:
            self.take_snapshot()
        producers = self._host.producers
        for name in self._stored:
            if name not in producers:
                self._absent.setdefault(name, now_ms)
        for name in [name for name in self._absent if name in producers]:
            del self._absent[name]
        longest_ms = settings.deduplication_producer_inactivity_timeout_minutes * 60_000
        spare = len(self._stored) - settings.deduplication_max_number_of_producers
        spare_bytes = _size(self._stored) - SNAPSHOT_BYTES_MAX
        for name, since_ms in list(self._absent.items()):
            if spare <= 0 and spare_bytes <= 0 and now_ms - since_ms < longest_ms:
                break
            if name not in self._flying:
                del self._absent[name]
                self._stored.pop(name, None)
                spare -= 1
                spare_bytes -= _size((name,))


def _size(names: Iterable[str]) -> int:
    """Return an upper bound of the bytes that ``names`` take in a snapshot."""
    return sum(len(name.encode()) + NAME_BYTES for name in names)


def _property(name: str) -> str:
    """Return the name of the cursor's property for a producer's name, which clients choose: as it is, as Apache's
    brokers store it, unless it means something else there, such as a ledger to be deleted."""
    reserved = name.startswith((OWN_PREFIX, ESCAPE)) or name == COMPACTED_LEDGER
    return ESCAPE + name if reserved else name


def _ends_message(publish: Publish, i: int) -> bool:
    """Whether entry ``i``, a chunk, is its message's last: all of them have its sequence id."""
    metadata = read_metadata(publish.run.entry(i))
    return metadata is None or _is_last(metadata)


def _shares(publish: Publish, start: int, stop: int) -> dict[str, tuple[int, int]]:
    """Of the entries from ``start`` to ``stop`` by producer name how many there are, and the index of the last."""
    if publish.owners is None:
        return {publish.producer.name: (stop - start, stop - 1)}
    shares: dict[str, tuple[int, int]] = {}
    for i in range(start, stop):
        name = publish.owners[i].name
        shares[name] = (shares[name][0] + 1 if name in shares else 1, i)
    return shares


def _is_last(metadata: pb.MessageMetadata) -> bool:
    """Whether it is no chunk, or the last one of its message."""
    return metadata.chunk_id + 1 >= metadata.num_chunks_from_msg
