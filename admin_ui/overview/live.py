"""The channel of the first page."""

from admin_ui.feeds import Channel, snapshot_basis, snapshot_body
from admin_ui.overview import selectors
from engine.auth.rights import SUPERUSER

OVERVIEW_CHANNEL = Channel(
    "overview",
    snapshot_body(selectors.overview),
    SUPERUSER,
    required=("cluster",),
    basis=snapshot_basis,
)
