"""What stats tell of Key_Shared subscriptions: whose which hashes are, and which of them others have to finish."""

from collections.abc import Iterable

from engine.admin.api import JsonObject
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.choose.sticky import KeyStats


def draining(found: Iterable[KeyStats]) -> JsonObject:
    """Hashes that moved away from a consumer which still has unacknowledged messages of theirs."""
    stats = list(found)
    return {
        "drainingHashesCount": sum(len(one.draining) for one in stats),
        "drainingHashesClearedTotal": sum(one.cleared for one in stats),
        "drainingHashesUnackedMessages": sum(
            each.entries for one in stats for each in one.draining.values()
        ),
    }


def of_subscription(policy: KeyPolicy | None) -> JsonObject:
    if policy is None:
        return {}
    return {
        "allowOutOfOrderDelivery": policy.out_of_order,
        "keySharedMode": policy.mode,
    }


def of_consumer(policy: KeyPolicy | None, found: KeyStats | None) -> JsonObject:
    if policy is None or found is None:
        return {}
    out = {**draining([found]), "keyHashRangeArrays": [list(each) for each in found.ranges]}
    if not policy.sticky and not policy.out_of_order:  # else nothing drains
        out["drainingHashes"] = [
            {"hash": slot, "unackMsgs": one.entries, "blockedAttempts": one.refused}
            for slot, one in sorted(found.draining.items())
        ]
    return out
