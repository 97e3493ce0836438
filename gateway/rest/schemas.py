"""``/admin/v2/schemas``: the versions of a topic's schema. The topic need not exist."""

from django.http import HttpRequest, HttpResponse

from engine.admin.api.schemas import GivenSchema
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.http.bodies import flag, json_answer, no_content, object_body, string_map
from gateway.rest.base import AdminResource
from gateway.rest.rights import ADMIN, LOOKUP, PRODUCE
from gateway.services.admin import schemas
from gateway.services.admin.names import topic_name


class _SchemaBase(AdminResource):
    domain = "persistent"
    read_rights = LOOKUP

    def name(self, tenant: str, namespace: str, topic: str) -> TopicName:
        return topic_name(self.domain, tenant, namespace, topic)

    def given(self, request: HttpRequest, tenant: str, namespace: str, topic: str) -> GivenSchema:
        """Return the schema in the body, a PostSchemaPayload. Raises InvalidField."""
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


class LatestSchemaResource(_SchemaBase):
    """The newest version of a schema; the addition of one; the deletion of all."""

    write_rights = {"POST": PRODUCE, "DELETE": ADMIN}

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


class SchemaVersionResource(_SchemaBase):
    """One version of a schema."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, version: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        if not version.isdecimal() or len(version) > 18:
            raise InvalidField("version", "expected a whole number")
        return json_answer(
            await self.work(lambda engine: schemas.version(engine, name, int(version)))
        )


class SchemaVersionsResource(_SchemaBase):
    """All versions of a schema."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        versions = await self.work(lambda engine: schemas.versions(engine, name))
        return json_answer({"getSchemaResponses": versions})


class SchemaMetadataResource(_SchemaBase):
    """The ledger and entry of each version."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        metadata = await self.work(lambda engine: schemas.metadata(engine, name))
        return json_answer(metadata) if metadata else no_content(200)


class SchemaCompatibilityResource(_SchemaBase):
    """A check whether a schema could be the next version, without a change."""

    read_rights = ADMIN
    reading_methods = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        given = self.given(request, tenant, namespace, topic)
        verdict = await self.work(lambda engine: schemas.check(engine, given))
        return json_answer(verdict, status=202)


class SchemaLookupResource(_SchemaBase):
    """The version number of a given schema."""

    reading_methods = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        given = self.given(request, tenant, namespace, topic)
        return json_answer({"version": await self.work(lambda engine: schemas.find(engine, given))})


_TOPIC = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"{_TOPIC}/schema", LatestSchemaResource),
    (f"{_TOPIC}/schema/{{version}}", SchemaVersionResource),
    (f"{_TOPIC}/schemas", SchemaVersionsResource),
    (f"{_TOPIC}/metadata", SchemaMetadataResource),
    (f"{_TOPIC}/compatibility", SchemaCompatibilityResource),
    (f"{_TOPIC}/version", SchemaLookupResource),
]
