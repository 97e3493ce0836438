"""REST of topics: lists, one topic, and changes of a topic as a whole."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.calls import (
    TOPIC_PATH,
    WINDOW,
    Body,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    Shape,
    SnapshotView,
    actor_of,
    checked,
    query,
)
from admin_ui.params import CAUSES, topic_name
from admin_ui.rights import ADMIN, CONSUME, LOOKUP, PLACE
from admin_ui.shapes import PropertiesAnswer, PropertiesBody, TopicRow
from admin_ui.topics import export, selectors, services, shapes, traces
from admin_ui.topics.held_space import held_space, held_space_of_namespace
from admin_ui.topics.services import TopicChange
from engine.auth.actions import Action
from engine.auth.rights import AUTHENTICATED, Right
from engine.base.names import DOMAINS, SHADOW_SOURCE, TopicName
from engine.tenancy.geo.shadow_topics import source_of
from engine.tenancy.namespaces import namespace_name
from gateway.http.auth.access import ADMIN_OF_NAMESPACE
from gateway.http.bodies import json_answer, object_body
from gateway.http.view import RestView
from gateway.services.admin import names, topics

FILTERS = (
    Parameter("q", "words that the full name has, in any case and order"),
    Parameter("tenant", "exact"),
    Parameter("namespace", "name, or tenant/name"),
    Parameter("domain", "persistent or non-persistent", enum=DOMAINS),
    Parameter("attention", "only topics with this problem", enum=CAUSES),
    Parameter("older_s", "least age of the oldest unacknowledged message in seconds", kind=int),
    Parameter("sort", "a field of the rows, '-' in front for descending; default -backlog"),
)


def _new_topic(view: RestView) -> TopicName:
    """Return the topic that the body names; the rest of the body is checked when the caller may create it.

    Raises InvalidField, PreconditionFailed.
    """
    body = object_body(view.request) or {}
    if body.get("domain") not in DOMAINS or not all(type(body.get(part)) is str for part in PLACE):
        body = checked(shapes.NewTopic, view.request)
    return _named(body)


def _new_source(view: RestView) -> tuple[TopicName, ...]:
    """Return the source of a shadow topic that the body names, all of which can be read there. Raises
    PreconditionFailed."""
    properties = (object_body(view.request) or {}).get("properties")
    text = properties.get(SHADOW_SOURCE) if isinstance(properties, dict) else None
    source = source_of({SHADOW_SOURCE: text}) if isinstance(text, str) else None
    return () if source is None else (source,)


def _named(body: Body) -> TopicName:
    return names.topic_name(*(body[part] for part in PLACE))


class TopicsView(SnapshotView):
    """A window of the filtered and sorted list of topics, and the creation of topics."""

    read_rights = AUTHENTICATED
    write_rights = (
        Right(Action.TENANT_ADMIN, TopicName, _new_topic),
        Right(Action.TENANT_ADMIN, TopicName, _new_source),
    )
    calls = {
        "get": Call(
            "listTopics", shapes.TopicsAnswer, parameters=(*FILTERS, *WINDOW), errors=(400,)
        ),
        "post": Call(
            "createTopic",
            shapes.MadeTopic,
            body=shapes.NewTopic,
            success=201,
            errors=(400, 403, 404, 406, 409, 412),
        ),
    }
    selector = selectors.topics

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.NewTopic, request)
        name = _named(body)
        count, properties = body["partitions"], body["properties"]
        await self.work(
            lambda engine: services.make(engine, name, partitions=count, properties=properties)
        )
        return json_answer({"name": str(name), "partitions": count}, status=201)


class TopicsFileView(ClusterView):
    """The whole filtered and sorted list as a file, CSV or a JSON array of rows."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "exportTopics",
            TopicRow(many=True),
            parameters=(Parameter("format", enum=tuple(export.FORMATS)), *FILTERS),
            errors=(400,),
            file="text/csv",
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponseBase:
        params = query(request)
        name = export.format_of(params)
        file_format = export.FORMATS[name]
        names = await self.work(lambda engine: export.names_of(self.viewer, self.cluster, params))
        answer = StreamingHttpResponse(
            export.pieces(self.viewer, self.cluster, names, file_format),
            content_type=file_format.media,
        )
        answer["Content-Disposition"] = f'attachment; filename="topics.{name}"'
        return answer


class ScopesView(ClusterView):
    """Tenants and namespaces, by words of their names."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "findScopes",
            shapes.ScopesAnswer,
            parameters=(
                Parameter("q", "words that the name has, in any case and order"),
                Parameter("tenant", "tenant of the namespaces; exact"),
                WINDOW[1],
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(lambda engine: selectors.scopes(self.viewer, engine, params))
        )


class TopicDetailView(ClusterView):
    """A topic with its producers, subscriptions, ledgers and partitions."""

    read_rights = LOOKUP
    calls = {
        "get": Call("getTopic", shapes.TopicAnswer, parameters=TOPIC_PATH, errors=(400, 404, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(
            await self.work(lambda engine: selectors.topic(self.cluster, engine, name))
        )


def _changes(operation: str, body: Shape) -> dict[str, Call]:
    return {
        "post": Call(
            operation,
            (shapes.TopicPreview, shapes.TopicReceipt),
            TOPIC_PATH,
            body=body,
            errors=(400, 403, 404, 405, 409, 412, 422),
        )
    }


class ChangeView(PreviewedView):
    """Change a topic as a whole. A request is first a ``preview`` of the change, then makes exactly that change by its
    ``token``."""

    write_rights = ADMIN
    change: ClassVar[TopicChange]
    body_shape: ClassVar[Shape] = shapes.TopicChangeBody

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        body = checked(self.body_shape, request)
        change, user, count = self.change, actor_of(request), body.get("partitions")
        return await self.previewed(
            body,
            lambda engine: services.preview(engine, name, change, user, partitions=count),
            lambda engine, token: services.apply(engine, name, change, user, token),
        )


class DeleteView(ChangeView):
    change = "delete"
    calls = _changes("deleteTopic", shapes.TopicChangeBody)


class TerminateView(ChangeView):
    change = "terminate"
    calls = _changes("terminateTopic", shapes.TopicChangeBody)


class UnloadView(ChangeView):
    for_operators = frozenset({"POST"})
    change = "unload"
    calls = _changes("unloadTopic", shapes.TopicChangeBody)


class MorePartitionsView(ChangeView):
    change = "partitions"
    body_shape = shapes.MorePartitionsBody
    calls = _changes("addPartitions", shapes.MorePartitionsBody)


class HeldSpaceView(ClusterView):
    """The reasons that keep the ledgers of a topic, and what would free them. The topic is loaded for it."""

    read_rights = LOOKUP
    calls = {
        "get": Call(
            "getHeldSpace", shapes.HeldSpaceAnswer, TOPIC_PATH, errors=(400, 403, 404, 405, 412)
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(await self.work(lambda engine: held_space(engine, name)))


class NamespaceHeldSpaceView(ClusterView):
    """The reasons that keep the ledgers of the largest topics of a namespace. They are loaded for it."""

    read_rights = ADMIN_OF_NAMESPACE
    calls = {
        "get": Call(
            "getNamespaceHeldSpace",
            shapes.NamespaceHeldSpaceAnswer,
            (
                Parameter("tenant", place="path"),
                Parameter("namespace", "without the tenant", place="path"),
            ),
            errors=(403, 412),
        )
    }

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(
            await self.work(
                lambda engine: held_space_of_namespace(engine, self.cluster, self.viewer, name)
            )
        )


class PropertiesView(ClusterView):
    """A topic's properties."""

    read_rights = LOOKUP
    write_rights = ADMIN
    calls = {
        "get": Call(
            "getTopicProperties",
            PropertiesAnswer,
            TOPIC_PATH,
            errors=(400, 404, 405, 406, 412),
        ),
        "put": Call(
            "setTopicProperties",
            PropertiesAnswer,
            TOPIC_PATH,
            body=PropertiesBody,
            errors=(400, 403, 404, 405, 406, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        properties = await self.work(lambda engine: topics.properties(engine, name))
        return json_answer({"properties": properties})

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        body = checked(PropertiesBody, request)
        properties = await self.work(
            lambda engine: services.set_properties(engine, name, body["value"], body["expected"])
        )
        return json_answer({"properties": properties})


class TracesView(ClusterView):
    """Traces of single entries of a topic, which are kept until it is unloaded, and the request for further ones."""

    read_rights = CONSUME
    write_rights = ADMIN
    calls = {
        "get": Call("getTraces", shapes.TracesAnswer, TOPIC_PATH, errors=(400, 403, 404, 405, 412)),
        "post": Call(
            "traceEntries",
            shapes.TracesAnswer,
            TOPIC_PATH,
            body=shapes.TraceBody,
            errors=(400, 403, 404, 405, 412),
        ),
        "delete": Call(
            "endTracing", shapes.TracesAnswer, TOPIC_PATH, errors=(400, 403, 404, 405, 412)
        ),
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(await self.work(lambda engine: traces.listed(engine, name)))

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        body = checked(shapes.TraceBody, request)
        return json_answer(
            await self.work(
                lambda engine: traces.begin(
                    engine, name, body["entries"], body["seconds"], body["sampled_only"]
                )
            )
        )

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(await self.work(lambda engine: traces.end(engine, name)))


class TracesFileView(ClusterView):
    """The ended spans of a topic's traces as a file that collectors of OpenTelemetry accept at ``/v1/traces``."""

    read_rights = CONSUME
    calls = {
        "get": Call(
            "exportTraces",
            parameters=TOPIC_PATH,
            errors=(400, 403, 404, 405, 412),
            file="application/json",
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        listed = await self.work(lambda engine: traces.listed(engine, name))
        answer = json_answer(traces.opentelemetry(self.cluster.name, listed))
        answer["Content-Disposition"] = 'attachment; filename="traces.json"'
        return answer
