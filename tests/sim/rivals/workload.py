"""Producers with exclusive access to a topic, in turns and by fencing, under faults: a producer that is admitted as the
only one publishes alone, under its own epoch (D13)."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from engine.base.names import TopicName
from engine.client.errors import LostError
from engine.client.raw_producer import RawProducer
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.errors import RefusedError
from engine.wire.events import Receipt
from tests.sim.kit.cluster import EPOCH_MS
from tests.sim.kit.scenario import Run, first_of
from tests.sim.publishing.keeper import SETTLE_S, Keeper
from tests.sim.topics.client import Client
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/rivals")
NO_EPOCH = -1
"""Epoch of a topic that has had no exclusive producer yet."""


@dataclass(frozen=True)
class Rivals:
    """``modes``: the access mode of each producer."""

    modes: tuple[pb.ProducerAccessMode, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> "Rivals":
        modes = (pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing, pb.Shared)
        return cls(tuple(rng.choices(modes, (3, 3, 2, 1), k=rng.choice((2, 3, 5)))))

    def setup(self, run: Run) -> "RivalsWorkload":
        return RivalsWorkload(run, self)


@dataclass(frozen=True)
class Granted:
    """``identity`` was admitted under ``epoch``; ``given``: it had that epoch already at its request.

    ``before``: the greatest epoch that any producer had received at the time of the request.
    """

    identity: str
    mode: int
    epoch: int
    given: bool
    before: int


class Rival(Client):
    """A producer that attaches repeatedly, and sends numbered messages for as long as it is admitted."""

    def __init__(
        self, workload: "RivalsWorkload", number: int, mode: pb.ProducerAccessMode
    ) -> None:
        super().__init__(workload.observer, f"rival-{number}", str(TOPIC))
        self._workload = workload
        self._mode = mode
        self._lives = 0
        self._identity = ""
        self._epoch: int | None = None
        self._connections = 0
        self.turns = 0
        self.last_turn = False
        """True when the producer leaves for good after its next turn."""
        self.sent: list[tuple[str, int]] = []
        """Identity and epoch under which each message was sent, by its number."""
        self.confirmed: set[int] = set()

    async def _session(self) -> None:
        if self._epoch is None or self.rng.random() < 0.3:
            self._lives += 1
            self._identity, self._epoch = f"{self.name}.{self._lives}", None
        link = await self.open()
        producer = RawProducer(link, self.topic, self._answered, self.wake_up, lambda *_: None)
        link.producers[producer.producer_id] = producer
        given, before = self._epoch, self._workload.highest
        self._connections += 1
        request_id = link.new_id()
        frame = say.producer(
            self.topic,
            producer.producer_id,
            request_id,
            producer_name=self._identity,
            epoch=self._connections,
            access_mode=self._mode,
            topic_epoch=given,
        )
        try:
            answer = await link.request(request_id, frame)
        except RefusedError as error:
            if error.code == pb.ProducerFenced and given is not None:
                self._epoch = None  # as a fenced client does, it gets a new identity
            raise
        epoch = answer.topic_epoch if answer.HasField("topic_epoch") else NO_EPOCH
        if self._mode != pb.Shared:
            self._epoch = epoch
        self._workload.granted.append(
            Granted(self._identity, self._mode, epoch, given is not None and given == epoch, before)
        )
        self.turns += 1
        await self._have_it(producer, epoch)

    async def _have_it(self, producer: RawProducer, epoch: int) -> None:
        last = self.last_turn
        for _ in range(self.rng.randint(1, 12)):
            run = range(len(self.sent), len(self.sent) + self.rng.randint(1, 4))
            self.sent += [(self._identity, epoch)] * len(run)
            producer.send(run, [self._entry(number, epoch) for number in run])
            await asyncio.sleep(self.rng.expovariate(10.0))
            if producer.error is not None:
                raise producer.error
        if last or self.rng.random() < 0.5:
            async with asyncio.timeout(10.0):
                await producer.drained()
                await producer.close()
            self._epoch = None
            self.stopping = last
        else:
            raise LostError("a whim of the client")

    def _entry(self, number: int, epoch: int) -> bytes:
        value = f"{self.name}:{number}:{epoch}".encode()
        publish_ms = EPOCH_MS + int(self.loop.now * 1000)
        return pack_entry([Message(value)], producer_name=self._identity, publish_ms=publish_ms)

    def _answered(self, receipts: Sequence[Receipt]) -> None:
        self.confirmed.update(receipt.sequence_id for receipt in receipts)


class RivalsWorkload:
    def __init__(self, run: Run, plan: Rivals) -> None:
        self.run = run
        self.observer = Observer(run.cluster, [str(TOPIC)])
        self.keeper = Keeper(run, [str(TOPIC)])
        self.granted: list[Granted] = []
        """Admissions in the order in which producers received them."""
        self.rivals = [Rival(self, number, mode) for number, mode in enumerate(plan.modes)]
        run.faults |= {name: partial(act, self.observer) for name, act in TOPIC_FAULTS.items()}

    @property
    def highest(self) -> int:
        """The greatest epoch that any producer has received."""
        return max((grant.epoch for grant in self.granted), default=NO_EPOCH)

    async def start(self) -> None:
        await self.keeper.keep()
        for rival in self.rivals:
            rival.start()
        await self.run.reach("publish", lambda: bool(self.granted), SETTLE_S, lambda: ["anybody"])

    async def quiet(self) -> None:
        for rival in self.rivals:
            rival.calm = rival.last_turn = True
        await self.run.reach(
            "let everybody have the topic once more",
            lambda: all(rival.task is not None and rival.task.done() for rival in self.rivals),
            SETTLE_S,
            lambda: [rival.name for rival in self.rivals if not rival.stopping],
        )
        await self.keeper.read()

    def check(self) -> list[str]:
        if not self.keeper.stored:
            return []  # the run was cut short, which is reported already
        stored = [value.decode() for _, value in self.keeper.messages(str(TOPIC))]
        sent = {rival.name: rival.sent for rival in self.rivals}
        wrong = list(self.observer.history.anomalies)
        wrong += grants_in_order(self.granted)
        wrong += epochs_in_order(stored)
        wrong += [
            f"rivals: {rival.name} {number} of {sent[rival.name][number]} is lost"
            for rival in self.rivals
            for number in rival.confirmed
            if not any(value.startswith(f"{rival.name}:{number}:") for value in stored)
        ]
        self.run.cluster.count("turns", len(self.granted))
        return first_of(wrong, "rivals")


def grants_in_order(granted: Sequence[Granted]) -> list[str]:
    """Return violations: two producers with one epoch, or a new epoch not above all received before its request."""
    wrong: list[str] = []
    owners: dict[int, str] = {}
    for grant in granted:
        if grant.mode == pb.Shared:
            continue
        owner = owners.setdefault(grant.epoch, grant.identity)
        if owner != grant.identity:
            wrong.append(f"rivals: {grant.identity} and {owner} both have epoch {grant.epoch}")
        elif not grant.given and grant.epoch <= grant.before:
            wrong.append(f"rivals: {grant.identity} has epoch {grant.epoch} after {grant.before}")
    return wrong


def epochs_in_order(stored: Sequence[str]) -> list[str]:
    """Return violations: a message stored behind one with a greater epoch."""
    highest, by = NO_EPOCH, "nobody"
    for value in stored:
        name, _, epoch = value.split(":")
        if int(epoch) < highest:
            return [f"rivals: {name} publishes under epoch {epoch}, {by} under {highest} before"]
        highest, by = int(epoch), name
    return []
