"""``/admin/v2/tenants``."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from engine.tenancy.tenants import (
    create_tenant,
    delete_tenant,
    get_tenant,
    list_tenants,
    update_tenant,
)
from gateway.http.bodies import flag, no_content, object_body, string_list
from gateway.rest.base import AdminView


def tenant_info(request: Request) -> dict[str, list[str]] | None:
    """The body as TenantInfo, None without one. Raises InvalidField."""
    given = object_body(request)
    if given is None:
        return None
    return {field: string_list(given, field) for field in ("adminRoles", "allowedClusters")}


class Tenants(AdminView):
    """Names of tenants."""

    permission = "tenant"

    def get(self, request: Request) -> Response:
        return Response(self.run(lambda engine: list_tenants(engine.store)))


class Tenant(AdminView):
    """One tenant."""

    permission = "tenant"
    write_permission = "cluster"

    def get(self, request: Request, tenant: str) -> Response:
        return Response(self.run(lambda engine: get_tenant(engine.store, tenant)))

    def put(self, request: Request, tenant: str) -> HttpResponse:
        info = tenant_info(request)
        self.run(lambda engine: create_tenant(engine.store, tenant, info))
        return no_content()

    def post(self, request: Request, tenant: str) -> HttpResponse:
        info = tenant_info(request)
        self.run(lambda engine: update_tenant(engine.store, tenant, info))
        return no_content()

    def delete(self, request: Request, tenant: str) -> HttpResponse:
        force = flag(request, "force")
        self.run(lambda engine: delete_tenant(engine.store, tenant, force=force))
        return no_content()


ROUTES: list[tuple[str, type[AdminView]]] = [
    ("/admin/v2/tenants", Tenants),
    ("/admin/v2/tenants/{tenant}", Tenant),
]
