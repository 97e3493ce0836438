"""Refusals as clients of Apache Pulsar read them: status and text by the check that Apache's broker makes. Pure.

Tools match these texts. What is missing, and who can give it, is in the verdict's reason, for the log and the console.
"""

from enum import Enum
from typing import NamedTuple

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.resource_names import Resource, SubscriptionName, TenantName, WholeCluster
from engine.base.names import NamespaceName, TopicName


class AccessCheck(Enum):
    """AccessCheck of Apache's broker: the HTTP status of its refusal and the text, with names in braces."""

    TOPIC_OPERATION = (
        401,
        "Unauthorized to validateTopicOperation for operation [{operation}] on topic [{resource}]",
    )
    TOPIC_POLICY = (
        403,
        "Unauthorized to validateTopicPolicyOperation for operation [{operation}] on topic [{resource}]"
        " on policy [{policy}]",
    )
    NAMESPACE_OPERATION = (
        403,
        "Unauthorized to validateNamespaceOperation for operation [{operation}] on namespace [{resource}]",
    )
    NAMESPACE_POLICY = (
        403,
        "Unauthorized to validateNamespacePolicyOperation for operation [{operation}]"
        " on namespace [{resource}] on policy [{policy}]",
    )
    TENANT_OPERATION = (
        401,
        "Unauthorized to validateTenantOperation for originalPrincipal [{original}] and clientAppId [{role}]"
        " about operation [{operation}] on tenant [{resource}]",
    )
    TENANT_OR_SUPERUSER = (
        401,
        "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [{original}]"
        " and clientAppId [{role}] about operation [{operation}] ",
    )
    CLUSTER_OPERATION = (
        401,
        "Unauthorized to validateBothSuperuserAndClusterOperation for originalPrincipal [{original}]"
        " and clientAppId [{role}] about operation [{operation}] on cluster [{resource}]",
    )
    BROKER_OPERATION = (
        401,
        "Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal [{original}]"
        " and clientAppId [{role}] about operation [{operation}] on broker [{resource}]",
    )
    TENANT_ADMIN = (401, "Don't have permission to administrate resources on this tenant")
    SUPERUSER = (401, "This operation requires super-user access")
    COMPONENT = (401, "Client is not authorized to perform operation")
    READ_ONLY = (403, "Broker is forbidden to do read-write operations")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def text(self) -> str:
        return self.value[1]


class HttpRefusal(NamedTuple):
    """Answer to a refused HTTP call: ``text`` is the field ``reason`` of its body."""

    status: int
    text: str


def http_refusal(
    check: AccessCheck,
    identity: Identity,
    resource: Resource | str = "",
    *,
    operation: str = "",
    policy: str = "",
) -> HttpRefusal:
    """Return Apache's answer. ``operation`` and ``policy`` are Apache's words, such as GET_STATS and TTL."""
    named = resource.topic if isinstance(resource, SubscriptionName) else resource
    text = check.text.format(
        operation=operation,
        policy=policy,
        resource=named,
        original=identity.original or "null",
        role=identity.role or "null",
    )
    return HttpRefusal(check.status, text)


_DEFAULT_CHECKS: dict[type, AccessCheck] = {
    TopicName: AccessCheck.TOPIC_OPERATION,
    SubscriptionName: AccessCheck.TOPIC_OPERATION,
    NamespaceName: AccessCheck.NAMESPACE_OPERATION,
    TenantName: AccessCheck.TENANT_ADMIN,
    WholeCluster: AccessCheck.SUPERUSER,
}
_DEFAULT_OPERATIONS: dict[tuple[Action, type], str] = {
    (Action.LOOKUP, NamespaceName): "GET_TOPICS",
    (Action.CONSUME, NamespaceName): "CLEAR_BACKLOG",
}


def default_http_refusal(identity: Identity, action: Action, resource: Resource) -> HttpRefusal:
    """Return the answer of a call that states no words of Apache's: by the right that is missing."""
    check = _DEFAULT_CHECKS[type(resource)]
    if action is Action.TENANT_ADMIN:
        check = AccessCheck.TENANT_ADMIN
    elif action in (Action.FUNCTIONS, Action.SOURCES, Action.SINKS):
        check = AccessCheck.COMPONENT
    operation = _DEFAULT_OPERATIONS.get((action, type(resource)), action.name)
    return http_refusal(check, identity, resource, operation=operation)


COMMAND_REFUSALS = {
    "LOOKUP": "Client is not authorized to Lookup",
    "PARTITIONED_METADATA": "Client is not authorized to Get Partition Metadata",
    "PRODUCER": "Client is not authorized to Produce",
    "SUBSCRIBE": "Client is not authorized to subscribe",
    "GET_TOPICS_OF_NAMESPACE": "Client is not authorized to GetTopicsOfNamespace",
    "WATCH_TOPIC_LIST": "Proxy Client is not authorized to watchTopicList",
}
"""Texts of AuthorizationError by the command that is refused. Others have the verdict's reason."""
PREFIX_REFUSAL = (
    "org.apache.pulsar.broker.PulsarServerException: Failed to create consumer - The subscription name needs to be"
    " prefixed by the authentication role, like {role}-xxxx for topic: {topic}"
)
"""Text of AuthorizationError for a subscription that does not begin with the role."""
