"""Verbs on namespaces that need brokers as well as metadata."""

from collections.abc import Sequence
from typing import Any

from engine.admin import api
from engine.base.errors import Conflict, InvalidNameError, NotBuilt, NotFound, PreconditionFailed
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
    check_bundle(namespace, bundle, (await get_bundles(engine.store, namespace)).ranges)
    if destination is not None:
        if destination not in [broker.id for broker in await engine.admin.brokers()]:
            raise Conflict("Not allowed unload namespace bundle to inactive destination broker")
        raise NotBuilt("destinationBroker: choosing the next owner is not built yet")
    await engine.call(api.UNLOAD_BUNDLE, api.OnBundle(namespace, bundle))


def check_bundle(namespace: NamespaceName, bundle: str, ranges: list[str]) -> None:
    """PreconditionFailed when ``bundle`` is none of ``ranges``."""
    try:
        BundleName.parse(namespace, bundle)
    except InvalidNameError as error:
        raise PreconditionFailed(f"Invalid bundle range: {bundle}") from error
    if bundle in ranges:
        return
    lower = bundle.partition("_")[0]
    for known in ranges:
        if known.startswith(f"{lower}_"):
            raise PreconditionFailed(
                f"Invalid upper boundary for bundle {namespace}/{bundle}."
                f" Expected upper boundary of {namespace}/{known}",
            )
    raise PreconditionFailed(f"Invalid lower boundary for bundle {namespace}/{bundle}")
