"""REST of tenants, namespaces and their policies. As in Pulsar's REST, an administrator of the tenant
changes what is in it."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import WINDOW, Call, ClusterView, Parameter, checked, query
from admin_ui.lists.record_order import sort_parameter
from admin_ui.shapes import PropertiesAnswer, PropertiesBody
from admin_ui.tenants import selectors, services, shapes
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.tenants import delete_tenant
from gateway.http.auth.access import ADMIN_OF_NAMESPACE, ADMIN_OF_TENANT
from gateway.http.bodies import json_answer, no_content
from gateway.services.admin import namespaces

TENANT = Parameter("tenant", place="path")
NAMESPACE = Parameter("namespace", "without the tenant", place="path")
FILTERED = (
    Parameter("q", "part of the name, in any case"),
    sort_parameter(selectors.SORTS, "name"),
    *WINDOW,
)


class TenantsView(ClusterView):
    """All tenants."""

    read_rights, write_rights = AUTHENTICATED, SUPERUSER
    calls = {
        "get": Call("listTenants", shapes.TenantsAnswer, FILTERED, errors=(400,)),
        "post": Call(
            "createTenant",
            shapes.TenantRow,
            body=shapes.NewTenant,
            success=201,
            errors=(400, 403, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(
                lambda engine: selectors.tenants(self.viewer, self.cluster, engine, params)
            )
        )

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.NewTenant, request)
        row = await self.work(lambda engine: services.make_tenant(self.viewer, engine, **body))
        return json_answer(row, status=201)


class TenantView(ClusterView):
    """A tenant."""

    write_rights = ADMIN_OF_TENANT
    calls = {
        "put": Call(
            "updateTenant",
            shapes.TenantRow,
            (TENANT,),
            body=shapes.TenantBody,
            errors=(400, 403, 412),
        ),
        "delete": Call(
            "deleteTenant", parameters=(TENANT,), success=204, errors=(403, 404, 409, 412)
        ),
    }

    async def put(self, request: HttpRequest, tenant: str) -> HttpResponse:
        body = checked(shapes.TenantBody, request)
        return json_answer(
            await self.work(
                lambda engine: services.change_tenant(self.viewer, engine, tenant, **body)
            )
        )

    async def delete(self, request: HttpRequest, tenant: str) -> HttpResponse:
        await self.work(lambda engine: delete_tenant(engine.store, tenant))
        return no_content()


class NamespacesView(ClusterView):
    """The namespaces of a tenant."""

    read_rights = write_rights = ADMIN_OF_TENANT
    calls = {
        "get": Call(
            "listNamespaces", shapes.NamespacesAnswer, (TENANT, *FILTERED), errors=(400, 412)
        ),
        "post": Call(
            "createNamespace",
            shapes.NamespaceAnswer,
            (TENANT,),
            body=shapes.NewNamespace,
            success=201,
            errors=(400, 403, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest, tenant: str) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(
                lambda engine: selectors.namespaces(
                    self.viewer, self.cluster, engine, tenant, params
                )
            )
        )

    async def post(self, request: HttpRequest, tenant: str) -> HttpResponse:
        body = checked(shapes.NewNamespace, request)
        name = namespace_name(tenant, body["name"])
        bundles = body["bundles"]
        answer = await self.work(
            lambda engine: services.make_namespace(engine, name, bundles=bundles)
        )
        return json_answer(answer, status=201)


class NamespaceView(ClusterView):
    """A namespace with its policies."""

    read_rights = write_rights = ADMIN_OF_NAMESPACE
    calls = {
        "get": Call("getNamespace", shapes.NamespaceAnswer, (TENANT, NAMESPACE), errors=(412,)),
        "delete": Call(
            "deleteNamespace",
            parameters=(TENANT, NAMESPACE),
            success=204,
            errors=(403, 404, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: selectors.namespace(engine, name)))

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: namespaces.delete(engine, name))
        return no_content()


class PropertiesView(ClusterView):
    """All properties of a namespace."""

    write_rights = ADMIN_OF_NAMESPACE
    calls = {
        "put": Call(
            "setNamespaceProperties",
            PropertiesAnswer,
            (TENANT, NAMESPACE),
            body=PropertiesBody,
            errors=(400, 403, 404, 409, 412),
        ),
    }

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        body = checked(PropertiesBody, request)
        properties = await self.work(
            lambda engine: services.set_properties(engine, name, body["value"], body["expected"])
        )
        return json_answer({"properties": properties})
