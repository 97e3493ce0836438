"""``/admin/v2/namespaces``."""

from django.conf import settings
from django.http import Http404, HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from engine.tenancy.namespaces import (
    create_namespace,
    get_bundles,
    list_namespaces,
    namespace_name,
)
from gateway.http.bodies import flag, no_content, object_body
from gateway.rest.base import AdminView
from gateway.services import namespaces


class NamespacesOfTenant(AdminView):
    """Names ``tenant/namespace``."""

    permission = "tenant"
    write_permission = "tenant"

    def get(self, request: Request, tenant: str) -> Response:
        return Response(self.run(lambda engine: list_namespaces(engine.store, tenant)))


class Namespace(AdminView):
    """One namespace: its policies, creation, deletion."""

    permission = "namespace"
    write_permission = "tenant"

    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = namespace_name(tenant, namespace)
        return Response(self.run(lambda engine: namespaces.policies(engine, name)))

    def put(self, request: Request, tenant: str, namespace: str) -> HttpResponse:
        given = object_body(request)
        name = namespace_name(tenant, namespace)
        cluster = settings.ENVIRONMENT.cluster_name
        self.run(lambda engine: create_namespace(engine.store, name, given, cluster=cluster))
        return no_content()

    def delete(self, request: Request, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        force = flag(request, "force")
        self.run(lambda engine: namespaces.delete(engine, name, force=force))
        return no_content()


class Topics(AdminView):
    """Concrete topics of a namespace."""

    permission = "namespace"
    write_permission = "namespace"

    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = namespace_name(tenant, namespace)
        mode = request.query_params.get("mode") or "PERSISTENT"
        if mode not in namespaces.MODES:
            raise Http404
        system = flag(request, "includeSystemTopic")
        return Response(
            self.run(
                lambda engine: namespaces.list_topics(engine, name, mode, include_system=system)
            )
        )


class Bundles(AdminView):
    """The namespace's hash ranges."""

    permission = "namespace"
    write_permission = "namespace"

    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = namespace_name(tenant, namespace)
        found = self.run(lambda engine: get_bundles(engine.store, name))
        return Response(found.document)


class Replication(AdminView):
    """Clusters that hold the namespace; changing them is not built."""

    permission = "namespace"
    write_permission = "tenant"

    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = namespace_name(tenant, namespace)
        policies = self.run(lambda engine: namespaces.policies(engine, name))
        return Response(policies["replication_clusters"])


class Unload(AdminView):
    """Give up every bundle."""

    write_permission = "cluster"

    def put(self, request: Request, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        self.run(lambda engine: namespaces.unload(engine, name))
        return no_content()


class UnloadBundle(AdminView):
    """Give up one bundle."""

    write_permission = "cluster"

    def put(self, request: Request, tenant: str, namespace: str, bundle: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        destination = request.query_params.get("destinationBroker") or None
        self.run(lambda engine: namespaces.unload_bundle(engine, name, bundle, destination))
        return no_content()


_ONE = "/admin/v2/namespaces/{tenant}/{namespace}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    ("/admin/v2/namespaces/{tenant}", NamespacesOfTenant),
    (_ONE, Namespace),
    (f"{_ONE}/topics", Topics),
    (f"{_ONE}/bundles", Bundles),
    (f"{_ONE}/replication", Replication),
    (f"{_ONE}/unload", Unload),
    (f"{_ONE}/{{bundle}}/unload", UnloadBundle),
]
