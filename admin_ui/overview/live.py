"""The first page, live."""

from admin_ui.feeds import Channel, of_snapshot, snapshot_version
from admin_ui.overview import selectors

OVERVIEW_CHANNEL = Channel(
    "overview", of_snapshot(selectors.overview), required=("cluster",), basis=snapshot_version
)
