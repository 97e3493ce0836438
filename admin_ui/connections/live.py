"""The channel of the list of connections: the window that is on screen."""

from admin_ui.connections import selectors
from admin_ui.connections.selectors import Body
from admin_ui.feeds import Channel, snapshot_body
from admin_ui.params import Params
from engine.auth.rights import SUPERUSER
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.services.feeds.gathered_table import FRESH_S

ROWS_MAX = 200


async def _window(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    return await selectors.connections(viewer, cluster, params, limit_max=ROWS_MAX)


CONNECTIONS_CHANNEL = Channel(
    "connections",
    snapshot_body(_window),
    SUPERUSER,
    required=("cluster",),
    optional=(*selectors.TEXTS, *selectors.CHOICES, "sort", "offset", "limit"),
    interval_s=FRESH_S,
)
