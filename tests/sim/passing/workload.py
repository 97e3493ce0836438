"""A non-persistent topic under faults: a message is delivered at most once, in order to a sole consumer, at once or
never; a consumer without permits does not delay the producer; no entry is ever stored."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.ids import Position
from engine.client.raw_consumer import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.metadata import paths
from engine.wire import events
from engine.wire.batches import Message, pack_entry, unpack_entry
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.client import Client
from tests.sim.topics.observer import Observer

NAMESPACE = "public/default"
TOPIC = f"non-persistent://{NAMESPACE}/now"
KINDS = {
    "exclusive": EXCLUSIVE,
    "failover": FAILOVER,
    "shared": SHARED,
    "key_shared": KEY_SHARED,
    "asleep": SHARED,
}
"""Types by name of the subscription. The consumer of ``asleep`` sends no permits during the faults."""
PERMITS = 1_000_000
LAST = 30
"""Number of entries sent after the faults: every attached subscription must receive them."""
SETTLE_S = 30.0


@dataclass(frozen=True)
class Passing:
    """The subscription of each consumer, and how often per second the producer sends 1 to 8 entries."""

    consumers: tuple[str, ...]
    rate: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Passing":
        kinds = rng.sample(("exclusive", "failover", "shared", "key_shared"), 2)
        pairs = [kind for kind in kinds for _ in range(1 if kind == "exclusive" else 2)]
        return cls((*pairs, "asleep"), rng.choice((5.0, 20.0)))

    def setup(self, run: Run) -> "PassingWorkload":
        return PassingWorkload(run, self)


class Speaker(Client):
    """A producer that sends numbered entries, each once, without retries."""

    def __init__(self, observer: Observer, rate: float) -> None:
        super().__init__(observer, "speaker", TOPIC)
        self.sent = 0
        self.answered = 0
        self.producer: RawProducer | None = None
        self._rate = rate

    async def _session(self) -> None:
        link = await self.open()
        self.producer = await RawProducer.open(
            link, TOPIC, on_receipts=self._receipts, on_end=self.wake_up
        )
        try:
            while self.producer.error is None:
                self.wake.clear()
                if not self.calm:
                    self.say(self.rng.choice((1, 1, 2, 8)))
                try:
                    async with asyncio.timeout(self.rng.expovariate(self._rate)):
                        await self.wake.wait()
                except TimeoutError:
                    pass
            raise self.producer.error
        finally:
            self.producer = None

    def say(self, count: int) -> None:
        assert self.producer is not None
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.producer.send(numbers, [_entry(number) for number in numbers])

    def _receipts(self, receipts: Sequence[events.Receipt]) -> None:
        self.answered += len(receipts)
        for _, number, position, *_ in receipts:
            if position != Position(0, 0):
                self.observer.wrong(f"passing: {number} has its receipt with {position}")


class Listener(Client):
    """A consumer; ``received``: the messages of all its connections."""

    def __init__(self, observer: Observer, subscription: str, number: int) -> None:
        super().__init__(observer, f"{subscription}-{number}", TOPIC)
        self.subscription = subscription
        self.received: list[int] = []
        self.consumer: RawConsumer | None = None

    async def _session(self) -> None:
        link = await self.open()
        consumer = await RawConsumer.open(
            link,
            TOPIC,
            self.subscription,
            KINDS[self.subscription],
            on_messages=self._receive,
            on_end=self.wake_up,
            name=self.name,
        )
        if self.subscription != "asleep":
            consumer.flow(PERMITS)
        self.consumer = consumer
        try:
            while consumer.error is None:
                self.wake.clear()
                await self.wake.wait()
            raise consumer.error
        finally:
            self.consumer = None

    def _receive(self, messages: Sequence[events.Delivered]) -> None:
        for message in messages:
            (content,) = unpack_entry(message.entry).messages
            self.received.append(int(content.value))
            if message.position != Position(0, 0):
                self.observer.wrong(f"passing: {content.value!r} came with {message.position}")


class PassingWorkload:
    def __init__(self, run: Run, plan: Passing) -> None:
        self.run = run
        observer = Observer(run.cluster, [])
        self.speaker = Speaker(observer, plan.rate)
        self.listeners = [Listener(observer, kind, i) for i, kind in enumerate(plan.consumers)]
        self._wrong: list[str] = []

    @property
    def _awake(self) -> list[Listener]:
        return [listener for listener in self.listeners if listener.subscription != "asleep"]

    def _present(self) -> bool:
        listening = all(listener.consumer is not None for listener in self.listeners)
        return listening and self.speaker.producer is not None

    def _missing(self) -> list[str]:
        return [listener.name for listener in self.listeners if listener.consumer is None]

    async def start(self) -> None:
        for client in (self.speaker, *self.listeners):
            client.start()
        await self.run.reach("listen", self._present, SETTLE_S, self._missing)

    async def quiet(self) -> None:
        speaker = self.speaker
        for client in (speaker, *self.listeners):
            client.calm = True
        await self.run.reach("listen again", self._present, SETTLE_S, self._missing)
        # Handovers between Failover consumers end, and entries under way arrive.
        await asyncio.sleep(2.0)
        first, answered = speaker.sent, speaker.answered
        if speaker.producer is None:
            return
        speaker.say(LAST)
        await self.run.reach(
            "publish beside one that takes nothing",
            lambda: speaker.answered - answered >= LAST,
            SETTLE_S,
            lambda: [f"{speaker.answered - answered} receipts"],
        )
        last = set(range(first, first + LAST))
        await self.run.reach(
            "hear all that is said", lambda: not self._incomplete(last), SETTLE_S, lambda: ["some"]
        )
        await self._wake_up()
        if self.run.cluster.tree.exists(_LEDGERS) is not None:
            self._wrong.append("something of it is stored")

    def _incomplete(self, wanted: set[int]) -> bool:
        of_subscription: dict[str, set[int]] = {}
        for listener in self._awake:
            of_subscription.setdefault(listener.subscription, set()).update(listener.received)
        return any(not wanted <= received for received in of_subscription.values())

    async def _wake_up(self) -> None:
        """Send permits for ``asleep``: it must receive none of the earlier messages."""
        for listener in self.listeners:
            if listener.subscription == "asleep" and listener.consumer is not None:
                listener.consumer.flow(PERMITS)
        await asyncio.sleep(2.0)

    def check(self) -> list[str]:
        for listener in self.listeners:
            if listener.subscription == "asleep" and listener.received:
                self._wrong.append(
                    f"{listener.name} took nothing and was sent {listener.received[:5]}"
                )
            if listener.subscription in ("exclusive", "failover") and listener.received != sorted(
                listener.received
            ):
                self._wrong.append(f"{listener.name} heard things out of order")
        together: dict[str, list[int]] = {}
        for listener in self.listeners:
            together.setdefault(listener.subscription, []).extend(listener.received)
        for name, received in together.items():
            if len(received) != len(set(received)):
                self._wrong.append(f"something came twice on {name}")
        self.run.cluster.count("passed on", sum(map(len, together.values())))
        return first_of([f"passing: {text}" for text in self._wrong], "passing")


_LEDGERS = paths.managed_ledgers(NAMESPACE, "non-persistent")


def _entry(number: int) -> bytes:
    message = Message(b"%d" % number, sequence_id=number)
    extra = {"partition_key": f"k{number % 7}"}
    return pack_entry([message], producer_name="speaker", publish_ms=1, extra=extra)
