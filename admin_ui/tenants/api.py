"""REST of tenants, namespaces and their policies. As in the admin REST, changes ask for a superuser."""

from typing import TypeVar

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.calls import WINDOW, Call, ClusterView, Parameter, checked, query
from admin_ui.tenants import selectors, services, shapes
from engine.base.errors import NotFound
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.policies import BY_NAME
from engine.tenancy.tenants import delete_tenant
from gateway.http.bodies import no_content, principal
from gateway.services import namespaces
from gateway.services.engine_link import Work, link

T = TypeVar("T")
TENANT = Parameter("tenant", place="path")
NAMESPACE = Parameter("namespace", "without the tenant", place="path")
FILTERED = (Parameter("q", "part of the name, in any case"), *WINDOW)


class TenancyView(ClusterView):
    """Base: on behalf of whoever sent the request."""

    def run(self, work: Work[T]) -> T:
        return link().run(work, principal=principal(self.request))


class TenantsView(TenancyView):
    """All tenants."""

    permission = "tenant"
    write_permission = "cluster"
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

    def get(self, request: Request) -> Response:
        params = query(request)
        return Response(self.run(lambda engine: selectors.tenants(engine, params)))

    def post(self, request: Request) -> Response:
        asked = checked(shapes.NewTenant, request)
        row = self.run(lambda engine: services.make_tenant(engine, **asked))
        return Response(row, status=201)


class TenantView(TenancyView):
    """One tenant."""

    permission = "tenant"
    write_permission = "cluster"
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

    def put(self, request: Request, tenant: str) -> Response:
        asked = checked(shapes.TenantBody, request)
        return Response(self.run(lambda engine: services.change_tenant(engine, tenant, **asked)))

    def delete(self, request: Request, tenant: str) -> HttpResponse:
        self.run(lambda engine: delete_tenant(engine.store, tenant))
        return no_content()


class NamespacesView(TenancyView):
    """The namespaces of a tenant."""

    permission = "tenant"
    write_permission = "tenant"
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

    def get(self, request: Request, tenant: str) -> Response:
        params = query(request)
        return Response(self.run(lambda engine: selectors.namespaces(engine, tenant, params)))

    def post(self, request: Request, tenant: str) -> Response:
        asked = checked(shapes.NewNamespace, request)
        name = namespace_name(tenant, asked["name"])
        bundles = asked["bundles"]
        made = self.run(lambda engine: services.make_namespace(engine, name, bundles=bundles))
        return Response(made, status=201)


class NamespaceView(TenancyView):
    """One namespace with its policies."""

    permission = "namespace"
    write_permission = "tenant"
    calls = {
        "get": Call("getNamespace", shapes.NamespaceAnswer, (TENANT, NAMESPACE), errors=(412,)),
        "delete": Call(
            "deleteNamespace",
            parameters=(TENANT, NAMESPACE),
            success=204,
            errors=(403, 404, 409, 412),
        ),
    }

    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = namespace_name(tenant, namespace)
        return Response(self.run(lambda engine: selectors.namespace(engine, name)))

    def delete(self, request: Request, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        self.run(lambda engine: namespaces.delete(engine, name))
        return no_content()


class PolicyView(TenancyView):
    """One policy of a namespace: set it, or remove it with the value null."""

    permission = "namespace"
    write_permission = "namespace"
    calls = {
        "put": Call(
            "setNamespacePolicy",
            shapes.PolicyRow,
            (TENANT, NAMESPACE, Parameter("policy", "name of its row", place="path")),
            body=shapes.PolicyBody,
            errors=(400, 403, 409, 412, 501),
        ),
    }

    def put(self, request: Request, tenant: str, namespace: str, policy: str) -> Response:
        name = namespace_name(tenant, namespace)
        asked = checked(shapes.PolicyBody, request)
        if policy not in BY_NAME:
            raise NotFound(f"Namespaces have no policy {policy}")
        row = BY_NAME[policy]
        return Response(self.run(lambda engine: services.set_policy(engine, name, row, **asked)))
