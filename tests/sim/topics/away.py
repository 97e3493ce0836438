"""A configuration store apart that is away for a while: brokers say so, and serve what they served before.

In runs where nothing else goes wrong no broker ends, no topic changes its owner, and messages are confirmed as before.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

from engine.metadata.apart.routed import CONFIGURATION, connected
from tests.sim.kit.nemesis import Nemesis
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.history import History
from tests.sim.topics.workload import TopicsWorkload

CONFIGURATION_AWAY = "configuration_away"
SETTLE_S = 20.0
NOTICE_S = 1.0
"""Time beyond the session timeout in which a broker reports a change of the store."""
RECEIPT_S = 3.0
"""Time in which a message is confirmed where nothing but the configuration store is away."""


class Window(NamedTuple):
    """A time in which the store was away; ``topics``: those that were served when it began."""

    begin: float
    end: float
    topics: frozenset[str]


@dataclass(frozen=True)
class Away:
    """Longest time that the store is away, as a multiple of the session timeout."""

    sessions: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Away":
        return cls(rng.choice((0.5, 2.0, 4.0)))

    def setup(self, run: Run) -> "AwayWorkload":
        return AwayWorkload(run, self)


class AwayWorkload:
    """The fault, and what brokers report and serve meanwhile. Stands before ``Topics``, whose clients it watches."""

    def __init__(self, run: Run, plan: Away) -> None:
        assert run.cluster.configuration is not None
        self.run = run
        self.store = run.cluster.configuration
        self.alone = set(run.scenario.faults) <= {CONFIGURATION_AWAY}
        """True in a run without other faults."""
        self.windows: list[Window] = []
        self._longest_s = plan.sessions * run.cluster.shape.session_s
        self._changed_at = 0.0
        self._owners: dict[str, str] = {}
        self._wrong: dict[str, None] = {}
        run.faults[CONFIGURATION_AWAY] = self._leave

    @property
    def topics(self) -> TopicsWorkload:
        [topics] = [w for w in self.run.workloads if isinstance(w, TopicsWorkload)]
        return topics

    async def start(self) -> None:
        self.run.watch(self._look)

    def _leave(self, n: Nemesis) -> None:
        if self.store.away:
            return
        begin = self._changed_at = n.cluster.loop.now
        served = frozenset(map(str, self._serving()))
        self.store.away = True
        n.cluster.count("configuration store away")

        def back() -> None:
            if self.store.away:
                self.store.away = False
                self._returned(begin, served)

        n.later(self._longest_s * n.rng.uniform(0.3, 1.0), back)

    def _returned(self, begin: float, served: frozenset[str]) -> None:
        self._changed_at = self.run.loop.now
        self.windows.append(Window(begin, self._changed_at, served))

    def _serving(self) -> dict[str, str]:
        """Return the process that serves each topic now."""
        observer = self.topics.observer
        return {
            str(topic): machine.incarnation
            for topic in observer.topics
            for machine in self.run.cluster.brokers
            if machine.broker is not None and machine.ready
            if machine.broker.running.registry.loaded(topic) is not None
            if machine.broker.running.ownership.serves(topic)
        }

    def _look(self) -> None:
        if not self.alone:
            return
        self._look_at_reports()
        serving = self._serving()
        for topic, broker in serving.items():
            if self._owners.setdefault(topic, broker) != broker:
                self._note(f"{topic} went from {self._owners[topic]} to {broker}")
        if self.store.away:
            for topic in self._owners.keys() - serving.keys():
                self._note(f"{topic} is not served any more")

    def _look_at_reports(self) -> None:
        since_s = self.run.loop.now - self._changed_at
        if since_s < self.run.cluster.shape.session_s + NOTICE_S:
            return  # brokers need not know yet
        for machine in self.run.cluster.brokers:
            if machine.ready and machine.routed is not None:
                reported = connected(machine.routed)[CONFIGURATION]
                if reported == self.store.away:
                    self._note(f"{machine.name} reports {reported}, away is {self.store.away}")

    def _note(self, text: str) -> None:
        self._wrong[text] = None

    async def quiet(self) -> None:
        alone, self.alone = self.alone, False  # machines may lose power from now on
        await self.run.reach(
            "be connected to the configuration store",
            lambda: not self._apart(),
            SETTLE_S,
            self._apart,
        )
        if alone:
            for text in late_receipts(self.topics.history, self.windows):
                self._note(text)

    def _apart(self) -> list[str]:
        """Return the brokers that are not connected to the configuration store."""
        return [
            machine.name
            for machine in self.run.cluster.brokers
            if machine.routed is None or not connected(machine.routed)[CONFIGURATION]
        ]

    def check(self) -> list[str]:
        return first_of([f"served_while_away: {text}" for text in self._wrong], "served_while_away")


def late_receipts(history: History, windows: list[Window]) -> list[str]:
    """Return the messages that were sent while the store was away and not confirmed as soon as others are."""
    confirmed: dict[tuple[str, int], float] = {}
    for receipt in history.receipts:
        confirmed.setdefault((receipt.producer, receipt.number), receipt.at)
    return [
        f"{sent.producer} {sent.number} sent at {sent.at:.3f} was not confirmed within {RECEIPT_S:g} s"
        for window in windows
        for sent in history.sent
        if window.begin <= sent.at <= window.end - RECEIPT_S
        if history.topics.get(sent.producer) in window.topics
        if confirmed.get((sent.producer, sent.number), float("inf")) > sent.at + RECEIPT_S
    ]
