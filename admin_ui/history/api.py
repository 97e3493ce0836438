"""REST of history."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ClusterView, Parameter, query
from admin_ui.history import selectors, shapes
from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, WholeCluster
from engine.auth.rights import Right
from engine.base.names import TopicName
from gateway.http.bodies import json_answer
from gateway.http.view import RestView
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


def _topic_of(view: RestView) -> tuple[TopicName, ...]:
    """Return the topic of the query, if it names one. Raises InvalidNameError."""
    topic = query(view.request).get("topic")
    return (TopicName.parse(topic),) if topic else ()


def _totals_of(view: RestView) -> tuple[WholeCluster, ...]:
    """Return the cluster if the query names no topic: the numbers are of all tenants then."""
    return () if query(view.request).get("topic") else (CLUSTER,)


class HistoryView(ClusterView):
    """Rates and backlog of the past, which outlive every part of the instance."""

    read_rights = (
        Right(Action.LOOKUP, TopicName, _topic_of),
        Right(Action.SUPERUSER, WholeCluster, _totals_of),
    )
    calls = {
        "get": Call("getHistory", shapes.HistoryAnswer, parameters=PARAMETERS, errors=(400, 412))
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await selectors.history(self.viewer, self.cluster, query(request)))
