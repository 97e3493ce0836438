"""``/admin/v2/schemas``: versions of a topic's schema. The topic need not exist."""

from django.http import HttpRequest, HttpResponse

from engine.admin.api import GivenSchema
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.http.bodies import flag, json_answer, no_content, object_body, string_map
from gateway.rest.base import AdminView
from gateway.services import schemas
from gateway.services.topics import topic_name


class _SchemaView(AdminView):
    permission = "topic"
    write_permission = "topic"

    def name(self, tenant: str, namespace: str, topic: str) -> TopicName:
        return topic_name("persistent", tenant, namespace, topic)

    def given(self, request: HttpRequest, tenant: str, namespace: str, topic: str) -> GivenSchema:
        """The body as PostSchemaPayload. Raises InvalidField."""
        body = object_body(request)
        if body is None:
            raise InvalidField("body", "expected an object with type, schema and properties")
        kind, definition = body.get("type"), body.get("schema")
        if not isinstance(kind, str):
            raise InvalidField("type", "required: the name of a kind of schema")
        if definition is not None and not isinstance(definition, str):
            raise InvalidField("schema", "expected the definition as a text")
        properties = string_map(body.get("properties"), "properties")
        return GivenSchema(self.name(tenant, namespace, topic), kind, definition or "", properties)


class LatestSchema(_SchemaView):
    """The newest version; adding one; deleting all."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        return json_answer(await self.work(lambda engine: schemas.latest(engine, name)))

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        given = self.given(request, tenant, namespace, topic)
        number = await self.work(lambda engine: schemas.register(engine, given))
        return json_answer({"version": {"version": number}})

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        force = flag(request, "force")
        number = await self.work(lambda engine: schemas.delete(engine, name, force=force))
        return json_answer({"version": number})


class OneSchema(_SchemaView):
    """One version."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, version: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        if not version.isdecimal() or len(version) > 18:
            raise InvalidField("version", "expected a whole number")
        return json_answer(
            await self.work(lambda engine: schemas.version(engine, name, int(version)))
        )


class AllSchemas(_SchemaView):
    """All versions."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        found = await self.work(lambda engine: schemas.versions(engine, name))
        return json_answer({"getSchemaResponses": found})


class SchemaPlaces(_SchemaView):
    """Ledger and entry of each version."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        found = await self.work(lambda engine: schemas.metadata(engine, name))
        return json_answer(found) if found else no_content(200)


class SchemaCheck(_SchemaView):
    """Whether a schema could be the next version; nothing is changed."""

    reading_methods = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        given = self.given(request, tenant, namespace, topic)
        found = await self.work(lambda engine: schemas.check(engine, given))
        return json_answer(found, status=202)


class SchemaNumber(_SchemaView):
    """Which version a schema is."""

    reading_methods = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        given = self.given(request, tenant, namespace, topic)
        return json_answer({"version": await self.work(lambda engine: schemas.find(engine, given))})


_TOPIC = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (f"{_TOPIC}/schema", LatestSchema),
    (f"{_TOPIC}/schema/{{version}}", OneSchema),
    (f"{_TOPIC}/schemas", AllSchemas),
    (f"{_TOPIC}/metadata", SchemaPlaces),
    (f"{_TOPIC}/compatibility", SchemaCheck),
    (f"{_TOPIC}/version", SchemaNumber),
]
