"""Changes of an Apache Pulsar cluster: operations of brokers, and writes of the metadata store, by calls of its REST.

Apache has no previews that bind. What a preview showed is read again just before the change, which is refused when more
would be lost by then; what happens between that and the change itself cannot be excluded.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from engine.admin.api.arguments import LATEST_MESSAGE, OnBundle, OnSubscription, OnTopic
from engine.admin.api.bundles import SPLIT_BUNDLE, UNLOAD_BUNDLE, SplitBundle
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    RESET_CURSOR,
    SKIP_MESSAGES,
    ExpireMessages,
    ResetCursor,
    Skip,
)
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DURABLE_SUBSCRIPTIONS,
    SUBSCRIPTION_HOLDINGS,
    CreateSubscription,
    DeleteSubscription,
)
from engine.admin.api.topics import (
    COMPACT,
    CREATE_TOPIC,
    DELETE_TOPIC,
    FORGET_PARTITIONED,
    GROW_ELSEWHERE,
    HOLDINGS,
    TERMINATE,
    TRIM,
    TRUNCATE,
    UNLOAD,
    CreateTopic,
    DeleteTopic,
    GrowElsewhere,
)
from engine.base.errors import Conflict, NotFound, Unsupported
from engine.base.names import decode_name
from engine.metadata import paths
from gateway.apache.brokers import Handlers, Target
from gateway.apache.mirror import StoreChange
from gateway.apache.rest import ApacheRest, namespace_path, part, topic_path

Json = dict[str, Any]
BETWEEN = "The cluster may change between the preview and the change; what it holds is read again just before"
"""The promise of a preview here."""


# Writes of the metadata store


class PolicyCall(NamedTuple):
    """The call that sets a policy of a namespace: method and path below the namespace; ``removal`` is the method that
    removes it, empty where it cannot be."""

    path: str
    method: str = "POST"
    removal: str = "DELETE"
    by_cluster: bool = False
    """The value is in an object by cluster."""


POLICIES: Mapping[str, PolicyCall] = {
    "replication_clusters": PolicyCall("replication", removal=""),
    "allowed_clusters": PolicyCall("allowedClusters", removal=""),
    "retention_policies": PolicyCall("retention"),
    "message_ttl_in_seconds": PolicyCall("messageTTL"),
    "persistence": PolicyCall("persistence"),
    "deduplicationEnabled": PolicyCall("deduplication"),
    "encryption_required": PolicyCall("encryptionRequired", removal=""),
    "schema_compatibility_strategy": PolicyCall("schemaCompatibilityStrategy", "PUT", ""),
    "schema_validation_enforced": PolicyCall("schemaValidationEnforced", removal=""),
    "is_allow_auto_update_schema": PolicyCall("isAllowAutoUpdateSchema", removal=""),
    "compaction_threshold": PolicyCall("compactionThreshold", "PUT"),
    "delayed_delivery_policies": PolicyCall("delayedDelivery"),
    "inactive_topic_policies": PolicyCall("inactiveTopicPolicies"),
    "autoTopicCreationOverride": PolicyCall("autoTopicCreation"),
    "autoSubscriptionCreationOverride": PolicyCall("autoSubscriptionCreation"),
    "subscription_expiration_time_minutes": PolicyCall("subscriptionExpirationTime"),
    "subscription_types_enabled": PolicyCall("subscriptionTypesEnabled"),
    "max_producers_per_topic": PolicyCall("maxProducersPerTopic"),
    "max_consumers_per_topic": PolicyCall("maxConsumersPerTopic"),
    "max_consumers_per_subscription": PolicyCall("maxConsumersPerSubscription"),
    "max_subscriptions_per_topic": PolicyCall("maxSubscriptionsPerTopic"),
    "max_topics_per_namespace": PolicyCall("maxTopicsPerNamespace"),
    "max_unacked_messages_per_consumer": PolicyCall("maxUnackedMessagesPerConsumer"),
    "max_unacked_messages_per_subscription": PolicyCall("maxUnackedMessagesPerSubscription"),
    "publishMaxMessageRate": PolicyCall("publishRate", by_cluster=True),
    "topicDispatchRate": PolicyCall("dispatchRate", by_cluster=True),
    "subscriptionDispatchRate": PolicyCall("subscriptionDispatchRate", by_cluster=True),
    "replicatorDispatchRate": PolicyCall("replicatorDispatchRate", by_cluster=True),
    "clusterSubscribeRate": PolicyCall("subscribeRate", by_cluster=True),
    "properties": PolicyCall("properties", "PUT"),
}
"""Policies by their field in Apache's record of a namespace. Any other field is refused."""
QUOTAS = "backlog_quota_map"
_BOOKKEEPING = (
    f"{paths.MANAGED_LEDGERS}/",
    f"{paths.LOCAL_POLICIES}/",
    f"{paths.SCHEMAS}/",
)
"""Trees that services tidy up after a change, which Apache does itself."""


def performer(rest: ApacheRest) -> Callable[[StoreChange], Awaitable[None]]:
    """Return the function that carries out writes of the metadata store at the cluster. It raises Unsupported for what
    Apache's REST interface cannot change."""

    async def perform(change: StoreChange) -> None:
        path = change.path
        if path.startswith(f"{paths.POLICIES}/"):
            names = path.removeprefix(f"{paths.POLICIES}/").split("/")
            if len(names) == 1:
                return await _tenant(rest, names[0], change)
            if len(names) == 2:
                return await _namespace(rest, "/".join(names), change)
        if path.startswith(f"{paths.PARTITIONED_TOPICS}/"):
            return await _partitioned(rest, change)
        if path.startswith(_BOOKKEEPING):
            return None
        raise Unsupported(f"A cluster of Apache Pulsar cannot be changed by this ({path})")

    return perform


async def _tenant(rest: ApacheRest, name: str, change: StoreChange) -> None:
    path = f"/admin/v2/tenants/{part(name)}"
    if change.after is None:
        await rest.call("DELETE", path)
    else:
        await rest.call("POST" if change.before else "PUT", path, json.loads(change.after))


async def _namespace(rest: ApacheRest, name: str, change: StoreChange) -> None:
    before = json.loads(change.before) if change.before else {}
    if change.after is None:
        if not before.get("deleted"):
            await rest.call("DELETE", namespace_path(name))
        return
    after = json.loads(change.after)
    if not before:
        given = {"bundles": after["bundles"], "replication_clusters": after["replication_clusters"]}
        await rest.call("PUT", namespace_path(name), given)
    elif after.get("deleted"):
        # Services mark a namespace first and delete its nodes then; Apache does both by one call.
        await rest.call("DELETE", namespace_path(name))
    else:
        for method, path, body, query in policy_calls(name, before, after):
            await rest.call(method, path, body, **query)


def policy_calls(name: str, before: Json, after: Json) -> list[tuple[str, str, Any, Json]]:
    """Return the calls, each with its body and query, that change the policies of a namespace from one record to
    another. Raises Unsupported for a policy that has none, before any is made."""
    calls: list[tuple[str, str, Any, Json]] = []
    for field in sorted(before.keys() | after.keys()):
        old, new = before.get(field) or None, after.get(field) or None
        old, new = (
            (before.get(field), after.get(field))
            if isinstance(after.get(field), bool | int)
            else (old, new)
        )
        if old == new:
            continue
        if field == QUOTAS:
            calls += _quota_calls(name, old or {}, new or {})
            continue
        call = POLICIES.get(field)
        if call is None or (new is None and not call.removal):
            verb = "changed" if call is None else "removed"
            raise Unsupported(f"{field} cannot be {verb} at a cluster of Apache Pulsar")
        value = next(iter(new.values()), None) if call.by_cluster and new else new
        method = call.removal if value is None else call.method
        calls.append((method, namespace_path(name, call.path), value, {}))
    return calls


def _quota_calls(name: str, before: Json, after: Json) -> list[tuple[str, str, Any, Json]]:
    path = namespace_path(name, "backlogQuota")
    return [
        (
            "POST" if kind in after else "DELETE",
            path,
            after.get(kind),
            {"backlogQuotaType": kind},
        )
        for kind in sorted(before.keys() | after.keys())
        if before.get(kind) != after.get(kind)
    ]


async def _partitioned(rest: ApacheRest, change: StoreChange) -> None:
    """Create, grow or delete a partitioned topic. Claims and marks are those of our services."""
    names = change.path.removeprefix(f"{paths.PARTITIONED_TOPICS}/").split("/")
    if len(names) != 4:
        return
    tenant, namespace, domain, encoded = names
    local = part(decode_name(encoded))
    path = f"/admin/v2/{domain}/{part(tenant)}/{part(namespace)}/{local}/partitions"
    before, after = _record(change.before), _record(change.after)
    if change.after is None and before:
        await rest.call("DELETE", path, force=True)
        return
    old, new = int(before.get("partitions", 0)), int(after.get("partitions", 0))
    if new > old:
        await rest.call("POST" if old else "PUT", path, new)
    elif before and after.get("properties") != before.get("properties"):
        raise Unsupported(
            "Properties of partitioned topics are not changed at a cluster of Apache Pulsar"
        )


def _record(value: bytes | None) -> Json:
    """Return the record of a partitioned topic; empty for a claim or none."""
    try:
        record = json.loads(value or b"{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) and "partitions" in record else {}


# Operations on topics


async def _create_topic(target: Target, args: CreateTopic) -> None:
    await target.rest.call("PUT", topic_path(args.topic), dict(args.properties))


async def _holdings(target: Target, args: OnTopic) -> Json:
    stats: Json = await target.rest.get(topic_path(args.topic, "stats"), getPreciseBacklog=True)
    internal: Json = {}
    if args.topic.persistent:
        internal = await target.rest.get(topic_path(args.topic, "internalStats"))
    producers = [_client(item, "producerName") for item in stats.get("publishers") or ()]
    subscriptions = [
        {
            "name": title,
            "durable": bool(sub.get("durable", True)),
            "entries": int(sub.get("msgBacklog", 0)),
            "messages": None,
            "exact": False,
            "consumers": [_client(item, "consumerName") for item in sub.get("consumers") or ()],
        }
        for title, sub in sorted((stats.get("subscriptions") or {}).items())
    ]
    users = [f"producer {client['name']} {client['address']}" for client in producers]
    users += [
        f"consumer {client['name']} {client['address']}"
        for sub in subscriptions
        for client in sub["consumers"]
    ]
    entries = int(internal.get("numberOfEntries", 0))
    backlogs = {str(sub["name"]): sub["entries"] for sub in subscriptions}
    return {
        "bytes": int(stats.get("storageSize", 0)),
        "entries": entries,
        "terminated": internal.get("state") == "Terminated",
        "last": str(internal.get("lastConfirmedEntry", "")),
        "producers": producers,
        "subscriptions": subscriptions,
        "unread": [],
        "seen": {"entries": entries, "users": users, "subscriptions": backlogs},
    }


def _client(item: Json, name: str) -> Json:
    return {"name": item.get(name, ""), "address": str(item.get("address", "")).removeprefix("/")}


async def _delete_topic(target: Target, args: DeleteTopic) -> Json:
    """Delete a topic. With ``seen`` it is read again just before, and kept when it holds more or has other clients."""
    if args.seen is not None or args.dry:
        now = (await _holdings(target, OnTopic(args.topic)))["seen"]
        check_seen(args.seen or {"entries": 0, "users": [], "subscriptions": {}}, now)
    if not args.dry:
        await target.rest.call("DELETE", topic_path(args.topic), force=args.force)
    return {"before": None}


def check_seen(seen: Json, now: Json) -> None:
    """Raise Conflict when a topic holds more than was seen, or is used by other clients."""
    if now["entries"] > seen["entries"]:
        more = now["entries"] - seen["entries"]
        raise Conflict(f"{more} entries were published since the preview: look at it again")
    for user in now["users"]:
        if user not in seen["users"]:
            raise Conflict(f"A client connected since the preview: {user}")
    for title in now["subscriptions"]:
        if title not in seen["subscriptions"]:
            raise Conflict(f"The subscription {title} was created since the preview")


async def _terminate(target: Target, args: OnTopic) -> Json:
    last = await target.rest.call("POST", topic_path(args.topic, "terminate"))
    return {"before": None, "last": json.loads(last)}


def _topic_call(method: str, *after: str) -> Callable[[Target, OnTopic], Awaitable[None]]:
    """Return the handler of an operation that is one call on the topic."""

    async def perform(target: Target, args: OnTopic) -> None:
        await target.rest.call(method, topic_path(args.topic, *after))

    return perform


async def _nothing(target: Target, args: OnTopic | GrowElsewhere) -> None:
    """Do nothing: Apache does this itself with the change that it belongs to."""


# Operations on subscriptions


async def _durable_subscriptions(target: Target, args: OnTopic) -> dict[str, dict[str, str]]:
    stats: Json = await target.rest.get(topic_path(args.topic, "stats"))
    return {
        title: sub.get("subscriptionProperties") or {}
        for title, sub in (stats.get("subscriptions") or {}).items()
        if sub.get("durable", True)
    }


async def _create_subscription(target: Target, args: CreateSubscription) -> None:
    position = args.position or LATEST_MESSAGE
    body = {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": args.topic.partition,
        "properties": args.properties,
    }
    path = topic_path(args.topic, "subscription", args.subscription)
    await target.rest.call("PUT", path, body, replicated=args.replicated)


async def _subscription_holdings(target: Target, args: OnSubscription) -> Json:
    stats: Json = await target.rest.get(topic_path(args.topic, "stats"), getPreciseBacklog=True)
    sub = (stats.get("subscriptions") or {}).get(args.subscription)
    if sub is None:
        raise NotFound("Subscription not found")
    consumers = [
        _client(item, "consumerName")
        # Apache reports no id of a consumer, and a consumer cannot be disconnected there.
        | {"id": 0, "connected_ms": 0, "unacked": int(item.get("unackedMessages", 0))}
        for item in sub.get("consumers") or ()
    ]
    entries = int(sub.get("msgBacklog", 0))
    kind = str(sub.get("type") or "")
    users = [f"{client['name']} {client['address']}" for client in consumers]
    return {
        "durable": bool(sub.get("durable", True)),
        "type": "" if kind == "None" else kind,
        "unread": "",
        "entries": entries,
        "messages": None,
        "exact": False,
        "consumers": consumers,
        "seen": {"entries": entries, "users": users},
    }


async def _delete_subscription(target: Target, args: DeleteSubscription) -> Json:
    """Delete a subscription; with ``seen`` not when another consumer came since."""
    answer: Json = {"before": None, "later": None}
    if args.seen is not None or args.dry:
        held = await _subscription_holdings(target, OnSubscription(args.topic, args.subscription))
        users = (args.seen or {"users": []})["users"]
        for user in held["seen"]["users"]:
            if user not in users or not args.force:
                raise Conflict(f"A consumer is connected: {user}")
        if args.seen is not None:
            answer["later"] = max(held["entries"] - args.seen["entries"], 0)
    if not args.dry:
        path = topic_path(args.topic, "subscription", args.subscription)
        await target.rest.call("DELETE", path, force=args.force)
    return answer


def _subscription_path(args: OnSubscription, *after: str) -> str:
    return topic_path(args.topic, "subscription", args.subscription, *after)


async def _skip(target: Target, args: Skip) -> Json:
    await target.rest.call("POST", _subscription_path(args, "skip", str(args.count)))
    return {"before": None, "after": None}


async def _clear(target: Target, args: OnSubscription) -> Json:
    await target.rest.call("POST", _subscription_path(args, "skip_all"))
    return {"before": None, "after": None}


async def _reset(target: Target, args: ResetCursor) -> Json:
    if args.timestamp_ms is not None:
        path = _subscription_path(args, "resetcursor", str(args.timestamp_ms))
        await target.rest.call("POST", path)
    else:
        assert args.position is not None
        position = args.position
        body = {
            "ledgerId": position.ledger_id,
            "entryId": position.entry_id,
            "partitionIndex": args.topic.partition,
            "batchIndex": position.batch_index,
            "excluded": position.excluded,
        }
        await target.rest.call("POST", _subscription_path(args, "resetcursor"), body)
    return {"before": None, "after": None}


async def _expire(target: Target, args: ExpireMessages) -> Json:
    path = _subscription_path(args, "expireMessages", str(args.seconds))
    await target.rest.call("POST", path)
    return {"before": None, "after": None}


# Operations on bundles


async def _unload_bundle(target: Target, args: OnBundle) -> None:
    after = ("unload",) if args.bundle is None else (args.bundle, "unload")
    await target.rest.call("PUT", namespace_path(args.namespace, *after))


async def _split_bundle(target: Target, args: SplitBundle) -> list[str]:
    assert args.bundle is not None
    await target.rest.call("PUT", namespace_path(args.namespace, args.bundle, "split"))
    return []


CHANGES: Handlers = {
    CREATE_TOPIC.name: _create_topic,
    HOLDINGS.name: _holdings,
    DELETE_TOPIC.name: _delete_topic,
    FORGET_PARTITIONED.name: _nothing,
    GROW_ELSEWHERE.name: _nothing,
    TERMINATE.name: _terminate,
    UNLOAD.name: _topic_call("PUT", "unload"),
    TRIM.name: _topic_call("POST", "trim"),
    TRUNCATE.name: _topic_call("DELETE", "truncate"),
    COMPACT.name: _topic_call("PUT", "compaction"),
    DURABLE_SUBSCRIPTIONS.name: _durable_subscriptions,
    CREATE_SUBSCRIPTION.name: _create_subscription,
    SUBSCRIPTION_HOLDINGS.name: _subscription_holdings,
    DELETE_SUBSCRIPTION.name: _delete_subscription,
    SKIP_MESSAGES.name: _skip,
    CLEAR_BACKLOG.name: _clear,
    RESET_CURSOR.name: _reset,
    EXPIRE_MESSAGES.name: _expire,
    UNLOAD_BUNDLE.name: _unload_bundle,
    SPLIT_BUNDLE.name: _split_bundle,
}
