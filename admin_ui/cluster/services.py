"""Changes of a bundle: the preview of each, and exactly that change made."""

from typing import Any, Literal

from admin_ui import confirming
from admin_ui.cluster import selectors
from admin_ui.cluster.shapes import ALGORITHMS, WHERE_ASKED
from admin_ui.confirming import Json
from engine.admin.api.arguments import OnBundle
from engine.admin.api.bundles import (
    BUNDLE_CUTS,
    SPLIT_BUNDLE,
    TRANSFER_BUNDLE,
    UNLOAD_BUNDLE,
    SplitBundle,
    TransferBundle,
)
from engine.base.errors import Conflict, MagnetarError, PreconditionFailed
from engine.base.names import BundleName
from engine.tenancy.resources.isolation import isolation_of
from gateway.clusters.cluster import Cluster
from gateway.services import bundles
from gateway.services.admin import namespaces
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

BundleChange = Literal["unload", "split", "transfer"]
KIND = "bundle-change"


async def preview(
    cluster: Cluster,
    engine: Engine,
    bundle: BundleName,
    change: BundleChange,
    user: str,
    *,
    algorithm: str = "equally",
    unload: bool = False,
) -> Json:
    """Return what the change would do, with the token that confirms exactly that. Raises Refusal."""
    await namespaces.one_bundle(engine, bundle.namespace, bundle.range)
    owner = await bundles.owner_now(engine.store, bundle)
    cuts: list[int] = []
    if change == "split":
        args = SplitBundle(bundle.namespace, bundle.range, ALGORITHMS[algorithm])
        cuts = await engine.call(BUNDLE_CUTS, args)
    row, parts = await selectors.with_parts(cluster, bundle, owner, cuts)
    content = _about(bundle, change, user) | {"owner": owner, "cuts": cuts, "unload": unload}
    has_effect = bool(cuts) if change == "split" else bool(owner)
    return {
        "token": confirming.sign(engine.served, KIND, content) if has_effect else None,
        "at": now_ms(),
        "row": row,
        "brokers": await selectors.answering_brokers(cluster),
        "parts": parts,
    }


async def apply(
    cluster: Cluster,
    engine: Engine,
    bundle: BundleName,
    change: BundleChange,
    user: str,
    token: str,
) -> Json:
    """Make the previewed change. Raises Conflict when the bundle or its owner is not that of the preview; nothing is
    changed then."""
    content = confirming.read(engine.served, KIND, token, _about(bundle, change, user))
    await _check_as_seen(cluster, engine, bundle, content["owner"])
    before = await selectors.broker_of(cluster, content["owner"])
    name, parts, owner = bundle.namespace, [], None
    try:
        if change == "unload":
            await engine.call(UNLOAD_BUNDLE, OnBundle(name, bundle.range))
            owner = await _owner_after(cluster, engine, bundle)
        else:
            cuts, unload = content["cuts"], content["unload"]
            args = SplitBundle(name, bundle.range, WHERE_ASKED, cuts, unload, _by(user))
            parts = await engine.call(SPLIT_BUNDLE, args)
    finally:
        cluster.part(selectors.bundle_map).forget()
    return {
        "change": change,
        "at": now_ms(),
        "before": before,
        "owner": owner,
        "parts": parts,
    }


async def preview_transfer(
    cluster: Cluster, engine: Engine, bundle: BundleName, destination: str, user: str
) -> Json:
    """Return what moving the bundle to the broker with the id ``destination`` would do, with the token that confirms
    exactly that. Raises Refusal."""
    await namespaces.one_bundle(engine, bundle.namespace, bundle.range)
    owner = await bundles.owner_now(engine.store, bundle)
    row, _ = await selectors.with_parts(cluster, bundle, owner, [])
    registered = {broker.id: broker.service_url for broker in await engine.admin.brokers()}
    is_allowed = await _is_allowed(engine, bundle, destination, list(registered))
    if destination not in registered:
        problem = f"{destination} is not registered: it cannot receive bundles"
    elif owner and owner == registered[destination]:
        problem = f"{destination} owns the bundle already"
    elif is_allowed is False:
        problem = f"Isolation policies forbid {bundle.namespace} on {destination}"
    else:
        problem = ""
    content = _about(bundle, "transfer", user) | {"owner": owner, "destination": destination}
    return {
        "token": None if problem else confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "row": row,
        "destination": destination,
        "state": await selectors.state_of(cluster, destination),
        "allowed": is_allowed,
        "problem": problem,
    }


async def _is_allowed(
    engine: Engine, bundle: BundleName, destination: str, brokers: list[str]
) -> bool | None:
    """Return whether isolation policies allow the bundle there; None when they cannot be read."""
    try:
        policies = await isolation_of(engine.store, engine.cluster)
    except (MagnetarError, ValueError):
        return None
    return destination in policies.places(str(bundle.namespace), brokers)


async def transfer(
    cluster: Cluster, engine: Engine, bundle: BundleName, user: str, token: str
) -> Json:
    """Move the bundle as previewed. Raises Conflict when the bundle or its owner is not that of the preview, or the
    owner refuses the destination; nothing is changed then."""
    content = confirming.read(engine.served, KIND, token, _about(bundle, "transfer", user))
    await _check_as_seen(cluster, engine, bundle, content["owner"])
    before, destination = content["owner"], content["destination"]
    args = TransferBundle(bundle.namespace, bundle.range, destination, _by(user))
    # Only the owner moves its bundle; one without an owner is acquired by the destination.
    broker = next(
        (
            broker
            for broker in await engine.admin.brokers()
            if (broker.service_url == before if before else broker.id == destination)
        ),
        None,
    )
    if broker is None:
        absent = await selectors.broker_of(cluster, before) if before else destination
        raise Conflict(f"{absent} is not registered now")
    try:
        result = await engine.call_on(broker, TRANSFER_BUNDLE, args)
        owner = await _owner_after(cluster, engine, bundle)
    finally:
        cluster.part(selectors.bundle_map).forget()
    return {
        "at": now_ms(),
        "before": await selectors.broker_of(cluster, before) if before else "",
        "destination": destination,
        "moved": result["moved"],
        "reason": result["reason"],
        "owner": owner,
    }


async def _check_as_seen(cluster: Cluster, engine: Engine, bundle: BundleName, owner: str) -> None:
    try:
        await namespaces.one_bundle(engine, bundle.namespace, bundle.range)
    except PreconditionFailed as error:
        raise Conflict("The bundle was split since the preview") from error
    current_owner = await bundles.owner_now(engine.store, bundle)
    if current_owner != owner:
        ownership = (
            f"is owned by {await selectors.broker_of(cluster, current_owner)}"
            if current_owner
            else "has no owner"
        )
        raise Conflict(f"The bundle {ownership} now, other than at the preview")


async def _owner_after(cluster: Cluster, engine: Engine, bundle: BundleName) -> str | None:
    """Return the id of the new owner, empty for none. None when the metadata store does not answer: the change itself
    is made."""
    try:
        url = await bundles.owner_now(engine.store, bundle)
        return await selectors.broker_of(cluster, url) if url else ""
    except (MagnetarError, TimeoutError, OSError):
        return None


def _by(user: str) -> str:
    """Return the reason of a move or split that a user asks for."""
    return f"asked for by {user or 'an operator'}"


def _about(bundle: BundleName, change: BundleChange, user: str) -> dict[str, Any]:
    return {"bundle": str(bundle), "change": change, "user": user}
