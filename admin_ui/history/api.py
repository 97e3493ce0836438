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
from gateway.services.history.readings import HOUR_MINUTES, WEEK_MINUTES

PARAMETERS = (
    Parameter("topic", "full name; empty, with no broker or bookie: the totals of the cluster"),
    Parameter("subscription", "of the topic"),
    Parameter("broker", "id of a broker, instead of a topic"),
    Parameter("bookie", "id of a bookie, instead of a topic"),
    Parameter(
        "minutes",
        f"how many: 1 to {WEEK_MINUTES}. Steps are of 10 seconds up to an hour, of a minute up to a day of totals,"
        " else of five minutes",
        int,
        default=HOUR_MINUTES,
    ),
    Parameter(
        "ago",
        f"how many minutes before now they end; 1440: as they were a day ago. With minutes at most {WEEK_MINUTES}",
        int,
        default=0,
    ),
)


def _topic_of(view: RestView) -> tuple[TopicName, ...]:
    """Return the topic of the query, if it names one. Raises InvalidNameError."""
    topic = query(view.request).get("topic")
    return (TopicName.parse(topic),) if topic else ()


def _totals_of(view: RestView) -> tuple[WholeCluster, ...]:
    """Return the cluster if the query names no topic: the numbers are then of all tenants, or of a server."""
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
