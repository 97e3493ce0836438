"""Clients of the journals: a scribe that publishes batches, clerks that acknowledge parts of them and up to a message
of them in transactions, and an auditor that counts at the end what is left."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.broker.transactions.txn_id import TxnId
from engine.client.errors import SentAwayError
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.wire import client_commands as say
from engine.wire import events
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.commands import NOWHERE
from engine.wire.errors import RefusedError, ServerError
from tests.sim.transfer.book import Book, Outcome
from tests.sim.transfer.claims import ALL, Claim, ClaimBook, ClaimingTransaction, Place
from tests.sim.transfer.clients import AccountClient

PARTS, SWEEP = "parts", "sweep"
"""Subscriptions: single messages are acknowledged on both, cumulatively on the ordered one."""
KINDS = {PARTS: SHARED, SWEEP: FAILOVER}
PERMITS = 100_000
BATCH_MAX = 4
HELD_MAX_S = 0.4
FIRST = 12
"""Entries of a journal before faults begin."""


class Scribe(AccountClient):
    """Publishes batches to the journals. ``calm``: no more of them."""

    def __init__(self, book: Book, claims: ClaimBook, name: str, journals: Sequence[str]) -> None:
        super().__init__(book, name, journals)
        self.claims = claims
        self._sizes: dict[tuple[str, int], int] = {}
        self._sequence = 0

    @property
    def ready(self) -> bool:
        return all(len(self.claims.sizes.get(topic, ())) >= FIRST for topic in self.accounts)

    def _stored(self, topic: str, receipts: Sequence[events.Receipt]) -> None:
        for receipt in receipts:
            if receipt.position != NOWHERE:
                size = self._sizes[topic, receipt.sequence_id]
                self.claims.note(topic, receipt.position, size)

    async def _session(self) -> None:
        producers: list[RawProducer] = []
        for topic in self.accounts:
            for subscription, kind in KINDS.items():
                link = await self.link_to(topic)
                consumer = await RawConsumer.open(
                    link, topic, subscription, kind, on_messages=_ignore, initial=FROM_EARLIEST
                )
                consumer.leave()
            producers.append(
                await RawProducer.open(
                    await self.link_to(topic),
                    topic,
                    on_receipts=partial(self._stored, topic),
                    on_end=self.wake_up,
                )
            )
        while all(producer.error is None for producer in producers):
            self.wake.clear()
            if not self.calm:
                for producer in producers:
                    self._write(producer)
            pause_s = 0.3 * self.rng.random() if self.ready else 0.01
            try:
                async with asyncio.timeout(pause_s):
                    await self.wake.wait()
            except TimeoutError:
                pass
        raise next(producer.error for producer in producers if producer.error is not None)

    def _write(self, producer: RawProducer) -> None:
        sequence, size = self._sequence, self.rng.randint(1, BATCH_MAX)
        self._sequence += 1
        self._sizes[producer.topic, sequence] = size
        messages = [Message(b"%d" % i, sequence_id=sequence) for i in range(size)]
        entry = pack_entry(messages, producer_name="scribe", publish_ms=1, batched=True)
        producer.send([sequence], [entry])


def _ignore(messages: Sequence[events.Delivered]) -> None:
    """Receive nothing, for want of permits."""


class JournalClient(AccountClient):
    """The base of clients that acknowledge on the journals in transactions."""

    def __init__(
        self,
        book: Book,
        claims: ClaimBook,
        name: str,
        journals: Sequence[str],
        coordinators: int,
        timeouts_ms: Sequence[int],
    ) -> None:
        super().__init__(book, name, journals)
        self.claims = claims
        self._coordinators = coordinators
        self._timeouts_ms = timeouts_ms
        self._consumers: dict[Place, RawConsumer] = {}
        self.held: dict[Place, dict[Position, int]] = {}
        """Messages that were received and not acknowledged, as bits by entry."""
        self.unsure: dict[TxnId, ClaimingTransaction] = {}
        """Transactions whose commit has no known outcome."""

    async def attach(self) -> None:
        self._consumers.clear()
        self.held.clear()
        for topic in self.accounts:
            for subscription, kind in KINDS.items():
                place = topic, subscription
                self.held[place] = {}
                consumer = self._consumers[place] = await RawConsumer.open(
                    await self.link_to(topic),
                    topic,
                    subscription,
                    kind,
                    on_messages=partial(self._receive, place),
                    on_end=self.wake_up,
                    name=self.name,
                    initial=FROM_EARLIEST,
                )
                consumer.flow(PERMITS)

    def check_attached(self) -> None:
        """Raise the error with which a consumer ended."""
        for consumer in self._consumers.values():
            if consumer.error is not None:
                raise consumer.error

    def _receive(self, place: Place, messages: Sequence[events.Delivered]) -> None:
        for message in messages:
            size = len(unpack_entry(message.entry).messages)
            self.claims.note(place[0], message.position, size)
            due = (1 << size) - 1
            if message.ack_set:
                due &= bits_of(message.ack_set)
            self.took(place, message.position, due)
        self.wake_up()

    def took(self, place: Place, position: Position, due: int) -> None:
        self.held[place][position] = due

    # --- transactions ---------------------------------------------------------------------------

    async def begin(self, places: Sequence[Place]) -> tuple[TxnId, ClaimingTransaction, int]:
        """Begin a transaction of acknowledgements on ``places``; return it and its time in ms."""
        number, timeout_ms = (
            self.rng.randrange(self._coordinators),
            self.rng.choice(self._timeouts_ms),
        )
        link = await self.coordinator(number)
        request_id = link.new_id()
        began = await link.request(request_id, say.new_transaction(number, request_id, timeout_ms))
        txn = TxnId(began.txnid_most_bits, began.txnid_least_bits)
        made = self.claims.transactions[txn] = ClaimingTransaction()
        request_id = link.new_id()
        await link.request(request_id, say.add_subscriptions(txn, request_id, sorted(set(places))))
        return txn, made, timeout_ms

    async def claim(
        self,
        txn: TxnId,
        made: ClaimingTransaction,
        place: Place,
        position: Position,
        bits: int,
        *,
        cumulative: bool = False,
    ) -> None:
        """Acknowledge messages of an entry, and with ``cumulative`` all before it."""
        every = (1 << self.claims.sizes[place[0]][position]) - 1
        claim = Claim(place, position, ALL if bits == every else bits, cumulative, self.loop.now)
        made.claims.append(claim)
        consumer = self._consumers[place]
        request_id = consumer.link.new_id()
        kept = every & ~bits
        frame = say.ack(
            consumer.consumer_id,
            [position],
            cumulative=cumulative,
            ack_set=words_of(kept) if kept else None,
            batch_size=every.bit_length(),
            request_id=request_id,
            txn=txn,
        )
        await consumer.link.request(request_id, frame)
        claim.answered_at = self.loop.now
        held = self.held[place]
        for at in [at for at in held if claim.covered(at)]:
            held[at] &= ~claim.covered(at)
            if not held[at]:
                del held[at]

    async def end(self, txn: TxnId, made: ClaimingTransaction, *, commit: bool) -> None:
        """End a transaction, or learn that it has ended."""
        if commit:
            made.end_asked_at = min(made.end_asked_at, self.loop.now)
            made.outcome = Outcome.UNKNOWN
            self.unsure[txn] = made
        link = await self.coordinator(txn.most)
        request_id = link.new_id()
        try:
            await link.request(request_id, say.end_transaction(txn, request_id, commit=commit))
        except RefusedError as error:
            if error.code not in (ServerError.InvalidTxnStatus, ServerError.TransactionNotFound):
                raise
            self.unsure.pop(txn, None)
            if commit and error.code is ServerError.InvalidTxnStatus:  # it timed out before
                made.outcome = Outcome.ABORTED
                self.cluster.count("timed-out claims")
            return
        self.unsure.pop(txn, None)
        if commit:
            made.outcome, made.known_at = Outcome.COMMITTED, self.loop.now
            self.cluster.count("claims")
        else:
            made.outcome = Outcome.ABORTED
            self.cluster.count("aborted claims")

    async def settle(self) -> None:
        """Commit again what may not be committed: the answer is the same."""
        for txn, made in [*self.unsure.items()]:
            await self.end(txn, made, commit=True)


class Clerk(JournalClient):
    """Acknowledges messages in transactions, some of which it aborts or abandons, also messages that others have."""

    async def _session(self) -> None:
        await self.attach()
        await self.settle()
        while True:
            self.check_attached()
            self.wake.clear()
            if not self.calm:
                if self.rng.random() < 0.05:
                    raise SentAwayError("the clerk leaves")
                if any(self.held.values()):
                    await (self._contest() if self.rng.random() < 0.25 else self._work())
            try:
                async with asyncio.timeout(HELD_MAX_S * self.rng.random()):
                    await self.wake.wait()
            except TimeoutError:
                self._give_back()

    def _give_back(self) -> None:
        """Request the redelivery of what is held, so that others may have it."""
        for place, consumer in self._consumers.items():
            held = self.held[place]
            if held and consumer.error is None and self.rng.random() < 0.5:
                consumer.redeliver([] if place[1] == SWEEP else [*held])
                consumer.flow(BATCH_MAX * len(held))
                held.clear()

    def _choose(self) -> tuple[Place, Position, int, bool]:
        """Choose messages to acknowledge: mostly some that are held."""
        rng = self.rng
        place = rng.choice([place for place, held in self.held.items() if held])
        held, sizes = self.held[place], self.claims.sizes[place[0]]
        position = rng.choice([*held][:6] if rng.random() < 0.85 else [*sizes][-30:])
        due = held.get(position) or (1 << sizes[position]) - 1
        if place[1] == SWEEP and rng.random() < 0.6:
            return place, position, (2 << rng.randrange(sizes[position])) - 1, True
        if rng.random() < 0.4:
            return place, position, due, False
        bits = due & rng.getrandbits(sizes[position])
        return place, position, bits or due & -due, False

    async def _claim_chosen(
        self, txn: TxnId, made: ClaimingTransaction, chosen: list[tuple[Place, Position, int, bool]]
    ) -> None:
        """Acknowledge one after the other, or all at once."""
        if self.rng.random() < 0.5:
            for place, position, bits, cumulative in chosen:
                await self.claim(txn, made, place, position, bits, cumulative=cumulative)
            return
        answers = await asyncio.gather(
            *(
                self.claim(txn, made, place, position, bits, cumulative=cumulative)
                for place, position, bits, cumulative in chosen
            ),
            return_exceptions=True,
        )
        for error in answers:
            if error is not None:
                raise error

    async def _work(self) -> None:
        rng = self.rng
        chosen = [self._choose() for _ in range(rng.choice((1, 1, 2, 3)))]
        txn, made, timeout_ms = await self.begin([place for place, *_ in chosen])
        try:
            await self._claim_chosen(txn, made, chosen)
        except RefusedError as error:
            if error.code not in (ServerError.TransactionConflict, ServerError.NotAllowedError):
                raise
            self.claims.conflicts += error.code is ServerError.TransactionConflict
            await self.end(txn, made, commit=False)
            return
        whim = rng.random()
        if whim < 0.05:
            return  # abandoned: it times out
        if whim < 0.1:
            await asyncio.sleep(timeout_ms / 1000 * rng.choice((0.5, 1.0, 1.5)))
        await self.end(txn, made, commit=whim > 0.35)

    async def _contest(self) -> None:
        """Acknowledge a message once more while a transaction has it, after another one of its batch has ended, and
        when it is acknowledged for good. All but the first must be refused."""
        place, position, due, _ = self._choose()
        every = (1 << self.claims.sizes[place[0]][position]) - 1
        lowest = due & -due
        first = await self._claimed(place, position, lowest)
        rest = due & ~lowest
        if rest:
            ending = await self._claimed(place, position, rest & -rest)
            await self._commit(ending)
        up_to = place[1] == SWEEP and self.rng.random() < 0.6
        again = await self._claimed(place, position, every if up_to else lowest, cumulative=up_to)
        for made in (first, again):
            await self._commit(made)
        if place[1] == SWEEP:
            for _ in range(2):
                await self._commit(await self._claimed(place, position, every, cumulative=True))

    async def _commit(self, made: tuple[TxnId, ClaimingTransaction] | None) -> None:
        if made is not None:
            await self.end(*made, commit=True)

    async def _claimed(
        self, place: Place, position: Position, bits: int, *, cumulative: bool = False
    ) -> tuple[TxnId, ClaimingTransaction] | None:
        """Acknowledge in a transaction of its own; return it, or None when that was refused."""
        txn, made, _ = await self.begin([place])
        try:
            await self.claim(txn, made, place, position, bits, cumulative=cumulative)
        except RefusedError as error:
            if error.code not in (ServerError.TransactionConflict, ServerError.NotAllowedError):
                raise
            self.claims.conflicts += error.code is ServerError.TransactionConflict
            await self.end(txn, made, commit=False)
            return None
        return txn, made


class Auditor(JournalClient):
    """Receives all that is not acknowledged, at the end of a run. Acknowledges it in a transaction that it aborts, then
    up to a message of the last batches, then all of it, in transactions that it commits. Before the last commit the
    topics are unloaded by ``unload``."""

    def __init__(
        self,
        book: Book,
        claims: ClaimBook,
        name: str,
        journals: Sequence[str],
        coordinators: int,
        unload: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(book, claims, name, journals, coordinators, (60_000,))
        self._unload = unload
        self.live: dict[Place, dict[Position, int]] = {}
        """Messages that were received since the client attached or the last step began."""
        self.wrong: list[str] = []
        self.step = "count"
        """Next step: ``count`` the rest, receive it ``again`` after an abort, and what remains of the ``last``
        batches; nothing when ``done``."""

    def took(self, place: Place, position: Position, due: int) -> None:
        super().took(place, position, due)
        live = self.live.setdefault(place, {})
        live[position] = live.get(position, 0) | due

    def missing(self) -> list[str]:
        """Return messages that were not received, though no transaction acknowledged them."""
        texts = []
        for place in self._consumers:
            live = self.live.get(place, {})
            for position, bits in self.claims.due(place)[0].items():
                left = bits & ~live.get(position, 0)
                if left:
                    texts.append(f"{self.step}: {position} bits {left:b} of {place}")
        return texts[:5]

    def surplus(self) -> list[str]:
        """Return messages that were received, although a transaction acknowledged them."""
        return [
            f"{self.step}: {position} bits {bits:b} of {place} came again"
            for place, live in self.live.items()
            for position, bits in live.items()
            if bits & ~self.claims.due(place)[1].get(position, 0)
        ]

    async def _session(self) -> None:
        self.live.clear()
        await self.attach()
        await self.settle()
        if self.step != "done":
            await self._wait_for_all()
            if self.step == "count":
                txn, made = await self._claim_all()
                self.step = "again"
                self.live.clear()
                await self.end(txn, made, commit=False)
                await self._wait_for_all()
            if self.step == "again":
                txn, made = await self._claim_parts()
                self.step = "last"
                await self.end(txn, made, commit=True)
            else:
                txn, made = await self._claim_all()
                for topic in self.accounts:
                    await self._unload(topic)
                self.step = "done"
                await self.end(txn, made, commit=True)
            raise SentAwayError("attach once more")
        while True:
            self.check_attached()
            self.wake.clear()
            await self.wake.wait()

    async def _wait_for_all(self) -> None:
        while self.missing():
            self.check_attached()
            await asyncio.sleep(0.05)
        self.wrong += self.surplus()

    async def _claim_parts(self) -> tuple[TxnId, ClaimingTransaction]:
        """Acknowledge up to a message of the last batch with several, where that is possible."""
        txn, made, _ = await self.begin([*self._consumers])
        for place in self._consumers:
            sizes = self.claims.sizes[place[0]]
            batches = [at for at in self.live.get(place, {}) if sizes[at] > 1]
            if place[1] == SWEEP and batches:
                position = max(batches)
                bits = (2 << self.rng.randrange(sizes[position] - 1)) - 1
                await self.claim(txn, made, place, position, bits, cumulative=True)
        return txn, made

    async def _claim_all(self) -> tuple[TxnId, ClaimingTransaction]:
        txn, made, _ = await self.begin([*self._consumers])
        for place in self._consumers:
            live = sorted(self.live.get(place, {}).items())
            if place[1] == SWEEP:
                for position, _ in live[-1:]:
                    every = (1 << self.claims.sizes[place[0]][position]) - 1
                    await self.claim(txn, made, place, position, every, cumulative=True)
                continue
            for position, bits in live:
                await self.claim(txn, made, place, position, bits)
        return txn, made
