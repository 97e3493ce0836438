"""The channel of the list of functions, sources and sinks: the window that is on screen."""

from admin_ui.feeds import Channel, snapshot_body
from admin_ui.functions import selectors
from admin_ui.functions.selectors import Body
from admin_ui.params import Params
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.services.feeds.gathered_table import FRESH_S

ROWS_MAX = 200


async def _window(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    return await selectors.functions(viewer, cluster, params, limit_max=ROWS_MAX)


FUNCTIONS_CHANNEL = Channel(
    "functions",
    snapshot_body(_window),
    AUTHENTICATED,
    required=("cluster",),
    optional=("component", "q", "sort", "offset", "limit"),
    interval_s=FRESH_S,
)
