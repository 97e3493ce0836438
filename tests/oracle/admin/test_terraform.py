"""The calls that Terraform's provider for Pulsar makes through Apache's Go admin library: what it reads after it made
or changed a resource is what it put, so that a plan after an apply is empty. The same on both brokers."""

import json

import pytest

from tests.oracle.admin import go_library
from tests.oracle.admin.test_go_library import (
    DELAYED,
    INACTIVE,
    PERSISTENCE,
    RATE,
    comparable,
    plain,
)
from tests.oracle.client.talk import on_both
from tests.oracle.conftest import Side

NS = "terra/ns"
T = f"persistent://{NS}/t"
PT = f"persistent://{NS}/pt"
CLUSTER = (
    '"serviceUrl":"http://127.0.0.1:1","serviceUrlTls":"https://127.0.0.1:2",'
    '"brokerServiceUrl":"pulsar://127.0.0.1:3","brokerServiceUrlTls":"pulsar+ssl://127.0.0.1:4"'
)
QUOTA = '{"limitSize":10000000,"limitTime":-1,"policy":"consumer_backlog_eviction"}'
RETENTION = '{"retentionTimeInMinutes":1600,"retentionSizeInMB":20000}'
PUBLISH = '{"publishThrottlingRateInMsg":100,"publishThrottlingRateInByte":200}'
SCHEMA = (
    '{"type":"JSON","schema":"{\\"type\\":\\"record\\",\\"name\\":\\"R\\",\\"fields\\":[]}",'
    '"properties":{"k":"v"}}'
)
LATEST = '{"ledgerId":9223372036854775807,"entryId":9223372036854775807,"partitionIndex":-1}'
TOPIC_POLICIES = {
    "Retention": RETENTION,
    "DeduplicationStatus": "true",
    "DispatchRate": RATE.replace("}", ',"relativeToPublishRate":false}'),
    "Persistence": PERSISTENCE,
    "CompactionThreshold": "1000",
    "DelayedDelivery": DELAYED,
    "InactiveTopicPolicies": INACTIVE,
    "MaxConsumers": "10",
    "MaxProducers": "11",
    "MessageTTL": "12",
    "MaxUnackMessagesPerConsumer": "13",
    "MaxUnackMessagesPerSubscription": "14",
    "PublishRate": PUBLISH,
}
READ_APPLIED = ("Retention", "CompactionThreshold", "InactiveTopicPolicies")
REMOVED = ("MaxConsumers", "MaxProducers", "MessageTTL", "PublishRate", "Retention")


def of_topic(topic: str, partitions: int) -> list[str]:
    """Return the calls that create, read, change and delete a topic with every block of its resource."""
    lines = [
        f"Topics.Create {topic} {partitions}",
        f'Topics.GrantPermission {topic} some-role ["produce","consume"]',
        f'Topics.SetBacklogQuota {topic} {QUOTA} "destination_storage"',
        f'TopicPolicies.SetReplicationClusters {topic} ["standalone"]',
        f'Topics.SetSchemaCompatibilityStrategy {topic} "FORWARD"',
        f'Topics.UpdateProperties {topic} {{"a":"b","c":"d"}}',
        *(f"Topics.Set{name} {topic} {value}" for name, value in TOPIC_POLICIES.items()),
        f'Topics.GetMetadata {topic} => [{{"partitions":{partitions}}}]',
        f'Topics.GetPermissions {topic} => [{{"some-role":["consume","functions","produce"]}}]',
        f'TopicPolicies.GetReplicationClusters {topic} false => [["standalone"]]',
        f'Topics.GetSchemaCompatibilityStrategyApplied {topic} false => ["FORWARD"]',
        f'Topics.GetProperties {topic} => [{{"a":"b","c":"d"}}]',
        f'Topics.GetBacklogQuotaMap {topic} true => [{{"destination_storage":{QUOTA}}}]',
    ]
    for name, value in TOPIC_POLICIES.items():
        applied = " true" if name in READ_APPLIED else ""
        lines.append(f"Topics.Get{name} {topic}{applied} => [{value}]")
    lines += [f"Topics.Remove{name} {topic}" for name in REMOVED]
    lines += [
        f"Topics.GetMaxConsumers {topic} => [-1]",
        f"Topics.GetMessageTTL {topic} => [-1]",
        f"Topics.GetRetention {topic} false => [null]",
        f"Topics.RemoveProperty {topic} c",
        f'Topics.GetProperties {topic} => [{{"a":"b"}}]',
        f"Topics.RevokePermission {topic} some-role",
        f'Topics.GrantPermission {topic} other-role ["produce"]',
        f"Topics.GetPermissions {topic} => "
        f'[{{"other-role":["produce"],"some-role":["consume","functions","produce"]}}]',
        f"TopicPolicies.RemoveReplicationClusters {topic}",
        f"TopicPolicies.GetReplicationClusters {topic} false => [null]",
        *([f"Topics.Update {topic} {partitions + 2}"] if partitions else []),
        *(
            [f'Topics.GetMetadata {topic} => [{{"partitions":{partitions + 2}}}]']
            if partitions
            else []
        ),
        f"Topics.Delete {topic} true {json.dumps(partitions == 0)}",
        f"Topics.GetMetadata {topic} => 404",
    ]
    return lines


RESOURCES = {
    "cluster": f"""
Clusters.Get terrac => 404
Clusters.Create {{"Name":"terrac",{CLUSTER},"peerClusterNames":["standalone"]}}
Clusters.Get terrac => [{{{CLUSTER},"peerClusterNames":["standalone"],"authenticationPlugin":"",\
"authenticationParameters":"","brokerClientTrustCertsFilePath":"","brokerClientTlsEnabled":false}}]
Clusters.Update {{"Name":"terrac",{CLUSTER}}}
Clusters.Get terrac => [{{{CLUSTER},"peerClusterNames":null,"authenticationPlugin":"",\
"authenticationParameters":"","brokerClientTrustCertsFilePath":"","brokerClientTlsEnabled":false}}]
Clusters.Delete terrac
Clusters.Get terrac => 404
""",
    "tenant": """
Tenants.Get terra => 404
Tenants.Create {"Name":"terra","adminRoles":["dev","ops"],"allowedClusters":["standalone"]}
Tenants.Get terra => [{"adminRoles":["dev","ops"],"allowedClusters":["standalone"]}]
Tenants.Update {"Name":"terra","adminRoles":["dev"],"allowedClusters":["standalone"]}
Tenants.Get terra => [{"adminRoles":["dev"],"allowedClusters":["standalone"]}]
Namespaces.GetNamespaces terra => [[]]
""",
    "namespace": f"""
Namespaces.CreateNamespace {NS}
Namespaces.SetNamespaceAntiAffinityGroup {NS} anti-aff
Namespaces.SetIsAllowAutoUpdateSchema {NS} false
Namespaces.SetMaxConsumersPerTopic {NS} 50
Namespaces.SetMaxConsumersPerSubscription {NS} 51
Namespaces.SetMaxProducersPerTopic {NS} 52
Namespaces.SetNamespaceMessageTTL {NS} 53
Namespaces.SetOffloadThreshold {NS} 54
Namespaces.SetNamespaceReplicationClusters {NS} ["standalone"]
Namespaces.SetSchemaCompatibilityStrategy {NS} "BACKWARD"
Namespaces.SetSchemaAutoUpdateCompatibilityStrategy {NS} "Backward"
Namespaces.SetSchemaValidationEnforced {NS} true
Namespaces.SetSubscriptionExpirationTime {NS} 55
Namespaces.SetRetention {NS} {RETENTION}
Namespaces.SetInactiveTopicPolicies {NS} {INACTIVE}
Namespaces.SetBacklogQuota {NS} {QUOTA} "destination_storage"
Namespaces.SetDispatchRate {NS} {RATE}
Namespaces.SetSubscriptionDispatchRate {NS} {RATE}
Namespaces.SetPersistence {NS} {PERSISTENCE}
Namespaces.SetDeduplicationStatus {NS} true
Namespaces.GrantNamespacePermission {NS} some-role ["produce","consume","functions"]
Namespaces.GrantNamespacePermission {NS} other-role ["produce"]
Namespaces.SetTopicAutoCreation {NS} \
{{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":3}}
Namespaces.GetNamespaces terra => [["{NS}"]]
Namespaces.GetNamespaceAntiAffinityGroup {NS} => ["\\"anti-aff\\""]
Namespaces.GetIsAllowAutoUpdateSchema {NS} => [false]
Namespaces.GetMaxConsumersPerTopic {NS} => [50]
Namespaces.GetMaxConsumersPerSubscription {NS} => [51]
Namespaces.GetMaxProducersPerTopic {NS} => [52]
Namespaces.GetNamespaceMessageTTL {NS} => [53]
Namespaces.GetOffloadThreshold {NS} => [54]
Namespaces.GetNamespaceReplicationClusters {NS} => [["standalone"]]
Namespaces.GetSchemaCompatibilityStrategy {NS} => ["BACKWARD"]
Namespaces.GetSchemaAutoUpdateCompatibilityStrategy {NS} => ["Backward"]
Namespaces.GetSchemaValidationEnforced {NS} => [true]
Namespaces.GetSubscriptionExpirationTime {NS} => [55]
Namespaces.GetRetention {NS} => [{RETENTION}]
Namespaces.GetInactiveTopicPolicies {NS} => [{INACTIVE}]
Namespaces.GetBacklogQuotaMap {NS} => [{{"destination_storage":{QUOTA}}}]
Namespaces.GetDispatchRate {NS} => [{RATE}]
Namespaces.GetSubscriptionDispatchRate {NS} => [{RATE}]
Namespaces.GetPersistence {NS} => [{PERSISTENCE}]
Namespaces.GetNamespacePermissions {NS} => [{{"some-role":["consume","functions","produce"],"other-role":["produce"]}}]
Namespaces.GetTopicAutoCreation {NS} => \
[{{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":3}}]
Namespaces.RemoveMaxConsumersPerTopic {NS}
Namespaces.RemoveMaxConsumersPerSubscription {NS}
Namespaces.RemoveMaxProducersPerTopic {NS}
Namespaces.RemoveNamespaceMessageTTL {NS}
Namespaces.RemoveSubscriptionExpirationTime {NS}
Namespaces.RemoveInactiveTopicPolicies {NS}
Namespaces.RemoveBacklogQuota {NS}
Namespaces.RemoveRetention {NS}
Namespaces.RemoveTopicAutoCreation {NS}
Namespaces.RevokeNamespacePermission {NS} other-role
Namespaces.GetMaxConsumersPerTopic {NS} => [-1]
Namespaces.GetNamespaceMessageTTL {NS} => [-1]
Namespaces.GetSubscriptionExpirationTime {NS} => [-1]
Namespaces.GetBacklogQuotaMap {NS} => [{{}}]
Namespaces.GetRetention {NS} => [null]
Namespaces.GetTopicAutoCreation {NS} => [null]
Namespaces.GetNamespacePermissions {NS} => [{{"some-role":["consume","functions","produce"]}}]
Namespaces.SetSchemaCompatibilityStrategy {NS} "UNDEFINED"
Namespaces.SetIsAllowAutoUpdateSchema {NS} true
""",
    "topic": "\n".join([*of_topic(T, 0), *of_topic(PT, 4)]),
    "permission grant": f"""
Topics.Create {T} 0
Namespaces.GrantNamespacePermission {NS} grantee ["produce"]
Topics.GrantPermission {T} grantee ["consume"]
Topics.RevokePermission {T} grantee
Topics.GrantPermission {T} grantee ["produce","consume"]
Topics.GetPermissions {T} => \
[{{"some-role":["consume","functions","produce"],"grantee":["consume","produce"]}}]
Topics.RevokePermission {T} grantee
Topics.GetPermissions {T} => [{{"some-role":["consume","functions","produce"],"grantee":["produce"]}}]
Namespaces.RevokeNamespacePermission {NS} grantee
Namespaces.GetNamespacePermissions {NS} => [{{"some-role":["consume","functions","produce"]}}]
""",
    "schema": f"""
Schemas.GetSchemaInfoWithVersion {NS}/t => 404
Schemas.CreateSchemaByPayload {NS}/t {SCHEMA}
Schemas.GetSchemaInfoWithVersion {NS}/t => [\
{{"version":0,"schemaInfo":{{"name":"t","type":"JSON","properties":{{"k":"v"}},"timestamp":"timestamp",\
"schema":"eyJ0eXBlIjoicmVjb3JkIiwibmFtZSI6IlIiLCJmaWVsZHMiOltdfQ=="}}}}]
Schemas.CreateSchemaByPayload {NS}/t {SCHEMA}
Schemas.GetVersionByPayload {NS}/t {SCHEMA} => [0]
Schemas.DeleteSchema {NS}/t
Schemas.GetSchemaInfoWithVersion {NS}/t => 404
""",
    "subscription": f"""
Topics.List {NS} => [null,["{T}"]]
Subscriptions.Create {T} terrasub {LATEST}
Subscriptions.List {T} => [["terrasub"]]
Subscriptions.Delete {T} terrasub
Subscriptions.List {T} => [[]]
Subscriptions.List persistent://{NS}/gone => 404
""",
    "function, sink and source, which need workers": """
Functions.GetFunction terra ns f => 409
Functions.DeleteFunction terra ns f => 409
Sinks.GetSink terra ns k => 404
Sinks.DeleteSink terra ns k => 404
Sources.GetSource terra ns k => 404
Sources.DeleteSource terra ns k => 404
""",
    "what was applied, deleted": f"""
Topics.Delete {T} true true
Namespaces.DeleteNamespace {NS}
Namespaces.GetNamespaces terra => [[]]
Tenants.Delete terra
Tenants.Get terra => 404
""",
}


@pytest.mark.timeout(600)
def test_terraform_reads_the_values_that_it_wrote(sides: tuple[Side, Side], library: str) -> None:
    lines = [line for script in RESOURCES.values() for line in script.split("\n") if line]
    wants = [line.partition(" => ")[::2] for line in lines]
    calls = [go_library.parsed(line) for line, _ in wants]
    answers = on_both(sides, lambda side: go_library.answers(library, side, calls))
    wrong = []
    for side, results in zip(sides, answers, strict=True):
        for (line, want), call, answer in zip(wants, calls, results, strict=True):
            got = comparable(call, answer)
            if got != plain(json.loads(want or "[]")):
                wrong.append(
                    f"{side.name}: {line}\n  wanted {want}\n  got    {got} {answer.get('error', '')[:200]}"
                )
    assert not wrong, "\n".join(wrong)
