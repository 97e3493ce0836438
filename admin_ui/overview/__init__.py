"""The first page: what needs attention, and the cluster's totals."""

from admin_ui.overview.api import HistoryView, OverviewView
from admin_ui.overview.live import OVERVIEW_CHANNEL
from admin_ui.resource import Resource

OVERVIEW = Resource(
    routes={"overview": OverviewView, "overview/history": HistoryView},
    channels=(OVERVIEW_CHANNEL,),
)
