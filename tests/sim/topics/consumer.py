"""A consumer of a simulated cluster. It acknowledges late, in groups, in part, or only after redelivery; it seeks now
and then, also into a batch, and unsubscribes to create its subscription again."""

import asyncio
from collections import deque
from collections.abc import Sequence

from engine.base.ids import EARLIEST, Position
from engine.base.ranges import bits_of, words_of
from engine.client.broker_link import Body
from engine.client.errors import LostError
from engine.client.raw_consumer import (
    EXCLUSIVE,
    FAILOVER,
    FROM_EARLIEST,
    FROM_LATEST,
    KEY_SHARED,
    SHARED,
    RawConsumer,
)
from engine.wire.batches import unpack_entry
from engine.wire.errors import RefusedError
from engine.wire.events import Delivered
from engine.wire.states import CommandType
from tests.sim.kit.cluster import EPOCH_MS
from tests.sim.kit.network import TOGETHER_S
from tests.sim.topics.client import REQUEST_TIMEOUT_S, Client, Link
from tests.sim.topics.history import AckConfirmed, Cleared, Delivery, PartConfirmed, Sought
from tests.sim.topics.observer import Observer
from tests.sim.topics.producer import Producer

BUSY_S = (0.05, 0.3)
IDLE_S = 1.0
"""Pauses before a consumer's next turn: while it holds messages, and while it holds none."""
SEEK_CHANCE = 0.01
SEEK_BACK = 30
"""The chance of a seek in every turn; how many of its last messages a consumer may go back to."""
GIVE_UP_CHANCE = 0.01
KINDS = {
    "exclusive": EXCLUSIVE,
    "shared": SHARED,
    "failover": FAILOVER,
    "key_shared": KEY_SHARED,
}
SHARING = (SHARED, KEY_SHARED)


class Consumer(Client):
    """One consumer of a subscription. Acknowledges with request ids, now and then late, grouped, or after
    redelivery."""

    def __init__(
        self,
        observer: Observer,
        name: str,
        topic: str,
        subscription: str,
        producers: dict[str, Producer],
        *,
        late: bool = False,
        stays: bool = True,
        priority: int = 0,
    ) -> None:
        """Create a consumer. ``late``: another party creates the subscription in time. ``stays``: no consumer of it
        unsubscribes."""
        super().__init__(observer, name, topic)
        self._initial = FROM_LATEST if late else FROM_EARLIEST
        self._stays = stays
        self.priority = priority
        self.active: bool | None = None
        """The broker's last notification on a Failover subscription; None before the first."""
        self.subscription = subscription
        self.full_name = f"{topic}/{subscription}"
        self.kind = KINDS[subscription]
        self.subscribed = False
        self.others: list[Consumer] = []
        """Other consumers of the topic, of all its subscriptions."""
        self.held: dict[Position, tuple[str, int]] = {}
        self._producers = producers
        self._permits = 0
        self._attached = False
        self._leaving = False
        self._attached_at = 0.0
        self._acks: dict[int, list[tuple[str, int, Position]]] = {}
        self._acks_since: dict[int, float] = {}
        self._recent: deque[tuple[Position, int]] = deque(maxlen=SEEK_BACK)
        """Positions of the latest entries received, each with its number of messages."""
        self._left: dict[Position, int] = {}
        """Bits of the messages not acknowledged, by position of held batches."""
        self._parts: dict[int, tuple[Position, int]] = {}
        self._seen: dict[Position, None] = {}
        self._looked_to = EARLIEST
        self._sent_at: dict[Position, float] = {}
        """Time at which the broker sent each held entry."""
        self._doubts: list[tuple[float, str]] = []
        """Times since which another consumer received messages of a key of which some are held here, each with a text.
        A violation if this consumer is still attached."""
        self.history.subscriptions[self.full_name] = subscription
        self.history.topics[self.full_name] = topic

    async def _session(self) -> None:
        link = await self.open()
        self.held.clear()
        self._acks.clear()
        self._acks_since.clear()
        self._left.clear()
        self._parts.clear()
        self._seen.clear()
        self._looked_to = EARLIEST
        self._doubts.clear()
        self.active = None
        self._attached = True
        try:
            consumer = await RawConsumer.open(
                link,
                self.topic,
                self.subscription,
                self.kind,
                on_messages=self._delivered,
                on_event=self._received,
                on_end=self._sent_away,
                name=self.name,
                priority=self.priority,
                initial=self._initial,
            )
        except RefusedError as refused:
            if refused.retriable:
                await self._wait_to_be_sent_away(link, f"{refused.code.name} {refused}")
            raise
        self._made_anew()
        self.subscribed = True
        self._attached_at = self.loop.now
        window = self.rng.choice((1, 10, 100))
        self._permits = window
        consumer.flow(window)
        while self._attached and consumer.error is None:
            self.wake.clear()
            try:
                async with asyncio.timeout(self.rng.choice(BUSY_S) if self.busy else IDLE_S):
                    await self.wake.wait()
            except TimeoutError:
                pass
            self._turn(consumer, window)
            if not self.calm and self._recent and self.rng.random() < SEEK_CHANCE:
                await self._seek(consumer)
            if not self.calm and not self._stays and self.rng.random() < GIVE_UP_CHANCE:
                await self._give_up(consumer)
        raise consumer.error or LostError("an acknowledgement was refused")

    async def _wait_to_be_sent_away(self, link: Link, why: str) -> None:
        """Wait for the end of the link, or for CLOSE_CONSUMER, as the C++ client does: it does nothing more for this
        consumer while the connection lives. Notes an anomaly after REQUEST_TIMEOUT_S."""
        try:
            if self._attached:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    await link.gone.wait()
        except TimeoutError:
            self._wrong(f"was refused and left waiting: {why}")

    async def _seek(self, consumer: RawConsumer) -> None:
        """Seek to an entry that this consumer received before. Raises LostError: the broker closes its consumers."""
        position, size = self.rng.choice(self._recent)
        bits = None
        if size > 1 and self.rng.random() < 0.5:
            bits = (1 << size) - (1 << self.rng.randrange(1, size))
        sent_at = self.loop.now
        self.held.clear()
        self._acks.clear()
        confirmed = self.history.move(self.full_name, position, sent_at, bits)
        await consumer.seek(position=position, ack_set=None if bits is None else words_of(bits))
        confirmed(self.loop.now, self.observer.first_kept(self.topic))
        self.cluster.count("seeks" if bits is None else "seeks into batches")
        # Others of a shared subscription may have acknowledged what they were given since.
        alone = self.kind == EXCLUSIVE and self.history.is_moving(self.full_name, sent_at) == 2
        stored = self.observer.is_stored_back_to(self.topic, self.subscription, position)
        if alone and not stored:
            self._wrong(f"the seek to {position} is confirmed and not stored")
        raise LostError("sought")

    async def _give_up(self, consumer: RawConsumer) -> None:
        """Unsubscribe. Raises LostError: the next consumer to attach creates the subscription again, at the first
        message that is kept."""
        sent_at = self.loop.now
        self.held.clear()
        self._acks.clear()
        seeks = self.history.seeks
        self.history.given_up[self.full_name] = at = len(seeks)
        seeks.append(Sought(sent_at, float("inf"), self.full_name, EARLIEST))
        self._leaving = True
        try:
            await consumer.unsubscribe(force=self.kind != EXCLUSIVE)
        finally:
            self._leaving = False
        seeks[at] = seeks[at]._replace(done_at=self.loop.now)
        self.cluster.count("unsubscribed")
        raise LostError("unsubscribed")

    def _made_anew(self) -> None:
        """Note that the subscription exists again, perhaps as before: entries trimmed while there was none are not
        lost."""
        history = self.history
        at = history.given_up.get(self.full_name)
        if at is None:
            return
        first = self.observer.first_kept(self.topic)
        history.seeks[at] = history.seeks[at]._replace(first=first)
        if first is None:
            first = max(history.confirmed.get(self.topic, []), default=EARLIEST)
        to = Position(first.ledger_id, first.entry_id - 1)
        history.cleared.append(Cleared(self.loop.now, float("inf"), self.full_name, to))
        if history.seeks[at].done_at < self.loop.now:
            # An unconfirmed unsubscribe may still delete the subscription under the first to attach.
            del history.given_up[self.full_name]

    @property
    def busy(self) -> bool:
        """True while the consumer holds messages, waits for the confirmation of acknowledgements, or unsubscribes."""
        return bool(self.held or self._acks or self._leaving)

    def _turn(self, consumer: RawConsumer, window: int) -> None:
        if self._permits <= window // 2:
            consumer.flow(window - self._permits)
            self._permits = window
        for rid, since in self._acks_since.items():
            if self.loop.now - since > REQUEST_TIMEOUT_S:
                raise LostError(f"no answer to ack {rid}")
        if not self.calm and self.rng.random() < 0.004:
            raise LostError("a whim of the client")
        self._acknowledge(consumer)

    def _acknowledge(self, consumer: RawConsumer) -> None:
        free = list(self.held)
        if not free:
            return
        chance = self.rng.random()
        if not self.calm and chance < 0.2:
            return  # later
        if not self.calm and chance < 0.25:
            some = [position for position in free if self.rng.random() < 0.5]
            if some:
                for position in some:
                    del self.held[position]
                consumer.redeliver(some)
                self.cluster.count("redeliveries asked")
            return
        batches = [position for position in free if self._left.get(position, 1).bit_count() > 1]
        if not self.calm and batches and chance < 0.4:
            self._send_part(consumer, self.rng.choice(batches))
            return
        if self.kind not in SHARING and chance < 0.6:
            last = max(free) if self.calm else self.rng.choice(free)
            self._send_ack(consumer, [p for p in free if p <= last], last)
            return
        if not self.calm:
            free = [position for position in free if self.rng.random() < 0.8]
        if free:
            self._send_ack(consumer, free, None)

    def _send_ack(
        self, consumer: RawConsumer, positions: list[Position], cumulative: Position | None
    ) -> None:
        rid = consumer.link.new_id()
        if cumulative is not None:
            consumer.acknowledge([cumulative], cumulative=True, request_id=rid)
            acked_to = self.history.acked_to
            acked_to[self.full_name] = max(acked_to.get(self.full_name, EARLIEST), cumulative)
        else:
            consumer.acknowledge(positions, request_id=rid)
        self.history.acks_sent.update((self.full_name, position) for position in positions)
        self._acks[rid] = [(*self.held.pop(position), position) for position in positions]
        self._acks_since[rid] = self.loop.now

    def _send_part(self, consumer: RawConsumer, position: Position) -> None:
        """Acknowledge some messages of a batch."""
        rid, left = consumer.link.new_id(), self._left[position]
        bits = left & self.rng.getrandbits(left.bit_length())
        if bits in (0, left):
            return
        self._left[position] = left & ~bits
        consumer.acknowledge([position], ack_set=words_of(left & ~bits), request_id=rid)
        self._parts[rid] = (position, bits)
        self._acks[rid] = []
        self._acks_since[rid] = self.loop.now

    def _received(self, kind: int, body: Body) -> None:
        if kind == CommandType.ACK_RESPONSE:
            self._ack_answered(body)
        elif kind == CommandType.ACTIVE_CONSUMER_CHANGE:
            self.active = body.is_active
        self.wake.set()

    def _sent_away(self, error: object) -> None:
        self._attached = False
        self.active = None
        self.wake.set()

    def _delivered(self, messages: Sequence[Delivered]) -> None:
        for message in messages:
            self._message(message)
        self.wake.set()

    def _message(self, message: Delivered) -> None:
        opened = unpack_entry(message.entry)
        value = opened.messages[0].value or b""
        producer, _, rest = value[1:].partition(b":")
        name, number = producer.decode(), int(rest.partition(b":")[0])
        position = message.position
        assert self.link is not None
        sent_at = self.link.pipe.sent_at
        size = len(opened.messages)
        left = bits_of(message.ack_set) if message.ack_set else None
        if self.kind == FAILOVER and self.active is not True:
            self._wrong(f"got {position} and was not notified that it is active")
        if self._permits <= 0:
            self._wrong(f"more messages than permits, {position}")
        self._permits -= size if left is None else left.bit_count()
        if size > 1:
            self._left[position] = (1 << size) - 1 if left is None else left
        known = self._producers.get(name)
        values = [single.value for single in opened.messages]
        if known is None or number >= len(known.payloads) or known.values(number) != values:
            self._wrong(f"{position} holds other bytes than {name} {number} was sent with")
        elif known is not None:
            known.check_durable(number, position, "is delivered")
            latest_ms = EPOCH_MS + (sent_at + TOGETHER_S) * 1000 + self.cluster.ahead_ms
            if self.kind in SHARING and known.deliver_at_ms.get(number, 0) > latest_ms:
                self._wrong(f"{position} came before its time")
        self._check_gaps(position)
        self._check_keys(position, (name, number), sent_at)
        self.history.deliveries.append(
            Delivery(
                self.loop.now,
                self.full_name,
                self.name,
                name,
                number,
                position,
                sent_at,
                self.broker,
                self._attached_at,
                left,
            )
        )
        self.held[position] = (name, number)
        self._recent.append((position, size))

    def _check_gaps(self, position: Position) -> None:
        """Check that delivery in order leaves out acknowledged entries only, also where another consumer was active
        (D9, D10)."""
        if self.kind not in SHARING and position > self._looked_to:
            history, name = self.history, self.full_name
            done = max(history.acked_to.get(name, EARLIEST), history.cleared_to(name))
            after = max(self._looked_to, done)
            for left in history.confirmed_between(self.topic, after, position):
                if left not in self._seen and (name, left) not in history.acks_sent:
                    self._wrong(f"{position} came before {left}, which was never acknowledged,")
            self._looked_to = position
        self._seen[position] = None

    def _check_keys(self, position: Position, message: tuple[str, int], sent_at: float) -> None:
        """Check that no consumer receives messages of a key while another holds some (D10). A consumer that receives
        more on the same attachment was attached all the time."""
        wrong = [text for since, text in self._doubts if since < sent_at]
        if wrong:
            self._wrong(wrong[0])
            self._doubts.clear()
        key = self.history.keys.get(message)
        if self.kind != KEY_SHARED or key is None or message in self.history.chunks:
            return  # chunks follow the rest of their message
        self._sent_at[position] = sent_at
        for other in self.others:
            if other.broker == self.broker and other.full_name == self.full_name:
                other.doubt(key, sent_at, f"{position} of {key} went to {self.name}")

    def doubt(self, key: str, since: float, what: str) -> None:
        """Note a doubt if messages of ``key`` are held here; another consumer received one that was sent at
        ``since``."""
        keys, chunks = self.history.keys, self.history.chunks
        for position, message in self.held.items():
            before = self._sent_at.get(position, since)
            if self.history.cleared_to(self.full_name, before) >= position:
                continue  # an administrator passed it over
            if keys.get(message) == key and before < since and message not in chunks:
                self._doubts.append((since, f"{what} while {position} is held here"))
                return

    def _ack_answered(self, body: Body) -> None:
        keys = self._acks.pop(body.request_id, [])
        part = self._parts.pop(body.request_id, None)
        self._acks_since.pop(body.request_id, None)
        if body.HasField("error"):
            self._attached = False  # it reconnects and receives them again
            return
        if part is not None:
            self.cluster.count("parts of batches acknowledged")
            self.history.parts.append(
                PartConfirmed(self.loop.now, self.full_name, *part, self.broker, self._attached_at)
            )
        for name, number, position in keys:
            self.history.acks.append(
                AckConfirmed(
                    self.loop.now,
                    self.full_name,
                    name,
                    number,
                    position,
                    self.broker,
                    self._attached_at,
                )
            )

    def _wrong(self, text: str) -> None:
        self.observer.wrong(f"{self.name}: {text}")
