"""Unloading of many bundles at once, each by the broker that was shown as its owner, within a deadline."""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from engine.admin.api.arguments import OnBundle
from engine.admin.api.bundles import UNLOAD_BUNDLE
from engine.base.errors import Conflict, MagnetarError, NotReady, Refusal
from engine.base.names import BundleName
from engine.metadata.store import MetadataStore
from gateway.services.bundles import Owned, owned_in, owner_now
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

AT_ONCE = 8
"""Bundles that one broker unloads at a time; it closes several topics of each at a time, too."""


class Outcome(StrEnum):
    """Outcomes for a bundle."""

    DONE = "done"
    """Confirmed by the broker: the bundle is unloaded."""
    LEFT = "left"
    """Left as it was, because the owner had changed."""
    FAILED = "failed"
    """Failed: the owner received no request, or refused it."""
    UNKNOWN = "unknown"
    """Requested, and not known whether it is unloaded."""


class Ended(NamedTuple):
    """An outcome and its reason, which is empty for ``DONE``."""

    outcome: Outcome
    why: str = ""


async def give_up(
    engine: Engine, owners: Mapping[BundleName, str], until: float
) -> dict[BundleName, Ended]:
    """Unload each bundle that is still owned by the address in ``owners``; return the outcome of each.

    Requests that are not answered at ``until``, on the loop's clock, are not waited for. A broker that does not answer
    does not delay those of other brokers. Store errors pass through before the first request; when cancelled, some
    bundles may be unloaded.
    """
    brokers = {broker.service_url: broker for broker in await engine.admin.brokers()}
    ended: dict[BundleName, Ended] = {}

    async def unload(bundle: BundleName) -> None:
        broker, is_sent = brokers.get(owners[bundle]), False
        try:
            async with asyncio.timeout_at(until):
                now = await owner_now(engine.store, bundle)
                if now != owners[bundle]:
                    by = f"{brokers[now].id if now in brokers else now} owns it" if now else ""
                    ended[bundle] = Ended(Outcome.LEFT, by or "It has no owner any more")
                elif broker is None:
                    why = f"{now} is not registered: its bundles are free when its session ends"
                    ended[bundle] = Ended(Outcome.FAILED, why)
                else:
                    is_sent = True
                    args = OnBundle(bundle.namespace, bundle.range)
                    await engine.call_on(broker, UNLOAD_BUNDLE, args)
                    ended[bundle] = Ended(Outcome.DONE)
        except (MagnetarError, OSError) as error:  # OSError includes TimeoutError
            ended[bundle] = _failed(error, is_sent=is_sent)

    by_owner: dict[str, list[BundleName]] = {}
    for bundle, owner in owners.items():
        by_owner.setdefault(owner, []).append(bundle)
    await asyncio.gather(*(each(bundles, unload, AT_ONCE) for bundles in by_owner.values()))
    return ended


def _failed(error: MagnetarError | OSError, *, is_sent: bool) -> Ended:
    """Return the outcome for an error; ``is_sent``: the request to the broker was begun."""
    if isinstance(error, TimeoutError):
        if is_sent:
            return Ended(Outcome.UNKNOWN, "Its broker did not answer in time")
        return Ended(Outcome.FAILED, "It was not begun: the time for all of them had ended")
    why = str(error) or "It failed"
    if not is_sent:
        return Ended(Outcome.FAILED, f"Its owner could not be read: {why}")
    if isinstance(error, Conflict):
        return Ended(Outcome.LEFT, why)
    # NotReady also stands for a lost connection, after which the bundle may be unloaded.
    is_refused = isinstance(error, Refusal) and not isinstance(error, NotReady)
    return Ended(Outcome.FAILED if is_refused else Outcome.UNKNOWN, why)


async def owners_by_now(
    store: MetadataStore, bundles: Iterable[BundleName]
) -> dict[BundleName, str | None]:
    """Return the address of each bundle's owner, empty without one; None for a bundle that its namespace does not have
    any more, because it was split or the namespace was deleted. Store errors pass through."""
    given = list(bundles)
    names = {str(bundle.namespace): bundle.namespace for bundle in given}
    read: list[Owned | None] = await each(names.values(), lambda name: owned_in(store, name))
    owned = dict(zip(names, read, strict=True))
    ranges = {name: set(space.bundles.ranges) for name, space in owned.items() if space is not None}

    def owner(bundle: BundleName) -> str | None:
        name = str(bundle.namespace)
        space = owned[name]
        if space is None or bundle.range not in ranges[name]:
            return None
        return space.owners.get(bundle.range, "")

    return {bundle: owner(bundle) for bundle in given}
