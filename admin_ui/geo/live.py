"""The channels of links: the ends that a cluster has, and one link with its topics."""

from admin_ui.feeds import Channel, snapshot_basis, snapshot_body
from admin_ui.geo import selectors
from engine.auth.rights import AUTHENTICATED, SUPERUSER

GEO_CHANNEL = Channel(
    "geo", snapshot_body(selectors.geo), SUPERUSER, required=("cluster",), basis=snapshot_basis
)
LINK_CHANNEL = Channel(
    "link",
    snapshot_body(selectors.link),
    AUTHENTICATED,
    required=("cluster", "remote"),
    optional=("q", "cause", "all", "sort", "offset", "limit"),
    basis=snapshot_basis,
)
