"""``/admin/v2/tenants``."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.tenancy.tenants import (
    create_tenant,
    delete_tenant,
    get_tenant,
    list_tenants,
    update_tenant,
)
from gateway.http.auth.access import ADMIN_OF_TENANT
from gateway.http.bodies import flag, json_answer, json_list, no_content, object_body, string_list
from gateway.rest.access.seen import seen_tenants
from gateway.rest.base import AdminResource


def tenant_info(request: HttpRequest) -> dict[str, list[str]] | None:
    """Return the body as TenantInfo; None without a body. Raises InvalidField."""
    given = object_body(request)
    if given is None:
        return None
    return {field: string_list(given, field) for field in ("adminRoles", "allowedClusters")}


class TenantsResource(AdminResource):
    """The names of tenants."""

    read_rights = SUPERUSER
    for_viewer = True

    async def get(self, request: HttpRequest) -> HttpResponse:
        names = await self.work(lambda engine: list_tenants(engine.store))
        return await json_list(seen_tenants(self.viewer, names))


class TenantResource(AdminResource):
    """A tenant: its definition, creation and deletion."""

    read_rights = ADMIN_OF_TENANT
    write_rights = {"PUT": SUPERUSER, "POST": ADMIN_OF_TENANT, "DELETE": ADMIN_OF_TENANT}

    async def get(self, request: HttpRequest, tenant: str) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_tenant(engine.store, tenant)))

    async def put(self, request: HttpRequest, tenant: str) -> HttpResponse:
        info = tenant_info(request)
        await self.work(
            lambda engine: create_tenant(engine.store, tenant, info, limits=settings.TENANT_LIMITS)
        )
        return no_content()

    async def post(self, request: HttpRequest, tenant: str) -> HttpResponse:
        info, by_superuser = tenant_info(request), await self.is_superuser()
        await self.work(
            lambda engine: update_tenant(engine.store, tenant, info, by_superuser=by_superuser)
        )
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str) -> HttpResponse:
        force = flag(request, "force")
        await self.work(lambda engine: delete_tenant(engine.store, tenant, force=force))
        return no_content()


ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/tenants", TenantsResource),
    ("/admin/v2/tenants/{tenant}", TenantResource),
]
