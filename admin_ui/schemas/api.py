"""REST of a topic's schema."""

from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, Body, Call, ClusterView, Parameter, checked, query
from admin_ui.params import number
from admin_ui.rights import ADMIN, CONSUME, LOOKUP, PRODUCE
from admin_ui.schemas import selectors, shapes
from engine.admin.api.schemas import SCHEMA_PAGE_MAX, GivenSchema
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.http.bodies import json_answer
from gateway.services.admin import schemas
from gateway.services.engine_link import Work

T = TypeVar("T")
REFUSALS = (400, 404, 412, 413, 422)


class _SchemaView(ClusterView):
    async def read(self, work: Work[T]) -> T:
        """Return the result of a POST that only reads. As for a GET, a hop that does not answer is named."""
        return await self.cluster.collector.read(work, principal=self.principal, topic=self.topic)


def _candidate(name: TopicName, body: Body) -> GivenSchema:
    return GivenSchema(name.partitioned, body["type"], body["definition"], body["properties"])


class SchemasView(_SchemaView):
    """The versions of the schema, newest first; registration of the next one; deletion of all of them."""

    read_rights = LOOKUP
    write_rights = {"POST": PRODUCE, "DELETE": ADMIN}
    calls = {
        "get": Call(
            "listSchemas",
            shapes.VersionsAnswer,
            (
                *TOPIC_PATH,
                Parameter("before", "only versions before this one", int),
                Parameter("limit", f"1 to {SCHEMA_PAGE_MAX}", int, default=selectors.LIMIT),
            ),
            errors=(400, 412),
        ),
        "post": Call(
            "registerSchema",
            shapes.RegisteredVersion,
            TOPIC_PATH,
            body=shapes.NewVersion,
            errors=(*REFUSALS, 409),
        ),
        "delete": Call(
            "deleteSchemas",
            shapes.Deleted,
            (*TOPIC_PATH, Parameter("newest", "number of the newest version", int)),
            errors=(400, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, params = self.name(where), query(request)
        return json_answer(await self.work(lambda engine: selectors.versions(engine, name, params)))

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, body = self.name(where), checked(shapes.NewVersion, request)
        candidate, newest = _candidate(name, body), body["newest"]
        registered = await self.work(
            lambda engine: schemas.register(engine, candidate, expected=newest)
        )
        return json_answer({"version": registered})

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, params = self.name(where).partitioned, query(request)
        if not params.get("newest"):
            raise InvalidField("newest", "required: the number of the newest version")
        newest = number(params, "newest", -1, 0, selectors.VERSION_MAX)
        deletion = await self.work(lambda engine: schemas.delete(engine, name, expected=newest))
        return json_answer({"version": deletion})


class SchemaView(_SchemaView):
    """A version with its definition."""

    read_rights = LOOKUP
    calls = {
        "get": Call(
            "getSchema",
            shapes.VersionAnswer,
            (*TOPIC_PATH, Parameter("version", "its number", int, "path")),
            errors=(400, 412),
        )
    }

    async def get(self, request: HttpRequest, version: str, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(await self.work(lambda engine: selectors.version(engine, name, version)))


class VerdictView(_SchemaView):
    """Check whether a candidate could be the next version; nothing is changed."""

    read_rights = ADMIN
    reading_methods = frozenset({"POST"})

    calls = {
        "post": Call(
            "judgeSchema",
            shapes.VerdictShape,
            TOPIC_PATH,
            body=shapes.CandidateShape,
            errors=REFUSALS,
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        candidate = _candidate(self.name(where), checked(shapes.CandidateShape, request))
        return json_answer(await self.read(lambda engine: selectors.verdict(engine, candidate)))


class RehearsalView(_SchemaView):
    """Decode the last messages with a candidate; nothing is changed."""

    read_rights = CONSUME
    shows_payloads = frozenset({"POST"})
    reading_methods = frozenset({"POST"})

    calls = {
        "post": Call(
            "rehearseSchema",
            shapes.Rehearsal,
            TOPIC_PATH,
            body=shapes.RehearsalBody,
            errors=(*REFUSALS, 405),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, body = self.name(where), checked(shapes.RehearsalBody, request)
        candidate = GivenSchema(name, body["type"], body["definition"], body["properties"])
        return json_answer(
            await self.read(lambda engine: selectors.rehearsal(engine, candidate, body["messages"]))
        )
