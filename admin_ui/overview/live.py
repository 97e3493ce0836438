"""The channel of the first page."""

from admin_ui.feeds import Channel, snapshot_basis, snapshot_body
from admin_ui.overview import selectors
from engine.auth.rights import AUTHENTICATED

OVERVIEW_CHANNEL = Channel(
    "overview",
    snapshot_body(selectors.overview),
    AUTHENTICATED,
    required=("cluster",),
    basis=snapshot_basis,
)
