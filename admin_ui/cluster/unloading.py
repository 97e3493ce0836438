"""Unloading of all bundles of a namespace or of a broker: the preview, and exactly that done."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from admin_ui import confirming
from admin_ui.cluster import selectors
from admin_ui.confirming import Json
from engine.base.errors import Conflict, MagnetarError, NotFound, NotReady, Unprocessable
from engine.base.names import BundleName, NamespaceName
from gateway.clusters.cluster import Cluster
from gateway.services import bundles, unloading
from gateway.services.bundles import Owned
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.unloading import Ended, Outcome

KIND = "bundles-unload"
BUNDLES_MAX = 10_000
"""Maximum of bundles of one preview; more would not fit the token, which names each of them."""
NAMED = 5
"""Number of bundles that a preview, and each kind of difference, names."""
OTHERS_MAX = 100
"""Number of bundles that a receipt names of those that were not unloaded."""
APPLY_S = 10.0
"""Longest time for all of them: a browser waits 15 s for an answer."""
LOOK_S = 2.0
"""Longest time to read the new owners afterwards."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The bundles of a namespace, or of a broker (its id, or its address when it is not registered)."""

    namespace: NamespaceName | None = None
    broker: str = ""

    def __str__(self) -> str:
        return f"namespace {self.namespace}" if self.namespace else f"broker {self.broker}"


@dataclass(frozen=True, slots=True)
class OwnedBundles:
    """Bundles of a scope. ``owners``: address of the owner by bundle; ``unowned``: number of further bundles of a
    namespace."""

    owned: list[Owned]
    owners: dict[BundleName, str]
    unowned: int

    @property
    def named(self) -> dict[str, str]:
        """The owners by name of bundle, as they are signed."""
        return {str(bundle): owner for bundle, owner in self.owners.items()}


async def preview(cluster: Cluster, engine: Engine, scope: Scope, user: str) -> Json:
    """Return what would be unloaded, with the token that confirms exactly that. Raises NotFound, and Unprocessable for
    more bundles than can be confirmed at once."""
    current = await _find(cluster, engine, scope)
    total = len(current.owners)
    if total > BUNDLES_MAX:
        raise Unprocessable(
            f"{total} bundles have an owner, and at most {BUNDLES_MAX} are unloaded at once:"
            " unload a namespace or a broker that has fewer, or one bundle at a time"
        )
    content = _about(scope, user) | {"owners": current.named}
    return {
        "token": confirming.sign(engine.served, KIND, content) if total else None,
        "at": now_ms(),
        "total": total,
        "unowned": current.unowned,
        "first": [str(bundle) for bundle in islice(current.owners, NAMED)],
        "brokers": await selectors.answering_brokers(cluster),
        **await selectors.combined(cluster, current.owned, current.owners),
    }


async def apply(cluster: Cluster, engine: Engine, scope: Scope, user: str, token: str) -> Json:
    """Unload exactly the previewed bundles. Raises Conflict when the bundles or their owners are not those of the
    preview; nothing is done then. Raises Conflict or NotReady, too, when no bundle is known to be unloaded."""
    until = asyncio.get_running_loop().time() + APPLY_S
    content = confirming.read(engine.served, KIND, token, _about(scope, user))
    current = await _find(cluster, engine, scope)
    _check_as_seen(content["owners"], current.named)
    try:
        results = await unloading.give_up(engine, current.owners, until)
    finally:
        cluster.part(selectors.bundle_map).forget()
    done = [bundle for bundle, result in results.items() if result.outcome is Outcome.DONE]
    new_owners = await _new_owners(engine, done)
    for bundle, owner in (new_owners or {}).items():
        if owner is None:
            # A broker that split the bundle just before has nothing to unload, and answers that it is done.
            results[bundle] = Ended(Outcome.LEFT, "It was split meanwhile")
    if all(result.outcome is not Outcome.DONE for result in results.values()):
        raise _nothing_done(results)
    return await _receipt(cluster, current, results, new_owners)


async def _receipt(
    cluster: Cluster,
    previewed: OwnedBundles,
    results: dict[BundleName, Ended],
    new_owners: dict[BundleName, str | None] | None,
) -> Json:
    names = await selectors.broker_names(cluster)
    counts = Counter(result.outcome for result in results.values())
    not_done = [
        {
            "bundle": str(bundle),
            "broker": names.get(previewed.owners[bundle], previewed.owners[bundle]),
            "outcome": result.outcome.value,
            "why": result.why,
        }
        for bundle, result in sorted(results.items(), key=lambda item: str(item[0]))
        if result.outcome is not Outcome.DONE
    ]
    owners = Counter(owner for owner in (new_owners or {}).values() if owner is not None)
    return {
        "at": now_ms(),
        "total": len(results),
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "others": not_done[:OTHERS_MAX],
        "owners": None
        if new_owners is None
        else [
            {"broker": names.get(owner, owner), "bundles": count}
            for owner, count in owners.most_common()
        ],
    }


async def _find(cluster: Cluster, engine: Engine, scope: Scope) -> OwnedBundles:
    """Return the bundles that have an owner, by the stored records and not by the cache that pages are shown from."""
    if scope.namespace is not None:
        namespace = await bundles.owned_in(engine.store, scope.namespace)
        if namespace is None:
            raise NotFound(f"Namespace {scope.namespace} does not exist")
        owners = {
            bundle: namespace.owners[bundle.range]
            for bundle in namespace.bundles
            if bundle.range in namespace.owners
        }
        return OwnedBundles([namespace], owners, len(namespace.bundles) - len(owners))
    url = await selectors.address_of(cluster, scope.broker)
    namespaces = await bundles.all_owned(engine.store)
    owners = {
        bundle: url
        for namespace in namespaces
        for bundle in namespace.bundles
        if namespace.owners.get(bundle.range) == url
    }
    if not owners and url == scope.broker:
        raise NotFound(
            f"There is no broker {scope.broker}, and no broker of that name owns a bundle"
        )
    names = {bundle.namespace for bundle in owners}
    return OwnedBundles(
        [namespace for namespace in namespaces if namespace.bundles.namespace in names], owners, 0
    )


def _check_as_seen(previewed: dict[str, str], current: dict[str, str]) -> None:
    differing = {
        "owned now and was not": current.keys() - previewed.keys(),
        "not owned any more": previewed.keys() - current.keys(),
        "owned by another broker now": {
            name for name in previewed.keys() & current.keys() if previewed[name] != current[name]
        },
    }
    differences = [
        f"{_some(names)} {difference}" for difference, names in differing.items() if names
    ]
    if differences:
        raise Conflict(
            f"The bundles are not those of the preview any more: {'; '.join(differences)}"
        )


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return f"{', '.join(ordered[:NAMED])}{more} {'is' if len(ordered) == 1 else 'are'}"


def _nothing_done(results: dict[BundleName, Ended]) -> MagnetarError:
    """Return Conflict when nothing can have been done, else NotReady; with the reasons and the number of bundles of
    each."""
    reasons = Counter(result.why for result in results.values()).most_common()
    listed = "; ".join(
        f"{reason} ({count} of {len(results)} bundles)" for reason, count in reasons[:NAMED]
    )
    if all(result.outcome is Outcome.LEFT for result in results.values()):
        return Conflict(f"No bundle was still as previewed: {listed}")
    return NotReady(f"No bundle is known to have been given up: {listed}")


async def _new_owners(
    engine: Engine, done: list[BundleName]
) -> dict[BundleName, str | None] | None:
    """Return the present owners. None when the metadata store does not answer in time: the bundles are unloaded
    nevertheless."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await unloading.owners_by_now(engine.store, done)
    except (MagnetarError, OSError):
        return None


def _about(scope: Scope, user: str) -> Json:
    return {"scope": str(scope), "user": user}
