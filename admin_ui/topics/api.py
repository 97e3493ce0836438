"""REST of topics, for reading."""

from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.calls import TOPIC_PATH, WINDOW, Call, ClusterView, Parameter, SnapshotView
from admin_ui.params import topic_name
from admin_ui.topics import selectors, shapes
from engine.base.names import DOMAINS
from gateway.services.engine_link import link

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

    def get(self, request: Request, **where: str) -> Response:
        name = topic_name(**where)
        return Response(link().run(lambda engine: selectors.topic(engine, name)))
