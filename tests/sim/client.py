"""Clients of a simulated cluster: a producer and a consumer over the binary protocol that never give up.

They behave as the official ones where it matters: look up, attach, send pipelined, come back after any loss and send
again what has no receipt, under the same sequence ids. Whatever they see goes into the history at once.
"""

import asyncio
import logging
import random
from bisect import insort
from collections import deque
from collections.abc import Callable

from engine.base.ids import EARLIEST, Position
from engine.managed.ack_state import bits_of, words_of
from engine.net.transport import Connection
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry, unpack_entry
from tests.sim.cluster import BROKER_PORT, EPOCH_MS, Cluster
from tests.sim.history import AckConfirmed, Delivery, PartConfirmed, Receipt, Sent, Sought
from tests.sim.loop import Node
from tests.sim.network import Pipe, SimNetwork

REQUEST_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 10.0
KEEPALIVE_S = 1.0
BUSY_S = (0.05, 0.3)
IDLE_S = 1.0
"""How long a consumer lets messages lie, or looks at nothing, before its next turn."""
REDIRECTS_MAX = 5
PATIENCE_MAX = 4
"""Times the shortest rest between two attempts, after attempts that came to nothing."""
SEEK_CHANCE = 0.01
SEEK_BACK = 30
"""Of every turn of an exclusive consumer; how many of its last messages it may go back to."""
KINDS = {"exclusive": 0, "shared": 1, "failover": 2}
EXCLUSIVE, SHARED = KINDS["exclusive"], KINDS["shared"]
FROM_EARLIEST = 1

log = logging.getLogger(__name__)

Heard = Callable[[pb.BaseCommand, bytes], None]


class Refused(Exception):
    """The broker answered with an error."""


class Lost(Exception):
    """The connection or the attachment ended; come again."""


class Link(Connection):
    """One connection. ``request`` waits for the answer to a request; everything else goes to ``heard``."""

    def __init__(self) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.heard: Heard = lambda command, entry: None
        self.wake = asyncio.Event()
        self.over = False
        self.silent = 0
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._keepalive: asyncio.TimerHandle | None = None

    @property
    def sent_at(self) -> float:
        """When the broker wrote what is being received."""
        assert isinstance(self.transport, Pipe)
        return self.transport.sent_at

    def opened(self) -> None:
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def _tick(self) -> None:
        self.silent += 1
        if self.silent > 3:
            self.abort()
            return
        self.send(commands.ping())
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.silent = 0
        while (stop := frames.whole_frame(buf, pos, end, self.frame_max)) > 0:
            start, split = frames.command_span(buf, pos, stop)
            command = commands.parse(buf, start, split)
            self._hear(command, buf[split:stop])
            pos = stop
        return pos

    def _hear(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == pb.BaseCommand.PING:
            self.send(commands.pong())
            return
        body = getattr(command, commands.FIELD_OF_TYPE[command.type])
        request_id = getattr(body, "request_id", -1)
        if command.type == pb.BaseCommand.CONNECTED:
            request_id = 0
        reply = self._replies.pop(request_id, None)
        if reply is not None:
            if not reply.done():
                reply.set_result(command)
        else:
            self.heard(command, entry)

    def closed(self, error: Exception | None) -> None:
        self.over = True
        if self._keepalive is not None:
            self._keepalive.cancel()
        self.wake.set()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(Lost("connection lost"))

    async def request(self, request_id: int, frame: bytes) -> pb.BaseCommand:
        """Raises Lost, Refused, TimeoutError."""
        if self.over:
            raise Lost("connection lost")
        reply: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        self._replies[request_id] = reply
        self.send(frame)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                command = await reply
        finally:
            self._replies.pop(request_id, None)
        if command.type == pb.BaseCommand.ERROR:
            raise Refused(f"{command.error.error} {command.error.message}")
        return command


class Client:
    """What producers and consumers share: finding the topic's broker, coming back, a life of its own as a node."""

    def __init__(self, cluster: Cluster, name: str, topic: str) -> None:
        self.cluster = cluster
        self.history = cluster.history
        self.loop = cluster.loop
        self.name = name
        self.topic = topic
        self.rng = random.Random(f"{cluster.loop.seed}/{name}")
        self.node = Node(name)
        self.link: Link | None = None
        self.calm = False
        """The faults are over: no mischief of our own any more."""
        self.stopping = False
        self.broker = ""
        self._requests = 1
        self._network = SimNetwork(cluster.world)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = self.loop.spawn(self.node, self._run())
        self.task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self.cluster.failures.append(f"client {self.name}: {type(error).__name__}: {error}")

    async def _run(self) -> None:
        tries = 0
        while not self.stopping:
            began = self.loop.now
            try:
                await self._session()
            except (OSError, TimeoutError, Lost, Refused) as error:
                self.loop.note(self.name, type(error).__name__)
                log.debug("client comes again: %s %s", type(error).__name__, error)
                self.cluster.count("client reconnects")
            finally:
                if self.link is not None:
                    self.link.abort()
                    self.link = None
            tries = tries + 1 if self.loop.now - began < 1.0 else 0
            patience = min(2**tries, PATIENCE_MAX)
            await asyncio.sleep(patience * (0.05 + 0.25 * self.rng.random()))

    async def _session(self) -> None:
        raise NotImplementedError

    def request_id(self) -> int:
        self._requests += 1
        return self._requests

    async def open(self) -> Link:
        """A connection to the topic's owner. Raises OSError, Lost, Refused, TimeoutError."""
        host = self.rng.choice(self.cluster.brokers).name
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            link = await self._connect(host)
            rid = self.request_id()
            answer = await link.request(
                rid, say.lookup(self.topic, rid, authoritative=authoritative)
            )
            found = answer.lookupTopicResponse
            if found.response == found.Failed:
                raise Refused(f"lookup: {found.message}")
            target = found.brokerServiceUrl.removeprefix("pulsar://").partition(":")[0]
            authoritative = found.authoritative
            if found.response == found.Connect and target == host:
                machine = self.cluster.machines[host]
                self.broker = machine.incarnation
                return link
            link.abort()
            host = target
        raise Refused("redirected too often")

    async def _connect(self, host: str) -> Link:
        _, link = await self._network.connect(host, BROKER_PORT, Link)
        assert isinstance(link, Link)
        self.link = link
        await link.request(0, say.connect("simulated"))
        return link


class Producer(Client):
    """Sends numbered messages, pipelined, until told to stop; then waits for the last receipts."""

    def __init__(
        self, cluster: Cluster, name: str, topic: str, rate: float, ready: Callable[[], bool]
    ) -> None:
        super().__init__(cluster, name, topic)
        self.payloads: list[bytes] = []
        self.sizes: list[int] = []
        """Messages in the entry of each number."""
        self.unanswered: deque[int] = deque()
        self._durable: set[int] = set()
        self.quiet = False
        self._rate = rate
        self._ready = ready
        self._written = 0
        self._epoch = 0
        self._attached = False
        self._heard_at = 0.0
        self.history.topics[name] = topic

    def start(self) -> None:
        super().start()
        self.loop.spawn(self.node, self._generate())

    async def _generate(self) -> None:
        while not self._ready():
            await asyncio.sleep(0.1)
        while not self.quiet:
            await asyncio.sleep(self.rng.expovariate(self._rate))
            if len(self.unanswered) < 60 and not self.quiet:
                for _ in range(self.rng.choice((1, 1, 2, 8))):
                    self._make()
                if self.link is not None:
                    self.link.wake.set()

    def _make(self) -> None:
        number = len(self.payloads)
        padding = self.rng.choice((0, 0, 10, 200, 200, 2000, 20_000 if number % 10 == 0 else 50))
        payload = b"<%s:%d:%016x>" % (self.name.encode(), number, self.rng.getrandbits(64))
        self.payloads.append(payload + b"." * padding)
        self.sizes.append(self.rng.choice((1, 1, 1, 3, 9)))
        self.unanswered.append(number)
        self.history.sent.append(Sent(self.loop.now, self.name, number))

    def values(self, number: int) -> list[bytes]:
        """The messages sent together under a number."""
        first = self.payloads[number]
        return [first, *(first[:40] + b"#%d" % i for i in range(1, self.sizes[number]))]

    def marker(self, number: int) -> bytes:
        """Bytes found in a stored copy of the message and nowhere else."""
        return self.payloads[number].rstrip(b".")

    async def _session(self) -> None:
        link = await self.open()
        link.heard = self._heard
        rid = self.request_id()
        self._epoch += 1
        frame = say.producer(
            self.topic,
            1,
            rid,
            producer_name=self.name,
            epoch=self._epoch,
            user_provided_producer_name=True,
        )
        self._attached = True
        await link.request(rid, frame)
        self._written = 0
        self._heard_at = self.loop.now
        while self._attached and not link.over:
            link.wake.clear()
            self._write(link)
            if self.unanswered and self.loop.now - self._heard_at > SEND_TIMEOUT_S:
                raise Lost("no receipt in time")
            try:
                async with asyncio.timeout(1.0):
                    await link.wake.wait()
            except TimeoutError:
                pass
            if not self.calm and self.rng.random() < 0.01:
                raise Lost("a whim of the client")
        raise Lost("sent away")

    def _write(self, link: Link) -> None:
        if not self.unanswered:
            self._heard_at = self.loop.now
        for number in list(self.unanswered)[self._written :]:
            size = self.sizes[number]
            link.send(
                say.send(1, number, self._entry(number), num_messages=size if size > 1 else None)
            )
        self._written = len(self.unanswered)

    def _entry(self, number: int) -> bytes:
        messages = [Message(value, sequence_id=number) for value in self.values(number)]
        publish_ms = EPOCH_MS + int(self.loop.now * 1000)
        return pack_entry(messages, producer_name=self.name, publish_ms=publish_ms)

    def _heard(self, command: pb.BaseCommand, entry: bytes) -> None:
        kind = command.type
        if kind == pb.BaseCommand.SEND_RECEIPT:
            body = command.send_receipt
            number = body.sequence_id
            if not self._written or self.unanswered[0] != number:
                waits = self.unanswered[0] if self._written else None
                self.history.anomalies.append(
                    f"{self.name}: receipt for {number} while {waits} waits, at {self.loop.now:.3f}"
                )
                return
            self.unanswered.popleft()
            self._written -= 1
            self._heard_at = self.loop.now
            position = Position(body.message_id.ledgerId, body.message_id.entryId)
            self.history.receipts.append(
                Receipt(self.loop.now, self.name, number, position, self.broker)
            )
            insort(self.history.confirmed.setdefault(self.topic, []), position)
            self.check_durable(number, position, "has its receipt")
        elif kind in (pb.BaseCommand.CLOSE_PRODUCER, pb.BaseCommand.SEND_ERROR):
            self._attached = False
            if self.link is not None:
                self.link.wake.set()

    def check_durable(self, number: int, position: Position, what: str) -> None:
        """At the moment of its receipt or its first delivery, the ack quorum's disks hold the message."""
        if number in self._durable:
            return
        self._durable.add(number)
        need = self.cluster.shape.quorum[2] - (self.cluster.lost is not None)
        copies = self.cluster.durable_copies(self.marker(number), need)
        if copies < need:
            self.history.anomalies.append(
                f"{self.name} {number} at {position} {what} and has {copies} synced copies of {need}"
            )


class Consumer(Client):
    """One consumer of a subscription. Acknowledges with request ids, now and then late, grouped or not until asked."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        topic: str,
        subscription: str,
        producers: dict[str, Producer],
    ) -> None:
        super().__init__(cluster, name, topic)
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
        self._recent: deque[Position] = deque(maxlen=SEEK_BACK if self.kind == EXCLUSIVE else 0)
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
            initial_position=FROM_EARLIEST,
        )
        await link.request(rid, frame)
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
        raise Lost("sent away")

    async def _seek(self, link: Link) -> None:
        """Back to something it was given before. Raises Lost: the broker sends its consumers away."""
        position = self.rng.choice(self._recent)
        rid, sent_at = self.request_id(), self.loop.now
        self.held.clear()
        self._acks.clear()
        acked_to = self.history.acked_to
        behind = Position(position.ledger_id, position.entry_id - 1)
        acked_to[self.full_name] = max(acked_to.get(self.full_name, EARLIEST), behind)
        done_at = float("inf")
        try:
            await link.request(rid, say.seek(1, rid, position=position))
            done_at = self.loop.now
        finally:
            self.history.seeks.append(Sought(sent_at, done_at, self.full_name, position))
        self.cluster.count("seeks")
        cleared = any(
            c.subscription == self.full_name and c.done_at >= sent_at for c in self.history.cleared
        )
        stored = self.cluster.is_stored_back_to(self.topic, self.subscription, position)
        if not stored and not cleared:
            self._wrong(f"the seek to {position} is confirmed and not stored")
        raise Lost("sought")

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
        self._check_gaps(position)
        assert self.link is not None
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
        self._recent.append(position)

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
        self.history.anomalies.append(f"{self.name}: {text} at {self.loop.now:.3f}")
