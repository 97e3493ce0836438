"""A topic is compacted repeatedly under faults: a reader of the compacted topic receives the last confirmed message of
each key or a newer one, once, wherever a compaction was interrupted and whatever was trimmed."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_STATS, InternalStats
from engine.admin.api.topics import COMPACT, COMPACTION_STATUS, CREATE_TOPIC, CreateTopic
from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.ledger.ledger_metadata import LedgerState, decode
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.wire import events
from engine.wire.batches import Message, pack_entry, unpack_entry
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.client import Client
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/compacted")
SETTLE_S = 60.0
LEDGERS_MAX = 3000
"""Bound above all ledger ids of a run."""
EMPTY_SHARE = 0.2

Pair = tuple[str, int, bool]
"""Key, number and whether the value is empty."""


@dataclass(frozen=True)
class Compacting:
    """Number of keys, sends of the writer per second, compactions per second, and number of readers."""

    keys: int
    rate: float
    compactions: float
    readers: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Compacting":
        return cls(
            rng.choice((2, 8, 40)),
            rng.choice((3.0, 10.0)),
            rng.choice((0.5, 2.0)),
            rng.choice((1, 2)),
        )

    def setup(self, run: Run) -> "CompactingWorkload":
        return CompactingWorkload(run, self)


class Writer(Client):
    """A producer of single messages and batches that resends entries without a receipt."""

    def __init__(self, observer: Observer, plan: Compacting) -> None:
        super().__init__(observer, "writer", TOPIC.full)
        self.plan = plan
        self.entries: list[list[Pair]] = []
        self.confirmed = 0
        """Number of confirmed entries."""
        self._numbers = 0
        self._producer: RawProducer | None = None

    async def _session(self) -> None:
        link = await self.open()
        producer = await RawProducer.open(
            link, self.topic, on_receipts=self._receipts, on_end=self.wake_up
        )
        self._send(producer, self.confirmed)
        while producer.error is None:
            self.wake.clear()
            if not self.calm:
                first = len(self.entries)
                for _ in range(self.rng.choice((1, 1, 2, 6))):
                    self.entries.append(self._draw())
                self._send(producer, first)
            try:
                async with asyncio.timeout(self.rng.expovariate(self.plan.rate)):
                    await self.wake.wait()
            except TimeoutError:
                pass
        raise producer.error

    def _draw(self) -> list[Pair]:
        count = self.rng.choice((1, 1, 2, 4))
        pairs = []
        for _ in range(count):
            self._numbers += 1
            key = f"k{self.rng.randrange(self.plan.keys)}"
            pairs.append((key, self._numbers, self.rng.random() < EMPTY_SHARE))
        return pairs

    def _send(self, producer: RawProducer, first: int) -> None:
        numbers = range(first, len(self.entries))
        packed = [
            pack_entry(
                [Message(b"" if empty else b"%d" % n, key) for key, n, empty in self.entries[i]],
                producer_name="writer",
                publish_ms=1,
                extra={"sequence_id": i},
            )
            for i in numbers
        ]
        if packed:
            producer.send(numbers, packed)

    def _receipts(self, receipts: Sequence[events.Receipt]) -> None:
        for receipt in receipts:
            self.confirmed = max(self.confirmed, receipt.sequence_id + 1)

    def last(self) -> dict[str, Pair]:
        """Return the last confirmed message of each key."""
        return {pair[0]: pair for entry in self.entries[: self.confirmed] for pair in entry}

    def sent_since(self, key: str, number: int) -> bool:
        """Return whether a later value than the one with this number was sent for the key."""
        return any(pair[0] == key and pair[1] > number for entry in self.entries for pair in entry)


class Viewer(Client):
    """A reader that reads the compacted topic repeatedly from its beginning to its end."""

    def __init__(self, observer: Observer, number: int, writer: Writer) -> None:
        super().__init__(observer, f"viewer-{number}", TOPIC.full)
        self.writer = writer
        self.views = 0
        self.seen: list[tuple[str, int]] = []
        """Key and number of each message of the last view that was begun when all was calm."""

    async def _session(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(2.0))
            link = await self.open()
            calm, expected = self.calm, self.writer.last()
            name = f"{self.name}-{self.views}-{self.rng.getrandbits(20)}"
            reader = await RawReader.open(
                link, self.topic, name=name, start=EARLIEST, compacted=True,
                window=self.rng.choice((3, 50)),
            )  # fmt: skip
            messages = await reader.rest()
            seen, view = self._look(messages)
            self._compare(view, expected)
            self.views += 1
            if calm:
                self.seen = seen
            self.cut()

    def _look(
        self, entries: Sequence[events.Delivered]
    ) -> tuple[list[tuple[str, int]], dict[str, int]]:
        """Return every value, and by key the last value without an empty message behind it."""
        seen: list[tuple[str, int]] = []
        view: dict[str, int] = {}
        last = Position(-1, -1)
        for entry in entries:
            if entry.position <= last:
                self.observer.wrong(f"{self.name}: {entry.position} came behind {last}")
            last = entry.position
            for message in unpack_entry(entry.entry).messages:
                if message.compacted_out:
                    continue
                assert message.key is not None
                view.pop(message.key, None)
                if message.value:
                    view[message.key] = int(message.value)
                    seen.append((message.key, int(message.value)))
        return seen, view

    def _compare(self, view: dict[str, int], expected: dict[str, Pair]) -> None:
        """Check that the last confirmed message of each key was read, unless a newer one was sent since.

        The newer one may lie behind the end of the topic when the view began. A reader that read a key before a
        compaction removed its empty message does not learn of the removal; with Apache's brokers neither.
        """
        for key, number, empty in expected.values():
            value = view.get(key)
            if value != number and not empty and not self.writer.sent_since(key, number):
                self.observer.wrong(f"{self.name}: {key} is {value}, {number} was confirmed")


class CompactingWorkload:
    def __init__(self, run: Run, plan: Compacting) -> None:
        self.run = run
        self.plan = plan
        self.observer = Observer(run.cluster, [TOPIC.full])
        self.administrator = Administrator(self.observer, visits=False)
        self.writer = Writer(self.observer, plan)
        self.viewers = [Viewer(self.observer, i, self.writer) for i in range(plan.readers)]
        self.calm = False
        self._rng = random.Random(f"{run.loop.seed}/compacting")
        self._wrong: list[str] = []
        run.faults |= {
            name: partial(TOPIC_FAULTS[name], self.observer) for name in ("unload", "take_over")
        }

    async def start(self) -> None:
        # From the first compaction on, only compacted entries are trimmed from the topic.
        first = self.administrator.work(self._make())
        await self.run.reach("compact an empty topic", first.done, SETTLE_S, lambda: ["it"])
        self.writer.start()
        await self.run.reach(
            "publish", lambda: self.writer.confirmed, SETTLE_S, lambda: ["the first entry"]
        )
        for viewer in self.viewers:
            viewer.start()
        self.administrator.work(self._compact_now_and_then())

    async def _make(self) -> None:
        brokers = self.administrator.brokers
        await self.administrator.insist(lambda: brokers.call(CREATE_TOPIC, CreateTopic(TOPIC)))
        await self._compact_to_the_end()

    async def _compact_now_and_then(self) -> None:
        while not self.calm:
            await asyncio.sleep(self._rng.expovariate(self.plan.compactions))
            await self._compact()

    async def _compact(self) -> bool:
        try:
            await self.administrator.brokers.call(COMPACT, OnTopic(TOPIC))
        except MagnetarError:
            self.run.cluster.count("verbs refused")
            return False
        self.run.cluster.count("compactions begun")
        return True

    async def quiet(self) -> None:
        self.calm = True
        self.writer.calm = True
        await self.run.reach(
            "publish all",
            lambda: self.writer.confirmed == len(self.writer.entries),
            SETTLE_S,
            lambda: [f"{self.writer.confirmed} of {len(self.writer.entries)}"],
        )
        compacted = self.administrator.work(self._compact_to_the_end())
        await self.run.reach("compact", compacted.done, SETTLE_S, lambda: ["the topic"])
        if not compacted.done():
            return
        for viewer in self.viewers:
            viewer.calm = True
        await self.run.reach(
            "view what is left",
            lambda: not self._unseen() and not self._repeated(),
            SETTLE_S,
            lambda: [*self._unseen()[:3], *self._repeated()[:3]],
        )
        self._look_at_ledgers(compacted.result())

    async def _compact_to_the_end(self) -> int:
        """Compact all published entries, and return the id of the compacted ledger."""
        brokers = self.administrator.brokers
        while True:
            try:
                if await self._compact():
                    status = {"status": "RUNNING"}
                    while status["status"] == "RUNNING":
                        await asyncio.sleep(0.1)
                        status = await brokers.call(COMPACTION_STATUS, OnTopic(TOPIC))
                    if status["status"] == "SUCCESS":
                        stats = await brokers.call(INTERNAL_STATS, InternalStats(TOPIC))
                        return int(stats["compactedLedger"]["ledgerId"])
            except MagnetarError:
                self.run.cluster.count("verbs refused")
            await asyncio.sleep(0.2)

    def _expected(self) -> set[tuple[str, int]]:
        return {(key, number) for key, number, empty in self.writer.last().values() if not empty}

    def _unseen(self) -> list[str]:
        expected = self._expected()
        return [
            f"{viewer.name} lacks {key} {number}"
            for viewer in self.viewers
            for key, number in sorted(expected - set(viewer.seen))
        ]

    def _repeated(self) -> list[str]:
        expected = self._expected()
        return [
            f"{viewer.name} sees {key} {number}"
            for viewer in self.viewers
            for i, (key, number) in enumerate(viewer.seen)
            if (key, number) not in expected or (key, number) in viewer.seen[:i]
        ]

    def _look_at_ledgers(self, live: int) -> None:
        """Check that no finished compacted ledger exists except the last."""
        for ledger_id in range(LEDGERS_MAX):
            try:
                ledger = decode(self.run.cluster.tree.get(paths.ledger(ledger_id))[0])
            except NoNodeError:
                continue
            ours = ledger.custom.get("component") == b"compacted-ledger"
            finished = ledger.state is LedgerState.CLOSED and ledger.last_entry >= 0
            if ours and ledger_id != live and finished:
                self._wrong.append(f"ledger {ledger_id} is left, {live} counts")

    def check(self) -> list[str]:
        count = self.run.cluster.count
        count("published", self.writer.confirmed)
        count("views", sum(viewer.views for viewer in self.viewers))
        wrong = [*self.observer.history.anomalies, *self._wrong]
        return first_of([f"compacting: {text}" for text in wrong], "compacting")
