"""``/admin/v2/resourcegroups``, a namespace's group, and ``/admin/v2/resource-quotas`` of bundles."""

from django.http import HttpRequest, HttpResponse

from engine.tenancy.namespaces import get_policies, namespace_name
from engine.tenancy.resources import resource_groups
from engine.tenancy.resources.bundle_quotas import (
    delete_quota,
    get_default_quota,
    get_quota,
    set_default_quota,
    set_quota,
)
from gateway.http.bodies import json_answer, json_list, no_content, object_body, plain_text
from gateway.rest.base import AdminView
from gateway.services import namespaces


class Groups(AdminView):
    """Names of resource groups."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await json_list(
            await self.work(lambda engine: resource_groups.list_resource_groups(engine.store))
        )


class Group(AdminView):
    """One resource group."""

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


class GroupOfNamespace(AdminView):
    """The group that a namespace is in, as bare text; leaving it."""

    permission = "namespace"
    write_permission = "tenant"

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


class Joining(AdminView):
    """Having a namespace join a group."""

    write_permission = "tenant"

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, resourcegroup: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: resource_groups.join_resource_group(engine.store, name, resourcegroup)
        )
        return no_content()


class DefaultQuota(AdminView):
    """Of bundles of which nothing is said."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_default_quota(engine.store)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        given = object_body(request)
        await self.work(lambda engine: set_default_quota(engine.store, given))
        return no_content()


class Quota(AdminView):
    """Of one bundle."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        return json_answer(await self.work(lambda engine: get_quota(engine.store, name, found)))

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        given = object_body(request)
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        await self.work(lambda engine: set_quota(engine.store, name, found, given))
        return no_content()

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        found = await self.work(lambda engine: namespaces.one_bundle(engine, name, bundle))
        await self.work(lambda engine: delete_quota(engine.store, name, found))
        return no_content()


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_QUOTAS = "/admin/v2/resource-quotas"
ROUTES: list[tuple[str, type[AdminView]]] = [
    ("/admin/v2/resourcegroups", Groups),
    ("/admin/v2/resourcegroups/{resourcegroup}", Group),
    (f"{_NAMESPACE}/resourcegroup", GroupOfNamespace),
    (f"{_NAMESPACE}/resourcegroup/{{resourcegroup}}", Joining),
    (_QUOTAS, DefaultQuota),
    (f"{_QUOTAS}/{{tenant}}/{{namespace}}/{{bundle}}", Quota),
]
