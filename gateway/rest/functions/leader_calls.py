"""The call by which Apache's workers pass their changes to the worker that leads."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.base.errors import InvalidField, InvalidRequest
from engine.functions.ports import OnFunction
from gateway.http.bodies import no_content
from gateway.rest.base import AdminResource
from gateway.rest.functions.deployment_forms import form_parts, required_part
from gateway.services.functions.deploying import namespace_of, require_workers

METADATA_BYTES_MAX = 1 << 20


class FunctionOnLeaderResource(AdminResource):
    """A change of a function, source or sink that one of Apache's workers has made, in the record FunctionMetaData."""

    quiet = True
    negotiates = False
    keeps_body = False  # Configs may hold secrets.
    read_rights = write_rights = SUPERUSER

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, functionName: str
    ) -> HttpResponse:
        await self.work(require_workers)
        parts = await form_parts(request)
        metadata = required_part(parts, "functionMetaData")
        if len(metadata.content) > METADATA_BYTES_MAX:
            raise InvalidField(metadata.name, f"must have at most {METADATA_BYTES_MAX} bytes")
        words = parts["delete"].text.strip() if "delete" in parts else "false"
        if words not in ("true", "false"):
            raise InvalidRequest("delete: must be true or false")
        function = OnFunction("function", namespace_of(tenant, namespace), functionName)
        content = bytes(metadata.content)
        await self.work(
            lambda engine: engine.functions.store_metadata(
                function, content, delete=words == "true"
            )
        )
        return no_content()


ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v3/functions/leader/{tenant}/{namespace}/{functionName}", FunctionOnLeaderResource),
]
