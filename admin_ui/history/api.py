"""REST of history."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ClusterView, Parameter, query
from admin_ui.history import selectors, shapes
from gateway.http.bodies import json_answer
from gateway.services.history.readings import DAY_MINUTES, HOUR_MINUTES

PARAMETERS = (
    Parameter("topic", "full name; empty: the totals of the cluster"),
    Parameter("subscription", "of the topic"),
    Parameter(
        "minutes",
        f"how far back: 1 to {HOUR_MINUTES}, of totals to {DAY_MINUTES}",
        int,
        default=HOUR_MINUTES,
    ),
)


class HistoryView(ClusterView):
    """Rates and backlog of the past, which outlive every part of the instance."""

    calls = {
        "get": Call("getHistory", shapes.HistoryAnswer, parameters=PARAMETERS, errors=(400, 412))
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await selectors.history(self.cluster, query(request)))
