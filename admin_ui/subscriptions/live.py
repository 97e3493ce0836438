"""The channel of the list of subscriptions: the window that is on screen."""

from admin_ui.feeds import Channel, snapshot_basis, snapshot_body
from admin_ui.params import Params
from admin_ui.subscriptions import all_subscriptions
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText

ROWS_MAX = 200


async def _window(viewer: Viewer, cluster: Cluster, params: Params) -> JsonText:
    return await all_subscriptions.subscriptions(viewer, cluster, params, limit_max=ROWS_MAX)


SUBSCRIPTIONS_CHANNEL = Channel(
    "subscriptions",
    snapshot_body(_window),
    AUTHENTICATED,
    required=("cluster",),
    optional=(
        *("q", "tenant", "namespace", "domain", "attention", "older_s", "late", "sort"),
        *("offset", "limit"),
    ),
    basis=snapshot_basis,
)
