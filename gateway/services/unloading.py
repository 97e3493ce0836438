"""Many bundles given up at once: each by the very broker that is known to own it, and within a time."""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from engine.admin import api
from engine.base.errors import Conflict, MagnetarError, NotReady, Refusal
from engine.base.names import BundleName
from engine.metadata.store import MetadataStore
from gateway.services.bundles import Owned, owned_in, owner_now
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

AT_ONCE = 8
"""Bundles that one broker is asked for at a time: each closes its topics, some at a time, too."""


class Outcome(StrEnum):
    """How it ended for a bundle."""

    DONE = "done"
    """Its broker says that it gave it up."""
    LEFT = "left"
    """It was not as expected any more, and was left alone."""
    FAILED = "failed"
    """It was not given up."""
    UNKNOWN = "unknown"
    """Its broker was asked, and nobody knows what became of it."""


class Ended(NamedTuple):
    """``why`` is empty for what is done."""

    outcome: Outcome
    why: str = ""


async def give_up(
    engine: Engine, owners: Mapping[BundleName, str], until: float
) -> dict[BundleName, Ended]:
    """Have each bundle given up that is still owned by whom ``owners`` says, by address. What is not done at ``until``,
    on the loop's clock, is not waited for. A broker that does not answer keeps nobody else's from being done. Store
    errors pass through before the first is asked; cancelled: some may be done."""
    brokers = {broker.service_url: broker for broker in await engine.admin.brokers()}
    ended: dict[BundleName, Ended] = {}

    async def one(bundle: BundleName) -> None:
        broker, asked = brokers.get(owners[bundle]), False
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
                    asked = True
                    wanted = api.OnBundle(bundle.namespace, bundle.range)
                    await engine.call_on(broker, api.UNLOAD_BUNDLE, wanted)
                    ended[bundle] = Ended(Outcome.DONE)
        except (MagnetarError, OSError) as error:  # TimeoutError among them
            ended[bundle] = _failed(error, asked=asked)

    mine: dict[str, list[BundleName]] = {}
    for bundle, owner in owners.items():
        mine.setdefault(owner, []).append(bundle)
    await asyncio.gather(*(each(some, one, AT_ONCE) for some in mine.values()))
    return ended


def _failed(error: MagnetarError | OSError, *, asked: bool) -> Ended:
    """``asked``: the broker was told to."""
    if isinstance(error, TimeoutError):
        if asked:
            return Ended(Outcome.UNKNOWN, "Its broker did not answer in time")
        return Ended(Outcome.FAILED, "It was not begun: the time for all of them had ended")
    why = str(error) or "It failed"
    if not asked:
        return Ended(Outcome.FAILED, f"Its owner could not be read: {why}")
    if isinstance(error, Conflict):
        return Ended(Outcome.LEFT, why)
    answered = isinstance(error, Refusal) and not isinstance(error, NotReady)
    return Ended(Outcome.FAILED if answered else Outcome.UNKNOWN, why)


async def owners_by_now(
    store: MetadataStore, bundles: Iterable[BundleName]
) -> dict[BundleName, str | None]:
    """Address of whoever owns each, empty for nobody; None for one that is none of its namespace's any more, since it
    was split. Store errors pass through."""
    given = list(bundles)
    names = {str(bundle.namespace): bundle.namespace for bundle in given}
    found: list[Owned | None] = await each(names.values(), lambda name: owned_in(store, name))
    there = dict(zip(names, found, strict=True))
    ranges = {name: set(one.bundles.ranges) for name, one in there.items() if one is not None}

    def owner(bundle: BundleName) -> str | None:
        name = str(bundle.namespace)
        one = there[name]
        if one is None or bundle.range not in ranges[name]:
            return None
        return one.owners.get(bundle.range, "")

    return {bundle: owner(bundle) for bundle in given}
