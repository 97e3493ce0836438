"""Resource groups (``/admin/v2/resourcegroups``) and resource quotas of bundles (``/admin/v2/resource-quotas``)."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.tenancy.namespaces import get_policies, namespace_name
from engine.tenancy.resources import resource_groups
from engine.tenancy.resources.bundle_quotas import (
    delete_quota,
    get_default_quota,
    get_quota,
    set_default_quota,
    set_quota,
)
from gateway.http.auth.access import ADMIN_OF_NAMESPACE
from gateway.http.bodies import json_answer, json_list, no_content, object_body, plain_text
from gateway.rest.base import AdminResource
from gateway.services.admin import namespaces


class ResourceGroupsResource(AdminResource):
    """The names of resource groups."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await json_list(
            await self.work(lambda engine: resource_groups.list_resource_groups(engine.store))
        )


class ResourceGroupResource(AdminResource):
    """A resource group."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, resourcegroup: str) -> HttpResponse:
        return json_answer(
            await self.work(
                lambda engine: resource_groups.get_resource_group(engine.store, resourcegroup)
            )
        )

    async def put(self, request: HttpRequest, resourcegroup: str) -> HttpResponse:
        given = object_body(request)
        await self.work(
            lambda engine: resource_groups.put_resource_group(engine.store, resourcegroup, given)
        )
        return no_content()

    async def delete(self, request: HttpRequest, resourcegroup: str) -> HttpResponse:
        await self.work(
            lambda engine: resource_groups.delete_resource_group(engine.store, resourcegroup)
        )
        return no_content()


class NamespaceResourceGroupResource(AdminResource):
    """The resource group of a namespace, as unquoted text; the removal of the namespace from it."""

    read_rights = write_rights = ADMIN_OF_NAMESPACE

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        policies = await self.work(lambda engine: get_policies(engine.store, name))
        group = policies.get(resource_groups.KEY)
        return plain_text(group) if group else no_content(200)

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: resource_groups.join_resource_group(engine.store, name, None)
        )
        return no_content()


class ResourceGroupMembershipResource(AdminResource):
    """The addition of a namespace to a resource group."""

    write_rights = ADMIN_OF_NAMESPACE

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, resourcegroup: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: resource_groups.join_resource_group(engine.store, name, resourcegroup)
        )
        return no_content()


class DefaultBundleQuotaResource(AdminResource):
    """The resource quota of bundles without one of their own."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_default_quota(engine.store)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        given = object_body(request)
        await self.work(lambda engine: set_default_quota(engine.store, given))
        return no_content()


class BundleQuotaResource(AdminResource):
    """The resource quota of one bundle."""

    read_rights = write_rights = SUPERUSER

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        bundle_range = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        return json_answer(
            await self.work(lambda engine: get_quota(engine.store, name, bundle_range))
        )

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        given = object_body(request)
        name = namespace_name(tenant, namespace)
        bundle_range = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        await self.work(lambda engine: set_quota(engine.store, name, bundle_range, given))
        return no_content()

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        bundle_range = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        await self.work(lambda engine: delete_quota(engine.store, name, bundle_range))
        return no_content()


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_QUOTAS = "/admin/v2/resource-quotas"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/resourcegroups", ResourceGroupsResource),
    ("/admin/v2/resourcegroups/{resourcegroup}", ResourceGroupResource),
    (f"{_NAMESPACE}/resourcegroup", NamespaceResourceGroupResource),
    (f"{_NAMESPACE}/resourcegroup/{{resourcegroup}}", ResourceGroupMembershipResource),
    (_QUOTAS, DefaultBundleQuotaResource),
    (f"{_QUOTAS}/{{tenant}}/{{namespace}}/{{bundle}}", BundleQuotaResource),
]
