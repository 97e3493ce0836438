"""The first page, live."""

from admin_ui.feeds import Channel, OfCollector, of_snapshot
from admin_ui.overview import selectors

OVERVIEW_CHANNEL = Channel(
    "overview", of_snapshot(selectors.overview), required=("cluster",), basis=OfCollector()
)
