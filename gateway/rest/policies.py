"""Resources that read, set and remove policies of namespaces and topics, generated from the table of policies."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.http import Http404, HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.base.names import TopicName
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.policies.forms import Choice, Fields, Names
from engine.tenancy.policies.policy import Level, Policy
from engine.tenancy.policies.policy_calls import DELETE, PolicyRoute, Removal
from engine.tenancy.policies.table import (
    AGE_QUOTA,
    OFFLOADING,
    POLICIES,
    SIZE_QUOTA,
    SUBSCRIPTION_RATE,
)
from gateway.http.auth.access import ADMIN_OF_NAMESPACE
from gateway.http.bodies import flag, json_answer, json_body, no_content
from gateway.rest.base import AdminResource
from gateway.rest.rights import ADMIN
from gateway.rest.topics import TopicPathResource
from gateway.services.admin import policies

QUOTAS = (SIZE_QUOTA, AGE_QUOTA)
"""Policies that share a route; the last part of each one's key is the type that the query selects."""


def value_of(policy: Policy, body: Any) -> Any:
    """Return the value to store for a body; None removes the policy.

    As in Pulsar, a missing body removes a policy that is an object or a word, and one that only this removes from a
    namespace. Raises InvalidField.
    """
    removes = isinstance(policy.form, Fields | Choice) or _removed_by_null(policy)
    if body is None and removes:
        return None
    if body is None and isinstance(policy.form, Names):
        body = []
    return policy.read(body)


def _removed_by_null(policy: Policy) -> bool:
    route = policy.route_at(Level.NAMESPACE)
    return route is not None and route.removal == Removal("POST", None)


def route_of(policy: Policy, level: Level) -> PolicyRoute:
    """Return the route of a policy that exists at the level."""
    route = policy.route_at(level)
    assert route is not None, policy.name
    return route


def quota(request: HttpRequest) -> Policy:
    """Return the policy of the query's ``backlogQuotaType``. Raises Http404 for an unknown one, as Pulsar answers."""
    kind = request.GET.get("backlogQuotaType") or SIZE_QUOTA.key[-1]
    policy = next((policy for policy in QUOTAS if policy.key[-1] == kind), None)
    if policy is None:
        raise Http404
    return policy


def is_global(request: HttpRequest, policy: Policy) -> bool:
    """Return whether the call is about the topic's policy in all clusters that replicate the topic."""
    return flag(request, "isGlobal") and route_of(policy, Level.TOPIC).everywhere


def own_field(request: HttpRequest, policy: Policy) -> str:
    """Return the field of a TOPIC_POLICIES row that holds the topic's own value for the call."""
    return "everywhere" if is_global(request, policy) else "own"


class _NamespacePolicyBase(AdminResource):
    read_rights = write_rights = ADMIN_OF_NAMESPACE

    async def value(self, tenant: str, namespace: str, policy: Policy) -> Any:
        name = namespace_name(tenant, namespace)
        return await self.work(lambda engine: policies.of_namespace(engine, name, policy))

    async def set(self, tenant: str, namespace: str, policy: Policy, value: Any) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: policies.set_on_namespace(engine, name, policy, value))
        return no_content()


class NamespacePolicyResource(_NamespacePolicyBase):
    """A policy of a namespace."""

    policy: ClassVar[Policy]
    policy_route: ClassVar[PolicyRoute]

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = await self.value(tenant, namespace, self.policy)
        value = self.policy.unset if value is None else value
        if value is None:
            return no_content(self.policy_route.unset_status)
        return json_answer(value)

    async def store(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = value_of(self.policy, json_body(request))
        await self.set(tenant, namespace, self.policy, value)
        return no_content(self.policy_route.stored_status)

    async def remove(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, self.policy, None)


class NamespaceQuotaResource(_NamespacePolicyBase):
    """The change of a namespace's backlog quota, whose type is in the query. NamespaceQuotasResource reads it."""

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        policy = quota(request)
        return await self.set(tenant, namespace, policy, policy.read(json_body(request)))

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, quota(request), None)


class NamespaceQuotasResource(_NamespacePolicyBase):
    """The backlog quotas of a namespace that are set, by type."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        quotas = {policy.key[-1]: await self.value(tenant, namespace, policy) for policy in QUOTAS}
        return json_answer({kind: value for kind, value in quotas.items() if value is not None})


class _TopicPolicyBase(TopicPathResource):
    read_rights = write_rights = ADMIN

    async def value(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, policy: Policy
    ) -> Any:
        """Return the topic's own value of a policy, or with ``applied`` the effective one; None when there is none."""
        name = self.name(tenant, namespace, topic)
        rows = await self.work(lambda engine: policies.of_topic(engine, name))
        is_applied = flag(request, "applied") and route_of(policy, Level.TOPIC).applied
        return rows[policy.name]["value" if is_applied else own_field(request, policy)]

    async def set(
        self,
        request: HttpRequest,
        tenant: str,
        namespace: str,
        topic: str,
        policy: Policy,
        value: Any,
    ) -> HttpResponse:
        name, in_all = self.name(tenant, namespace, topic), is_global(request, policy)
        await self.work(
            lambda engine: policies.set_on_topic(engine, name, policy, value, everywhere=in_all)
        )
        return no_content()


class TopicPolicyResource(_TopicPolicyBase):
    """A policy of a topic; with ``applied`` the effective one, also when the topic has none of its own."""

    policy: ClassVar[Policy]
    policy_route: ClassVar[PolicyRoute]

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        value = await self.value(request, tenant, namespace, topic, self.policy)
        value = self.policy.topic_unset if value is None else value
        if value is None:
            return no_content(self.policy_route.unset_status)
        return json_answer(value)

    async def store(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        parameter = self.policy_route.value_query
        given = request.GET.get(parameter) if parameter else None
        value = value_of(self.policy, json_body(request) if given is None else given)
        return await self.set(request, tenant, namespace, topic, self.policy, value)

    async def remove(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        return await self.set(request, tenant, namespace, topic, self.policy, None)


class SubscriptionRateResource(_TopicPolicyBase):
    """The dispatch rate of a subscription; with ``applied`` the effective one, also when it has none of its own."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, subName: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        rows = await self.work(lambda engine: policies.of_topic(engine, name))
        row = rows[SUBSCRIPTION_RATE.name]
        own = (
            "subscriptions_everywhere" if is_global(request, SUBSCRIPTION_RATE) else "subscriptions"
        )
        value = row[own].get(subName)
        if value is None and flag(request, "applied"):
            value = row["value"]
        return no_content(200) if value is None else json_answer(value)

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, subName: str
    ) -> HttpResponse:
        value = value_of(SUBSCRIPTION_RATE, json_body(request))
        return await self.store_for(request, self.name(tenant, namespace, topic), subName, value)

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, subName: str
    ) -> HttpResponse:
        return await self.store_for(request, self.name(tenant, namespace, topic), subName, None)

    async def store_for(
        self, request: HttpRequest, name: TopicName, subscription: str, value: Any
    ) -> HttpResponse:
        shared = is_global(request, SUBSCRIPTION_RATE)
        await self.work(
            lambda engine: policies.set_on_topic(
                engine,
                name,
                SUBSCRIPTION_RATE,
                value,
                subscription=subscription,
                everywhere=shared,
            )
        )
        return no_content()


class TopicQuotaResource(_TopicPolicyBase):
    """The change of a topic's backlog quota, whose type is in the query. TopicQuotasResource reads it."""

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        policy = quota(request)
        value = policy.read(json_body(request))
        return await self.set(request, tenant, namespace, topic, policy, value)

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        return await self.set(request, tenant, namespace, topic, quota(request), None)


class TopicQuotasResource(_TopicPolicyBase):
    """The backlog quotas of a topic by type.

    They are those that the topic sets, or with ``applied`` those of the nearest level that sets any. Apache Pulsar
    answers like that, and Terraform reports drift for a quota beside the topic's own.
    """

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        all_rows = await self.work(lambda engine: policies.of_topic(engine, name))
        rows = {policy.key[-1]: all_rows[policy.name] for policy in QUOTAS}
        if not flag(request, "applied"):
            part = own_field(request, SIZE_QUOTA)
            own = {kind: row[part] for kind, row in rows.items()}
            return json_answer({kind: value for kind, value in own.items() if value is not None})
        levels = [row["level"] for row in rows.values()]
        nearest = next(level for level in reversed(Level) if level in levels)
        return json_answer(
            {kind: row["value"] for kind, row in rows.items() if row["level"] == nearest}
        )


class OffloadPoliciesRemovalResource(_NamespacePolicyBase):
    """The removal of a namespace's offload policies, which has its own path."""

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, OFFLOADING, None)


def _resource(
    base: type[NamespacePolicyResource | TopicPolicyResource], policy: Policy, route: PolicyRoute
) -> type[AdminResource]:
    """Return the resource of a policy, which stores and removes it by the methods of its route."""
    methods: dict[str, Any] = {route.method.lower(): base.store}
    if route.removal == DELETE:
        methods["delete"] = base.remove
    attributes: dict[str, Any] = {"policy": policy, "policy_route": route, **methods}
    if route.by_superuser:
        attributes["write_rights"] = SUPERUSER
    return type(f"{base.__name__}_{policy.name}", (base,), attributes)


def _routes(
    base: type[NamespacePolicyResource | TopicPolicyResource], parent: str, level: Level
) -> Iterator[tuple[str, type[AdminResource]]]:
    for policy in POLICIES:
        route = policy.route_at(level)
        # Several policies share a route that has a query; it has a resource of its own.
        if route is not None and not route.query:
            yield f"{parent}/{route.path}", _resource(base, policy, route)


NAMESPACE_PATH = "/admin/v2/namespaces/{tenant}/{namespace}"
TOPIC_PATH = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    *_routes(NamespacePolicyResource, NAMESPACE_PATH, Level.NAMESPACE),
    (f"{NAMESPACE_PATH}/removeOffloadPolicies", OffloadPoliciesRemovalResource),
    (f"{NAMESPACE_PATH}/backlogQuota", NamespaceQuotaResource),
    (f"{NAMESPACE_PATH}/backlogQuotaMap", NamespaceQuotasResource),
    *_routes(TopicPolicyResource, TOPIC_PATH, Level.TOPIC),
    (f"{TOPIC_PATH}/{{subName}}/dispatchRate", SubscriptionRateResource),
    (f"{TOPIC_PATH}/backlogQuota", TopicQuotaResource),
    (f"{TOPIC_PATH}/backlogQuotaMap", TopicQuotasResource),
]
