"""Mistakes of migrations to another cluster."""

from engine.broker.ports import MigrationTarget
from engine.broker.topics.lifecycle.topic_migration import TopicMigration
from engine.broker.topics.subscriptions.subscription import Subscription
from tests.sim.plants.planting import Patches


def consumers_follow_before_all_is_acknowledged() -> Patches:
    """Send the consumers of a migrated topic on at once, whatever they have not received here."""
    notify_end = Subscription.notify_end

    def notifying(self: Subscription) -> None:
        target = self._host.migration.target_for(self)
        if target is None:
            notify_end(self)
            return
        for consumer in list(self.consumers):
            consumer.send_on(target.url, target.url_tls)
            self.disconnect_one(consumer)

    return [(Subscription, "notify_end", notifying)]


def migrated_subscriptions_are_not_made_there() -> Patches:
    """End a topic without its subscriptions in the other cluster, where they begin when a consumer comes."""
    advance = TopicMigration.advance

    async def advancing(self: TopicMigration, target: MigrationTarget) -> None:
        self._made |= {subscription.name for subscription in self._host.subscriptions.values()}
        await advance(self, target)

    return [(TopicMigration, "advance", advancing)]
