"""``/admin/v2/namespaces``."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from engine.base.errors import InvalidField, PreconditionFailed
from engine.tenancy.namespaces import (
    anti_affinity,
    anti_affinity_members,
    bookie_affinity,
    change_namespace_properties,
    clear_namespace_properties,
    create_namespace,
    get_bundles,
    list_namespaces,
    list_namespaces_of_cluster,
    namespace_name,
    namespace_properties,
    set_anti_affinity,
    set_bookie_affinity,
)
from gateway.http.bodies import (
    flag,
    json_answer,
    json_body,
    json_list,
    no_content,
    object_body,
    plain_text,
    string_map,
    whole_number,
)
from gateway.rest.base import AdminView
from gateway.services import namespaces, topics

MANY_TIMEOUT_S = 55.0
"""For what is done to every topic of a namespace: Pulsar's administrators wait a minute for an answer."""


class NamespacesOfTenant(AdminView):
    """Names ``tenant/namespace``."""

    permission = "tenant"
    write_permission = "tenant"

    async def get(self, request: HttpRequest, tenant: str) -> HttpResponse:
        return await json_list(
            await self.work(lambda engine: list_namespaces(engine.store, tenant))
        )


class NamespacesOfCluster(AdminView):
    """Names ``tenant/cluster/namespace``, of the older form alone."""

    permission = "tenant"

    async def get(self, request: HttpRequest, tenant: str, cluster: str) -> HttpResponse:
        found = await self.work(
            lambda engine: list_namespaces_of_cluster(engine.store, tenant, cluster)
        )
        return await json_list(found)


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
        cluster, limits = settings.ENVIRONMENT.cluster_name, settings.TENANT_LIMITS
        await self.work(
            lambda engine: create_namespace(
                engine.store, name, given, cluster=cluster, limits=limits
            )
        )
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


class _OfNamespace(AdminView):
    permission = "namespace"
    write_permission = "namespace"


class Properties(_OfNamespace):
    """What users keep at a namespace, by name."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: namespace_properties(engine.store, name)))

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        given = string_map(object_body(request), "properties")
        await self.work(lambda engine: change_namespace_properties(engine.store, name, given))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: clear_namespace_properties(engine.store, name))
        return no_content()


class Property(_OfNamespace):
    """One of them; Pulsar answers its bare text."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, key: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: namespace_properties(engine.store, name))
        return _bare(found.get(key))

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, key: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        before = await self.work(
            lambda engine: change_namespace_properties(engine.store, name, {key: None})
        )
        return _bare(before.get(key))


class SetProperty(_OfNamespace):
    """One of them, with its value in the path."""

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, key: str, value: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: change_namespace_properties(engine.store, name, {key: value})
        )
        return no_content()


def _bare(text: str | None) -> HttpResponse:
    return no_content(200) if text is None else plain_text(text)


class AntiAffinity(AdminView):
    """The group of namespaces that brokers of one failure domain are not to serve together; kept, not acted upon."""

    permission = "namespace"
    write_permission = "cluster"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        group = await self.work(lambda engine: anti_affinity(engine.store, name))
        return no_content() if group is None else plain_text(group)

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        group = request.body.decode(errors="replace")
        if not group.strip():
            raise PreconditionFailed("antiAffinityGroup can't be empty")
        await self.work(lambda engine: set_anti_affinity(engine.store, name, group))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: set_anti_affinity(engine.store, name, None))
        return no_content()


class AntiAffinityMembers(AdminView):
    """Namespaces of a tenant in such a group."""

    permission = "tenant"
    parameter = "tenant"

    async def get(self, request: HttpRequest, cluster: str, group: str) -> HttpResponse:
        tenant = request.GET.get(self.parameter)
        return await json_list(
            await self.work(
                lambda engine: anti_affinity_members(engine.store, cluster, tenant, group)
            )
        )


class OlderAntiAffinityMembers(AntiAffinityMembers):
    """Java's administrators ask by the older path, where the tenant is a property."""

    parameter = "property"


class BookieAffinity(AdminView):
    """The groups of bookies that hold the namespace's ledgers; setting one is not built."""

    permission = "namespace"
    write_permission = "cluster"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: bookie_affinity(engine.store, name))
        return no_content() if found is None else json_answer(found)

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name, given = namespace_name(tenant, namespace), object_body(request)
        await self.work(lambda engine: set_bookie_affinity(engine.store, name, given))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: set_bookie_affinity(engine.store, name, None))
        return no_content()


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


class SplitBundle(AdminView):
    """Cut one bundle in parts."""

    write_permission = "cluster"

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        algorithm = request.GET.get("splitAlgorithmName") or ""
        positions = json_body(request) or []
        if not isinstance(positions, list):
            raise InvalidField("body", "expected an array of hashes")
        edges = [whole_number(one, "body") for one in positions]
        unload = flag(request, "unload")
        await self.work(
            lambda engine: namespaces.split_bundle(
                engine, name, bundle, algorithm, edges, unload=unload
            )
        )
        return no_content()


class ClearBacklog(_OfNamespace):
    """Acknowledge everything of a subscription, or of all, in the namespace or one bundle of it."""

    work_timeout_s = MANY_TIMEOUT_S

    async def post(
        self,
        request: HttpRequest,
        tenant: str,
        namespace: str,
        bundle: str | None = None,
        subscription: str | None = None,
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: namespaces.clear_backlog(engine, name, bundle, subscription))
        return no_content()


class Unsubscribe(_OfNamespace):
    """Delete a subscription in the namespace or one bundle of it."""

    work_timeout_s = MANY_TIMEOUT_S

    async def post(
        self,
        request: HttpRequest,
        tenant: str,
        namespace: str,
        subscription: str,
        bundle: str | None = None,
    ) -> HttpResponse:
        name, title = namespace_name(tenant, namespace), topics.subscription_name(subscription)
        await self.work(lambda engine: namespaces.unsubscribe(engine, name, bundle, title))
        return no_content()


_ONE = "/admin/v2/namespaces/{tenant}/{namespace}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    ("/admin/v2/namespaces/{tenant}", NamespacesOfTenant),
    ("/admin/namespaces/{tenant}/{cluster}", NamespacesOfCluster),
    (_ONE, Namespace),
    (f"{_ONE}/topics", Topics),
    (f"{_ONE}/bundles", Bundles),
    (f"{_ONE}/properties", Properties),
    (f"{_ONE}/property/{{key}}", Property),
    (f"{_ONE}/property/{{key}}/{{value}}", SetProperty),
    (f"{_ONE}/antiAffinity", AntiAffinity),
    ("/admin/v2/namespaces/{cluster}/antiAffinity/{group}", AntiAffinityMembers),
    ("/admin/namespaces/{cluster}/antiAffinity/{group}", OlderAntiAffinityMembers),
    (f"{_ONE}/persistence/bookieAffinity", BookieAffinity),
    (f"{_ONE}/unload", Unload),
    (f"{_ONE}/{{bundle}}/unload", UnloadBundle),
    (f"{_ONE}/{{bundle}}/split", SplitBundle),
    (f"{_ONE}/clearBacklog", ClearBacklog),
    (f"{_ONE}/clearBacklog/{{subscription}}", ClearBacklog),
    (f"{_ONE}/{{bundle}}/clearBacklog", ClearBacklog),
    (f"{_ONE}/{{bundle}}/clearBacklog/{{subscription}}", ClearBacklog),
    (f"{_ONE}/unsubscribe/{{subscription}}", Unsubscribe),
    (f"{_ONE}/{{bundle}}/unsubscribe/{{subscription}}", Unsubscribe),
]
