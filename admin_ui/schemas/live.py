"""The channel of the newest versions of a topic's schema."""

from typing import Any

from admin_ui.feeds import Channel
from admin_ui.params import Params
from admin_ui.rights import PLACE, WATCH_TOPIC, topic_at
from admin_ui.schemas import selectors
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster

INTERVAL_S = 2.0


async def _newest(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    name = topic_at(params)
    return await cluster.collector.read(
        lambda engine: selectors.versions(engine, name, {}), topic=str(name)
    )


SCHEMAS_CHANNEL = Channel(
    "schemas", _newest, WATCH_TOPIC, required=("cluster", *PLACE), interval_s=INTERVAL_S
)
