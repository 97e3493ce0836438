"""Processes that use managed ledgers in a run: they take them from each other, append, read, acknowledge and reset."""

import asyncio
import random
from collections.abc import Coroutine
from functools import partial
from typing import Any

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice, View
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.managed.cursors.cursor import Cursor
from engine.managed.errors import ManagedLedgerError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from engine.offload.tiered_storage import TieredStorage
from tests.sim.kit.cluster import Machine
from tests.sim.managed import history as m
from tests.sim.managed.record import CURSORS, ManagedRecord

REFUSALS = (ManagedLedgerError, LedgerError, StoreUnavailableError, SessionExpiredError)
"""Errors that a call may end with while faults strike."""
OPEN_ENTRIES_MAX = 200
"""Entries appended and not confirmed by one object, beyond which it appends no more."""


def _run(owner: str, first: int, count: int, size: int) -> Slice:
    parts = [f"<{owner} {first + i}>".encode().ljust(size, b".") for i in range(count)]
    spans: list[int] = []
    at = 0
    for part in parts:
        spans += (at, at + len(part))
        at += len(part)
    return Slice(b"".join(parts), spans, at)


def entry_of(content: bytes) -> m.Entry:
    """Return the entry that ``content`` names; the beginning of ``content`` in hexadecimal and -1 when it names
    none."""
    owner, _, number = content.partition(b">")[0].lstrip(b"<").rpartition(b" ")
    return (owner.decode(), int(number)) if number.isdigit() else (content[:60].hex(), -1)


class Sink:
    """The sink of one run: notes its confirmations in the history."""

    def __init__(self, owner: "Owner", first: int) -> None:
        self._owner = owner
        self._first = first

    def appended(self, run: Slice, start: int, stop: int) -> None:
        owner = self._owner
        for i in range(start, stop):
            entry, position = (owner.name, self._first + i), run.position(i)
            owner.note(partial(m.Stored, entry=entry, position=position))
            owner.record.stored.setdefault(owner.topic, {}).setdefault(position, entry)
        owner.waiting -= stop - start
        owner.cluster.count("entries confirmed", stop - start)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        self._owner.waiting -= run.count - start
        self._owner.cluster.count("appends failed")
        if not isinstance(error, REFUSALS):
            self._owner.record.history.anomalies.append(f"an append failed with {error!r}")


class ManagedHost:
    """One process: a ledger client, a factory, and one hand per topic that owns it now and then."""

    def __init__(
        self,
        record: ManagedRecord,
        machine: Machine,
        client: LedgerClient,
        topics: tuple[str, ...],
        config: LedgerConfig,
        tiered: TieredStorage | None = None,
    ) -> None:
        self.record = record
        self.topics = topics
        cluster = self.cluster = record.cluster
        self.who = machine.incarnation
        self.config = config
        self.calm = False
        self.busy: dict[str, str] = {}
        self.rng = random.Random(f"{cluster.loop.seed}/{self.who}/hands")
        assert machine.store is not None
        settings = ManagedSettings(
            cursor_persist_interval_s=self.rng.choice((0.05, 0.5)),
            cursor_ledger_entries_max=self.rng.choice((3, 20, 1000)),
            cache_bytes_max=self.rng.choice((20_000, 1 << 20)),
            read_ahead_bytes=self.rng.choice((2_000, 100_000)),
            retry_max_s=1.0,
        )
        self.factory = ManagedLedgerFactory(
            store=machine.store,
            ledgers=client,
            clock=machine.clock,
            entropy=cluster.entropy(machine),
            settings=settings,
            tiered=tiered,
        )
        self._opened = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for topic in self.topics:
                group.create_task(self._hand(topic))

    async def _hand(self, topic: str) -> None:
        while not self.calm:
            await asyncio.sleep(self.rng.expovariate(0.7))
            if self.calm:
                return
            self.busy[topic] = f"since {self.cluster.loop.now:.3f}"
            try:
                owner = await self.open(topic)
                await owner.live(self.rng.choice((0.3, 2.0, 6.0)))
            except REFUSALS as error:
                self.cluster.count("openings refused")
                self.cluster.loop.note(self.who, topic, type(error).__name__)
            finally:
                self.busy.pop(topic, None)

    async def open(self, topic: str) -> "Owner":
        """Open ``topic`` and its cursors, and note what they have as acknowledged."""
        cluster = self.cluster
        self._opened += 1
        owner = Owner(self, topic, f"{self.who}/{self._opened}")
        stale = self.factory.opened.get(topic)
        if stale is not None:
            stale.abandon()  # as a broker does that has to open the topic again
        since = cluster.loop.now
        owner.ledger = await self.factory.open(topic, self.config)
        await self._check_cursors(owner.ledger, topic)
        for name in CURSORS:
            cursor = await owner.ledger.open_cursor(name, EARLIEST)
            owner.cursors[name] = cursor
            known = [
                p for p in self.record.stored.get(topic, {}) if owner.ledger.line.exact(*p) >= 0
            ]
            acked = frozenset(p for p in known if cursor.is_acknowledged(p))
            event = partial(
                m.CursorOpened, since, cursor=name, mark_delete=cursor.mark_delete, acked=acked,
                unacked=frozenset(known) - acked,
            )  # fmt: skip
            self.record.note(event(at=cluster.loop.now, owner=owner.name, topic=topic))
        cluster.count("openings")
        return owner

    async def _check_cursors(self, ledger: ManagedLedger, topic: str) -> None:
        """Note an anomaly when an opened topic lacks a cursor whose creation was confirmed (M16)."""
        known = ledger.cursors.keys() | ledger.unread_cursors.keys()
        missing = self.record.made.get(topic, set()) - known
        # When the list has changed, another owner may have created the cursors since.
        if missing and await ledger._list.is_unchanged():
            text = f"M16: {self.who} opened {topic} without {sorted(missing)}, which were confirmed"
            self.record.history.anomalies.append(text)


class Owner:
    """One managed ledger object and the work on it."""

    ledger: ManagedLedger

    def __init__(self, host: ManagedHost, topic: str, name: str) -> None:
        self.host = host
        self.record = host.record
        self.cluster = host.cluster
        self.topic = topic
        self.name = name
        self.cursors: dict[str, Cursor] = {}
        self.waiting = 0
        self._appended = 0

    def note(self, event: Any) -> None:
        self.record.note(event(at=self.cluster.loop.now, owner=self.name, topic=self.topic))

    async def live(self, seconds: float) -> None:
        """Append, read and acknowledge for a while; then close, leave as a crash would, or stay until fenced."""
        rng = self.host.rng
        work: list[Coroutine[Any, Any, None]] = [self._append_for(seconds)]
        work += [self._consume_for(cursor, seconds) for cursor in self.cursors.values()]
        work.append(self._subscribe_for(seconds))
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, REFUSALS):
                raise result
        end = rng.random()
        if end < 0.5 or self.host.calm:
            await self.ledger.close()
            self.cluster.count("closings")
        elif end < 0.7:
            self.ledger.abandon()

    async def _append_for(self, seconds: float) -> None:
        loop, rng = self.cluster.loop, self.host.rng
        until = loop.now + seconds
        while loop.now < until and not self.ledger.ended and not self.host.calm:
            if self.waiting < OPEN_ENTRIES_MAX:
                self.append(rng.choice((1, 1, 3, 8)), rng.choice((60, 300, 2000)))
            await asyncio.sleep(rng.choice((0.002, 0.02, 0.1)))

    async def _subscribe_for(self, seconds: float) -> None:
        """Create cursors that are not read, and delete them, also those that earlier owners have left."""
        loop, rng = self.cluster.loop, self.host.rng
        until = loop.now + seconds
        names = self.record.made.setdefault(self.topic, set())
        deleted = self.record.deleted.setdefault(self.topic, set())
        while loop.now < until and not self.ledger.ended and not self.host.calm:
            for name in sorted(self.ledger.cursors.keys() - CURSORS):
                names.discard(name)
                deleted.add(name)
                await self.ledger.delete_cursor(name)
            name = f"more of {self.name} at {loop.now:.6f}"
            await self.ledger.open_cursor(name, EARLIEST)
            if name not in deleted:  # the next owner may delete it before this owner has its answer
                names.add(name)
            self.cluster.count("cursors made")
            await asyncio.sleep(rng.choice((0.01, 0.1, 0.5)))

    def append(self, count: int, size: int) -> None:
        first = self._appended
        self._appended += count
        self.waiting += count
        for i in range(count):
            self.note(partial(m.Append, entry=(self.name, first + i)))
        self.ledger.append(_run(self.name, first, count, size), Sink(self, first))

    async def _consume_for(self, cursor: Cursor, seconds: float) -> None:
        loop, rng = self.cluster.loop, self.host.rng
        until = loop.now + seconds
        held: list[Position] = []
        while loop.now < until and not self.ledger.ended and not self.host.calm:
            held += await self.read(cursor, rng.choice((1, 10, 50)))
            rng.shuffle(held)
            act = rng.random()
            if act < 0.5 and held:
                done = [held.pop() for _ in range(rng.randrange(len(held)) + 1)]
                self.acknowledge(cursor, done)
            elif act < 0.65 and held:
                self.acknowledge_to(cursor, max(held[: rng.randrange(len(held)) + 1]))
                held = [p for p in held if not cursor.is_acknowledged(p)]
            elif act < 0.70:
                held.clear()
                cursor.rewind()
            elif act < 0.72:
                held.clear()
                await self.reset(cursor)
            elif act < 0.73:
                await self.clear(cursor)
                held.clear()
            if rng.random() < 0.3:
                await self.persist(cursor)
            await asyncio.sleep(rng.choice((0.005, 0.05, 0.2)))

    async def read(self, cursor: Cursor, entries: int) -> list[Position]:
        """Read the next entries of a cursor and note them; return their positions."""
        views: list[View] | None = cursor.read_nowait(entries, 20_000)
        if views is None:
            views = await cursor.read(entries, 20_000)
        positions = []
        for view in views:
            for i in range(view.start, view.stop):
                position = view.run.position(i)
                positions.append(position)
                entry = entry_of(view.run.entry(i))
                self.note(partial(m.Delivered, cursor=cursor.name, position=position, entry=entry))
        self.cluster.count("entries read", len(positions))
        return positions

    def acknowledge(self, cursor: Cursor, positions: list[Position]) -> None:
        self.note(partial(m.AckAsked, cursor=cursor.name, positions=tuple(positions)))
        cursor.acknowledge(positions)

    def acknowledge_to(self, cursor: Cursor, position: Position) -> None:
        self.note(partial(m.AckAsked, cursor=cursor.name, positions=(), to=position))
        cursor.acknowledge_cumulative(position)

    async def persist(self, cursor: Cursor) -> None:
        since = self.cluster.loop.now
        await cursor.persisted()
        self.note(partial(m.AckStored, since, cursor=cursor.name))
        self.cluster.count("acknowledgements stored")

    async def reset(self, cursor: Cursor) -> None:
        known = [
            p for p in self.record.stored.get(self.topic, {}) if self.ledger.line.exact(*p) >= 0
        ]
        if not known:
            return
        since, to = self.cluster.loop.now, self.host.rng.choice(known)
        event = partial(
            m.Reset, since, owner=self.name, topic=self.topic, cursor=cursor.name, to=to
        )
        self.record.note(event(at=float("inf")))
        await cursor.reset(to)
        self.record.note(event(at=self.cluster.loop.now))
        self.cluster.count("resets of cursors")

    async def clear(self, cursor: Cursor) -> None:
        to = self.ledger.last_confirmed
        self.note(partial(m.AckAsked, cursor=cursor.name, positions=(), to=to))
        since = self.cluster.loop.now
        await cursor.clear()
        self.note(partial(m.AckStored, since, cursor=cursor.name))
