"""The first page: items that need attention, and the cluster's totals."""

from admin_ui.overview.api import OverviewView
from admin_ui.overview.live import OVERVIEW_CHANNEL
from admin_ui.resource import Resource

OVERVIEW = Resource(routes={"overview": OverviewView}, channels=(OVERVIEW_CHANNEL,))
