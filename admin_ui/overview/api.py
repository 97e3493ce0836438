"""REST of the overview page."""

from admin_ui.calls import Call, SnapshotView
from admin_ui.overview import selectors, shapes
from engine.auth.rights import AUTHENTICATED


class OverviewView(SnapshotView):
    """Items that need attention, totals, the biggest backlogs, brokers and bookies."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("getOverview", shapes.OverviewAnswer)}
    selector = selectors.overview
