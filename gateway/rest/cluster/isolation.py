"""Failure domains and namespace isolation policies, below ``/admin/v2/clusters/{cluster}``."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.tenancy.resources.failure_domains import (
    delete_failure_domain,
    get_failure_domain,
    list_failure_domains,
    set_failure_domain,
)
from engine.tenancy.resources.isolation import (
    delete_isolation_policy,
    get_isolation_policy,
    isolation_of_brokers,
    list_isolation_policies,
    set_isolation_policy,
)
from gateway.http.bodies import json_answer, no_content, object_body
from gateway.rest.base import AdminResource
from gateway.services.admin import brokers


class FailureDomainsResource(AdminResource):
    """The failure domains of a cluster by name."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: list_failure_domains(engine.store, cluster))
        )


class FailureDomainResource(AdminResource):
    """A failure domain. Its removal answers 200, not 204, as Pulsar."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str, domainName: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: get_failure_domain(engine.store, cluster, domainName))
        )

    async def post(self, request: HttpRequest, cluster: str, domainName: str) -> HttpResponse:
        given = object_body(request)
        await self.work(lambda engine: set_failure_domain(engine.store, cluster, domainName, given))
        return no_content()

    async def delete(self, request: HttpRequest, cluster: str, domainName: str) -> HttpResponse:
        await self.work(lambda engine: delete_failure_domain(engine.store, cluster, domainName))
        return no_content(200)


class IsolationPoliciesResource(AdminResource):
    """The isolation policies of a cluster by name."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: list_isolation_policies(engine.store, cluster))
        )


class IsolationPolicyResource(AdminResource):
    """An isolation policy."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str, policyName: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: get_isolation_policy(engine.store, cluster, policyName))
        )

    async def post(self, request: HttpRequest, cluster: str, policyName: str) -> HttpResponse:
        given = object_body(request)
        await self.work(
            lambda engine: set_isolation_policy(engine.store, cluster, policyName, given)
        )
        return no_content()

    async def delete(self, request: HttpRequest, cluster: str, policyName: str) -> HttpResponse:
        await self.work(lambda engine: delete_isolation_policy(engine.store, cluster, policyName))
        return no_content()


class IsolationOfBrokersResource(AdminResource):
    """The isolation policies that name each live broker."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        ids = await self.work(brokers.ids)
        return json_answer(
            await self.work(lambda engine: isolation_of_brokers(engine.store, cluster, ids))
        )


class IsolationOfBrokerResource(AdminResource):
    """The isolation policies that name a broker, live or not."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str, broker: str) -> HttpResponse:
        rows = await self.work(lambda engine: isolation_of_brokers(engine.store, cluster, [broker]))
        return json_answer(rows[0])


_CLUSTER = "/admin/v2/clusters/{cluster}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"{_CLUSTER}/failureDomains", FailureDomainsResource),
    (f"{_CLUSTER}/failureDomains/{{domainName}}", FailureDomainResource),
    (f"{_CLUSTER}/namespaceIsolationPolicies", IsolationPoliciesResource),
    (f"{_CLUSTER}/namespaceIsolationPolicies/brokers", IsolationOfBrokersResource),
    (f"{_CLUSTER}/namespaceIsolationPolicies/brokers/{{broker}}", IsolationOfBrokerResource),
    (f"{_CLUSTER}/namespaceIsolationPolicies/{{policyName}}", IsolationPolicyResource),
]
