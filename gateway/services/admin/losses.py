"""Open clients that a change of rights closes: counted before it, and counted as closed after it (A36)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.admin.api.losses import LOSSES, ChangedRecords
from engine.base.names import NamespaceName
from gateway.services.catalog import each
from gateway.services.engine_link import FAILURES, Engine

PATIENCE_S = 2.0
"""Time in which brokers close what a change closes: they promise one second."""
CHECK_S = 0.05
PARTS = ("auth_policies", "subscription_auth_mode")
"""The parts of policies that give rights."""
Counts = dict[str, int]


def changed_records(
    tenant: str,
    administrators: list[str],
    namespace: NamespaceName | None,
    policies: Mapping[str, Any],
) -> ChangedRecords:
    """Return the records after a change as brokers are asked about them."""
    if namespace is None:
        return ChangedRecords(tenant, administrators)
    parts = {name: policies[name] for name in PARTS if policies.get(name) is not None}
    return ChangedRecords(tenant, administrators, str(namespace), parts)


async def open_losses(engine: Engine, change: ChangedRecords) -> Counts | None:
    """Return the sums of what all brokers answer to LOSSES; None when one does not answer."""
    try:
        brokers = await engine.admin.brokers()
        answers = await each(brokers, lambda broker: engine.call_on(broker, LOSSES, change))
    except FAILURES:
        return None
    sums = Counter[str](
        producers=0, consumers=0, by_proxy=0, closed_producers=0, closed_consumers=0
    )
    for answer in answers:
        sums.update(answer)
    return dict(sums)


def would_close(counts: Counts | None) -> Counts | None:
    """Return the clients that a change would close, in the form of the console's interface."""
    if counts is None:
        return None
    return {name: counts[name] for name in ("producers", "consumers", "by_proxy")}


async def closed_since(
    engine: Engine, change: ChangedRecords, before: Counts | None
) -> Counts | None:
    """Return the clients that brokers have closed since ``before``, once none is open any more that the change closes.

    None when that is not known: a broker does not answer, or has not closed them in time.
    """
    if before is None:
        return None
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while True:
        now = await open_losses(engine, change)
        if now is None:
            return None
        if not now["producers"] and not now["consumers"]:
            closed = {
                name: now[f"closed_{name}"] - before[f"closed_{name}"]
                for name in ("producers", "consumers")
            }
            # A broker that was started meanwhile counts anew.
            return closed if min(closed.values()) >= 0 else None
        if loop.time() >= until_s:
            return None
        await asyncio.sleep(CHECK_S)
