"""Every administrative verb with its k-th call of the metadata store failing, for every k.

Four ways: the call is not done, or done and its answer lost; that one call alone, or an outage of several calls, of
which one begins at every third call. Then the verb is called again, its effect is read back, and read once more after
the broker was killed and started again. No verb says it succeeded when it did not, none leaves what cannot be used or
deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from engine.admin import partitions
from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition, OnSubscription, OnTopic
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    RESET_CURSOR,
    ExpireMessages,
    ResetCursor,
)
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DURABLE_SUBSCRIPTIONS,
    CreateSubscription,
    DeleteSubscription,
)
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    NotReady,
    PreconditionFailed,
    Refusal,
    WorldError,
)
from engine.base.names import NamespaceName, TopicName
from engine.rpc.operation import Operation
from engine.tenancy import grants
from engine.tenancy import topics as metadata
from engine.tenancy.clusters import (
    create_cluster,
    delete_cluster,
    get_cluster,
    list_clusters,
    set_peer_clusters,
    update_cluster,
)
from engine.tenancy.namespaces import (
    bundles_beside,
    change_namespace_properties,
    create_namespace,
    delete_namespace,
    get_policies,
    list_namespaces,
    set_policy,
)
from engine.tenancy.policies.table import RETENTION
from engine.tenancy.resources.isolation import (
    delete_isolation_policy,
    list_isolation_policies,
    set_isolation_policy,
)
from engine.tenancy.resources.resource_groups import (
    delete_resource_group,
    get_resource_group,
    join_resource_group,
    list_resource_groups,
    put_resource_group,
)
from engine.tenancy.tenants import (
    create_tenant,
    delete_tenant,
    get_tenant,
    list_tenants,
    update_tenant,
)
from gateway.services.admin import (
    cursors,
    lookup,
    namespaces,
    partitioned_topics,
    statistics,
    subscriptions,
    topics,
)
from gateway.services.admin.subscriptions import S
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")
ENTRIES = 6
CALLS_MAX = 100
OUTAGE = 8
"""Calls without an answer, so many that no verb waits to the end of them by its own repeats."""
Do = Callable[[AdminBench, str], Awaitable[object]]


class Verb(NamedTuple):
    """A verb on an object of its own, called ``name`` or named after it.

    ``read`` gives the state that matters as a JSON value. ``done`` are those that a success may leave, the first one
    that of a single call; the others result from a repeated call, whose caller does not know whether it happened.
    ``repeat``: what a repeat may be refused with, when the first call has happened.
    """

    title: str
    prepare: Do
    call: Do
    read: Do
    done: tuple[Any, ...]
    repeat: tuple[type[Refusal], ...] = ()
    discard: Do | None = None


# Metadata alone


def _namespace(name: str) -> NamespaceName:
    return NamespaceName.of("public", name)


async def nothing(bench: AdminBench, name: str) -> None:
    pass


URL = "http://127.0.0.1:1"
CLUSTER = {"serviceUrl": URL}
TENANT = {"adminRoles": ["a"], "allowedClusters": ["standalone"]}


async def make_cluster(bench: AdminBench, name: str) -> None:
    await create_cluster(bench.store, name, CLUSTER)


async def change_cluster(bench: AdminBench, name: str) -> None:
    await update_cluster(bench.store, name, {"serviceUrl": "http://127.0.0.1:2"})


async def peer_cluster(bench: AdminBench, name: str) -> None:
    await set_peer_clusters(bench.store, name, ["standalone"])


async def drop_cluster(bench: AdminBench, name: str) -> None:
    await delete_cluster(bench.store, name)


async def cluster(bench: AdminBench, name: str) -> object:
    if name not in await list_clusters(bench.store):
        return None
    cluster = await get_cluster(bench.store, name)
    return [cluster["serviceUrl"], cluster.get("peerClusterNames")]


async def make_tenant(bench: AdminBench, name: str) -> None:
    await create_tenant(bench.store, name, TENANT)


async def change_tenant(bench: AdminBench, name: str) -> None:
    await update_tenant(bench.store, name, {**TENANT, "adminRoles": ["b"]})


async def drop_tenant(bench: AdminBench, name: str) -> None:
    await delete_tenant(bench.store, name)


async def tenant(bench: AdminBench, name: str) -> object:
    if name not in await list_tenants(bench.store):
        return None
    return (await get_tenant(bench.store, name))["adminRoles"]


async def make_namespace(bench: AdminBench, name: str) -> None:
    await create_namespace(bench.store, _namespace(name), {}, cluster="standalone")


async def used_namespace(bench: AdminBench, name: str) -> None:
    """Create a namespace that had a topic, so that there is something below it."""
    await make_namespace(bench, name)
    topic = _namespace(name).topic("t")
    await topics.create(bench.engine, topic, {})
    await topics.delete(bench.engine, topic, force=True)


async def drop_namespace(bench: AdminBench, name: str) -> None:
    await delete_namespace(bench.store, _namespace(name))


async def set_retention(bench: AdminBench, name: str) -> None:
    value = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7}
    await set_policy(bench.store, _namespace(name), RETENTION, value, cluster="standalone")


async def namespace(bench: AdminBench, name: str) -> object:
    if str(_namespace(name)) not in await list_namespaces(bench.store, "public"):
        return None
    policies = await get_policies(bench.store, _namespace(name))
    retention = policies.get("retention_policies")
    return retention["retentionSizeInMB"] if retention else 0


async def grant(bench: AdminBench, name: str) -> None:
    await grants.grant(bench.store, _namespace(name), "r", ["produce"])


async def granted_namespace(bench: AdminBench, name: str) -> None:
    await make_namespace(bench, name)
    await grant(bench, name)


async def revoke(bench: AdminBench, name: str) -> None:
    await grants.revoke(bench.store, _namespace(name), "r")


async def granted(bench: AdminBench, name: str) -> object:
    return await grants.of_namespace(bench.store, _namespace(name))


async def grant_on_subscription(bench: AdminBench, name: str) -> None:
    await grants.grant_on_subscription(bench.store, _namespace(name), "s", ["r"])


async def granted_on_subscriptions(bench: AdminBench, name: str) -> object:
    return await grants.of_subscriptions(bench.store, _namespace(name))


async def label(bench: AdminBench, name: str) -> None:
    await change_namespace_properties(bench.store, _namespace(name), {"k": "v"})


async def labelled(bench: AdminBench, name: str) -> object:
    return (await get_policies(bench.store, _namespace(name)))["properties"]


ISOLATED = {
    "namespaces": ["public/none.*"],
    "primary": ["none"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
}


async def isolate(bench: AdminBench, name: str) -> None:
    await set_isolation_policy(bench.store, name, "p", ISOLATED)


async def isolated_cluster(bench: AdminBench, name: str) -> None:
    await make_cluster(bench, name)
    await isolate(bench, name)


async def mix(bench: AdminBench, name: str) -> None:
    await delete_isolation_policy(bench.store, name, "p")


async def drop_isolated(bench: AdminBench, name: str) -> None:
    with suppress(NotFound):
        await mix(bench, name)
    await drop_cluster(bench, name)


async def isolated(bench: AdminBench, name: str) -> object:
    try:
        return sorted(await list_isolation_policies(bench.store, name))
    except NotFound:
        return []


async def make_group(bench: AdminBench, name: str) -> None:
    await put_resource_group(bench.store, name, {"publishRateInMsgs": 5})


async def drop_group(bench: AdminBench, name: str) -> None:
    await delete_resource_group(bench.store, name)


async def group(bench: AdminBench, name: str) -> object:
    if name not in await list_resource_groups(bench.store):
        return None
    return (await get_resource_group(bench.store, name))["publishRateInMsgs"]


async def grouped_namespace(bench: AdminBench, name: str) -> None:
    await make_namespace(bench, name)
    await make_group(bench, name)


async def join_group(bench: AdminBench, name: str) -> None:
    await join_resource_group(bench.store, _namespace(name), name)


async def joined(bench: AdminBench, name: str) -> object:
    return (await get_policies(bench.store, _namespace(name))).get("resource_group_name") == name


async def leave_group(bench: AdminBench, name: str) -> None:
    await join_resource_group(bench.store, _namespace(name), None)
    await drop_group(bench, name)
    await drop_namespace(bench, name)


async def split(bench: AdminBench, name: str) -> None:
    """Split the first of the bundles, once."""
    await namespaces.split_bundle(
        bench.engine, _namespace(name), FIRST_BUNDLE, "range_equally_divide", [], unload=False
    )


async def bundles(bench: AdminBench, name: str) -> object:
    stored = await get_policies(bench.store, _namespace(name))
    return (await bundles_beside(bench.store, _namespace(name), stored)).document["numBundles"]


FIRST_BUNDLE = "0x00000000_0x08000000"


# Topics


def _topic(name: str) -> TopicName:
    return NAMESPACE.topic(name)


async def make_topic(bench: AdminBench, name: str) -> None:
    await topics.create(bench.engine, _topic(name), {"p": "v"})


async def filled_topic(bench: AdminBench, name: str) -> None:
    """Create a topic with a subscription and its backlog, and a message acknowledged out of order."""
    await make_topic(bench, name)
    args = CreateSubscription(_topic(name), "s", EARLIEST_MESSAGE)
    await bench.admin.call(CREATE_SUBSCRIPTION, args)
    sink = await bench.publish(_topic(name), ENTRIES)
    assert not sink.failures


async def drop_topic(bench: AdminBench, name: str) -> None:
    await topics.delete(bench.engine, _topic(name), force=True)


async def unload_topic(bench: AdminBench, name: str) -> None:
    await topics.unload(bench.engine, _topic(name))


async def trim_topic(bench: AdminBench, name: str) -> None:
    await topics.trim(bench.engine, _topic(name))


async def truncate_topic(bench: AdminBench, name: str) -> None:
    await topics.truncate(bench.engine, _topic(name))


async def seal_topic(bench: AdminBench, name: str) -> None:
    await topics.terminate(bench.engine, _topic(name))


async def unload_namespace(bench: AdminBench, name: str) -> None:
    await namespaces.unload(bench.engine, NAMESPACE)


async def unload_bundle(bench: AdminBench, name: str) -> None:
    bundle = await lookup.bundle_of(bench.engine, _topic(name))
    await namespaces.unload_bundle(bench.engine, NAMESPACE, bundle)


async def clear_namespace(bench: AdminBench, name: str) -> None:
    await namespaces.clear_backlog(bench.engine, NAMESPACE, None, "s")


async def topic(bench: AdminBench, name: str) -> object:
    if not await metadata.topic_exists(bench.store, _topic(name)):
        return None
    stats = await statistics.internal_stats(bench.engine, _topic(name), with_metadata=False)
    return [await topics.properties(bench.engine, _topic(name)), stats["state"]]


async def backlog(bench: AdminBench, name: str) -> object:
    """Return the backlog and the number of all entries; -1 without the subscription."""
    stats = await statistics.stats(bench.engine, _topic(name), {})
    left = stats["subscriptions"].get("s", {"msgBacklog": -1})["msgBacklog"]
    return left


# Partitioned topics


async def make_parts(bench: AdminBench, name: str) -> None:
    await partitioned_topics.create(bench.engine, _topic(name), 2, {"p": "v"})


async def used_parts(bench: AdminBench, name: str) -> None:
    await make_parts(bench, name)
    await subscriptions.create(
        bench.engine, _topic(name), "s", EARLIEST_MESSAGE, {"k": "v"}, replicated=False
    )


async def filled_parts(bench: AdminBench, name: str) -> None:
    await used_parts(bench, name)
    for index in range(2):
        await bench.publish(_topic(name).partition_at(index), ENTRIES)


async def holed_parts(bench: AdminBench, name: str) -> None:
    await used_parts(bench, name)
    await topics.delete(bench.engine, _topic(name).partition_at(1), force=True)


async def grow(bench: AdminBench, name: str) -> None:
    await partitioned_topics.grow(bench.engine, _topic(name), 3)


async def create_missed(bench: AdminBench, name: str) -> None:
    await partitioned_topics.create_missed(bench.engine, _topic(name))


async def drop_parts(bench: AdminBench, name: str) -> None:
    await partitioned_topics.delete(bench.engine, _topic(name), force=True)


async def partitioned(bench: AdminBench, name: str) -> object:
    """Return the subscriptions and their properties of every partition that the record promises."""
    record = await metadata.find_partitions(bench.store, _topic(name))
    left = await partitions.existing_partitions(bench.store, _topic(name))
    if record is None:
        return [str(part) for part in left] or None
    assert record["deleted"] is False
    assert record["properties"] == {"p": "v"}
    promised = [_topic(name).partition_at(index) for index in range(record["partitions"])]
    return [await durable(bench, part) for part in promised if part in left]


async def durable(bench: AdminBench, topic: TopicName) -> dict[str, dict[str, str]]:
    return await bench.admin.call(DURABLE_SUBSCRIPTIONS, OnTopic(topic))


async def backlogs(bench: AdminBench, name: str) -> object:
    backlogs_by_partition = []
    for index in range(2):
        stats = await statistics.stats(bench.engine, _topic(name).partition_at(index), {})
        backlogs_by_partition.append(
            stats["subscriptions"].get("s", {"msgBacklog": -1})["msgBacklog"]
        )
    return backlogs_by_partition


# Subscriptions


async def subscribe(bench: AdminBench, name: str) -> None:
    await subscriptions.create(
        bench.engine, _topic(name), "new", EARLIEST_MESSAGE, {"k": "v"}, replicated=False
    )


async def subscribed(bench: AdminBench, name: str) -> object:
    stored = await durable(bench, _topic(name))
    if "new" not in stored:
        return None
    stats = await statistics.stats(bench.engine, _topic(name), {})
    return [stored["new"], stats["subscriptions"]["new"]["msgBacklog"]]


def every(operation: Operation[S, Any], make: Callable[[TopicName], S]) -> Do:
    async def call(bench: AdminBench, name: str) -> None:
        await subscriptions.on_any(bench.engine, operation, make(_topic(name)))

    return call


leave = every(DELETE_SUBSCRIPTION, lambda name: DeleteSubscription(name, "s"))
clear = every(CLEAR_BACKLOG, lambda name: OnSubscription(name, "s"))
expire = every(EXPIRE_MESSAGES, lambda name: ExpireMessages(name, "s", 60))
rewind = every(RESET_CURSOR, lambda name: ResetCursor(name, "s", 1_000 + 1_000 * (ENTRIES // 2)))


async def skip_two(bench: AdminBench, name: str) -> None:
    await cursors.skip(bench.engine, _topic(name), "s", 2)


async def reset_to_third(bench: AdminBench, name: str) -> None:
    ledger = (await bench.loaded(_topic(name))).log
    first = ledger.line.ledgers[0].ledger_id
    await cursors.reset_to_position(
        bench.engine, _topic(name), "s", MessagePosition(first, ENTRIES // 2)
    )


async def note(bench: AdminBench, name: str) -> None:
    await subscriptions.set_properties(bench.engine, _topic(name), "s", {"new": "1"})


async def noted(bench: AdminBench, name: str) -> object:
    """Return the properties of the subscription, and its backlog, which must be unchanged."""
    properties = await subscriptions.properties(bench.engine, _topic(name), "s")
    return [properties, await backlog(bench, name)]


async def noted_parts(bench: AdminBench, name: str) -> object:
    parts = [_topic(name).partition_at(index) for index in range(2)]
    return [await subscriptions.properties(bench.engine, part, "s") for part in parts]


async def describe(bench: AdminBench, name: str) -> None:
    await topics.set_properties(bench.engine, _topic(name), {"new": "1"})


async def forget(bench: AdminBench, name: str) -> None:
    await topics.remove_property(bench.engine, _topic(name), "p")


async def described(bench: AdminBench, name: str) -> object:
    """Return the properties, and the backlog, which must be unchanged; -1 of a partitioned topic."""
    properties = await topics.properties(bench.engine, _topic(name))
    plain = await metadata.find_partitions(bench.store, _topic(name)) is None
    return [properties, await backlog(bench, name) if plain else -1]


OPEN = [{"p": "v"}, "LedgerOpened"]
SEALED = [{"p": "v"}, "Terminated"]
PART = {"s": {"k": "v"}}
HALF = ENTRIES // 2
VERBS = [
    Verb("create cluster", nothing, make_cluster, cluster, ([URL, None],), (AlreadyExists,), drop_cluster),
    Verb("update cluster", make_cluster, change_cluster, cluster, (["http://127.0.0.1:2", None],), (), drop_cluster),
    Verb("set peers", make_cluster, peer_cluster, cluster, ([URL, ["standalone"]],), (), drop_cluster),
    Verb("delete cluster", make_cluster, drop_cluster, cluster, (None,), (NotFound,)),
    Verb("create tenant", nothing, make_tenant, tenant, (["a"],), (AlreadyExists,), drop_tenant),
    Verb("update tenant", make_tenant, change_tenant, tenant, (["b"],), (), drop_tenant),
    Verb("delete tenant", make_tenant, drop_tenant, tenant, (None,), (NotFound,)),
    Verb("create namespace", nothing, make_namespace, namespace, (0,), (AlreadyExists,), drop_namespace),
    Verb("set policy", make_namespace, set_retention, namespace, (7,), (), drop_namespace),
    Verb("delete namespace", used_namespace, drop_namespace, namespace, (None,), (NotFound,)),
    Verb("grant", make_namespace, grant, granted, ({"r": ["produce"]},), (), drop_namespace),
    Verb("revoke", granted_namespace, revoke, granted, ({},), (), drop_namespace),
    Verb("grant on a subscription", make_namespace, grant_on_subscription, granted_on_subscriptions, ({"s": ["r"]},),
         (), drop_namespace),
    Verb("label namespace", make_namespace, label, labelled, ({"k": "v"},), (), drop_namespace),
    Verb("isolate", make_cluster, isolate, isolated, (["p"],), (), drop_isolated),
    Verb("delete isolation", isolated_cluster, mix, isolated, ([],), (NotFound,), drop_isolated),
    Verb("put resource group", nothing, make_group, group, (5,), (), drop_group),
    Verb("delete resource group", make_group, drop_group, group, (None,), (NotFound,)),
    Verb("join resource group", grouped_namespace, join_group, joined, (True,), (), leave_group),
    Verb("split bundle", make_namespace, split, bundles, (33,), (PreconditionFailed,), drop_namespace),
    Verb("clear namespace", filled_topic, clear_namespace, backlog, (0,), (), drop_topic),
    Verb("create topic", nothing, make_topic, topic, (OPEN,), (AlreadyExists,), drop_topic),
    Verb("delete topic", filled_topic, drop_topic, topic, (None,), (NotFound,)),
    Verb("unload topic", filled_topic, unload_topic, backlog, (ENTRIES,), (), drop_topic),
    Verb("trim topic", filled_topic, trim_topic, backlog, (ENTRIES,), (), drop_topic),
    Verb("truncate topic", filled_topic, truncate_topic, backlog, (0,), (), drop_topic),
    Verb("terminate topic", filled_topic, seal_topic, topic, (SEALED,), (), drop_topic),
    Verb("unload namespace", filled_topic, unload_namespace, backlog, (ENTRIES,), (), drop_topic),
    Verb("unload bundle", filled_topic, unload_bundle, backlog, (ENTRIES,), (), drop_topic),
    Verb("create partitioned", nothing, make_parts, partitioned, ([{}, {}],), (AlreadyExists,), drop_parts),
    Verb("grow", used_parts, grow, partitioned, ([PART] * 3,), (), drop_parts),
    Verb("create missed", holed_parts, create_missed, partitioned, ([PART] * 2,), (), drop_parts),
    Verb("delete partitioned", used_parts, drop_parts, partitioned, (None,), (NotFound,)),
    Verb("unload partitioned", filled_parts, unload_topic, backlogs, ([ENTRIES] * 2,), (), drop_parts),
    Verb("create subscription", filled_topic, subscribe, subscribed, ([{"k": "v"}, ENTRIES],), (AlreadyExists,),
         drop_topic),
    Verb("delete subscription", filled_topic, leave, backlog, (-1,), (NotFound,), drop_topic),
    Verb("skip", filled_topic, skip_two, backlog, (ENTRIES - 2, ENTRIES - 4), (), drop_topic),
    Verb("clear", filled_topic, clear, backlog, (0,), (), drop_topic),
    Verb("expire", filled_topic, expire, backlog, (0,), (Conflict,), drop_topic),
    Verb("reset to a position", filled_topic, reset_to_third, backlog, (HALF,), (), drop_topic),
    Verb("reset to a time", filled_topic, rewind, backlog, (HALF,), (), drop_topic),
    Verb("describe topic", filled_topic, describe, described, ([{"p": "v", "new": "1"}, ENTRIES],), (), drop_topic),
    Verb("forget a property", filled_topic, forget, described, ([{}, ENTRIES],), (), drop_topic),
    Verb("describe partitioned", used_parts, describe, described, ([{"p": "v", "new": "1"}, -1],), (), drop_parts),
    Verb("forget one of partitioned", used_parts, forget, described, ([{}, -1],), (), drop_parts),
    Verb("note on a subscription", filled_topic, note, noted, ([{"new": "1"}, ENTRIES],), (), drop_topic),
    Verb("note on partitions' subscriptions", used_parts, note, noted_parts, ([{"new": "1"}] * 2,), (), drop_parts),
    Verb("unsubscribe partitions", filled_parts, leave, backlogs, ([-1, -1],), (NotFound,), drop_parts),
]  # fmt: skip
KINDS = [(lost, calls) for lost in (False, True) for calls in (1, OUTAGE)]


@pytest.mark.timeout(400)  # some dozens of cases each, on a machine that may be busy
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.title)
async def test_a_verb_whose_kth_call_of_the_store_fails_is_whole_after_a_repeat(
    bench: AdminBench, verb: Verb
) -> None:
    left: dict[str, Any] = {}
    for number, (lost_answer, calls) in enumerate(KINDS):
        for k in range(1, CALLS_MAX, 1 if calls == 1 else 3):
            name = f"o-{number}-{k}"
            await verb.prepare(bench, name)
            bench.store.fail_at(k, lost_answer=lost_answer, calls=calls)
            succeeded = await succeeds(bench, verb, name)
            met = bench.store.failed
            where = bench.store.log[k - 1 : k]
            bench.store.heal()
            context = (verb.title, k, lost_answer, calls, where)
            if succeeded:
                assert await verb.read(bench, name) == verb.done[0], context
            else:
                await repeat(bench, verb, name)
            left[name] = await verb.read(bench, name)
            assert left[name] in verb.done, context
            if not met:
                break
        else:
            raise AssertionError(f"{verb.title} makes more than {CALLS_MAX} calls")
    await bench.restart()
    for name, state in left.items():
        assert await verb.read(bench, name) == state, (verb.title, name, "after the restart")
        if verb.discard is not None:
            await verb.discard(bench, name)


async def succeeds(bench: AdminBench, verb: Verb, name: str) -> bool:
    try:
        await verb.call(bench, name)
    except (NotReady, WorldError):
        return False
    return True


async def repeat(bench: AdminBench, verb: Verb, name: str) -> None:
    """Repeat a verb while the store works; NotReady for a moment means that a change is not settled yet."""
    async with asyncio.timeout(120):
        while True:
            try:
                await verb.call(bench, name)
                return
            except verb.repeat:
                return
            except NotReady:
                await asyncio.sleep(0.01)
