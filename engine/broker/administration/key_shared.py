"""Statistics of Key_Shared subscriptions: the hashes of each consumer, and those that are still draining."""

from collections.abc import Iterable

from engine.admin.api.arguments import JsonObject
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.choose.sticky import KeyStats


def draining(consumers: Iterable[KeyStats]) -> JsonObject:
    """Return the counts of hashes that moved away from a consumer which still has unacknowledged messages of them."""
    stats = list(consumers)
    return {
        "drainingHashesCount": sum(len(consumer.draining) for consumer in stats),
        "drainingHashesClearedTotal": sum(consumer.cleared for consumer in stats),
        "drainingHashesUnackedMessages": sum(
            slot.entries for consumer in stats for slot in consumer.draining.values()
        ),
    }


def of_subscription(policy: KeyPolicy | None) -> JsonObject:
    if policy is None:
        return {}
    return {
        "allowOutOfOrderDelivery": policy.out_of_order,
        "keySharedMode": policy.mode,
    }


def of_consumer(policy: KeyPolicy | None, stats: KeyStats | None) -> JsonObject:
    if policy is None or stats is None:
        return {}
    ranges = [list(slots) for slots in stats.ranges]
    fields = {**draining([stats]), "keyHashRangeArrays": ranges}
    if not policy.sticky and not policy.out_of_order:  # otherwise no hash ever drains
        fields["drainingHashes"] = [
            {"hash": slot, "unackMsgs": state.entries, "blockedAttempts": state.refused}
            for slot, state in sorted(stats.draining.items())
        ]
    return fields
