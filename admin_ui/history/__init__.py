"""Past numbers of the cluster, a topic or a subscription."""

from admin_ui.history.api import HistoryView
from admin_ui.resource import Resource

HISTORY = Resource(routes={"history": HistoryView})
