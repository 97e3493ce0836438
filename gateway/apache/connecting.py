"""The link to an Apache Pulsar cluster, in the form that all services use."""

import asyncio

from engine.base.tasks import TaskScope
from engine.net.network import LoopNetwork
from gateway.apache.abilities import LACKS
from gateway.apache.brokers import ApacheBrokers, Handlers
from gateway.apache.browsing.cursors import CURSORS
from gateway.apache.browsing.messages import MESSAGES
from gateway.apache.changes import CHANGES, performer
from gateway.apache.inventory import Inventory
from gateway.apache.mirror import MirrorStore
from gateway.apache.operations import READS
from gateway.apache.policies import NAMESPACE
from gateway.apache.rest import ApacheRest
from gateway.apache.schemas import SCHEMA_CALLS
from gateway.apache.topic_policies import TOPIC
from gateway.apache_settings import POLL_S, ApacheCluster
from gateway.services.engine_link import PATIENCE_S, Engine, EngineLink
from gateway.services.guarded_store import GuardedStore
from gateway.services.source import ClusterSource, Pace

HANDLERS: Handlers = {
    **READS,
    **MESSAGES,
    **SCHEMA_CALLS,
    **CHANGES,
    **CURSORS,
    **NAMESPACE,
    **TOPIC,
}
COUNTED_MS = 60_000
"""Time between two counts of an Apache broker by default."""
PACE = Pace(
    silent_ms=int(POLL_S * 1500) + 5_000,
    down_ms=int(POLL_S * 4000),
    late_ms=COUNTED_MS + int(POLL_S * 2000) + 5_000,
)


def apache_link(
    cluster: ApacheCluster, loop: asyncio.AbstractEventLoop | None = None
) -> EngineLink:
    """Return the link to a cluster, which requests nothing before its first use."""
    opened: list[Inventory] = []
    tasks = TaskScope(f"apache {cluster.name}")

    async def open_engine() -> Engine:
        if not opened:
            rest = ApacheRest(cluster, LoopNetwork())
            store = MirrorStore(performer(rest))
            inventory = Inventory(rest, store)
            opened.append(inventory)
            tasks.spawn("inventory", inventory.run())
            brokers = ApacheBrokers(rest, store, inventory, HANDLERS, tasks)
            engines.append(
                Engine(GuardedStore(store), brokers, cluster.own_name, alias=cluster.name)
            )
        # Before the first round nothing is known, and nothing must count as missing.
        async with asyncio.timeout(PATIENCE_S):
            await opened[0].first()
        return engines[0]

    async def check() -> int:
        if not opened:
            await link.engine()
        return await opened[0].check()

    engines: list[Engine] = []
    source = ClusterSource("apache", LACKS, PACE, check)
    link = EngineLink(open_engine, loop, cluster.url, source=source)
    return link
