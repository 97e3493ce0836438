"""Operations on namespaces that need brokers as well as metadata."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from engine.admin.api.arguments import OnBundle, OnSubscription, OnTopic
from engine.admin.api.brokers import SCAN_LEDGERS
from engine.admin.api.bundles import (
    INACTIVE,
    SPLIT_BUNDLE,
    TRANSFER_BUNDLE,
    UNLOAD_BUNDLE,
    SplitBundle,
    TransferBundle,
)
from engine.admin.api.cursors import CLEAR_BACKLOG
from engine.admin.api.subscriptions import DELETE_SUBSCRIPTION, SUBSCRIPTIONS, DeleteSubscription
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.admin.fan_out import on_each
from engine.base.errors import (
    Conflict,
    InvalidNameError,
    NotBuilt,
    NotFound,
    NotReady,
    PreconditionFailed,
)
from engine.base.names import DOMAINS, PERSISTENT, BundleName, NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.tenancy import topics as metadata
from engine.tenancy.clusters import get_cluster
from engine.tenancy.geo.cluster_migration import is_namespace_migrated
from engine.tenancy.geo.homes import HeldElsewhereError, holds
from engine.tenancy.namespaces import (
    bundles_beside,
    check_deletable,
    delete_namespace,
    get_bundles,
    get_policies,
)
from engine.tenancy.nodes import find_node
from gateway.services.admin import existence, topics
from gateway.services.catalog import each
from gateway.services.engine_link import Engine
from gateway.services.functions.namespace_packages import refuse_in_use, remove_packages

LARGEST, HOT = "LARGEST", "HOT"
"""Names accepted in place of a bundle's range: the bundle with most topics, that with most traffic."""
MODES = {"PERSISTENT": (PERSISTENT,), "NON_PERSISTENT": ("non-persistent",), "ALL": DOMAINS}


async def list_topics(
    engine: Engine, namespace: NamespaceName, mode: str, *, include_system: bool
) -> Sequence[str]:
    """Return the concrete topics of a namespace; ``mode`` is a key of MODES."""
    by_domain = [
        await topics.list_topics(engine, domain, namespace, include_system=include_system)
        for domain in MODES[mode]
    ]
    if len(by_domain) == 1:
        return by_domain[0]
    return [name for names in by_domain for name in names]


async def policies(engine: Engine, namespace: NamespaceName) -> dict[str, Any]:
    """Return the policies as stored, with the bundles in the form that brokers use."""
    stored = await get_policies(engine.store, namespace)
    bundles = (await bundles_beside(engine.store, namespace, stored)).document
    migrated = await is_namespace_migrated(engine.store, namespace)
    return {**stored, "bundles": bundles, **({"migrated": True} if migrated else {})}


async def delete(engine: Engine, namespace: NamespaceName, *, force: bool = False) -> None:
    """Delete a namespace, see ``engine.tenancy.namespaces.delete_namespace``.

    Its remaining topics, which are system topics, are deleted first by their brokers, with their ledgers, and its
    packages once it is marked. After an interruption a second call finishes. Raises HeldElsewhereError for a namespace
    of one other cluster, of which no topic is left here, and Conflict for one that functions need.
    """
    await check_deletable(engine.store, namespace, force=force)
    await refuse_in_use(engine, namespace)
    policies = await find_node(engine.store, paths.namespace_policies(str(namespace))) or {}
    if not holds(policies, engine.cluster):
        record = await get_cluster(engine.store, policies["replication_clusters"][0])
        raise HeldElsewhereError(namespace, record.get("serviceUrl") or "")
    try:
        store = fresh(engine.store, paths.managed_ledgers(str(namespace)))
        names = await metadata.list_topics(store, namespace, include_system=True)
    except NotFound:
        names = []  # an interrupted deletion marked the namespace, after its topics were deleted
    for name in names:
        await engine.call(DELETE_TOPIC, DeleteTopic(TopicName.parse(name), force=True))
    await delete_namespace(
        engine.store, namespace, force=force, clear=lambda: remove_packages(engine, namespace)
    )


async def offloaded_ledgers(engine: Engine, namespace: NamespaceName) -> dict[str, Any]:
    """Return what tiered storage has of a namespace's ledgers, by any broker: see SCAN_LEDGERS."""
    return await engine.call(SCAN_LEDGERS, OnBundle(namespace))


async def unload(engine: Engine, namespace: NamespaceName) -> None:
    """Have every broker unload the bundles that it owns of this namespace."""
    await existence.require_namespace(engine, namespace)
    args = OnBundle(namespace)
    await each(
        await engine.admin.brokers(),
        lambda broker: engine.call_on(broker, UNLOAD_BUNDLE, args),
    )


def _by(engine: Engine) -> str:
    """Return the reason of a change of a bundle that a caller asks for."""
    return f"asked for by {engine.principal or 'an operator'}"


async def unload_bundle(
    engine: Engine, namespace: NamespaceName, bundle: str, destination: str | None = None
) -> None:
    """Have the owner of one bundle unload it, or move it to the broker with the id ``destination``.

    Raises Conflict when that is not registered or isolation policies forbid it, and NotReady when the bundle was only
    unloaded, because the destination failed.
    """
    await existence.require_namespace(engine, namespace)
    bundle = await one_bundle(engine, namespace, bundle)
    if destination is not None:
        if destination not in [broker.id for broker in await engine.admin.brokers()]:
            raise Conflict(INACTIVE)
        args = TransferBundle(namespace, bundle, destination, _by(engine))
        result = await engine.call(TRANSFER_BUNDLE, args)
        if not result["moved"]:
            raise NotReady(
                f"Bundle {namespace}/{bundle} was unloaded and not moved: {result['reason']}"
            )
        return
    await engine.call(UNLOAD_BUNDLE, OnBundle(namespace, bundle))


async def one_bundle(engine: Engine, namespace: NamespaceName, given: str) -> str:
    """Return ``given`` as a range of the namespace. Raises PreconditionFailed when it is none, NotFound without the
    namespace."""
    return check_bundle(namespace, given, (await get_bundles(engine.store, namespace)).ranges)


async def split_bundle(
    engine: Engine,
    namespace: NamespaceName,
    bundle: str,
    algorithm: str,
    positions: list[int],
    *,
    unload: bool,
) -> None:
    """Have the owner of a bundle split it and serve the parts, or with ``unload`` unload them.

    ``bundle`` may be LARGEST. An algorithm that finds no position to split at is no error, as in Pulsar.
    """
    policies = await existence.require_namespace(engine, namespace)
    bundles = await bundles_beside(engine.store, namespace, policies)
    if bundle == HOT:
        raise NotBuilt(f"{HOT}: splitting the bundle with most traffic is not built yet")
    if bundle == LARGEST:
        names = await metadata.list_topics(engine.store, namespace, include_system=True)
        counts = Counter(bundles.of_topic(TopicName.parse(name)).range for name in names)
        bundle = max(bundles.ranges, key=lambda bundle: counts[bundle])
    check_bundle(namespace, bundle, bundles.ranges)
    args = SplitBundle(namespace, bundle, algorithm, positions, unload, _by(engine))
    await engine.call(SPLIT_BUNDLE, args)


async def clear_backlog(
    engine: Engine, namespace: NamespaceName, bundle: str | None, subscription: str | None
) -> None:
    """Acknowledge everything in one subscription, or in all, of every topic of the namespace or bundle, loaded or not,
    but of no system topic.

    Raises NotFound when there are topics and none has the subscription. All topics are tried before a failure is
    raised.
    """

    async def clear(topic: TopicName) -> bool:
        names = await engine.call(SUBSCRIPTIONS, OnTopic(topic))
        chosen = [name for name in names if subscription is None or name == subscription]
        for name in chosen:
            await engine.call(CLEAR_BACKLOG, OnSubscription(topic, name))
        return bool(chosen)

    cleared = await _on_topics(engine, namespace, bundle, clear)
    if subscription is not None and cleared and not any(cleared):
        raise NotFound(f"Subscription {subscription} not found in {namespace}")


async def unsubscribe(
    engine: Engine, namespace: NamespaceName, bundle: str | None, subscription: str
) -> None:
    """Delete a subscription of every topic of the namespace or bundle; topics without it are no error, as in Pulsar.
    All topics are tried before a failure is raised, such as for a subscription that has consumers."""

    async def delete(topic: TopicName) -> bool:
        await engine.call(DELETE_SUBSCRIPTION, DeleteSubscription(topic, subscription))
        return True

    await _on_topics(engine, namespace, bundle, delete)


async def _on_topics(
    engine: Engine,
    namespace: NamespaceName,
    bundle: str | None,
    work: Callable[[TopicName], Awaitable[bool]],
) -> list[bool]:
    """Run ``work`` on each topic of the namespace or bundle and return the results; False where it raised NotFound.
    Raises what ``on_each`` raises."""
    policies = await get_policies(engine.store, namespace)
    if bundle is not None:
        ranges = (await bundles_beside(engine.store, namespace, policies)).ranges
        check_bundle(namespace, bundle, ranges)
    store = fresh(engine.store, paths.managed_ledgers(str(namespace)))
    names = await metadata.list_topics(store, namespace, bundle=bundle)

    async def attempt(topic: TopicName) -> bool:
        try:
            return await work(topic)
        except NotFound:  # the topic was deleted meanwhile, or lacks the subscription
            return False

    return await on_each([TopicName.parse(name) for name in names], attempt, "topics")


def check_bundle(namespace: NamespaceName, given: str, ranges: list[str]) -> str:
    """Return ``given`` as one of ``ranges``. Raises PreconditionFailed when it is none."""
    try:
        bundle = BundleName.parse(namespace, given).range
    except InvalidNameError as error:
        raise PreconditionFailed(f"Invalid bundle range: {given}") from error
    if bundle in ranges:
        return bundle
    lower = bundle.partition("_")[0]
    for known in ranges:
        if known.startswith(f"{lower}_"):
            raise PreconditionFailed(
                f"Invalid upper boundary for bundle {namespace}/{bundle}."
                f" Expected upper boundary of {namespace}/{known}",
            )
    raise PreconditionFailed(f"Invalid lower boundary for bundle {namespace}/{bundle}")
