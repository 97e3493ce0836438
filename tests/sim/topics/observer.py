"""An observer of brokers from outside: which broker serves a topic, what is stored, what must never be."""

import asyncio

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from tests.sim.kit.cluster import Cluster, Machine
from tests.sim.kit.loop import Node
from tests.sim.topics.history import History
from tests.sim.topics.listed import listed_ledgers, stored_ledgers


class Observer:
    """The holder of the history of what clients of ``topics`` saw. ``look`` adds the violations of that moment."""

    def __init__(self, cluster: Cluster, topics: list[str]) -> None:
        self.cluster = cluster
        self.topics = [TopicName.parse(topic) for topic in topics]
        self.history = History()
        self._listed: dict[int, None] = {}
        """Ledgers that a topic or a cursor had at some time."""
        self.administered: list[tuple[Node, asyncio.Task[None]]] = []
        """Operations that faults began as an administrator does, each with the process that performs it."""

    def look(self) -> None:
        self._listed.update(dict.fromkeys(listed_ledgers(self.cluster.tree)))
        for topic in self.topics:
            owners = [m.incarnation for m in self.cluster.brokers if _serves(m, topic)]
            if len(owners) > 1:  # that may acknowledge for one topic
                self.wrong(f"{topic} is served by {' and '.join(owners)}")
            served = self.served(topic)
            if served is not None:
                self._look_at_trimming(served[1])
                self._look_at_publish_rates(served[1])
                for subscription in served[1].subscriptions.values():
                    self.cluster.loop.spawn(
                        served[0], self._look_at_waking(topic.full, subscription)
                    )

    def administration_ended(self) -> bool:
        """Return whether all operations of administrators have ended, or died with their process."""
        return all(node.dead or task.done() for node, task in self.administered)

    def wrong(self, text: str) -> None:
        self.history.anomalies.append(f"{text} at {self.cluster.loop.now:.3f}")

    def served(self, topic: TopicName | str) -> tuple[Node, Topic] | None:
        """Return the process that would acknowledge for the topic now, and the topic; None while there is none."""
        name = TopicName.parse(topic) if isinstance(topic, str) else topic
        for machine in self.cluster.brokers:
            if _serves(machine, name) and machine.broker is not None and machine.node is not None:
                loaded = machine.broker.running.registry.loaded(name)
                if loaded is not None:
                    return machine.node, loaded
        return None

    def _look_at_trimming(self, topic: Topic) -> None:
        """Check that ledgers are trimmed only when every durable cursor's stored state is past them."""
        for name, cursor in topic.log.cursors.items():
            if cursor.durable and cursor._stored_mark < topic.log.line.base:
                self.wrong(f"trimmed {topic.name} beyond what {name} has stored,")

    def _look_at_publish_rates(self, topic: Topic) -> None:
        """Check that what waits for a publish rate of the topic or its broker will be served.

        A producer whose connection is stopped for ever connects again, so that its messages are only late.
        """
        for limit in (topic.rates._published, topic.rates._broker._published):
            if limit._line and limit._timer is None:
                self.wrong(f"{topic.name} waits for a publish rate that serves nobody,")

    async def _look_at_waking(self, topic: str, subscription: Subscription) -> None:
        """Check that dispatch resumes when the reason of a pause is gone: an extra wake sends nothing. Runs on the
        broker's node."""
        full = f"{topic}/{subscription.name}"
        before, reason = _sent(subscription), subscription.dispatch.state.paused_for
        if reason == "rate":
            limits = subscription.dispatch._throttle.limits
            if not any(
                limit._timer and subscription.dispatch.wake in limit._line for limit in limits
            ):
                self.wrong(f"{full} waits for a rate and is not in line,")
            return
        subscription.dispatch.wake()
        if _sent(subscription) > before:
            self.wrong(f"{full} went on waiting for {reason} when there was nothing to wait for,")
        shape = self.cluster.shape
        limits = [
            (
                c.name,
                c.blocked and c.unacked <= shape.unacked_consumer // 2,
                c.unacked,
                shape.unacked_consumer,
            )
            for c in subscription.consumers
        ]
        out = sum(unacked for _, _, unacked, _ in limits)
        most = shape.unacked_subscription
        # A consumer resumes at half of its limit, a subscription below half of its own.
        below = out < max(most // 2, 1)
        limits.append(("all", subscription.dispatch.state.blocked and below, out, most))
        for who, stuck, unacked, limit in limits:
            if stuck:
                self.wrong(
                    f"{full}: {who} stopped at {limit} unacknowledged messages and did not go on at {unacked},"
                )

    def leaked(self) -> list[int]:
        """Return stored ledgers that a topic or a cursor once listed and none lists now."""
        now = listed_ledgers(self.cluster.tree)
        return [
            ledger
            for ledger in stored_ledgers(self.cluster.tree)
            if ledger in self._listed and ledger not in now
        ]

    def backlogs(self, topic: TopicName) -> dict[str, int] | None:
        """Return the entries not acknowledged by subscription, from the broker that serves ``topic``; None while none
        does."""
        served = self.served(topic)
        if served is None:
            return None
        known = served[1].subscriptions
        return {name: known[name].cursor.backlog_entries() for name in known}

    def first_kept(self, topic: str) -> Position | None:
        """Return the first entry that the topic still has, to its broker's knowledge; None while no broker serves
        it."""
        served = self.served(topic)
        if served is None:
            return None
        line = served[1].log.line
        return line.position(line.base)

    def is_stored_back_to(self, topic: str, subscription: str, position: Position) -> bool:
        """Return whether a crash now would leave the subscription at ``position`` or before it. True when no broker
        serves it."""
        served = self.served(topic)
        known = served[1].subscriptions.get(subscription) if served is not None else None
        if served is None or known is None:
            return True
        return known.cursor._stored_mark <= served[1].log.line.ordinal(position)


def _sent(subscription: Subscription) -> int:
    return sum(consumer.out.messages.total for consumer in subscription.consumers)


def _serves(machine: Machine, topic: TopicName) -> bool:
    """Return whether a broker would acknowledge for ``topic`` if it ran now. A paused broker does not run."""
    node, service = machine.node, machine.broker
    if node is None or node.paused or service is None or not machine.ready:
        return False
    return service.running.ownership.serves(topic)
