"""Coins on accounts, transferred exactly once: consumed, published and acknowledged in one transaction.

The number of coins never changes (T1 to T7): whatever fails, a coin is one message that is not acknowledged, and its
versions are a chain. Readers see nothing that is open or aborted, at any moment, and all that is committed.

Beside the accounts there are journals of batches, which clerks acknowledge in transactions: parts of batches, and
everything up to a message of one. Each message is acknowledged by one committed transaction at most, comes again when
its transaction is aborted, and never behind a commit.
"""

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.raw_consumer import SHARED
from engine.client.raw_producer import RawProducer
from engine.tenancy import initialization
from engine.wire import events
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer
from tests.sim.transfer.book import Book
from tests.sim.transfer.claims import ClaimBook
from tests.sim.transfer.clerks import Auditor, Clerk, Scribe
from tests.sim.transfer.clients import (
    AUDIT,
    BANK,
    AccountClient,
    Counter,
    Reader,
    Worker,
    entry_in,
)

SETTLE_S = 90.0
REST_S = 5.0
"""Seconds for which nothing more may come at the end."""


@dataclass(frozen=True)
class TransferPlan:
    accounts: int
    coins: int
    workers: int
    coordinators: int
    timeouts_ms: tuple[int, ...]
    journals: int
    clerks: int

    @classmethod
    def draw(cls, rng: random.Random) -> "TransferPlan":
        return cls(
            rng.choice((1, 2, 3)),
            rng.choice((3, 6, 12)),
            rng.choice((1, 2, 3)),
            rng.choice((1, 2)),
            rng.choice(((500, 3000), (2000, 10_000), (10_000,))),
            rng.choice((0, 1, 1, 2)),
            rng.choice((1, 2, 3)),
        )

    def setup(self, run: Run) -> "TransferWorkload":
        return TransferWorkload(run, self)


def _ignore(position: Position, content: bytes) -> None:
    """Receive nothing, for want of permits."""


class Mint(AccountClient):
    """Publishes the first version of each coin, before the faults."""

    def __init__(self, book: Book, accounts: list[str]) -> None:
        super().__init__(book, "mint", accounts)
        self.done = False

    async def _session(self) -> None:
        receipts: list[int] = []

        def stored(batch: list[events.Receipt]) -> None:
            receipts.extend(receipt.sequence_id for receipt in batch)

        for i, account in enumerate(self.accounts):
            # Without subscriptions a full ledger would be deleted with the coins in it.
            for subscription in (BANK, AUDIT):
                consumer = await self.consume(account, subscription, SHARED, _ignore)
                consumer.leave()
            producer = await RawProducer.open(
                await self.link_to(account), account, on_receipts=stored
            )
            coins = [coin for coin in range(self.book.coins) if coin % len(self.accounts) == i]
            producer.send(coins, [entry_in(None, coin, 0, coin) for coin in coins])
            await producer.drained()
        self.done = self.stopping = True


class TransferWorkload:
    def __init__(self, run: Run, plan: TransferPlan) -> None:
        self.run = run
        self.plan = plan
        self.accounts = [f"persistent://public/default/account-{i}" for i in range(plan.accounts)]
        journals = [f"persistent://public/default/journal-{i}" for i in range(plan.journals)]
        self.observer = Observer(run.cluster, [*self.accounts, *journals])
        self.book = Book(self.observer, plan.coins)
        self.mint = Mint(self.book, self.accounts)
        self.readers = [
            Reader(self.book, f"reader-{i}", account) for i, account in enumerate(self.accounts)
        ]
        self.workers = [
            Worker(self.book, f"worker-{i}", self.accounts, plan.coordinators, plan.timeouts_ms)
            for i in range(plan.workers)
        ]
        self.counter = Counter(self.book, "counter", self.accounts)
        self.claims = ClaimBook()
        self.scribe: Scribe | None = None
        self.auditor: Auditor | None = None
        self.clerks: list[Clerk] = []
        if journals:
            self.scribe = Scribe(self.book, self.claims, "scribe", journals)
            self.clerks = [
                Clerk(
                    *(self.book, self.claims, f"clerk-{i}", journals),
                    *(plan.coordinators, plan.timeouts_ms),
                )
                for i in range(plan.clerks)
            ]
            self.auditor = Auditor(
                *(self.book, self.claims, "auditor", journals, plan.coordinators, self._unload)
            )
        run.faults |= {name: partial(act, self.observer) for name, act in TOPIC_FAULTS.items()}

    async def _unload(self, name: str) -> None:
        """Unload a topic from the broker that has it loaded."""
        topic = TopicName.parse(name)
        for machine in self.run.cluster.brokers:
            if machine.broker is not None and machine.ready:
                registry = machine.broker.running.registry
                if registry.loaded(topic) is not None:
                    assert machine.node is not None
                    unloading = self.run.cluster.loop.spawn(machine.node, registry.unload(topic))
                    await asyncio.wait([unloading])

    async def start(self) -> None:
        store = self.run.cluster.metadata.session(10.0)
        await self.run.reach(
            "start", lambda: any(m.ready for m in self.run.cluster.brokers), SETTLE_S, list
        )
        await initialization.ensure_coordinators(store, self.plan.coordinators)
        await store.close()
        self.mint.start()
        await self.run.reach("publish the coins", lambda: self.mint.done, SETTLE_S, list)
        if self.scribe is not None:
            self.scribe.start()
            await self.run.reach(
                "begin the journals",
                lambda: self.scribe is None or self.scribe.ready,
                SETTLE_S,
                list,
            )
        for client in (*self.readers, *self.workers, *self.clerks):
            client.start()
        await self.run.reach(
            "begin", lambda: len(self.book.seen) >= self.plan.coins, SETTLE_S, self.book.missing
        )

    async def quiet(self) -> None:
        users = [*self.workers, *self.clerks]
        for user in users:
            user.calm = True
        await self.run.reach(
            "settle all transactions",
            lambda: not any(user.unsure for user in users),
            SETTLE_S,
            lambda: [f"{user.name}: {user.unsure}" for user in users],
        )
        for client in (*users, *filter(None, [self.scribe])):
            client.stopping = True
            if client.task is not None:
                client.task.cancel()
        await self.run.reach(
            "read all", lambda: not self.book.missing(), SETTLE_S, self.book.missing
        )
        self.counter.start()
        everything = set(range(self.plan.coins))
        await self.run.reach(
            "find all coins",
            lambda: set(self.counter.live) == everything,
            SETTLE_S,
            lambda: [f"without {sorted(everything - set(self.counter.live))}"],
        )
        if self.auditor is not None:
            await self._audit(self.auditor)
        await asyncio.sleep(REST_S)

    async def _audit(self, auditor: Auditor) -> None:
        auditor.start()
        await self.run.reach(
            "find all messages of the journals",
            lambda: auditor.step == "done",
            SETTLE_S,
            auditor.missing,
        )

    def check(self) -> list[str]:
        self.run.cluster.count("conflicts", self.book.refused)
        wrong = list(self.observer.history.anomalies)
        if self.counter.live:
            wrong += self.book.check(self.counter.live)
        self.run.cluster.count("conflicts of claims", self.claims.conflicts)
        wrong += self.claims.check()
        if self.auditor is not None:
            wrong += [f"transfer: {text}" for text in self.auditor.wrong + self.auditor.surplus()]
        return first_of(wrong, "transfer")
