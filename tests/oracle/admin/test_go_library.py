"""Every call of Apache's Go admin library that a Pulsar without workers serves, asked of both sides in one order."""

import json
from typing import Any

import pytest

from tests.oracle.admin import go_library
from tests.oracle.client.talk import on_both
from tests.oracle.conftest import Side
from tests.oracle.test_rest import HOSTS, shape

NS = "golib/ns"
T = f"persistent://{NS}/t"
PT = f"persistent://{NS}/pt"
MISSING = f"persistent://{NS}/missing"
COMPACTED = f"persistent://{NS}/compacted"
"""Apache's adds a subscription to what has a threshold."""
RATE = (
    '{"dispatchThrottlingRateInMsg":10,"dispatchThrottlingRateInByte":2000,"ratePeriodInSecond":2}'
)
OFF = '{"dispatchThrottlingRateInMsg":-1,"dispatchThrottlingRateInByte":-1,"ratePeriodInSecond":1}'
PUBLISH = '{"publishThrottlingRateInMsg":10,"publishThrottlingRateInByte":2000}'
SUBSCRIBE = '{"subscribeThrottlingRatePerConsumer":10,"ratePeriodInSecond":30}'
PERSISTENCE = (
    '{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":1,"bookkeeperAckQuorum":1,'
    '"managedLedgerMaxMarkDeleteRate":2.5}'
)
RETENTION = '{"retentionTimeInMinutes":60,"retentionSizeInMB":100}'
INACTIVE = (
    '{"inactiveTopicDeleteMode":"delete_when_no_subscriptions","maxInactiveDurationSeconds":900,'
    '"deleteWhileInactive":true}'
)
DELAYED = '{"tickTime":2000,"active":true}'
QUOTA = '{"limitSize":100000,"limitTime":-1,"policy":"producer_exception"}'
AGED = '{"limitSize":-1,"limitTime":60,"policy":"consumer_backlog_eviction"}'
OFFLOAD = '{"managedLedgerOffloadDriver":"aws-s3"}'
SCHEMA = '{"type":"STRING","schema":"","properties":{"k":"v"}}'
AVRO = json.dumps(
    {
        "type": "AVRO",
        "schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
        "properties": {},
    }
)
ISOLATION = (
    '{"namespaces":["golib/isolated.*"],"primary":["127.*"],"secondary":["none.*"],'
    '"auto_failover_policy":{"policy_type":"min_available",'
    '"parameters":{"min_limit":"1","usage_threshold":"100"}}}'
)
RESOURCES = (
    '{"msgRateIn":10,"msgRateOut":20,"bandwidthIn":1000,"bandwidthOut":2000,"memory":16,'
    '"dynamic":false}'
)

BEFORE = f"""
Clusters.List
Clusters.Get standalone
Clusters.Get nobody
Clusters.Create {{"Name":"goc","serviceUrl":"http://127.0.0.1:1","brokerServiceUrl":"pulsar://127.0.0.1:2"}}
Clusters.Create {{"Name":"goc","serviceUrl":"http://127.0.0.1:1","brokerServiceUrl":"pulsar://127.0.0.1:2"}}
Clusters.Get goc
Clusters.Update {{"Name":"goc","serviceUrl":"http://127.0.0.1:3","peerClusterNames":["standalone"]}}
Clusters.Update {{"Name":"nobody","serviceUrl":"http://127.0.0.1:3"}}
Clusters.Get goc
Clusters.UpdatePeerClusters goc ["standalone"]
Clusters.UpdatePeerClusters goc ["goc"]
Clusters.UpdatePeerClusters goc ["nobody"]
Clusters.GetPeerClusters goc
Clusters.CreateFailureDomain {{"ClusterName":"goc","DomainName":"d","brokers":["b:1"]}}
Clusters.CreateFailureDomain {{"ClusterName":"goc","DomainName":"e","brokers":["b:1"]}}
Clusters.GetFailureDomain goc d
Clusters.GetFailureDomain goc none
Clusters.ListFailureDomains goc
Clusters.UpdateFailureDomain {{"ClusterName":"goc","DomainName":"d","brokers":["b:2"]}}
Clusters.ListFailureDomains goc
Clusters.DeleteFailureDomain {{"ClusterName":"goc","DomainName":"d"}}
Clusters.DeleteFailureDomain {{"ClusterName":"goc","DomainName":"d"}}
Clusters.ListFailureDomains goc
Tenants.Create {{"Name":"golib","adminRoles":["a"],"allowedClusters":["standalone"]}}
Tenants.Create {{"Name":"golib","adminRoles":["a"],"allowedClusters":["standalone"]}}
Tenants.Create {{"Name":"gofar","adminRoles":[],"allowedClusters":["nowhere"]}}
Tenants.Update {{"Name":"golib","adminRoles":["a","b"],"allowedClusters":["standalone","goc"]}}
Tenants.Update {{"Name":"nobody","adminRoles":[],"allowedClusters":["standalone"]}}
Tenants.Get golib
Tenants.Get nobody
Namespaces.CreateNamespace {NS}
Namespaces.CreateNamespace {NS}
Namespaces.CreateNamespace nobody/ns
Namespaces.CreateNsWithNumBundles golib/bundled 8
Namespaces.CreateNsWithNumBundles golib/toomany -5
Namespaces.CreateNsWithBundlesData golib/bounds {{"boundaries":["0x00000000","0x40000000","0xffffffff"],"numBundles":2}}
Namespaces.CreateNsWithPolices golib/made {{"retention_policies":{RETENTION},"replication_clusters":["standalone"],\
"offload_threshold":-1,"schema_auto_update_compatibility_strategy":"Full","subscription_auth_mode":"None",\
"message_ttl_in_seconds":30,"schema_compatibility_strategy":"UNDEFINED"}}
Namespaces.CreateNamespace golib/aged
Namespaces.GetPolicies golib/bundled
Namespaces.GetPolicies golib/bounds
Namespaces.GetPolicies golib/made
Namespaces.GetPolicies golib/missing
Namespaces.GetNamespaces golib
Namespaces.GetNamespaces nobody
Topics.Create {T} 0
Topics.Create {T} 0
Topics.Create persistent://golib/missing/t 0
Topics.CreateWithProperties persistent://{NS}/proper 0 {{"a":"b"}}
Topics.Create {COMPACTED} 0
Topics.Create {PT} 3
Topics.Create {PT} 3
Topics.Update {PT} 4
Topics.Update {PT} 2
Topics.Update {T} 2
Topics.GetMetadata {PT}
Topics.GetMetadata {MISSING}
Topics.List {NS}
Namespaces.GetTopics {NS}
Namespaces.GetTopics golib/missing
Topics.GetProperties persistent://{NS}/proper
Topics.UpdateProperties persistent://{NS}/proper {{"c":"d"}}
Topics.RemoveProperty persistent://{NS}/proper a
Topics.RemoveProperty persistent://{NS}/proper none
Topics.GetProperties persistent://{NS}/proper
Topics.GetProperties {PT}
Topics.UpdateProperties {PT} {{"p":"q"}}
Topics.GetProperties {PT}
Topics.GetProperties {MISSING}
Topics.GetPermissions {T}
Topics.GrantPermission {T} role ["produce","consume"]
Topics.GrantPermission {PT} role ["functions"]
Topics.GetPermissions {T}
Topics.GetPermissions {PT}
Topics.RevokePermission {T} role
Topics.RevokePermission {T} role
Topics.GetPermissions {T}
Topics.Lookup {T}
Topics.GetBundleRange {T}
Topics.GetBundleRange persistent://golib/missing/t
"""
POLICIES = f"""
Namespaces.GetNamespaceMessageTTL {NS}
Namespaces.SetNamespaceMessageTTL {NS} 90
Namespaces.GetNamespaceMessageTTL {NS}
Namespaces.SetNamespaceMessageTTL {NS} -5
Namespaces.RemoveNamespaceMessageTTL {NS}
Namespaces.GetNamespaceMessageTTL {NS}
Namespaces.GetNamespaceMessageTTL golib/missing
Namespaces.GetRetention {NS}
Namespaces.SetRetention {NS} {RETENTION}
Namespaces.GetRetention {NS}
Namespaces.SetRetention {NS} {{"retentionTimeInMinutes":-2,"retentionSizeInMB":1}}
Namespaces.SetRetention {NS} {{"retentionTimeInMinutes":0,"retentionSizeInMB":1}}
Namespaces.RemoveRetention {NS}
Namespaces.GetRetention {NS}
Namespaces.GetBacklogQuotaMap {NS}
Namespaces.SetBacklogQuota {NS} {QUOTA} "destination_storage"
Namespaces.GetBacklogQuotaMap {NS}
Namespaces.RemoveBacklogQuota {NS}
Namespaces.GetBacklogQuotaMap {NS}
Namespaces.SetBacklogQuota golib/aged {AGED} "message_age"
Namespaces.GetBacklogQuotaMap golib/aged
Namespaces.GetTopicAutoCreation {NS}
Namespaces.SetTopicAutoCreation {NS} \
{{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":2}}
Namespaces.GetTopicAutoCreation {NS}
Namespaces.SetTopicAutoCreation {NS} \
{{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":0}}
Namespaces.SetTopicAutoCreation {NS} {{"allowAutoTopicCreation":true,"topicType":"square"}}
Namespaces.RemoveTopicAutoCreation {NS}
Namespaces.GetTopicAutoCreation {NS}
Namespaces.GetSchemaValidationEnforced {NS}
Namespaces.SetSchemaValidationEnforced {NS} true
Namespaces.GetSchemaValidationEnforced {NS}
Namespaces.GetSchemaAutoUpdateCompatibilityStrategy {NS}
Namespaces.SetSchemaAutoUpdateCompatibilityStrategy {NS} "Backward"
Namespaces.GetSchemaAutoUpdateCompatibilityStrategy {NS}
Namespaces.GetSchemaCompatibilityStrategy {NS}
Namespaces.SetSchemaCompatibilityStrategy {NS} "SIDEWAYS"
Namespaces.SetSchemaCompatibilityStrategy {NS} "FORWARD"
Namespaces.GetSchemaCompatibilityStrategy {NS}
Namespaces.GetIsAllowAutoUpdateSchema {NS}
Namespaces.SetIsAllowAutoUpdateSchema {NS} false
Namespaces.GetIsAllowAutoUpdateSchema {NS}
Namespaces.GetOffloadDeleteLag {NS}
Namespaces.SetOffloadDeleteLag {NS} 1000
Namespaces.GetOffloadDeleteLag {NS}
Namespaces.ClearOffloadDeleteLag {NS}
Namespaces.GetOffloadDeleteLag {NS}
Namespaces.GetOffloadThreshold {NS}
Namespaces.SetOffloadThreshold {NS} 1000000
Namespaces.GetOffloadThreshold {NS}
Namespaces.GetOffloadThresholdInSeconds {NS}
Namespaces.SetOffloadThresholdInSeconds {NS} 100
Namespaces.GetOffloadThresholdInSeconds {NS}
Namespaces.GetCompactionThreshold golib/made
Namespaces.SetCompactionThreshold golib/made 10000
Namespaces.GetCompactionThreshold golib/made
Namespaces.SetCompactionThreshold golib/made -1
Namespaces.GetMaxConsumersPerSubscription {NS}
Namespaces.SetMaxConsumersPerSubscription {NS} 10
Namespaces.GetMaxConsumersPerSubscription {NS}
Namespaces.SetMaxConsumersPerSubscription {NS} -1
Namespaces.RemoveMaxConsumersPerSubscription {NS}
Namespaces.GetMaxConsumersPerSubscription {NS}
Namespaces.GetMaxConsumersPerTopic {NS}
Namespaces.SetMaxConsumersPerTopic {NS} 10
Namespaces.GetMaxConsumersPerTopic {NS}
Namespaces.SetMaxConsumersPerTopic {NS} -1
Namespaces.RemoveMaxConsumersPerTopic {NS}
Namespaces.GetMaxConsumersPerTopic {NS}
Namespaces.GetMaxProducersPerTopic {NS}
Namespaces.SetMaxProducersPerTopic {NS} 10
Namespaces.GetMaxProducersPerTopic {NS}
Namespaces.SetMaxProducersPerTopic {NS} -1
Namespaces.RemoveMaxProducersPerTopic {NS}
Namespaces.GetMaxProducersPerTopic {NS}
Namespaces.GetMaxTopicsPerNamespace {NS}
Namespaces.SetMaxTopicsPerNamespace {NS} 1000
Namespaces.GetMaxTopicsPerNamespace {NS}
Namespaces.SetMaxTopicsPerNamespace {NS} -1
Namespaces.RemoveMaxTopicsPerNamespace {NS}
Namespaces.GetMaxTopicsPerNamespace {NS}
Namespaces.GetNamespaceReplicationClusters {NS}
Namespaces.SetNamespaceReplicationClusters {NS} ["standalone"]
Namespaces.SetNamespaceReplicationClusters {NS} ["nowhere"]
Namespaces.GetNamespaceReplicationClusters {NS}
Namespaces.GetNamespaceAntiAffinityGroup {NS}
Namespaces.SetNamespaceAntiAffinityGroup {NS} grp
Namespaces.GetNamespaceAntiAffinityGroup {NS}
Namespaces.GetAntiAffinityNamespaces golib standalone grp
Namespaces.GetAntiAffinityNamespaces golib standalone other
Namespaces.DeleteNamespaceAntiAffinityGroup {NS}
Namespaces.GetNamespaceAntiAffinityGroup {NS}
Namespaces.SetDeduplicationStatus {NS} true
Namespaces.GetPersistence {NS}
Namespaces.SetPersistence {NS} {PERSISTENCE}
Namespaces.GetPersistence {NS}
Namespaces.SetPersistence {NS} \
{{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":0}}
Namespaces.RemovePersistence {NS}
Namespaces.GetPersistence {NS}
Namespaces.GetBookieAffinityGroup {NS}
Namespaces.DeleteBookieAffinityGroup {NS}
Namespaces.GetBookieAffinityGroup {NS}
Namespaces.GetInactiveTopicPolicies {NS}
Namespaces.SetInactiveTopicPolicies {NS} {INACTIVE}
Namespaces.GetInactiveTopicPolicies {NS}
Namespaces.RemoveInactiveTopicPolicies {NS}
Namespaces.GetInactiveTopicPolicies {NS}
Namespaces.GetSubscriptionExpirationTime {NS}
Namespaces.SetSubscriptionExpirationTime {NS} 100
Namespaces.GetSubscriptionExpirationTime {NS}
Namespaces.SetSubscriptionExpirationTime {NS} -1
Namespaces.RemoveSubscriptionExpirationTime {NS}
Namespaces.GetSubscriptionExpirationTime {NS}
Namespaces.GetDispatchRate {NS}
Namespaces.SetDispatchRate {NS} {RATE}
Namespaces.GetDispatchRate {NS}
Namespaces.SetDispatchRate {NS} {OFF}
Namespaces.GetSubscriptionDispatchRate {NS}
Namespaces.SetSubscriptionDispatchRate {NS} {RATE}
Namespaces.GetSubscriptionDispatchRate {NS}
Namespaces.SetSubscriptionDispatchRate {NS} {OFF}
Namespaces.GetReplicatorDispatchRate {NS}
Namespaces.SetReplicatorDispatchRate {NS} {RATE}
Namespaces.GetReplicatorDispatchRate {NS}
Namespaces.SetReplicatorDispatchRate {NS} {OFF}
Namespaces.GetPublishRate {NS}
Namespaces.SetPublishRate {NS} {PUBLISH}
Namespaces.GetPublishRate {NS}
Namespaces.SetPublishRate {NS} {{"publishThrottlingRateInMsg":-1,"publishThrottlingRateInByte":-1}}
Namespaces.GetSubscribeRate {NS}
Namespaces.SetSubscribeRate {NS} {SUBSCRIBE}
Namespaces.GetSubscribeRate {NS}
Namespaces.SetSubscribeRate {NS} {{"subscribeThrottlingRatePerConsumer":-1,"ratePeriodInSecond":30}}
Namespaces.SetEncryptionRequiredStatus {NS} true
Namespaces.SetEncryptionRequiredStatus {NS} false
Namespaces.SetSubscriptionAuthMode {NS} "Prefix"
Namespaces.SetSubscriptionAuthMode {NS} "None"
Namespaces.GetNamespacePermissions {NS}
Namespaces.GrantNamespacePermission {NS} role ["produce","consume"]
Namespaces.GrantNamespacePermission {NS} role2 ["functions","sources","sinks","packages"]
Namespaces.GetNamespacePermissions {NS}
Namespaces.RevokeNamespacePermission {NS} role
Namespaces.GetNamespacePermissions {NS}
Namespaces.GetSubPermissions {NS}
Namespaces.GrantSubPermission {NS} sub ["r1","r2"]
Namespaces.GetSubPermissions {NS}
Namespaces.RevokeSubPermission {NS} sub r1
Namespaces.GetSubPermissions {NS}
Namespaces.GetProperties {NS}
Namespaces.UpdateProperties {NS} {{"a":"b"}}
Namespaces.UpdateProperties {NS} {{"c":"d"}}
Namespaces.GetProperties {NS}
Namespaces.RemoveProperties {NS}
Namespaces.GetProperties {NS}
Namespaces.GetPolicies {NS}
Namespaces.SetSchemaCompatibilityStrategy {NS} "UNDEFINED"
Namespaces.SetIsAllowAutoUpdateSchema {NS} true
Namespaces.SetSchemaValidationEnforced {NS} false
Namespaces.SetDeduplicationStatus {NS} false
"""
AFTER = f"""
Schemas.GetSchemaInfo {NS}/t
Schemas.CreateSchemaByPayload {NS}/t {AVRO}
Schemas.CreateSchemaByPayload {NS}/t {SCHEMA}
Schemas.GetSchemaInfo {NS}/t
Schemas.GetSchemaInfoWithVersion {NS}/t
Schemas.GetSchemaInfoByVersion {NS}/t 0
Schemas.GetSchemaInfoByVersion {NS}/t 9
Schemas.GetAllSchemas {NS}/t
Schemas.GetVersionByPayload {NS}/t {AVRO}
Schemas.GetVersionByPayload {NS}/t {SCHEMA}
Schemas.TestCompatibilityWithPostSchemaPayload {NS}/t {AVRO}
Schemas.TestCompatibilityWithPostSchemaPayload {NS}/t {SCHEMA}
Schemas.CreateSchemaBySchemaInfo {NS}/proper {{"type":"STRING","schema":"","properties":{{}}}}
Schemas.GetVersionBySchemaInfo {NS}/proper {{"type":"STRING","schema":"","properties":{{}}}}
Schemas.TestCompatibilityWithSchemaInfo {NS}/proper {{"type":"STRING","schema":"","properties":{{}}}}
Schemas.DeleteSchema {NS}/proper
Schemas.GetSchemaInfo {NS}/proper
Schemas.ForceDeleteSchema {NS}/t
Schemas.GetAllSchemas {NS}/t
Subscriptions.Create {T} s {{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}}
Subscriptions.Create {T} s {{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}}
Subscriptions.Create {PT} s {{"ledgerId":9223372036854775807,"entryId":9223372036854775807,"partitionIndex":-1}}
Subscriptions.List {T}
Subscriptions.List {PT}
Subscriptions.List {MISSING}
Subscriptions.PeekMessages {T} s 1
Subscriptions.GetMessageByID {T} 999999 0
Subscriptions.GetMessagesByID {T} 999999 0
Subscriptions.ResetCursorToTimestamp {T} s 0
Subscriptions.ResetCursorToMessageID {T} s {{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}}
Subscriptions.ResetCursorToTimestamp {T} none 0
Subscriptions.SkipMessages {T} s 1
Subscriptions.SkipMessages {T} none 1
Subscriptions.ClearBacklog {T} s
Subscriptions.ClearBacklog {PT} s
Subscriptions.ClearBacklog {T} none
Subscriptions.ExpireMessages {T} s 100
Subscriptions.ExpireMessages {T} none 100
Subscriptions.ExpireAllMessages {T} 100
Subscriptions.ExpireAllMessages {PT} 100
Subscriptions.Delete {T} s
Subscriptions.Delete {T} s
Subscriptions.ForceDelete {PT} s
Namespaces.ClearNamespaceBacklog {NS}
Namespaces.ClearNamespaceBacklogForSubscription {NS} none
Namespaces.ClearNamespaceBundleBacklog {NS} 0x00000000_0x40000000
Namespaces.ClearNamespaceBundleBacklogForSubscription {NS} 0x00000000_0x40000000 none
Namespaces.UnsubscribeNamespace {NS} none
Namespaces.UnsubscribeNamespaceBundle {NS} 0x00000000_0x40000000 none
Topics.GetStats {T}
Topics.GetStats {MISSING}
Topics.GetStatsWithOption {T} {{"get_precise_backlog":true,"exclude_publishers":true}}
Topics.GetPartitionedStats {PT} true
Topics.GetPartitionedStats {T} true
Topics.GetPartitionedStatsWithOption {PT} false {{"subscription_backlog_size":true}}
Topics.GetInternalStats {T}
Topics.GetInternalInfo {T}
Topics.GetInternalInfo {MISSING}
Topics.GetMessageID {T} 0
Topics.GetLastMessageID {T}
Topics.GetLastMessageID {MISSING}
Topics.CompactStatus {T}
Topics.Compact {T}
Topics.Compact {MISSING}
Topics.CompactStatus {PT}
Topics.OffloadStatus {T}
Topics.OffloadStatus {MISSING}
Topics.Offload {MISSING} {{"ledgerId":1,"entryId":0,"partitionIndex":-1}}
Topics.Unload {T}
Topics.Unload {PT}
Topics.Unload {MISSING}
Topics.Terminate {T}
Topics.Terminate {MISSING}
Topics.Terminate {PT}
Namespaces.Unload {NS}
Namespaces.Unload golib/missing
Namespaces.UnloadNamespaceBundle {NS} 0x00000000_0x40000000
Namespaces.UnloadNamespaceBundle {NS} 0x00000000_0x99999999
Namespaces.SplitNamespaceBundle {NS} 0x00000000_0x40000000 true
Namespaces.SplitNamespaceBundle {NS} 0x00000000_0x99999999 false
Namespaces.SplitNamespaceBundle golib/aged 0x00000000_0x40000000 false
Namespaces.GetPolicies golib/aged
Namespaces.GetPolicies {NS}
ResourceQuotas.GetDefaultResourceQuota
ResourceQuotas.SetDefaultResourceQuota {RESOURCES}
ResourceQuotas.GetDefaultResourceQuota
ResourceQuotas.SetDefaultResourceQuota \
{{"msgRateIn":40,"msgRateOut":120,"bandwidthIn":100000,"bandwidthOut":300000,"memory":80,"dynamic":true}}
ResourceQuotas.GetNamespaceBundleResourceQuota {NS} 0x40000000_0x80000000
ResourceQuotas.SetNamespaceBundleResourceQuota {NS} 0x40000000_0x80000000 {RESOURCES}
ResourceQuotas.GetNamespaceBundleResourceQuota {NS} 0x40000000_0x80000000
ResourceQuotas.ResetNamespaceBundleResourceQuota {NS} 0x40000000_0x80000000
ResourceQuotas.GetNamespaceBundleResourceQuota {NS} 0x40000000_0x80000000
ResourceQuotas.SetNamespaceBundleResourceQuota {NS} 0x40000000_0x99999999 {RESOURCES}
NsIsolationPolicy.GetNamespaceIsolationPolicies goc
NsIsolationPolicy.CreateNamespaceIsolationPolicy goc p {ISOLATION}
NsIsolationPolicy.CreateNamespaceIsolationPolicy nobody p {ISOLATION}
NsIsolationPolicy.CreateNamespaceIsolationPolicy goc bad {{"namespaces":[],"primary":[],"secondary":[]}}
NsIsolationPolicy.GetNamespaceIsolationPolicy goc p
NsIsolationPolicy.GetNamespaceIsolationPolicy goc none
NsIsolationPolicy.GetNamespaceIsolationPolicies goc
NsIsolationPolicy.GetBrokersWithNamespaceIsolationPolicy standalone
NsIsolationPolicy.GetBrokerWithNamespaceIsolationPolicy standalone b:1
NsIsolationPolicy.DeleteNamespaceIsolationPolicy goc p
NsIsolationPolicy.DeleteNamespaceIsolationPolicy goc p
NsIsolationPolicy.GetNamespaceIsolationPolicies goc
Brokers.GetListActiveBrokers
Brokers.GetActiveBrokers standalone
Brokers.GetActiveBrokers nobody
Brokers.GetLeaderBroker
Brokers.GetAllDynamicConfigurations
Brokers.UpdateDynamicConfiguration ttlDurationDefaultInSeconds 100
Brokers.UpdateDynamicConfiguration dispatchThrottlingRatePerTopicInMsg 100000
Brokers.UpdateDynamicConfiguration nonsense 100
Brokers.GetAllDynamicConfigurations
Brokers.DeleteDynamicConfiguration dispatchThrottlingRatePerTopicInMsg
Brokers.DeleteDynamicConfiguration nonsense
Brokers.GetAllDynamicConfigurations
Brokers.GetOwnedNamespaces standalone nobody:1
Brokers.HealthCheck
Brokers.HealthCheckWithTopicVersion "V1"
Brokers.HealthCheckWithTopicVersion "V2"
BrokerStats.GetAllocatorStats none
Packages.List function {NS}
Packages.ListVersions function://{NS}/p
Packages.GetMetadata function://{NS}/p@v1
Packages.Delete function://{NS}/p@v1
Packages.UpdateMetadata function://{NS}/p@v1 d c {{}}
Functions.GetFunctions golib ns
Functions.GetFunction golib ns f
Functions.GetFunctionStatus golib ns f
Functions.GetFunctionStats golib ns f
Functions.DeleteFunction golib ns f
Functions.StartFunction golib ns f
Functions.StopFunction golib ns f
Functions.RestartFunction golib ns f
Functions.GetFunctionState golib ns f k
Sinks.ListSinks golib ns
Sinks.GetSink golib ns k
Sinks.GetSinkStatus golib ns k
Sinks.DeleteSink golib ns k
Sinks.StartSink golib ns k
Sinks.StopSink golib ns k
Sinks.RestartSink golib ns k
Sinks.GetBuiltInSinks
Sinks.ReloadBuiltInSinks
Sources.ListSources golib ns
Sources.GetSource golib ns k
Sources.GetSourceStatus golib ns k
Sources.DeleteSource golib ns k
Sources.StartSource golib ns k
Sources.StopSource golib ns k
Sources.RestartSource golib ns k
Sources.GetBuiltInSources
Sources.ReloadBuiltInSources
FunctionsWorker.GetCluster
FunctionsWorker.GetClusterLeader
FunctionsWorker.GetAssignments
FunctionsWorker.GetFunctionsStats
FunctionsWorker.GetMetrics
Topics.Delete {T} false true
Topics.Delete {T} false true
Topics.Delete {PT} true false
Topics.Delete {PT} false false
Topics.Delete {MISSING} true true
Namespaces.DeleteNamespaceBundle golib/bundled 0x00000000_0x20000000
Namespaces.DeleteNamespace golib/bundled
Namespaces.DeleteNamespace golib/bounds
Namespaces.DeleteNamespace golib/made
Namespaces.DeleteNamespace golib/aged
Namespaces.DeleteNamespace golib/missing
Namespaces.DeleteNamespace {NS}
Topics.Delete persistent://{NS}/proper true true
Topics.Delete {COMPACTED} true true
Namespaces.DeleteNamespace {NS}
Tenants.Delete golib
Tenants.Delete golib
Clusters.Delete goc
Clusters.Delete goc
"""
OF_TOPICS: dict[str, tuple[str, str | None]] = {
    "AutoSubscriptionCreation": ('{"allowAutoSubscriptionCreation":false}', None),
    "BacklogQuota": (f'{QUOTA} "destination_storage"', None),
    "CompactionThreshold": ("10000", "-1"),
    "DeduplicationSnapshotInterval": ("10", "-1"),
    "DeduplicationStatus": ("true", None),
    "DelayedDelivery": (DELAYED, None),
    "DispatchRate": (RATE, None),
    "InactiveTopicPolicies": (INACTIVE, None),
    "MaxConsumers": ("10", "-1"),
    "MaxConsumersPerSubscription": ("10", "-1"),
    "MaxMessageSize": ("1000", "-1"),
    "MaxProducers": ("10", "-1"),
    "MaxSubscriptionsPerTopic": ("10", "-1"),
    "MaxUnackMessagesPerConsumer": ("10", "-1"),
    "MaxUnackMessagesPerSubscription": ("10", "-1"),
    "MessageTTL": ("10", "-1"),
    "OffloadPolicies": (OFFLOAD, None),
    "Persistence": (PERSISTENCE, None),
    "PublishRate": (PUBLISH, None),
    "ReplicationClusters": ('["standalone"]', '["nowhere"]'),
    "ReplicatorDispatchRate": (RATE, None),
    "Retention": (
        '{"retentionTimeInMinutes":60,"retentionSizeInMB":20000}',
        '{"retentionTimeInMinutes":0,"retentionSizeInMB":1}',
    ),
    "SchemaCompatibilityStrategy": ('"FORWARD"', '"SIDEWAYS"'),
    "SchemaValidationEnforced": ("true", None),
    "SubscribeRate": (SUBSCRIBE, None),
    "SubscriptionDispatchRate": (RATE, None),
}
"""Policies of a topic as the library calls them: a value, and one that is refused."""
APPLIED = {"BacklogQuota", "CompactionThreshold", "InactiveTopicPolicies", "Retention"}
"""Policies whose older calls have an argument that asks for the value applied."""
WRITES_DEFAULTS = {"BacklogQuota"}
"""Policies for which Apache's broker writes its defaults into the namespace when the applied value is read."""


def of_topics() -> list[str]:
    """Return the calls for the policies of topics, by the older and the newer interface. Applied values are read only
    where the topic has the policy: the brokers' settings differ."""
    calls = []
    for name, (value, bad) in OF_TOPICS.items():
        get = name + "Map" if name == "BacklogQuota" else name
        kind = " destination_storage" if name == "BacklogQuota" else ""
        topic = COMPACTED if name == "CompactionThreshold" else T
        older = f"Topics.Get{get} {topic}{' false' if name in APPLIED else ''}"
        newer = f"TopicPolicies.Get{get} {topic}"
        for group, read, applied in (
            ("Topics", older, [older]),
            ("TopicPolicies", f"{newer} false", [f"{newer} false", f"{newer} true"]),
            (
                "GlobalTopicPolicies",
                f"Global{newer} false",
                # not what is applied here: Apache's leaves out what it acts upon then
                [f"Global{newer} false", f"Global{newer} true", f"{newer} false"],
            ),
        ):
            calls += [read, f"{group}.Set{name} {topic} {value}"]
            calls += [a for a in applied if a.endswith("false") or name not in WRITES_DEFAULTS]
            if bad is not None:
                calls.append(f"{group}.Set{name} {topic} {bad}")
            calls += [f"{group}.Remove{name} {topic}{kind}", read]
            calls.append(f"{group}.Set{name} {MISSING} {value}")
    calls += [f"Topics.SetMaxConsumers {PT} 7", f"Topics.GetMaxConsumers {PT}"]
    calls.append(f"Topics.GetSchemaCompatibilityStrategyApplied {T} true")
    return calls


DIFFERENT = {
    # Apache's fails: the library sends no cluster. Ours acts upon no threshold of offloading, and 0 is one.
    "Namespaces.CreateNsWithNumBundles golib/bundled 8": (500, 501),
    "Namespaces.CreateNsWithNumBundles golib/toomany -5": (500, 501),
    "Namespaces.CreateNsWithBundlesData golib/bounds"
    ' {"boundaries":["0x00000000","0x40000000","0xffffffff"],"numBundles":2}': (500, 501),
    # Apache's takes a word that it does not know for none.
    f'Namespaces.SetSchemaCompatibilityStrategy {NS} "SIDEWAYS"': (None, 400),
    f'Topics.SetSchemaCompatibilityStrategy {T} "SIDEWAYS"': (None, 400),
    f'TopicPolicies.SetSchemaCompatibilityStrategy {T} "SIDEWAYS"': (None, 400),
    f'GlobalTopicPolicies.SetSchemaCompatibilityStrategy {T} "SIDEWAYS"': (None, 400),
    # Ours reads what it is given first.
    f"Topics.SetOffloadPolicies {MISSING} {OFFLOAD}": (404, 412),
    f"TopicPolicies.SetOffloadPolicies {MISSING} {OFFLOAD}": (404, 412),
    f"GlobalTopicPolicies.SetOffloadPolicies {MISSING} {OFFLOAD}": (404, 412),
    # Apache's fails.
    f"Schemas.TestCompatibilityWithPostSchemaPayload {NS}/t {SCHEMA}": (500, None),
    f"Namespaces.ClearNamespaceBacklogForSubscription {NS} none": (500, 404),
    f"Namespaces.ClearNamespaceBundleBacklogForSubscription {NS} 0x00000000_0x40000000 none": (
        500,
        404,
    ),
    f"Topics.GetInternalInfo {MISSING}": (500, 404),
    # Not built: of a Java process, and deleting bundles that hold nothing.
    "BrokerStats.GetAllocatorStats none": (406, 501),
    "Namespaces.DeleteNamespaceBundle golib/bundled 0x00000000_0x20000000": (404, 501),
}
"""Calls with different status codes of Apache's and ours, None for no error."""
LARGE = ("Stats", "StatsWithOption", "GetInternalInfo")
"""Calls whose answers are compared by their shape: numbers there depend on the moment."""
LEFT_OUT = {
    "Brokers.GetDynamicConfigurationNames": "ours lists the settings that it has",
    "Brokers.GetRuntimeConfigurations": "likewise",
    "Brokers.GetInternalConfigurationData": "addresses of either's metadata store",
    "BrokerStats.GetLoadReport": "of Apache's load manager, see the tests of brokers by REST",
    "BrokerStats.GetMBeans": "of a Java process",
    "BrokerStats.GetMetrics": "by their names in each",
    "BrokerStats.GetTopics": "all topics of all tests",
    "Namespaces.SetBookieAffinityGroup": "not built, see the tests of namespaces by REST",
    "Tenants.List": "all tenants of all tests",
}
WORKERS = ("Functions.", "Sinks.", "Sources.", "FunctionsWorker.", "Packages.")
"""Groups that a Pulsar without workers refuses: some calls of each are enough."""
MOMENTARY = ("timestamp", "ledgerId", "creationDate", "modificationDate")


def comparable(call: go_library.Call, answer: dict[str, Any]) -> Any:
    """Return an answer without what must differ: the status of a refusal, whose text the REST tests compare."""
    if "error" in answer:
        return answer.get("code", answer["error"])
    values = plain(answer.get("is", []))
    if call[0].endswith("GetProperties") and values == [None]:
        values = [{}]  # Apache's of a partitioned topic that has none
    return [shape(value) for value in values] if call[0].endswith(LARGE) else values


def plain(value: Any) -> Any:
    """Return the value without addresses, times and the order of sets."""
    if isinstance(value, dict):
        return {k: k if k in MOMENTARY else plain(item) for k, item in value.items()}
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return sorted(items) if all(isinstance(item, str) for item in items) else items
    return HOSTS.sub("HOST", value) if isinstance(value, str) else value


def script() -> list[str]:
    return [*BEFORE.split("\n"), *POLICIES.split("\n"), *of_topics(), *AFTER.split("\n")]


@pytest.mark.timeout(600)
def test_the_library_sees_the_same(sides: tuple[Side, Side], library: str) -> None:
    lines = [line for line in script() if line]
    calls = [go_library.parsed(line) for line in lines]
    theirs, ours = on_both(sides, lambda side: go_library.answers(library, side, calls))
    differences = []
    for line, call, their, our in zip(lines, calls, theirs, ours, strict=True):
        want, got = comparable(call, their), comparable(call, our)
        same = want == got
        if line in DIFFERENT:
            same = (their.get("code"), our.get("code")) == DIFFERENT[line]
        if not same:
            differences.append(
                f"{line}\n  apache {want} {their.get('error', '')[:99]}\n  ours   {got} {our.get('error', '')}"
            )
    assert not differences, "\n".join(differences)


def test_every_call_of_the_library_is_made(library: str) -> None:
    made = {line.split(" ")[0] for line in script()}
    of_all = {name for name in go_library.methods(library) if not name.startswith(WORKERS)}
    assert of_all - made == set(LEFT_OUT)
