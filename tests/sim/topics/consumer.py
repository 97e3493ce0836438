"""A consumer of a simulated cluster: acknowledges, late, in groups, in part or not until asked; seeks now and then,
also into a batch, and gives its subscription up to make it anew."""

import asyncio
from collections import deque

from engine.base.ids import EARLIEST, Position
from engine.managed.ack_state import bits_of, words_of
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import unpack_entry
from engine.wire.commands import command_frame, message_id
from tests.sim.kit.cluster import EPOCH_MS
from tests.sim.kit.network import TOGETHER_S
from tests.sim.topics.client import Client
from tests.sim.topics.history import AckConfirmed, Cleared, Delivery, PartConfirmed, Sought
from tests.sim.topics.link import REQUEST_TIMEOUT_S, Link, Lost, Refused
from tests.sim.topics.observer import Observer
from tests.sim.topics.producer import Producer

BUSY_S = (0.05, 0.3)
IDLE_S = 1.0
"""How long a consumer lets messages lie, or looks at nothing, before its next turn."""
SEEK_CHANCE = 0.01
SEEK_BACK = 30
"""Of every turn; how many of its last messages a consumer may go back to."""
GIVE_UP_CHANCE = 0.01
KINDS = {"exclusive": 0, "shared": 1, "failover": 2}
EXCLUSIVE, SHARED = KINDS["exclusive"], KINDS["shared"]
FROM_LATEST, FROM_EARLIEST = 0, 1


class Consumer(Client):
    """One consumer of a subscription. Acknowledges with request ids, now and then late, grouped or not until asked."""

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
    ) -> None:
        """``late``: somebody else sees to it that the subscription exists in time. ``stays``: nobody gives it up."""
        super().__init__(observer, name, topic)
        self._initial = FROM_LATEST if late else FROM_EARLIEST
        self._stays = stays
        self.subscription = subscription
        self.full_name = f"{topic}/{subscription}"
        self.kind = KINDS[subscription]
        self.subscribed = False
        self.held: dict[Position, tuple[str, int]] = {}
        self._producers = producers
        self._permits = 0
        self._attached = False
        self._attached_at = 0.0
        self._acks: dict[int, list[tuple[str, int, Position]]] = {}
        self._acks_since: dict[int, float] = {}
        self._recent: deque[tuple[Position, int]] = deque(maxlen=SEEK_BACK)
        """With how many messages each holds."""
        self._left: dict[Position, int] = {}
        """Of held batches, the messages not acknowledged."""
        self._parts: dict[int, tuple[Position, int]] = {}
        self._seen: dict[Position, None] = {}
        self._looked_to = EARLIEST
        self.history.subscriptions[self.full_name] = subscription
        self.history.topics[self.full_name] = topic

    async def _session(self) -> None:
        link = await self.open()
        link.heard = self._heard
        rid = self.request_id()
        self.held.clear()
        self._acks.clear()
        self._acks_since.clear()
        self._left.clear()
        self._parts.clear()
        self._seen.clear()
        self._looked_to = EARLIEST
        self._attached = True
        frame = say.subscribe(
            self.topic,
            self.subscription,
            self.kind,
            1,
            rid,
            consumer_name=self.name,
            durable=True,
            initial_position=self._initial,
        )
        try:
            await link.request(rid, frame)
        except Refused as refused:
            if refused.passing:
                await self._wait_to_be_sent_away(link, str(refused))
            raise
        self._made_anew()
        self.subscribed = True
        self._attached_at = self.loop.now
        window = self.rng.choice((1, 10, 100))
        self._permits = window
        link.send(say.flow(1, window))
        while self._attached and not link.over:
            link.wake.clear()
            try:
                async with asyncio.timeout(self.rng.choice(BUSY_S) if self.busy else IDLE_S):
                    await link.wake.wait()
            except TimeoutError:
                pass
            self._turn(link, window)
            if not self.calm and self._recent and self.rng.random() < SEEK_CHANCE:
                await self._seek(link)
            if not self.calm and not self._stays and self.rng.random() < GIVE_UP_CHANCE:
                await self._give_up(link)
        raise Lost("sent away")

    async def _wait_to_be_sent_away(self, link: Link, why: str) -> None:
        """As the C++ client, which does nothing more for this consumer while the connection lives."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                while self._attached and not link.over:
                    link.wake.clear()
                    await link.wake.wait()
        except TimeoutError:
            self._wrong(f"was refused and left waiting: {why}")

    async def _seek(self, link: Link) -> None:
        """Back to something it was given before. Raises Lost: the broker sends its consumers away."""
        position, size = self.rng.choice(self._recent)
        bits, where = None, message_id(position)
        if size > 1 and self.rng.random() < 0.5:
            bits = (1 << size) - (1 << self.rng.randrange(1, size))
            where |= {"ack_set": words_of(bits)}
        rid, sent_at = self.request_id(), self.loop.now
        self.held.clear()
        self._acks.clear()
        confirmed = self.history.move(self.full_name, position, sent_at, bits)
        frame = command_frame("seek", consumer_id=1, request_id=rid, message_id=where)
        await link.request(rid, frame)
        confirmed(self.loop.now, self.observer.first_kept(self.topic))
        self.cluster.count("seeks" if bits is None else "seeks into batches")
        # Others of a shared subscription may have acknowledged what they were given since.
        alone = self.kind == EXCLUSIVE and self.history.is_moving(self.full_name, sent_at) == 2
        stored = self.observer.is_stored_back_to(self.topic, self.subscription, position)
        if alone and not stored:
            self._wrong(f"the seek to {position} is confirmed and not stored")
        raise Lost("sought")

    async def _give_up(self, link: Link) -> None:
        """Unsubscribe. Raises Lost: whoever comes again makes the subscription anew, at the first message kept."""
        rid, sent_at = self.request_id(), self.loop.now
        self.held.clear()
        self._acks.clear()
        seeks = self.history.seeks
        self.history.given_up[self.full_name] = at = len(seeks)
        seeks.append(Sought(sent_at, float("inf"), self.full_name, EARLIEST))
        force = True if self.kind != EXCLUSIVE else None
        await link.request(rid, say.unsubscribe(1, rid, force))
        seeks[at] = seeks[at]._replace(done_at=self.loop.now)
        self.cluster.count("unsubscribed")
        raise Lost("unsubscribed")

    def _made_anew(self) -> None:
        """The subscription exists again, maybe as before: what went while there was none is nobody's loss."""
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
            del history.given_up[
                self.full_name
            ]  # else it may still be deleted, under whoever attached first

    @property
    def busy(self) -> bool:
        """Whether it holds messages, or waits for the confirmation of acknowledgements."""
        return bool(self.held or self._acks)

    def _turn(self, link: Link, window: int) -> None:
        if self._permits <= window // 2:
            link.send(say.flow(1, window - self._permits))
            self._permits = window
        for rid, since in self._acks_since.items():
            if self.loop.now - since > REQUEST_TIMEOUT_S:
                raise Lost(f"no answer to ack {rid}")
        if not self.calm and self.rng.random() < 0.004:
            raise Lost("a whim of the client")
        self._acknowledge(link)

    def _acknowledge(self, link: Link) -> None:
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
                link.send(say.redeliver(1, some))
                self.cluster.count("redeliveries asked")
            return
        batches = [position for position in free if self._left.get(position, 1).bit_count() > 1]
        if not self.calm and batches and chance < 0.4:
            self._send_part(link, self.rng.choice(batches))
            return
        if self.kind != SHARED and chance < 0.6:
            last = max(free) if self.calm else self.rng.choice(free)
            self._send_ack(link, [p for p in free if p <= last], last)
            return
        if not self.calm:
            free = [position for position in free if self.rng.random() < 0.8]
        if free:
            self._send_ack(link, free, None)

    def _send_ack(self, link: Link, positions: list[Position], cumulative: Position | None) -> None:
        rid = self.request_id()
        if cumulative is not None:
            frame = say.ack(1, [cumulative], cumulative=True, request_id=rid)
            acked_to = self.history.acked_to
            acked_to[self.full_name] = max(acked_to.get(self.full_name, EARLIEST), cumulative)
        else:
            frame = say.ack(1, positions, request_id=rid)
        link.send(frame)
        self.history.acks_sent.update((self.full_name, position) for position in positions)
        self._acks[rid] = [(*self.held.pop(position), position) for position in positions]
        self._acks_since[rid] = self.loop.now

    def _send_part(self, link: Link, position: Position) -> None:
        """Acknowledge some messages of a batch."""
        rid, left = self.request_id(), self._left[position]
        bits = left & self.rng.getrandbits(left.bit_length())
        if bits in (0, left):
            return
        self._left[position] = left & ~bits
        link.send(say.ack(1, [position], ack_set=words_of(left & ~bits), request_id=rid))
        self._parts[rid] = (position, bits)
        self._acks[rid] = []
        self._acks_since[rid] = self.loop.now

    def _heard(self, command: pb.BaseCommand, entry: bytes) -> None:
        kind = command.type
        if kind == pb.BaseCommand.MESSAGE:
            self._message(command.message, entry)
        elif kind == pb.BaseCommand.ACK_RESPONSE:
            self._ack_answered(command.ackResponse)
        elif kind == pb.BaseCommand.CLOSE_CONSUMER:
            self._attached = False
        if self.link is not None:
            self.link.wake.set()

    def _message(self, body: pb.CommandMessage, entry: bytes) -> None:
        opened = unpack_entry(entry)
        value = opened.messages[0].value or b""
        producer, _, rest = value[1:].partition(b":")
        name, number = producer.decode(), int(rest.partition(b":")[0])
        position = Position(body.message_id.ledgerId, body.message_id.entryId)
        assert self.link is not None
        size = len(opened.messages)
        left = bits_of(body.ack_set) if body.ack_set else None
        if self._permits <= 0:
            self._wrong(f"more messages than permits, {position}")
        self._permits -= size if left is None else left.bit_count()
        if size > 1:
            self._left[position] = (1 << size) - 1 if left is None else left
        known = self._producers.get(name)
        values = [message.value for message in opened.messages]
        if known is None or number >= len(known.payloads) or known.values(number) != values:
            self._wrong(f"{position} holds other bytes than {name} {number} was sent with")
        elif known is not None:
            known.check_durable(number, position, "is delivered")
            latest_ms = EPOCH_MS + (self.link.sent_at + TOGETHER_S) * 1000 + self.cluster.ahead_ms
            if self.kind == SHARED and known.deliver_at_ms.get(number, 0) > latest_ms:
                self._wrong(f"{position} came before its time")
        self._check_gaps(position)
        self.history.deliveries.append(
            Delivery(
                self.loop.now,
                self.full_name,
                self.name,
                name,
                number,
                position,
                self.link.sent_at,
                self.broker,
                self._attached_at,
                left,
            )
        )
        self.held[position] = (name, number)
        self._recent.append((position, size))

    def _check_gaps(self, position: Position) -> None:
        """D9, D10: in order, nothing left out but what was acknowledged; also where another consumer was active."""
        if self.kind != SHARED and position > self._looked_to:
            history, name = self.history, self.full_name
            done = max(history.acked_to.get(name, EARLIEST), history.cleared_to(name))
            after = max(self._looked_to, done)
            for left in history.confirmed_between(self.topic, after, position):
                if left not in self._seen and (name, left) not in history.acks_sent:
                    self._wrong(f"{position} came before {left}, which nobody acknowledged,")
            self._looked_to = position
        self._seen[position] = None

    def _ack_answered(self, body: pb.CommandAckResponse) -> None:
        keys = self._acks.pop(body.request_id, [])
        part = self._parts.pop(body.request_id, None)
        self._acks_since.pop(body.request_id, None)
        if body.HasField("error"):
            self._attached = False  # comes again, and is given them again
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
