"""Verbs on namespaces that need brokers as well as metadata."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from engine.admin import api
from engine.admin.fan_out import on_each
from engine.base.errors import (
    Conflict,
    InvalidNameError,
    NotBuilt,
    NotFound,
    PreconditionFailed,
)
from engine.base.names import DOMAINS, PERSISTENT, BundleName, NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import (
    bundles_beside,
    check_deletable,
    delete_namespace,
    get_bundles,
    get_policies,
)
from gateway.services import topics
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

LARGEST, HOT = "LARGEST", "HOT"
"""Instead of a bundle's range: the one with most topics, or with most traffic."""
MODES = {"PERSISTENT": (PERSISTENT,), "NON_PERSISTENT": ("non-persistent",), "ALL": DOMAINS}


async def list_topics(
    engine: Engine, namespace: NamespaceName, mode: str, *, include_system: bool
) -> Sequence[str]:
    """Concrete topics; ``mode`` is a key of MODES."""
    found = [
        await topics.list_topics(engine, domain, namespace, include_system=include_system)
        for domain in MODES[mode]
    ]
    return found[0] if len(found) == 1 else [name for names in found for name in names]


async def policies(engine: Engine, namespace: NamespaceName) -> dict[str, Any]:
    """As stored, with the bundles that brokers have."""
    stored = await get_policies(engine.store, namespace)
    return {**stored, "bundles": (await bundles_beside(engine.store, namespace, stored)).document}


async def delete(engine: Engine, namespace: NamespaceName, *, force: bool = False) -> None:
    """See ``engine.tenancy.namespaces.delete_namespace``. System topics are deleted by their brokers before, with what
    they stored; interrupted, a second call finishes."""
    await check_deletable(engine.store, namespace, force=force)
    try:
        store = fresh(engine.store, paths.managed_ledgers(str(namespace)))
        left = await metadata.list_topics(store, namespace, include_system=True)
    except NotFound:
        left = []  # marked as deleted: they are gone
    for name in left:
        await engine.call(api.DELETE_TOPIC, api.DeleteTopic(TopicName.parse(name), force=True))
    await delete_namespace(engine.store, namespace, force=force)


async def unload(engine: Engine, namespace: NamespaceName) -> None:
    """Every broker gives up the bundles it owns of this namespace."""
    await topics.require_namespace(engine, namespace)
    args = api.OnBundle(namespace)
    await each(
        await engine.admin.brokers(),
        lambda broker: engine.call_on(broker, api.UNLOAD_BUNDLE, args),
    )


async def unload_bundle(
    engine: Engine, namespace: NamespaceName, bundle: str, destination: str | None = None
) -> None:
    """The owner of one bundle gives it up; who takes it next cannot be chosen yet."""
    await topics.require_namespace(engine, namespace)
    bundle = await one_bundle(engine, namespace, bundle)
    if destination is not None:
        if destination not in [broker.id for broker in await engine.admin.brokers()]:
            raise Conflict("Not allowed unload namespace bundle to inactive destination broker")
        raise NotBuilt("destinationBroker: choosing the next owner is not built yet")
    await engine.call(api.UNLOAD_BUNDLE, api.OnBundle(namespace, bundle))


async def one_bundle(engine: Engine, namespace: NamespaceName, given: str) -> str:
    """``given`` as one of the namespace's; PreconditionFailed when it is none, NotFound without the namespace."""
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
    """Its owner cuts it and serves the parts; with ``unload`` it gives them up then. ``bundle`` may be LARGEST: the one
    with most topics. That the algorithm finds nothing to cut at is fine, as in Pulsar."""
    policies = await topics.require_namespace(engine, namespace)
    bundles = await bundles_beside(engine.store, namespace, policies)
    if bundle == HOT:
        raise NotBuilt(f"{HOT}: splitting the bundle with most traffic is not built yet")
    if bundle == LARGEST:
        names = await metadata.list_topics(engine.store, namespace, include_system=True)
        counts = Counter(bundles.of_topic(TopicName.parse(name)).range for name in names)
        bundle = max(bundles.ranges, key=lambda one: counts[one])
    check_bundle(namespace, bundle, bundles.ranges)
    args = api.SplitBundle(namespace, bundle, algorithm, positions, unload)
    await engine.call(api.SPLIT_BUNDLE, args)


async def clear_backlog(
    engine: Engine, namespace: NamespaceName, bundle: str | None, subscription: str | None
) -> None:
    """Acknowledge everything of one subscription, or of all, of every topic of the namespace or bundle that its users
    have, loaded or not. NotFound when there are topics and none has the subscription; all are tried before one that
    failed is named."""

    async def one(topic: TopicName) -> bool:
        names = await engine.call(api.SUBSCRIPTIONS, api.OnTopic(topic))
        chosen = [name for name in names if subscription is None or name == subscription]
        for name in chosen:
            await engine.call(api.CLEAR_BACKLOG, api.OnSubscription(topic, name))
        return bool(chosen)

    found = await _on_topics(engine, namespace, bundle, one)
    if subscription is not None and found and not any(found):
        raise NotFound(f"Subscription {subscription} not found in {namespace}")


async def unsubscribe(
    engine: Engine, namespace: NamespaceName, bundle: str | None, subscription: str
) -> None:
    """Delete a subscription of every topic of the namespace or bundle; that there is none is fine, as in Pulsar. All
    are tried before one that failed, such as where it has consumers, is named."""

    async def one(topic: TopicName) -> bool:
        await engine.call(api.DELETE_SUBSCRIPTION, api.DeleteSubscription(topic, subscription))
        return True

    await _on_topics(engine, namespace, bundle, one)


async def _on_topics(
    engine: Engine,
    namespace: NamespaceName,
    bundle: str | None,
    work: Callable[[TopicName], Awaitable[bool]],
) -> list[bool]:
    """``work`` on each topic of the namespace or bundle; False for those that lack what it is about. Raises as
    ``on_each``."""
    policies = await get_policies(engine.store, namespace)
    if bundle is not None:
        ranges = (await bundles_beside(engine.store, namespace, policies)).ranges
        check_bundle(namespace, bundle, ranges)
    store = fresh(engine.store, paths.managed_ledgers(str(namespace)))
    names = await metadata.list_topics(store, namespace, bundle=bundle)

    async def one(topic: TopicName) -> bool:
        try:
            return await work(topic)
        except NotFound:  # it went meanwhile, or lacks the subscription
            return False

    return await on_each([TopicName.parse(name) for name in names], one, "topics")


def check_bundle(namespace: NamespaceName, given: str, ranges: list[str]) -> str:
    """``given`` as one of ``ranges``; PreconditionFailed when it is none."""
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
