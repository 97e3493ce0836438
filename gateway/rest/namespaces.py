"""``/admin/v2/namespaces``."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, Resource, TenantName
from engine.auth.rights import SUPERUSER, Right
from engine.base.errors import InvalidField, PreconditionFailed
from engine.tenancy.geo.cluster_migration import set_namespace_migration
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
from gateway.http.auth.access import (
    ADMIN_OF_NAMESPACE,
    ADMIN_OF_TENANT,
    CONSUME_NAMESPACE,
    LIST_NAMESPACE,
)
from gateway.http.bodies import (
    flag,
    json_answer,
    json_body,
    json_list,
    kind_of,
    no_content,
    object_body,
    plain_text,
    string_map,
    whole_number,
)
from gateway.rest.access.seen import seen_namespaces, seen_topics
from gateway.rest.base import AdminResource
from gateway.services.admin import names, namespaces

MANY_TIMEOUT_S = 55.0
"""Time limit of calls that change every topic of a namespace; Pulsar's admin clients wait a minute for an answer."""


class NamespacesOfTenantResource(AdminResource):
    """The namespaces of a tenant, as ``tenant/namespace``."""

    read_rights = ADMIN_OF_TENANT
    for_viewer = True

    async def get(self, request: HttpRequest, tenant: str) -> HttpResponse:
        names = await self.work(lambda engine: list_namespaces(engine.store, tenant))
        return await json_list(seen_namespaces(self.viewer, names))


class NamespacesOfClusterResource(AdminResource):
    """The namespaces with names of the older form, ``tenant/cluster/namespace``."""

    read_rights = ADMIN_OF_TENANT
    for_viewer = True

    async def get(self, request: HttpRequest, tenant: str, cluster: str) -> HttpResponse:
        names = await self.work(
            lambda engine: list_namespaces_of_cluster(engine.store, tenant, cluster)
        )
        return await json_list(seen_namespaces(self.viewer, names))


class NamespaceResource(AdminResource):
    """A namespace: its policies, creation and deletion."""

    read_rights = write_rights = ADMIN_OF_NAMESPACE

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: namespaces.policies(engine, name)))

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        given = object_body(request)
        name = namespace_name(tenant, namespace)
        cluster, limits = self.cluster.name, settings.TENANT_LIMITS
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


class NamespaceTopicsResource(AdminResource):
    """The topics of a namespace, partitions included."""

    read_rights = LIST_NAMESPACE
    for_viewer = True

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        mode = request.GET.get("mode") or "PERSISTENT"
        if mode not in namespaces.MODES:
            raise Http404
        system = flag(request, "includeSystemTopic")
        names = await self.work(
            lambda engine: namespaces.list_topics(engine, name, mode, include_system=system)
        )
        return await json_list(seen_topics(self.viewer, name, names))


class BundlesResource(AdminResource):
    """The bundles of a namespace."""

    read_rights = LIST_NAMESPACE

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        bundles = await self.work(lambda engine: get_bundles(engine.store, name))
        return json_answer(bundles.document)


class _NamespaceBase(AdminResource):
    read_rights = write_rights = ADMIN_OF_NAMESPACE


class NamespacePropertiesResource(_NamespaceBase):
    """The properties that users set on a namespace."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: namespace_properties(engine.store, name)))

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        properties = string_map(object_body(request), "properties")
        await self.work(lambda engine: change_namespace_properties(engine.store, name, properties))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: clear_namespace_properties(engine.store, name))
        return no_content()


class NamespacePropertyResource(_NamespaceBase):
    """A property of a namespace, answered as unquoted text as in Pulsar."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, key: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        properties = await self.work(lambda engine: namespace_properties(engine.store, name))
        return _text_or_empty(properties.get(key))

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, key: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        before = await self.work(
            lambda engine: change_namespace_properties(engine.store, name, {key: None})
        )
        return _text_or_empty(before.get(key))


class NamespacePropertyValueResource(_NamespaceBase):
    """The change of a property, with its value in the path."""

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, key: str, value: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: change_namespace_properties(engine.store, name, {key: value})
        )
        return no_content()


def _text_or_empty(text: str | None) -> HttpResponse:
    return no_content(200) if text is None else plain_text(text)


class AntiAffinityResource(AdminResource):
    """The anti-affinity group of a namespace, whose members brokers of one failure domain should not serve together.

    It is stored, but has no effect.
    """

    read_rights = write_rights = ADMIN_OF_NAMESPACE

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


class AntiAffinityMembersResource(AdminResource):
    """The namespaces of an anti-affinity group."""

    parameter = "tenant"

    def queried_tenant(self) -> Resource:
        """Return the tenant of the query; without one the call is a superuser's. Raises InvalidNameError."""
        tenant = self.request.GET.get(self.parameter, "")
        return TenantName.parse(tenant) if tenant else CLUSTER

    read_rights = Right(Action.TENANT_ADMIN, TenantName, queried_tenant)
    for_viewer = True

    async def get(self, request: HttpRequest, cluster: str, group: str) -> HttpResponse:
        tenant = request.GET.get(self.parameter)
        names = await self.work(
            lambda engine: anti_affinity_members(engine.store, cluster, tenant, group)
        )
        return await json_list(seen_namespaces(self.viewer, names))


class OlderAntiAffinityMembersResource(AntiAffinityMembersResource):
    """The same by the older path, which Java's admin client uses, and where a tenant is called a property."""

    parameter = "property"


class BookieAffinityResource(AdminResource):
    """The groups of bookies that store a namespace's ledgers."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        groups = await self.work(lambda engine: bookie_affinity(engine.store, name))
        return no_content() if groups is None else json_answer(groups)

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name, given = namespace_name(tenant, namespace), object_body(request)
        await self.work(lambda engine: set_bookie_affinity(engine.store, name, given))
        return no_content()

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: set_bookie_affinity(engine.store, name, None))
        return no_content()


class NamespaceUnloadResource(AdminResource):
    """The unload of all bundles of a namespace from their brokers."""

    write_rights = SUPERUSER
    for_operators = frozenset({"PUT"})

    async def put(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: namespaces.unload(engine, name))
        return no_content()


class BundleUnloadResource(AdminResource):
    """The unload of one bundle from its broker."""

    write_rights = SUPERUSER
    for_operators = frozenset({"PUT"})

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        destination = request.GET.get("destinationBroker") or None
        await self.work(lambda engine: namespaces.unload_bundle(engine, name, bundle, destination))
        return no_content()


class BundleSplitResource(AdminResource):
    """The split of one bundle."""

    write_rights = SUPERUSER

    async def put(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        algorithm = request.GET.get("splitAlgorithmName") or ""
        hashes = json_body(request) or []
        if not isinstance(hashes, list):
            raise InvalidField("body", "expected an array of hashes")
        edges = [whole_number(item, "body") for item in hashes]
        unload = flag(request, "unload")
        await self.work(
            lambda engine: namespaces.split_bundle(
                engine, name, bundle, algorithm, edges, unload=unload
            )
        )
        return no_content()


class NamespaceClearBacklogResource(_NamespaceBase):
    """The clearing of backlogs of one subscription or of all, in a namespace or one bundle of it."""

    write_rights = CONSUME_NAMESPACE
    for_operators = frozenset({"POST"})
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


class NamespaceUnsubscribeResource(_NamespaceBase):
    """The deletion of a subscription from the topics of a namespace or of one bundle of it."""

    write_rights = CONSUME_NAMESPACE
    work_timeout_s = MANY_TIMEOUT_S

    async def post(
        self,
        request: HttpRequest,
        tenant: str,
        namespace: str,
        subscription: str,
        bundle: str | None = None,
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        checked = names.subscription_name(subscription)
        await self.work(lambda engine: namespaces.unsubscribe(engine, name, bundle, checked))
        return no_content()


class NamespaceMigrationResource(AdminResource):
    """The migration of a namespace's topics to the cluster that its cluster's policies name."""

    write_rights = SUPERUSER

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name, migrated = namespace_name(tenant, namespace), json_body(request)
        if not isinstance(migrated, bool):
            raise InvalidField("body", f"expected a boolean, got {kind_of(migrated)}")
        await self.work(
            lambda engine: set_namespace_migration(engine.store, name, migrated=migrated)
        )
        return no_content()


class OffloadedLedgersResource(AdminResource):
    """The objects that tiered storage has of a namespace's ledgers, compared with the records of its topics."""

    read_rights = ADMIN_OF_NAMESPACE
    work_timeout_s = MANY_TIMEOUT_S

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(
            await self.work(lambda engine: namespaces.offloaded_ledgers(engine, name))
        )


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/namespaces/{tenant}", NamespacesOfTenantResource),
    ("/admin/namespaces/{tenant}/{cluster}", NamespacesOfClusterResource),
    (_NAMESPACE, NamespaceResource),
    (f"{_NAMESPACE}/topics", NamespaceTopicsResource),
    (f"{_NAMESPACE}/bundles", BundlesResource),
    (f"{_NAMESPACE}/properties", NamespacePropertiesResource),
    (f"{_NAMESPACE}/property/{{key}}", NamespacePropertyResource),
    (f"{_NAMESPACE}/property/{{key}}/{{value}}", NamespacePropertyValueResource),
    (f"{_NAMESPACE}/antiAffinity", AntiAffinityResource),
    ("/admin/v2/namespaces/{cluster}/antiAffinity/{group}", AntiAffinityMembersResource),
    ("/admin/namespaces/{cluster}/antiAffinity/{group}", OlderAntiAffinityMembersResource),
    (f"{_NAMESPACE}/persistence/bookieAffinity", BookieAffinityResource),
    (f"{_NAMESPACE}/unload", NamespaceUnloadResource),
    (f"{_NAMESPACE}/migration", NamespaceMigrationResource),
    (f"{_NAMESPACE}/scanOffloadedLedgers", OffloadedLedgersResource),
    (f"{_NAMESPACE}/{{bundle}}/unload", BundleUnloadResource),
    (f"{_NAMESPACE}/{{bundle}}/split", BundleSplitResource),
    (f"{_NAMESPACE}/clearBacklog", NamespaceClearBacklogResource),
    (f"{_NAMESPACE}/clearBacklog/{{subscription}}", NamespaceClearBacklogResource),
    (f"{_NAMESPACE}/{{bundle}}/clearBacklog", NamespaceClearBacklogResource),
    (f"{_NAMESPACE}/{{bundle}}/clearBacklog/{{subscription}}", NamespaceClearBacklogResource),
    (f"{_NAMESPACE}/unsubscribe/{{subscription}}", NamespaceUnsubscribeResource),
    (f"{_NAMESPACE}/{{bundle}}/unsubscribe/{{subscription}}", NamespaceUnsubscribeResource),
]
