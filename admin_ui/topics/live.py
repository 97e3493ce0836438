"""The channels of topics: the window of the list that is on screen, and one topic."""

from typing import Any

from admin_ui.feeds import Channel, snapshot_basis, snapshot_body
from admin_ui.params import Params
from admin_ui.rights import PLACE, WATCH_TOPIC, topic_at
from admin_ui.topics import selectors
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText

ROWS_MAX = 200


async def _window(viewer: Viewer, cluster: Cluster, params: Params) -> JsonText:
    return await selectors.topics(viewer, cluster, params, limit_max=ROWS_MAX)


async def _topic(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    name = topic_at(params)
    return await cluster.collector.read(
        lambda engine: selectors.topic(cluster, engine, name), topic=str(name)
    )


TOPICS_CHANNEL = Channel(
    "topics",
    snapshot_body(_window),
    AUTHENTICATED,
    required=("cluster",),
    optional=(
        "q",
        "tenant",
        "namespace",
        "domain",
        "attention",
        "older_s",
        "sort",
        "offset",
        "limit",
    ),
    basis=snapshot_basis,
)
TOPIC_CHANNEL = Channel("topic", _topic, WATCH_TOPIC, required=("cluster", *PLACE))
