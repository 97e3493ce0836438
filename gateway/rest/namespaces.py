"""``/admin/v2/namespaces``."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from engine.tenancy.namespaces import (
    create_namespace,
    get_bundles,
    list_namespaces,
    namespace_name,
)
from gateway.http.bodies import flag, json_answer, json_list, no_content, object_body
from gateway.rest.base import AdminView
from gateway.services import namespaces


class NamespacesOfTenant(AdminView):
    """Names ``tenant/namespace``."""

    permission = "tenant"
    write_permission = "tenant"

    async def get(self, request: HttpRequest, tenant: str) -> HttpResponse:
        return await json_list(
            await self.work(lambda engine: list_namespaces(engine.store, tenant))
        )


class Namespace(AdminView):
    """One namespace: its policies, creation, deletion."""

    permission = "namespace"
    write_permission = "tenant"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: namespaces.policies(engine, name)))

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        given = object_body(request)
        name = namespace_name(tenant, namespace)
        cluster = settings.ENVIRONMENT.cluster_name
        await self.work(lambda engine: create_namespace(engine.store, name, given, cluster=cluster))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        force = flag(request, "force")
        await self.work(lambda engine: namespaces.delete(engine, name, force=force))
        return no_content()


class Topics(AdminView):
    """Concrete topics of a namespace."""

    permission = "namespace"
    write_permission = "namespace"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        mode = request.GET.get("mode") or "PERSISTENT"
        if mode not in namespaces.MODES:
            raise Http404
        system = flag(request, "includeSystemTopic")
        return await json_list(
            await self.work(
                lambda engine: namespaces.list_topics(engine, name, mode, include_system=system)
            )
        )


class Bundles(AdminView):
    """The namespace's hash ranges."""

    permission = "namespace"
    write_permission = "namespace"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: get_bundles(engine.store, name))
        return json_answer(found.document)


class Replication(AdminView):
    """Clusters that hold the namespace; changing them is not built."""

    permission = "namespace"
    write_permission = "tenant"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        policies = await self.work(lambda engine: namespaces.policies(engine, name))
        return json_answer(policies["replication_clusters"])


class Unload(AdminView):
    """Give up every bundle."""

    write_permission = "cluster"

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: namespaces.unload(engine, name))
        return no_content()


class UnloadBundle(AdminView):
    """Give up one bundle."""

    write_permission = "cluster"

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        destination = request.GET.get("destinationBroker") or None
        await self.work(lambda engine: namespaces.unload_bundle(engine, name, bundle, destination))
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
