"""The table of policies: accepted values, the values in force, and the completeness of each row."""

from dataclasses import fields
from typing import Any

import pytest

from engine.base.errors import InvalidRequest, PreconditionFailed, Refusal
from engine.tenancy.policies.in_force import InForce, in_force
from engine.tenancy.policies.policy import Level, find, put
from engine.tenancy.policies.table import BY_NAME, POLICIES, RETENTION, SIZE_QUOTA
from engine.tenancy.policies.values import fits
from engine.tenancy.settings import PolicySettings

OLDER = "schemaAutoUpdateCompatibilityStrategy"


def test_each_row_is_whole() -> None:
    settings = {field.name for field in fields(PolicySettings)}
    for policy in POLICIES:
        assert policy.title
        assert policy.meaning
        assert policy.form.schema()["type"]
        assert set(policy.settings) <= settings
        assert policy.default(PolicySettings()) is not None or not policy.shown
    assert len(BY_NAME) == len(POLICIES)
    keys = [policy.key for policy in POLICIES if policy.key]
    assert len(set(keys)) == len(keys)
    assert all(policy.key or policy.topic_key for policy in POLICIES)


def test_an_optional_field_is_not_required() -> None:
    fields = BY_NAME["autoTopicCreation"].form.schema()["fields"]
    assert {field["name"]: field["required"] for field in fields} == {
        "allowAutoTopicCreation": True, "topicType": True, "defaultNumPartitions": False,
    }  # fmt: skip
    stored = BY_NAME["autoTopicCreation"].read({"allowAutoTopicCreation": True})
    assert stored == {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}


def test_a_default_of_the_broker_may_be_set_explicitly() -> None:
    for policy in POLICIES:
        value = policy.default(PolicySettings())
        # The default count of autoTopicCreation belongs to the other type of topic.
        if policy.shown and policy.name != "autoTopicCreation":
            assert policy.read(value) == value


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("messageTTL", "600", 600),
        ("maxProducersPerTopic", 4.7, 4),
        ("deduplication", "false", False),
        ("subscriptionTypesEnabled", ["Key_Shared", "Shared", "Shared"], ["Shared", "Key_Shared"]),
        ("publishRate", {"publishThrottlingRateInMsg": -7}, (-7, -1)),
        ("encryptionRequired", "true", True),
        ("replication", ["a", "b", "a"], ["a", "b"]),
        ("offloadThreshold", -5, -5),
        ("dispatchRate", {"dispatchThrottlingRateInByte": 5}, (0, 5, False, 0)),
        ("subscribeRate", {}, (-1, 30)),
        ("retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": "5", "x": 1}, (-1, 5)),
        (
            "backlogQuota.destination_storage",
            {"limit": 7, "policy": "producer_exception"},
            (7, 7, -1),
        ),
    ],
)
def test_callers_are_read_as_pulsar_reads_them(name: str, given: Any, stored: Any) -> None:
    value = BY_NAME[name].read(given)
    if isinstance(stored, tuple):
        assert tuple(value.values())[: len(stored)] == stored
    else:
        assert value == stored


@pytest.mark.parametrize(
    ("name", "given", "kind", "reason"),
    [
        (
            "messageTTL",
            -1,
            PreconditionFailed,
            "Invalid value for message TTL, message TTL must >= 0",
        ),
        ("messageTTL", None, InvalidRequest, "messageTTL: expected a whole number, got null"),
        ("messageTTL", True, InvalidRequest, "messageTTL: expected a whole number, got a boolean"),
        ("messageTTL", 1 << 40, InvalidRequest, "messageTTL must be at most 2147483647"),
        ("maxConsumersPerTopic", -1, PreconditionFailed, "maxConsumersPerTopic must be 0 or more"),
        (
            "retention",
            {"retentionTimeInMinutes": -2},
            InvalidRequest,
            "Invalid retention policy: time limit",
        ),
        (
            "retention",
            {"retentionSizeInMB": 5},
            InvalidRequest,
            "Invalid retention policy: a zero limit",
        ),
        ("retention", [], InvalidRequest, "retention: expected an object, got an array"),
        (
            "persistence",
            {"bookkeeperEnsemble": 9},
            InvalidRequest,
            "bookkeeperEnsemble must be at most 5",
        ),
        (
            "persistence",
            {"bookkeeperEnsemble": 1},
            InvalidRequest,
            "persistence: the attribute bookkeeperW",
        ),
        (
            "subscriptionTypesEnabled",
            ["Shared", "shared"],
            InvalidRequest,
            "subscriptionTypesEnabled: 'shared' is none of Exclusive, Shared, Failover, Key_Shared",
        ),
        (
            "subscriptionTypesEnabled",
            "Shared",
            InvalidRequest,
            "subscriptionTypesEnabled: expected an",
        ),
        (
            "publishRate",
            {"publishThrottlingRateInMsg": 1 << 31},
            InvalidRequest,
            "publishThrottlingRateInMsg must be at most 2147483647",
        ),
        (
            "maxMessageSize",
            -1,
            PreconditionFailed,
            "topic-level maxMessageSize must be greater than or equal to 0",
        ),
        (
            "maxUnackedMessagesPerConsumer",
            -1,
            PreconditionFailed,
            "maxUnackedMessagesPerConsumer must be 0 or more",
        ),
        (
            "delayedDelivery",
            {"active": True, "tickTime": -5},
            PreconditionFailed,
            "tickTime must be 0 or more",
        ),
        ("deduplication", "yes", InvalidRequest, "deduplication: expected"),
        (
            "backlogQuota.message_age",
            {"limitTime": 5},
            InvalidRequest,
            "backlogQuota.message_age: the attribute",
        ),
        (
            "autoTopicCreation",
            {"allowAutoTopicCreation": True, "topicType": "partitioned"},
            PreconditionFailed,
            "Invalid configuration for autoTopicCreationOverride.",
        ),
    ],
)
def test_refusals_name_the_field_and_the_limit(
    name: str, given: Any, kind: type[Refusal], reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        BY_NAME[name].read(given)
    assert refused.value.reason[: len(reason)] == reason
    assert isinstance(refused.value, kind)


def test_delayed_delivery_is_stored_field_by_field_with_a_topic() -> None:
    policy, own = BY_NAME["delayedDelivery"], {"messageTTLInSeconds": 5}
    value = policy.read({"active": True, "tickTime": 2000})
    assert value == {"tickTime": 2000, "active": True, "maxDeliveryDelayInMillis": 0}
    policy.store(Level.TOPIC, own, value)
    assert own == {
        "messageTTLInSeconds": 5, "delayedDeliveryTickTimeMillis": 2000, "delayedDeliveryEnabled": True,
        "delayedDeliveryMaxDelayInMillis": 0,
    }  # fmt: skip
    assert policy.says(Level.TOPIC, own) == value
    policy.store(Level.TOPIC, own, None)
    assert own == {"messageTTLInSeconds": 5}
    assert policy.says(Level.TOPIC, own) is None
    assert policy.says(Level.TOPIC, {"delayedDeliveryEnabled": False}) == {"active": False}


def test_a_topics_value_overrides_its_namespaces_and_that_the_brokers() -> None:
    settings = PolicySettings(ttl_duration_default_in_seconds=1)
    ttl = BY_NAME["messageTTL"]
    namespace: dict[str, Any] = {}
    topic: dict[str, Any] = {}
    assert in_force(settings, namespace, topic)[ttl.name] == InForce(1, Level.BROKER)
    put(namespace, ttl.key, 0)
    assert in_force(settings, namespace, topic)[ttl.name] == InForce(0, Level.NAMESPACE)
    put(topic, ttl.topic_key, 3)
    assert in_force(settings, namespace, topic)[ttl.name] == InForce(3, Level.TOPIC)
    put(topic, ttl.topic_key, None)
    assert topic == {}


def test_the_older_policy_of_a_strategy_applies_where_the_newer_is_undefined() -> None:
    newer, older = BY_NAME["schemaCompatibilityStrategy"], BY_NAME[OLDER]
    namespace: dict[str, Any] = {"schema_compatibility_strategy": "UNDEFINED"}
    topic: dict[str, Any] = {"schemaCompatibilityStrategy": "UNDEFINED"}

    def strategy() -> InForce:
        return in_force(PolicySettings(), namespace, topic)[newer.name]

    assert strategy() == InForce("FULL", Level.BROKER)
    for name in older.form.schema()["enum"]:
        put(namespace, older.key, older.read(name))
        spelled = strategy().value.replace("ALWAYS_INCOMPATIBLE", "AUTO_UPDATE_DISABLED")
        assert spelled.replace("_", "") == name.upper()
        assert strategy().level is Level.NAMESPACE
    put(namespace, newer.key, "BACKWARD")
    assert strategy() == InForce("BACKWARD", Level.NAMESPACE)
    put(topic, newer.topic_key, "FORWARD")
    assert strategy() == InForce("FORWARD", Level.TOPIC)
    for odd in ("Sideways", [], None):
        assert in_force(PolicySettings(), {older.key[0]: odd}, {})[newer.name].value == "FULL"


def test_the_types_of_a_quota_are_policies_of_their_own() -> None:
    document = {"backlog_quota_map": {"message_age": {"limitTime": 5}}}
    before = document["backlog_quota_map"]
    put(document, SIZE_QUOTA.key, {"limitSize": 1})
    assert find(document, SIZE_QUOTA.key) == {"limitSize": 1}
    assert before == {"message_age": {"limitTime": 5}}, "another's document was changed"
    put(document, SIZE_QUOTA.key, None)
    assert document["backlog_quota_map"] == {"message_age": {"limitTime": 5}}


@pytest.mark.parametrize(
    ("size", "seconds", "minutes", "megabytes", "expected"),
    [
        (1, -1, 10, 1, True),
        (1 << 20, -1, 10, 1, False),
        (-1, 600, 10, 1, False),
        (-1, 599, 10, 1, True),
        (1 << 40, -1, -1, 1, True),
        (1 << 40, -1, 0, 0, True),
    ],
)
def test_a_quota_must_fit_retention(
    size: int, seconds: int, minutes: int, megabytes: int, expected: bool
) -> None:
    quota = {"limitSize": size, "limitTime": seconds}
    retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    assert fits(quota, RETENTION.form.read("", retention)) == expected
