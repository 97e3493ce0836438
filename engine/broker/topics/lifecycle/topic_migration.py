"""Migration of one topic to another cluster: this cluster's copy ends, and its clients attach there.

Its subscriptions are made there first, at the first message, so that they miss nothing that is published there. A
consumer is sent there once its subscription is drained here; producers once all replicators are. Until then producers
are refused (G5).
"""

from collections.abc import Mapping
from typing import Protocol

from engine.base.names import TopicName
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.context import Context
from engine.broker.errors import ServiceNotReady, TopicMigrated
from engine.broker.ports import MigrationTarget
from engine.broker.topics.geo.topic_replication import TopicReplication
from engine.broker.topics.ports import Log
from engine.broker.topics.publishers import Publishers
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.subscriptions.subscriptions import Subscriptions

MIGRATED = "migrated"
"""Property of the managed ledger of a topic that was migrated, with the name that Apache's broker uses."""


class MigratedHost(Protocol):
    """Parts of a topic that its migration uses."""

    name: TopicName
    context: Context
    log: Log
    publishers: Publishers
    subscriptions: Subscriptions
    replication: TopicReplication

    @property
    def terminated(self) -> bool: ...

    def touched(self) -> None: ...

    async def change_properties(self, changes: dict[str, str | None]) -> None: ...


class TopicMigration:
    """The migration of a topic; ``target`` is None while it stays."""

    __slots__ = ("_host", "_made", "target")

    def __init__(self, host: MigratedHost) -> None:
        self.target: MigrationTarget | None = None
        self._host = host
        self._made: set[str] = set()
        """Subscriptions that are known to exist there."""

    @property
    def begun(self) -> bool:
        """True when clients are to attach to the other cluster."""
        return self.target is not None

    def resume(self, target: MigrationTarget | None) -> None:
        """Continue the migration of a topic that was just loaded, if it had ended here."""
        if is_migrated(self._host.log.properties):
            self.target = target

    async def advance(self, target: MigrationTarget) -> None:
        """Migrate the topic to ``target`` as far as it is possible now. Repeated until no client is left.

        Raises MagnetarError while the other cluster lacks what clients need there; before the topic has ended here
        nothing is changed then.
        """
        host = self._host
        if host.name.persistent:
            missing = {
                subscription.name
                for subscription in host.subscriptions.values()
                if subscription.durable and subscription.name != COMPACTION
            } - self._made
            if missing or not self.begun:
                remotes = host.context.remotes
                assert remotes is not None, "a broker without remote clusters migrates no topic"
                await remotes.prepare(target, host.name, missing)
                self._made |= missing
            if not is_migrated(host.log.properties):
                await host.change_properties({MIGRATED: "true"})
            if not host.terminated:
                await host.log.terminate()
        self.target = target
        host.publishers.refuse_waiting(TopicMigrated(host.name, target.url, target.url_tls))
        self._send_on(target)
        host.touched()

    def _send_on(self, target: MigrationTarget) -> None:
        host = self._host
        for producer in list(host.publishers.attached.values()):
            if producer.origin or host.replication.backlog:
                producer.disconnect()
            else:
                producer.migrate(target)
        for subscription in list(host.subscriptions.values()):
            subscription.notify_end()

    def check_producer(self) -> None:
        """Raise TopicMigrated for a producer of a topic that has ended here, and ServiceNotReady while its messages are
        still being sent to other clusters."""
        if self.target is None:
            return
        if self._host.replication.backlog:
            raise ServiceNotReady(
                f"Topic {self._host.name} is being migrated, once its messages are sent to all clusters"
            )
        raise TopicMigrated(self._host.name, self.target.url, self.target.url_tls)

    def target_for(self, subscription: Subscription) -> MigrationTarget | None:
        """Return the cluster where the consumers of a drained subscription continue; None until it has it."""
        known = not subscription.durable or subscription.name in self._made
        return self.target if known else None


def is_migrated(properties: Mapping[str, str]) -> bool:
    """Return whether a log with these properties ended because its topic was migrated."""
    return properties.get(MIGRATED) == "true"
