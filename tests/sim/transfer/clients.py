"""Clients of the accounts: those that transfer coins in transactions, readers, and one that counts at the end."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from engine.base.ids import Position
from engine.broker.transactions.txn_id import TxnId
from engine.client.raw_consumer import EXCLUSIVE, FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.tenancy.initialization import COORDINATORS
from engine.wire import client_commands as say
from engine.wire import events
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.errors import RefusedError, ServerError
from tests.sim.kit.cluster import BROKER_PORT
from tests.sim.topics.client import Client, Link
from tests.sim.transfer.book import Book, Outcome, Transfer, content_of, parse

BANK, AUDIT = "bank", "audit"
"""Subscriptions: the workers share the one, a reader of each account has the other."""
PERMITS = 1_000
HELD_MAX_S = 0.4
"""Longest time for which a worker keeps coins that it does not transfer."""


class TransactionalProducer(RawProducer):
    """A producer whose entries belong to transactions."""

    def send_in(self, txn: TxnId, sequence: int, entry: bytes) -> None:
        if self.error is None:
            self._unanswered.append(sequence)
            self.link.send(say.send(self.producer_id, sequence, entry, txn=txn))


def entry_in(txn: TxnId | None, coin: int, version: int, sequence: int) -> bytes:
    """Return the entry of a coin."""
    extra = {} if txn is None else {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
    message = Message(content_of(coin, version, txn), sequence_id=sequence)
    return pack_entry([message], producer_name="worker", publish_ms=1, extra=extra)


class AccountClient(Client):
    """The base of clients of several topics."""

    def __init__(self, book: Book, name: str, accounts: Sequence[str]) -> None:
        super().__init__(book.observer, name, accounts[0])
        self.book = book
        self.accounts = list(accounts)

    async def link_to(self, topic: str) -> Link:
        """Return a connection to the topic's owner."""
        if self._links is None:
            await self.open()
        assert self._links is not None
        host = self.rng.choice(self.cluster.brokers).name
        return await self._links.owner(topic, f"pulsar://{host}:{BROKER_PORT}")

    async def coordinator(self, number: int) -> Link:
        """Return a connection to the owner of a coordinator."""
        link = await self.link_to(str(COORDINATORS.partition_at(number)))
        request_id = link.new_id()
        await link.request(request_id, say.connect_coordinator(number, request_id))
        return link

    async def consume(
        self,
        topic: str,
        subscription: str,
        kind: int,
        on_message: Callable[[Position, bytes], None],
    ) -> RawConsumer:
        def receive(messages: Sequence[events.Delivered]) -> None:
            for message in messages:
                (content,) = unpack_entry(message.entry).messages
                assert content.value is not None
                on_message(message.position, content.value)

        return await RawConsumer.open(
            await self.link_to(topic),
            topic,
            subscription,
            kind,
            on_messages=receive,
            on_end=self.wake_up,
            name=self.name,
            initial=FROM_EARLIEST,
        )


class Reader(AccountClient):
    """The reader of one account, from the first message on."""

    def __init__(self, book: Book, name: str, account: str) -> None:
        super().__init__(book, name, (account,))
        self.attached = False

    async def _session(self) -> None:
        unacknowledged: list[Position] = []

        def receive(position: Position, content: bytes) -> None:
            self.book.note(self.topic, position, content)
            unacknowledged.append(position)
            self.wake_up()

        consumer = await self.consume(self.topic, AUDIT, EXCLUSIVE, receive)
        consumer.flow(PERMITS)
        self.attached = True
        while consumer.error is None:
            self.wake.clear()
            if unacknowledged:
                consumer.acknowledge(unacknowledged)
                consumer.flow(len(unacknowledged))
                unacknowledged.clear()
            await self.wake.wait()
        raise consumer.error


class Worker(AccountClient):
    """Takes coins from accounts and puts them into others, in transactions, some of which it aborts or abandons."""

    def __init__(
        self,
        book: Book,
        name: str,
        accounts: Sequence[str],
        coordinators: int,
        timeouts_ms: Sequence[int],
    ) -> None:
        super().__init__(book, name, accounts)
        self._coordinators = coordinators
        self._timeouts_ms = timeouts_ms
        self._sequence = 0
        self._held: list[tuple[str, Position, int, int]] = []
        """Coins that were received: account, position, coin, version."""
        self._consumers: dict[str, RawConsumer] = {}
        self._producers: dict[str, TransactionalProducer] = {}
        self._receipts: dict[int, asyncio.Future[None]] = {}
        self._unsure: dict[TxnId, Transfer] = {}
        """Transactions whose commit has no known outcome."""

    async def _session(self) -> None:
        self._held.clear()
        self._receipts.clear()
        self._consumers.clear()
        self._producers.clear()
        for account in self.accounts:
            receive = partial(self._receive, account)
            self._consumers[account] = await self.consume(account, BANK, SHARED, receive)
            link = await self.link_to(account)
            producer = await TransactionalProducer.open(
                link, account, on_receipts=self._stored, on_end=self.wake_up
            )
            assert isinstance(producer, TransactionalProducer)
            self._producers[account] = producer
        for consumer in self._consumers.values():
            consumer.flow(PERMITS)
        await self._settle()
        while not self._ended_users():
            self.wake.clear()
            if self._held and not self.calm:
                await self._transfer()
            try:
                async with asyncio.timeout(HELD_MAX_S * self.rng.random()):
                    await self.wake.wait()
            except TimeoutError:
                self._give_back()
        raise self._ended_users()[0]

    def _ended_users(self) -> list[Exception]:
        users = (*self._consumers.values(), *self._producers.values())
        return [user.error for user in users if user.error is not None]

    def _receive(self, account: str, position: Position, content: bytes) -> None:
        coin, version, txn = parse(content)
        self.book.look(self.name, txn)
        self._held.append((account, position, coin, version))
        self.wake_up()

    def _give_back(self) -> None:
        """Request the redelivery of the coins held, so that others may have them."""
        for account, consumer in self._consumers.items():
            positions = [at for held, at, _, _ in self._held if held == account]
            if positions and consumer.error is None:
                consumer.redeliver(positions)
                consumer.flow(len(positions))
        self._held.clear()

    def _stored(self, receipts: Sequence[events.Receipt]) -> None:
        for _, sequence, *_ in receipts:
            receipt = self._receipts.pop(sequence, None)
            if receipt is not None and not receipt.done():
                receipt.set_result(None)

    # --- transactions ---------------------------------------------------------------------------

    async def _transfer(self) -> None:
        rng, count = self.rng, self.rng.choice((1, 1, 2, 3))
        rng.shuffle(self._held)
        taken, self._held = self._held[:count], self._held[count:]
        number = rng.randrange(self._coordinators)
        link = await self.coordinator(number)
        request_id = link.new_id()
        timeout_ms = rng.choice(self._timeouts_ms)
        began = await link.request(request_id, say.new_transaction(number, request_id, timeout_ms))
        txn = TxnId(began.txnid_most_bits, began.txnid_least_bits)
        transfer = self.book.begin(txn)
        steps = [(*coin, rng.choice(self.accounts)) for coin in taken]
        try:
            await self._register(link, txn, steps)
            for account, position, coin, version, target in steps:
                await self._move(txn, transfer, account, position, coin, version, target)
        except RefusedError as error:
            if error.code not in (ServerError.TransactionConflict, ServerError.NotAllowedError):
                raise
            self.book.refused += error.code is ServerError.TransactionConflict
            await self._end(link, txn, transfer, commit=False)
            return
        whim = rng.random()
        if whim < 0.05:
            return  # abandoned: it times out
        if whim < 0.1:
            await asyncio.sleep(timeout_ms / 1000 * rng.choice((0.5, 1.0, 1.5)))
        await self._end(link, txn, transfer, commit=whim > 0.25)

    async def _register(
        self, link: Link, txn: TxnId, steps: list[tuple[str, Position, int, int, str]]
    ) -> None:
        sources = sorted({(account, BANK) for account, *_ in steps})
        request_id = link.new_id()
        await link.request(request_id, say.add_subscriptions(txn, request_id, sources))
        request_id = link.new_id()
        targets = sorted({target for *_, target in steps})
        await link.request(request_id, say.add_partitions(txn, request_id, targets))

    async def _move(
        self,
        txn: TxnId,
        transfer: Transfer,
        account: str,
        position: Position,
        coin: int,
        version: int,
        target: str,
    ) -> None:
        """Acknowledge a coin and publish its next version, in either order."""

        async def acknowledge() -> None:
            consumer = self._consumers[account]
            request_id = consumer.link.new_id()
            frame = say.ack(consumer.consumer_id, [position], request_id=request_id, txn=txn)
            await consumer.link.request(request_id, frame)
            consumer.flow(1)

        async def publish() -> None:
            sequence = self._sequence
            self._sequence += 1
            receipt = self._receipts[sequence] = self.loop.create_future()
            transfer.coins.append((coin, version + 1))
            producer = self._producers[target]
            producer.send_in(txn, sequence, entry_in(txn, coin, version + 1, sequence))
            while not receipt.done():
                if producer.error is not None:
                    raise producer.error
                self.wake.clear()
                await asyncio.wait([receipt], timeout=0.2)

        steps = [acknowledge, publish]
        self.rng.shuffle(steps)
        for step in steps:
            await step()

    async def _end(self, link: Link, txn: TxnId, transfer: Transfer, *, commit: bool) -> None:
        if commit:
            # From the request on its messages may be seen.
            transfer.outcome = Outcome.UNKNOWN
            self._unsure[txn] = transfer
        request_id = link.new_id()
        try:
            await link.request(request_id, say.end_transaction(txn, request_id, commit=commit))
        except RefusedError as error:
            if commit:
                self._refused(txn, transfer, error)
            return
        if commit:
            transfer.outcome = Outcome.COMMITTED
            self._unsure.pop(txn, None)
            self.cluster.count("transfers")
        else:
            transfer.outcome = Outcome.ABORTED
            self.cluster.count("aborted transfers")

    def _refused(self, txn: TxnId, transfer: Transfer, error: RefusedError) -> None:
        if error.code is ServerError.InvalidTxnStatus:  # it timed out before
            transfer.outcome = Outcome.ABORTED
            self._unsure.pop(txn, None)
            self.cluster.count("timed-out transfers")
        elif error.code is ServerError.TransactionNotFound:
            self._unsure.pop(txn, None)  # it ended too long ago to be known
        else:
            raise error

    async def _settle(self) -> None:
        """Commit again what may not be committed: the answer is the same."""
        for txn, transfer in [*self._unsure.items()]:
            link = await self.coordinator(txn.most)
            await self._end(link, txn, transfer, commit=True)

    @property
    def unsure(self) -> list[TxnId]:
        return [*self._unsure]


class Counter(AccountClient):
    """Receives every coin that is not acknowledged, at the end of a run."""

    def __init__(self, book: Book, name: str, accounts: Sequence[str]) -> None:
        super().__init__(book, name, accounts)
        self.live: dict[int, list[int]] = {}

    async def _session(self) -> None:
        received: dict[tuple[str, Position], tuple[int, int]] = {}

        def receive(account: str, position: Position, content: bytes) -> None:
            coin, version, txn = parse(content)
            self.book.look(self.name, txn)
            received[account, position] = coin, version
            live: dict[int, list[int]] = {}
            for of, at in received.values():
                live.setdefault(of, []).append(at)
            self.live = live

        consumers = [
            await self.consume(account, BANK, SHARED, partial(receive, account))
            for account in self.accounts
        ]
        for consumer in consumers:
            consumer.flow(PERMITS)
        while all(consumer.error is None for consumer in consumers):
            self.wake.clear()
            await self.wake.wait()
        raise next(consumer.error for consumer in consumers if consumer.error is not None)
