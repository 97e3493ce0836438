"""Events that change topics' policies, as Apache Pulsar 4.0.8 stores them in a namespace's ``__change_events``. Pure.

A message's key is ``key_of`` its topic. Its payload is an Avro record ``PulsarEvent``, neither compressed nor batched;
a null payload means that the topic was deleted. The last event of a key holds all of a topic's policies.
A policy document has those fields of Pulsar's TopicPolicies that are set, in the types of ``engine.tenancy.avro``.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Document
from engine.tenancy.avro import AvroSchema
from engine.tenancy.policies.values import OFFLOAD_DRIVER, kinds_of_driver

LOCAL_NAME = "__change_events"
GLOBAL_PREFIX = "__G__"
"""Prefix of a key whose policies apply to a topic in all clusters that replicate it."""

_COMMON = "org.apache.pulsar.common"
_DATA = f"{_COMMON}.policies.data"
_IMPL = f"{_DATA}.impl"
_UNSET: Document = {
    "backLogQuotaMap": {},
    "subscriptionPolicies": {},
    "subscriptionTypesEnabled": [],
}
"""Values that Apache Pulsar writes for these fields when they are not set; all other fields are null then."""


def _may_be(kind: Any, names: str) -> Document:
    """Return nullable fields of one type; ``names`` are separated by spaces."""
    return {name: ["null", kind] for name in names.split()}


def _always(kind: Any, names: str) -> Document:
    return dict.fromkeys(names.split(), kind)


def _record(name: str, *parts: Document, namespace: str | None = None) -> Document:
    """Return a record type with the fields of ``parts``, sorted by name as in Apache Pulsar's schema."""
    fields = [
        {"name": field, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
        for field, kind in sorted((key, kind) for part in parts for key, kind in part.items())
    ]
    return {"type": "record", "name": name, **_namespace_key(namespace), "fields": fields}


def _enum(name: str, symbols: str, namespace: str | None = None) -> Document:
    return {"type": "enum", "name": name, **_namespace_key(namespace), "symbols": symbols.split()}


def _namespace_key(namespace: str | None) -> Document:
    return {} if namespace is None else {"namespace": namespace}


def _array(items: Any, java_class: str) -> Document:
    return {"type": "array", "items": items, "java-class": f"java.util.{java_class}"}


def _map(values: Any) -> Document:
    return {"type": "map", "values": values}


OFFLOAD = "offloadPolicies"
_DISPATCH_RATE = f"{_IMPL}.DispatchRateImpl"
_OFFLOAD = _record(
    "OffloadPoliciesImpl",
    _may_be(
        "string",
        "fileSystemProfilePath fileSystemURI gcsManagedLedgerOffloadBucket gcsManagedLedgerOffloadRegion "
        "gcsManagedLedgerOffloadServiceAccountKeyFile managedLedgerOffloadBucket managedLedgerOffloadDriver "
        "managedLedgerOffloadRegion managedLedgerOffloadServiceEndpoint offloadersDirectory "
        "s3ManagedLedgerOffloadBucket s3ManagedLedgerOffloadCredentialId s3ManagedLedgerOffloadCredentialSecret "
        "s3ManagedLedgerOffloadRegion s3ManagedLedgerOffloadRole s3ManagedLedgerOffloadRoleSessionName "
        "s3ManagedLedgerOffloadServiceEndpoint",
    ),
    _may_be(
        "int",
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes gcsManagedLedgerOffloadReadBufferSizeInBytes "
        "managedLedgerOffloadMaxBlockSizeInBytes managedLedgerOffloadMaxThreads managedLedgerOffloadPrefetchRounds "
        "managedLedgerOffloadReadBufferSizeInBytes managedLedgerOffloadReadThreads "
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes s3ManagedLedgerOffloadReadBufferSizeInBytes",
    ),
    _may_be(
        "long",
        "managedLedgerOffloadDeletionLagInMillis managedLedgerOffloadThresholdInBytes "
        "managedLedgerOffloadThresholdInSeconds",
    ),
    _may_be(_map("string"), "managedLedgerExtraConfigurations"),
    _may_be(
        _enum("OffloadedReadPriority", "BOOKKEEPER_FIRST TIERED_STORAGE_FIRST"),
        "managedLedgerOffloadedReadPriority",
    ),
)
_POLICIES = _record(
    "TopicPolicies",
    _may_be(
        "boolean",
        "deduplicationEnabled delayedDeliveryEnabled dispatcherPauseOnAckStatePersistentEnabled isGlobal "
        "schemaValidationEnforced",
    ),
    _may_be(
        "int",
        "deduplicationSnapshotIntervalSeconds maxConsumerPerTopic maxConsumersPerSubscription maxMessageSize "
        "maxProducerPerTopic maxSubscriptionsPerTopic maxUnackedMessagesOnConsumer "
        "maxUnackedMessagesOnSubscription messageTTLInSeconds",
    ),
    _may_be(
        "long", "compactionThreshold delayedDeliveryMaxDelayInMillis delayedDeliveryTickTimeMillis"
    ),
    _may_be(_array("string", "List"), "replicationClusters shadowTopics"),
    _may_be(
        _record(
            "AutoSubscriptionCreationOverrideImpl",
            _always("boolean", "allowAutoSubscriptionCreation"),
            namespace=_IMPL,
        ),
        "autoSubscriptionCreationOverride",
    ),
    _may_be(
        _map(
            _record(
                "BacklogQuotaImpl",
                _always("long", "limit"),
                _may_be("long", "limitSize"),
                _always("int", "limitTime"),
                _may_be(
                    _enum(
                        "RetentionPolicy",
                        "producer_request_hold producer_exception consumer_backlog_eviction",
                        f"{_DATA}.BacklogQuota",
                    ),
                    "policy",
                ),
                namespace=_IMPL,
            )
        ),
        "backLogQuotaMap",
    ),
    _may_be(
        _record(
            "DispatchRateImpl",
            _always("long", "dispatchThrottlingRateInByte"),
            _always("int", "dispatchThrottlingRateInMsg ratePeriodInSecond"),
            _always("boolean", "relativeToPublishRate"),
            namespace=_IMPL,
        ),
        "dispatchRate",
    ),
    _may_be(_DISPATCH_RATE, "replicatorDispatchRate subscriptionDispatchRate"),
    _may_be(_record("EntryFilters", _may_be("string", "entryFilterNames")), "entryFilters"),
    _may_be(
        _record(
            "InactiveTopicPolicies",
            _always("boolean", "deleteWhileInactive"),
            _may_be(
                _enum(
                    "InactiveTopicDeleteMode",
                    "delete_when_no_subscriptions delete_when_subscriptions_caught_up",
                ),
                "inactiveTopicDeleteMode",
            ),
            _always("int", "maxInactiveDurationSeconds"),
        ),
        "inactiveTopicPolicies",
    ),
    _may_be(_OFFLOAD, "offloadPolicies"),
    _may_be(
        _record(
            "PersistencePolicies",
            _always("int", "bookkeeperAckQuorum bookkeeperEnsemble bookkeeperWriteQuorum"),
            _always("double", "managedLedgerMaxMarkDeleteRate"),
            _may_be("string", "managedLedgerStorageClassName"),
        ),
        "persistence",
    ),
    _may_be(
        _record(
            "PublishRate",
            _always("long", "publishThrottlingRateInByte"),
            _always("int", "publishThrottlingRateInMsg"),
        ),
        "publishRate",
    ),
    _may_be(
        _record(
            "RetentionPolicies",
            _always("long", "retentionSizeInMB"),
            _always("int", "retentionTimeInMinutes"),
        ),
        "retentionPolicies",
    ),
    _may_be(
        _enum(
            "SchemaCompatibilityStrategy",
            "UNDEFINED ALWAYS_INCOMPATIBLE ALWAYS_COMPATIBLE BACKWARD FORWARD FULL BACKWARD_TRANSITIVE "
            "FORWARD_TRANSITIVE FULL_TRANSITIVE",
        ),
        "schemaCompatibilityStrategy",
    ),
    _may_be(
        _record(
            "SubscribeRate", _always("int", "ratePeriodInSecond subscribeThrottlingRatePerConsumer")
        ),
        "subscribeRate",
    ),
    _may_be(
        _map(_record("SubscriptionPolicies", _may_be(_DISPATCH_RATE, "dispatchRate"))),
        "subscriptionPolicies",
    ),
    _may_be(
        _array(
            _enum(
                "SubType",
                "Exclusive Shared Failover Key_Shared",
                f"{_COMMON}.api.proto.CommandSubscribe",
            ),
            "List",
        ),
        "subscriptionTypesEnabled",
    ),
    namespace=_DATA,
)
_EVENT = _record(
    "PulsarEvent",
    _may_be(_enum("ActionType", "INSERT DELETE UPDATE NONE"), "actionType"),
    _may_be(
        _enum(
            "EventType",
            "TOPIC_POLICY TRANSACTION_BUFFER_SNAPSHOT TRANSACTION_BUFFER_SNAPSHOT_SEGMENTS "
            "TRANSACTION_BUFFER_SNAPSHOT_INDEXES",
        ),
        "eventType",
    ),
    _may_be(_array("string", "HashSet"), "replicateTo"),
    _may_be(
        _record(
            "TopicPoliciesEvent",
            _may_be("string", "domain namespace tenant topic"),
            _may_be(_POLICIES, "policies"),
        ),
        "topicPoliciesEvent",
    ),
    namespace=f"{_COMMON}.events",
)

SCHEMA_TEXT = json.dumps(_EVENT, separators=(",", ":"))
"""The schema as Apache Pulsar 4.0.8 registers it, to the byte."""
SCHEMA = AvroSchema(_EVENT)


def log_topic(namespace: NamespaceName) -> TopicName:
    """Return the topic that holds the policy events of a namespace's topics."""
    return namespace.topic(LOCAL_NAME)


def key_of(topic: TopicName, *, everywhere: bool = False) -> str:
    """Return the key of a topic's events; ``everywhere`` selects the policies that apply in all clusters."""
    return f"{GLOBAL_PREFIX}{topic}" if everywhere else str(topic)


def new_event(topic: TopicName, cluster: str, *, everywhere: bool = False) -> Document:
    """Return an event that sets no policy.

    ``everywhere`` leaves ``replicateTo`` out, so that the event is replicated to all clusters.
    """
    event: Document = {"actionType": "UPDATE", "eventType": "TOPIC_POLICY"}
    if not everywhere:
        event["replicateTo"] = [cluster]
    event["topicPoliciesEvent"] = {
        "domain": topic.domain,
        "tenant": topic.tenant,
        "namespace": str(topic.namespace).removeprefix(f"{topic.tenant}/"),
        "topic": topic.local,
        "policies": {**deepcopy(_UNSET), "isGlobal": everywhere},
    }
    return event


def policies_of(event: Mapping[str, Any]) -> Document:
    """Return a copy of the policies that an event sets."""
    policies = (event.get("topicPoliciesEvent") or {}).get("policies") or {}
    policies_set = {
        key: deepcopy(value)
        for key, value in policies.items()
        if key != "isGlobal" and value != _UNSET.get(key)
    }
    if offload := policies_set.get(OFFLOAD):
        stored = {key: value for key, value in offload.items() if value is not None}
        policies_set[OFFLOAD] = stored | kinds_of_driver(stored.get(OFFLOAD_DRIVER))
    return policies_set


def with_policies(event: Mapping[str, Any], policies: Mapping[str, Any]) -> Document:
    """Return the event with its policies replaced by ``policies``; a value of None leaves a policy unset."""
    body = event["topicPoliciesEvent"]
    scope = {"isGlobal": (body.get("policies") or {}).get("isGlobal", False)}
    given = {key: value for key, value in policies.items() if value is not None}
    if OFFLOAD in given:
        derived = kinds_of_driver(None)
        given[OFFLOAD] = {key: value for key, value in given[OFFLOAD].items() if key not in derived}
    return {**event, "topicPoliciesEvent": {**body, "policies": {**_UNSET, **scope, **given}}}
