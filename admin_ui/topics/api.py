"""REST of topics, for reading."""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.calls import TOPIC_PATH, WINDOW, Call, ClusterView, Parameter, SnapshotView, query
from admin_ui.params import topic_name
from admin_ui.topics import export, selectors, shapes
from engine.base.names import DOMAINS
from gateway.http.bodies import json_answer

FILTERS = (
    Parameter("q", "words that the full name has, in any case and order"),
    Parameter("tenant", "exact"),
    Parameter("namespace", "name, or tenant/name"),
    Parameter("domain", "persistent or non-persistent", enum=DOMAINS),
    Parameter("attention", "only topics with this problem", enum=selectors.CAUSES),
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


class TopicsFileView(ClusterView):
    """The whole filtered and sorted list as a file, CSV or a JSON array of rows."""

    calls = {
        "get": Call(
            "exportTopics",
            parameters=(Parameter("format", enum=tuple(export.FORMATS)), *FILTERS),
            errors=(400,),
            file="text/csv",
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponseBase:
        params = query(request)
        name = export.format_of(params)
        form = export.FORMATS[name]
        names = await self.work(lambda engine: export.names_of(params))
        answer = StreamingHttpResponse(export.pieces(names, form), content_type=form.media)
        answer["Content-Disposition"] = f'attachment; filename="topics.{name}"'
        return answer


class ScopesView(ClusterView):
    """Tenants and namespaces by words of their names."""

    calls = {
        "get": Call(
            "findScopes",
            shapes.ScopesAnswer,
            parameters=(
                Parameter("q", "words that the name has, in any case and order"),
                Parameter("tenant", "whose namespaces; exact"),
                WINDOW[1],
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(await self.work(lambda engine: selectors.scopes(engine, params)))


class TopicView(ClusterView):
    """One topic in full."""

    calls = {
        "get": Call("getTopic", shapes.TopicAnswer, parameters=TOPIC_PATH, errors=(400, 404, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        self.topic = str(name)
        return json_answer(await self.work(lambda engine: selectors.topic(engine, name)))
