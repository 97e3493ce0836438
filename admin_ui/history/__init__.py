"""Past numbers of the cluster, a topic, a subscription, a broker or a bookie."""

from admin_ui.history.api import HistoryView
from admin_ui.resource import Resource

HISTORY = Resource(routes={"history": HistoryView})
