"""REST of topics, for reading."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, WINDOW, Call, ClusterView, Parameter, SnapshotView
from admin_ui.params import topic_name
from admin_ui.topics import selectors, shapes
from engine.base.names import DOMAINS
from gateway.http.bodies import json_answer

FILTERS = (
    Parameter("q", "part of the full name, in any case"),
    Parameter("tenant", "exact"),
    Parameter("namespace", "name, or tenant/name"),
    Parameter("domain", "persistent or non-persistent", enum=DOMAINS),
    Parameter("sort", "a field of the rows, '-' in front for descending; default -backlog"),
)


class TopicsView(SnapshotView):
    """A window of the filtered and sorted list of topics."""

    calls = {
        "get": Call(
            "listTopics", shapes.TopicsAnswer, parameters=(*FILTERS, *WINDOW), errors=(400,)
        )
    }
    selector = selectors.topics


class TopicView(ClusterView):
    """One topic in full."""

    calls = {
        "get": Call("getTopic", shapes.TopicAnswer, parameters=TOPIC_PATH, errors=(400, 404, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(await self.work(lambda engine: selectors.topic(engine, name)))
