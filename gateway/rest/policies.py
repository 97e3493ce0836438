"""The routes of policies, made from their table: read, set and remove, for a namespace and for a topic."""

from collections.abc import Callable
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
from gateway.rest.base import AdminView
from gateway.rest.routes import routes, shape
from gateway.rest.topics import TopicView
from gateway.services import policies

QUOTAS = {"destination_storage": SIZE_QUOTA, "message_age": AGE_QUOTA}
ANSWERED_204 = {"schemaAutoUpdateCompatibilityStrategy"}
TOPIC_ANSWERED_204 = {
    "maxSubscriptionsPerTopic",
    "maxConsumersPerSubscription",
    "publishRate",
    "maxMessageSize",
}
"""Policies of which Pulsar answers 204 instead of an empty 200 when they are not set."""

STORED_200 = {"replication", "allowedClusters", "offloadThresholdInSeconds"}
"""Policies of namespaces of which Pulsar answers 200 instead of 204 when they are set."""
ONLY_HERE = {"schemaCompatibilityStrategy", "schemaValidationEnforced"}
"""Policies of topics that Pulsar has in one cluster only: ``isGlobal`` is ignored."""
NEVER_APPLIED = {
    "publishRate",
    "maxMessageSize",
    "deduplicationSnapshotInterval",
    "subscriptionTypesEnabled",
}
"""Policies of which Pulsar answers the topic's own also when what is in force is asked for."""
REMOVED_BY_NULL = {"deduplicationSnapshotInterval"}
"""Whole numbers that an empty body removes."""


def value_of(policy: Policy, given: Any) -> Any:
    """What is to be stored of a body; none for an object or a word removes the policy, as in Pulsar."""
    removes = isinstance(policy.form, Fields | Choice) or policy.name in REMOVED_BY_NULL
    if given is None and removes:
        return None
    if given is None and isinstance(policy.form, Names):
        given = []
    return policy.read(given)


def quota(request: HttpRequest) -> Policy:
    """The row of ``backlogQuotaType``; 404 for an unknown one, as in Pulsar."""
    name = request.GET.get("backlogQuotaType") or "destination_storage"
    if name not in QUOTAS:
        raise Http404
    return QUOTAS[name]


def everywhere(request: HttpRequest, policy: Policy) -> bool:
    """Whether the call is about what a topic has in all clusters that replicate it."""
    return flag(request, "isGlobal") and policy.topic_name not in ONLY_HERE


def own_part(request: HttpRequest, policy: Policy) -> str:
    """Of what TOPIC_POLICIES says: the topic's own value that the call is about."""
    return "everywhere" if everywhere(request, policy) else "own"


class _OnNamespace(AdminView):
    permission = "namespace"
    write_permission = "namespace"

    async def value(self, tenant: str, namespace: str, policy: Policy) -> Any:
        name = namespace_name(tenant, namespace)
        return await self.work(lambda engine: policies.of_namespace(engine, name, policy))

    async def set(self, tenant: str, namespace: str, policy: Policy, value: Any) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: policies.set_on_namespace(engine, name, policy, value))
        return no_content()


class NamespacePolicy(_OnNamespace):
    """One policy of a namespace."""

    policy: ClassVar[Policy]

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = await self.value(tenant, namespace, self.policy)
        found = self.policy.unset if value is None else value
        if found is None:
            return no_content(204 if self.policy.name in ANSWERED_204 else 200)
        return json_answer(found)

    async def store(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = value_of(self.policy, json_body(request))
        answer = await self.set(tenant, namespace, self.policy, value)
        return no_content(200) if self.policy.name in STORED_200 else answer

    async def remove(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, self.policy, None)


class NamespaceQuota(_OnNamespace):
    """A backlog quota; the query names its type. NamespaceQuotas reads it."""

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        policy = quota(request)
        return await self.set(tenant, namespace, policy, policy.read(json_body(request)))

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, quota(request), None)


class NamespaceQuotas(_OnNamespace):
    """Both quotas by type, those that are set."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        found = {kind: await self.value(tenant, namespace, row) for kind, row in QUOTAS.items()}
        return json_answer({kind: value for kind, value in found.items() if value is not None})


class _OnTopic(TopicView):
    async def found(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> Callable[[Policy], Any]:
        """What the topic itself says of a policy, or with ``applied`` what is in force."""
        name = self.name(tenant, namespace, topic)
        said = await self.work(lambda engine: policies.of_topic(engine, name))
        applied = flag(request, "applied")

        def of(policy: Policy) -> Any:
            is_applied = applied and policy.topic_name not in NEVER_APPLIED
            return said[policy.name]["value" if is_applied else own_part(request, policy)]

        return of

    async def set(
        self,
        request: HttpRequest,
        tenant: str,
        namespace: str,
        topic: str,
        policy: Policy,
        value: Any,
    ) -> HttpResponse:
        name, shared = self.name(tenant, namespace, topic), everywhere(request, policy)
        await self.work(
            lambda engine: policies.set_on_topic(engine, name, policy, value, everywhere=shared)
        )
        return no_content()


class TopicPolicy(_OnTopic):
    """One policy of a topic; with ``applied`` what is in force when it says nothing."""

    policy: ClassVar[Policy]

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        value = (await self.found(request, tenant, namespace, topic))(self.policy)
        value = self.policy.topic_unset if value is None else value
        if value is None:
            return no_content(204 if self.policy.topic_name in TOPIC_ANSWERED_204 else 200)
        return json_answer(value)

    async def store(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        query = request.GET.get(self.policy.topic_name)  # messageTTL comes so
        value = value_of(self.policy, json_body(request) if query is None else query)
        return await self.set(request, tenant, namespace, topic, self.policy, value)

    async def remove(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        return await self.set(request, tenant, namespace, topic, self.policy, None)


class SubscriptionRate(_OnTopic):
    """The dispatch rate of one subscription; with ``applied`` what is in force when it has none."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str, subName: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        every = await self.work(lambda engine: policies.of_topic(engine, name))
        said = every[SUBSCRIPTION_RATE.name]
        own = (
            "subscriptions_everywhere"
            if everywhere(request, SUBSCRIPTION_RATE)
            else "subscriptions"
        )
        value = said[own].get(subName)
        if value is None and flag(request, "applied"):
            value = said["value"]
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
        shared = everywhere(request, SUBSCRIPTION_RATE)
        await self.work(
            lambda engine: policies.set_on_topic(
                *(engine, name, SUBSCRIPTION_RATE, value),
                subscription=subscription,
                everywhere=shared,
            )
        )
        return no_content()


class TopicQuota(_OnTopic):
    """A backlog quota; the query names its type. TopicQuotas reads it."""

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


class TopicQuotas(_OnTopic):
    """Both quotas by type: those that are set, or with ``applied`` those of the nearest level that sets any: Apache's
    answers so, and Terraform takes a quota beside the topic's own for drift."""

    async def get(
        self, request: HttpRequest, tenant: str, namespace: str, topic: str
    ) -> HttpResponse:
        name = self.name(tenant, namespace, topic)
        said = await self.work(lambda engine: policies.of_topic(engine, name))
        rows = {kind: said[row.name] for kind, row in QUOTAS.items()}
        if not flag(request, "applied"):
            part = own_part(request, SIZE_QUOTA)
            own = {kind: row[part] for kind, row in rows.items()}
            return json_answer({kind: value for kind, value in own.items() if value is not None})
        levels = [row["level"] for row in rows.values()]
        nearest = next(level for level in reversed(Level) if level in levels)
        return json_answer(
            {kind: row["value"] for kind, row in rows.items() if row["level"] == nearest}
        )


class RemoveOffloading(_OnNamespace):
    """Removes a namespace's offload policies, by a path of its own."""

    async def delete(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.set(tenant, namespace, OFFLOADING, None)


def _of(
    base: type[NamespacePolicy | TopicPolicy], template: str, policy: Policy
) -> tuple[str, type[AdminView]]:
    """The route and its view, which stores and removes by the methods that Pulsar documents."""
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
_PLAIN = [policy for policy in POLICIES if policy not in QUOTAS.values()]
ROUTES: list[tuple[str, type[AdminView]]] = [
    *(
        _of(NamespacePolicy, f"{_NAMESPACE}/{policy.name}", policy)
        for policy in _PLAIN
        if policy.key
    ),
    (f"{_NAMESPACE}/removeOffloadPolicies", RemoveOffloading),
    (f"{_NAMESPACE}/backlogQuota", NamespaceQuota),
    (f"{_NAMESPACE}/backlogQuotaMap", NamespaceQuotas),
    *(
        _of(TopicPolicy, f"{_TOPIC}/{policy.topic_name}", policy)
        for policy in _PLAIN
        if policy.topic_name
    ),
    (f"{_TOPIC}/{{subName}}/dispatchRate", SubscriptionRate),
    (f"{_TOPIC}/backlogQuota", TopicQuota),
    (f"{_TOPIC}/backlogQuotaMap", TopicQuotas),
]
