"""Refusals read as those recorded from Apache Pulsar 4.0.8 for the role ``app``, which had no right."""

import pytest

from engine.auth.actions import KINDS, Action
from engine.auth.authorization.refusal_texts import (
    COMMAND_REFUSALS,
    AccessCheck,
    default_http_refusal,
    http_refusal,
)
from engine.auth.identity import Identity
from engine.auth.resource_names import CLUSTER, Resource, SubscriptionName, TenantName
from engine.base.names import NamespaceName, TopicName

APP = Identity("app")
TENANT = TenantName("cap")
SPACE = NamespaceName.parse("cap/n")
TOPIC = TopicName.parse("persistent://cap/n/t")
RESOURCES: tuple[Resource, ...] = (CLUSTER, TENANT, SPACE, TOPIC, SubscriptionName(TOPIC, "s"))
RECORDED = [
    # GET /admin/v2/tenants
    (
        *(AccessCheck.TENANT_OR_SUPERUSER, "", "LIST_TENANTS", "", 401),
        "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [null]"
        " and clientAppId [app] about operation [LIST_TENANTS] ",
    ),
    # PUT /admin/v2/tenants/zz
    (
        *(AccessCheck.TENANT_OR_SUPERUSER, "", "CREATE_TENANT", "", 401),
        "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [null]"
        " and clientAppId [app] about operation [CREATE_TENANT] ",
    ),
    # GET /admin/v2/clusters/standalone
    (
        *(AccessCheck.CLUSTER_OPERATION, "standalone", "GET_CLUSTER", "", 401),
        "Unauthorized to validateBothSuperuserAndClusterOperation for originalPrincipal"
        " [null] and clientAppId [app] about operation [GET_CLUSTER] on cluster [standalone]",
    ),
    # GET /admin/v2/brokers
    (
        *(AccessCheck.BROKER_OPERATION, "127.0.0.1:18100", "LIST_BROKERS", "", 401),
        "Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal [null]"
        " and clientAppId [app] about operation [LIST_BROKERS] on broker [127.0.0.1:18100]",
    ),
    # GET /admin/v2/namespaces/cap
    (
        *(AccessCheck.TENANT_OPERATION, TENANT, "LIST_NAMESPACES", "", 401),
        "Unauthorized to validateTenantOperation for originalPrincipal [null] and clientAppId"
        " [app] about operation [LIST_NAMESPACES] on tenant [cap]",
    ),
    # GET /admin/v2/namespaces/cap/n
    (
        *(AccessCheck.NAMESPACE_POLICY, SPACE, "READ", "ALL", 403),
        "Unauthorized to validateNamespacePolicyOperation for operation [READ] on namespace"
        " [cap/n] on policy [ALL]",
    ),
    # GET /admin/v2/namespaces/cap/n/topics
    (
        *(AccessCheck.NAMESPACE_OPERATION, SPACE, "GET_TOPICS", "", 403),
        "Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace"
        " [cap/n]",
    ),
    # PUT /admin/v2/namespaces/cap/n2
    (
        *(AccessCheck.TENANT_OPERATION, TENANT, "CREATE_NAMESPACE", "", 401),
        "Unauthorized to validateTenantOperation for originalPrincipal [null] and clientAppId"
        " [app] about operation [CREATE_NAMESPACE] on tenant [cap]",
    ),
    # GET /admin/v2/namespaces/cap/n/messageTTL
    (
        *(AccessCheck.NAMESPACE_POLICY, SPACE, "READ", "TTL", 403),
        "Unauthorized to validateNamespacePolicyOperation for operation [READ] on namespace"
        " [cap/n] on policy [TTL]",
    ),
    # POST /admin/v2/namespaces/cap/n/messageTTL
    (
        *(AccessCheck.NAMESPACE_POLICY, SPACE, "WRITE", "TTL", 403),
        "Unauthorized to validateNamespacePolicyOperation for operation [WRITE] on namespace"
        " [cap/n] on policy [TTL]",
    ),
    # PUT /admin/v2/persistent/cap/n/t
    (
        *(AccessCheck.NAMESPACE_OPERATION, SPACE, "CREATE_TOPIC", "", 403),
        "Unauthorized to validateNamespaceOperation for operation [CREATE_TOPIC] on namespace"
        " [cap/n]",
    ),
    # GET /admin/v2/persistent/cap/n/t/stats
    (
        *(AccessCheck.TOPIC_OPERATION, TOPIC, "GET_STATS", "", 401),
        "Unauthorized to validateTopicOperation for operation [GET_STATS] on topic"
        " [persistent://cap/n/t]",
    ),
    # GET /admin/v2/persistent/cap/n/t/partitions
    (
        *(AccessCheck.TOPIC_OPERATION, TOPIC, "LOOKUP", "", 401),
        "Unauthorized to validateTopicOperation for operation [LOOKUP] on topic"
        " [persistent://cap/n/t]",
    ),
    # GET /admin/v2/persistent/cap/n/t/retention
    (
        *(AccessCheck.TOPIC_POLICY, TOPIC, "READ", "RETENTION", 403),
        "Unauthorized to validateTopicPolicyOperation for operation [READ] on topic"
        " [persistent://cap/n/t] on policy [RETENTION]",
    ),
    # GET /admin/v2/namespaces/cap/n/permissions
    (
        *(AccessCheck.NAMESPACE_OPERATION, SPACE, "GET_PERMISSION", "", 403),
        "Unauthorized to validateNamespaceOperation for operation [GET_PERMISSION] on"
        " namespace [cap/n]",
    ),
    # POST /admin/v2/namespaces/cap/n/permissions/x
    (
        *(AccessCheck.NAMESPACE_OPERATION, SPACE, "GRANT_PERMISSION", "", 403),
        "Unauthorized to validateNamespaceOperation for operation [GRANT_PERMISSION] on"
        " namespace [cap/n]",
    ),
    # GET /lookup/v2/topic/persistent/cap/n/t
    (
        *(AccessCheck.TOPIC_OPERATION, TOPIC, "LOOKUP", "", 401),
        "Unauthorized to validateTopicOperation for operation [LOOKUP] on topic"
        " [persistent://cap/n/t]",
    ),
    # GET /admin/v2/schemas/cap/n/t/schema
    (
        *(AccessCheck.TOPIC_OPERATION, TOPIC, "GET_METADATA", "", 401),
        "Unauthorized to validateTopicOperation for operation [GET_METADATA] on topic"
        " [persistent://cap/n/t]",
    ),
    # GET /admin/v2/broker-stats/load-report
    (AccessCheck.SUPERUSER, "", "", "", 401, "This operation requires super-user access"),
    # GET /admin/v2/brokers/configuration/runtime
    (
        *(AccessCheck.BROKER_OPERATION, "127.0.0.1:18100", "LIST_RUNTIME_CONFIGURATIONS", "", 401),
        "Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal [null]"
        " and clientAppId [app] about operation [LIST_RUNTIME_CONFIGURATIONS] on broker [127.0.0.1:18100]",
    ),
    # GET /admin/v2/resourcegroups
    (AccessCheck.SUPERUSER, "", "", "", 401, "This operation requires super-user access"),
    # GET /admin/v2/bookies/all
    (AccessCheck.SUPERUSER, "", "", "", 401, "This operation requires super-user access"),
    # GET /admin/v2/tenants/cap
    (
        *(AccessCheck.TENANT_OR_SUPERUSER, "", "GET_TENANT", "", 401),
        "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [null]"
        " and clientAppId [app] about operation [GET_TENANT] ",
    ),
    # DELETE /admin/v2/persistent/cap/n/t
    (
        *(AccessCheck.NAMESPACE_OPERATION, SPACE, "DELETE_TOPIC", "", 403),
        "Unauthorized to validateNamespaceOperation for operation [DELETE_TOPIC] on namespace"
        " [cap/n]",
    ),
]


@pytest.mark.parametrize(("check", "resource", "operation", "policy", "status", "text"), RECORDED)
def test_a_refusal_reads_as_the_recorded_one(
    check: AccessCheck,
    resource: Resource | str,
    operation: str,
    policy: str,
    status: int,
    text: str,
) -> None:
    refusal = http_refusal(check, APP, resource, operation=operation, policy=policy)
    assert refusal == (status, text)


def test_the_client_of_a_proxy_is_named() -> None:
    refusal = http_refusal(
        AccessCheck.TENANT_OPERATION, Identity("proxy", "app"), TENANT, operation="LIST_NAMESPACES"
    )
    assert "originalPrincipal [app] and clientAppId [proxy]" in refusal.text


def test_a_call_without_words_of_apaches_is_refused_by_the_missing_right() -> None:
    for action, kinds in KINDS.items():
        for resource in RESOURCES:
            if isinstance(resource, kinds):
                refusal = default_http_refusal(APP, action, resource)
                assert refusal.status in (401, 403)
                assert "{" not in refusal.text
    assert default_http_refusal(APP, Action.LOOKUP, SPACE) == (
        403,
        "Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace [cap/n]",
    )
    for managed in (TENANT, SPACE, TOPIC):
        assert default_http_refusal(APP, Action.TENANT_ADMIN, managed) == (
            401,
            "Don't have permission to administrate resources on this tenant",
        )


def test_the_texts_of_commands_are_apaches() -> None:
    assert COMMAND_REFUSALS == {
        "LOOKUP": "Client is not authorized to Lookup",
        "PARTITIONED_METADATA": "Client is not authorized to Get Partition Metadata",
        "PRODUCER": "Client is not authorized to Produce",
        "SUBSCRIBE": "Client is not authorized to subscribe",
        "GET_TOPICS_OF_NAMESPACE": "Client is not authorized to GetTopicsOfNamespace",
        "WATCH_TOPIC_LIST": "Proxy Client is not authorized to watchTopicList",
    }
