"""Resources that read, set and remove policies of namespaces and topics, generated from the table of policies."""

from typing import Any, ClassVar

from django.http import Http404, HttpRequest, HttpResponse

from engine.base.names import TopicName
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.policies.forms import Choice, Fields, Names
from engine.tenancy.policies.policy import Level, Policy
from engine.tenancy.policies.table import (
    AGE_QUOTA,
    OFFLOADING,
    POLICIES,
    SIZE_QUOTA,
    SUBSCRIPTION_RATE,
)
from gateway.http.bodies import flag, json_answer, json_body, no_content
from gateway.rest.base import AdminResource
from gateway.rest.routes import routes, shape
from gateway.rest.topics import TopicPathResource
from gateway.services import policies

QUOTAS = {"destination_storage": SIZE_QUOTA, "message_age": AGE_QUOTA}
ANSWERED_204 = {"schemaAutoUpdateCompatibilityStrategy"}
TOPIC_ANSWERED_204 = {
    "maxSubscriptionsPerTopic",
    "maxConsumersPerSubscription",
    "publishRate",
    "maxMessageSize",
}
"""Policies for which Pulsar answers 204 instead of an empty 200 when they are not set."""

STORED_200 = {"replication", "allowedClusters", "offloadThresholdInSeconds"}
"""Policies of namespaces for which Pulsar answers a change with 200 instead of 204."""
ONLY_HERE = {"schemaCompatibilityStrategy", "schemaValidationEnforced"}
"""Policies of topics that Pulsar stores for one cluster only: ``isGlobal`` is ignored."""
NEVER_APPLIED = {
    "publishRate",
    "maxMessageSize",
    "deduplicationSnapshotInterval",
    "subscriptionTypesEnabled",
}
"""Policies for which Pulsar ignores ``applied`` and answers the topic's own value."""
REMOVED_BY_NULL = {"deduplicationSnapshotInterval"}
"""Numeric policies that an empty body removes."""


def value_of(policy: Policy, body: Any) -> Any:
    """Return the value to store for a body; None removes the policy.

    As in Pulsar, a missing body removes a policy that is an object or a word. Raises InvalidField.
    """
    removes = isinstance(policy.form, Fields | Choice) or policy.name in REMOVED_BY_NULL
    if body is None and removes:
        return None
    if body is None and isinstance(policy.form, Names):
        body = []
    return policy.read(body)


def quota(request: HttpRequest) -> Policy:
    """Return the policy of the query's ``backlogQuotaType``. Raises Http404 for an unknown one, as Pulsar answers."""
    name = request.GET.get("backlogQuotaType") or "destination_storage"
    if name not in QUOTAS:
        raise Http404
    return QUOTAS[name]


def is_global(request: HttpRequest, policy: Policy) -> bool:
    """Return whether the call is about the topic's policy in all clusters that replicate the topic."""
    return flag(request, "isGlobal") and policy.topic_name not in ONLY_HERE


def own_field(request: HttpRequest, policy: Policy) -> str:
    """Return the field of a TOPIC_POLICIES row that holds the topic's own value for the call."""
    return "everywhere" if is_global(request, policy) else "own"


class _NamespacePolicyBase(AdminResource):
    permission = "namespace"
    write_permission = "namespace"

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

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = await self.value(tenant, namespace, self.policy)
        value = self.policy.unset if value is None else value
        if value is None:
            return no_content(204 if self.policy.name in ANSWERED_204 else 200)
        return json_answer(value)

    async def store(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = value_of(self.policy, json_body(request))
        answer = await self.set(tenant, namespace, self.policy, value)
        return no_content(200) if self.policy.name in STORED_200 else answer

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
        quotas = {
            kind: await self.value(tenant, namespace, policy) for kind, policy in QUOTAS.items()
        }
        return json_answer({kind: value for kind, value in quotas.items() if value is not None})


class _TopicPolicyBase(TopicPathResource):
    async def value(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, policy: Policy
    ) -> Any:
        """Return the topic's own value of a policy, or with ``applied`` the effective one; None when there is none."""
        name = self.name(tenant, namespace, topic)
        rows = await self.work(lambda engine: policies.of_topic(engine, name))
        is_applied = flag(request, "applied") and policy.topic_name not in NEVER_APPLIED
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

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        value = await self.value(request, tenant, namespace, topic, self.policy)
        value = self.policy.topic_unset if value is None else value
        if value is None:
            return no_content(204 if self.policy.topic_name in TOPIC_ANSWERED_204 else 200)
        return json_answer(value)

    async def store(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        query = request.GET.get(self.policy.topic_name)  # Clients send messageTTL in the query.
        value = value_of(self.policy, json_body(request) if query is None else query)
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
                *(engine, name, SUBSCRIPTION_RATE, value),
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
        rows = {kind: all_rows[policy.name] for kind, policy in QUOTAS.items()}
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


def _route(
    base: type[NamespacePolicyResource | TopicPolicyResource], template: str, policy: Policy
) -> tuple[str, type[AdminResource]]:
    """Return a route and its resource, which stores and removes by the methods that Pulsar documents."""
    documented = routes()[shape(template)].methods
    methods = {
        "PUT": ("put", base.store),
        "POST": ("post", base.store),
        "DELETE": ("delete", base.remove),
    }
    offered = dict(methods[name] for name in methods if name in documented)
    return template, type(f"{base.__name__}_{policy.name}", (base,), {"policy": policy, **offered})


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_SINGLE_VALUED = [policy for policy in POLICIES if policy not in QUOTAS.values()]
ROUTES: list[tuple[str, type[AdminResource]]] = [
    *(
        _route(NamespacePolicyResource, f"{_NAMESPACE}/{policy.name}", policy)
        for policy in _SINGLE_VALUED
        if policy.key
    ),
    (f"{_NAMESPACE}/removeOffloadPolicies", OffloadPoliciesRemovalResource),
    (f"{_NAMESPACE}/backlogQuota", NamespaceQuotaResource),
    (f"{_NAMESPACE}/backlogQuotaMap", NamespaceQuotasResource),
    *(
        _route(TopicPolicyResource, f"{_TOPIC}/{policy.topic_name}", policy)
        for policy in _SINGLE_VALUED
        if policy.topic_name
    ),
    (f"{_TOPIC}/{{subName}}/dispatchRate", SubscriptionRateResource),
    (f"{_TOPIC}/backlogQuota", TopicQuotaResource),
    (f"{_TOPIC}/backlogQuotaMap", TopicQuotasResource),
]
