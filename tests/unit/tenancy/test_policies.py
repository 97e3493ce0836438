"""The table of policies: what callers may say, what holds, and that each row is whole."""

from dataclasses import fields
from typing import Any

import pytest

from engine.base.errors import InvalidRequest, NotBuilt, PreconditionFailed, Refusal
from engine.tenancy.policies import (
    BY_NAME,
    POLICIES,
    RETENTION,
    SIZE_QUOTA,
    InForce,
    Level,
    find,
    fits,
    in_force,
    put,
)
from engine.tenancy.settings import PolicySettings


def test_each_row_is_whole() -> None:
    settings = {field.name for field in fields(PolicySettings)}
    for policy in POLICIES:
        assert policy.title
        assert policy.meaning
        assert policy.form.schema()["type"]
        assert set(policy.settings) <= settings
        assert bool(policy.topic_name) == bool(policy.topic_key)
        assert policy.default(PolicySettings()) is not None
    assert len(BY_NAME) == len(POLICIES)
    assert len({policy.key for policy in POLICIES}) == len(POLICIES)


def test_a_field_that_may_stay_away_is_not_asked_for() -> None:
    fields = BY_NAME["autoTopicCreation"].form.schema()["fields"]
    assert {field["name"]: field["required"] for field in fields} == {
        "allowAutoTopicCreation": True, "topicType": True, "defaultNumPartitions": False,
    }  # fmt: skip
    stored = BY_NAME["autoTopicCreation"].read({"allowAutoTopicCreation": True})
    assert stored == {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}


def test_what_a_broker_does_by_default_may_also_be_said() -> None:
    for policy in POLICIES:
        value = policy.default(PolicySettings())
        if policy.name not in ("autoTopicCreation",):  # its default count goes with the other type
            assert policy.read(value) == value


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("messageTTL", "600", 600),
        ("maxProducersPerTopic", 4.7, 4),
        ("deduplication", "false", False),
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
        ("deduplication", True, NotBuilt, "deduplication: true is not built yet"),
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


def test_a_topics_value_goes_before_its_namespaces_and_that_before_the_brokers() -> None:
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
def test_a_quota_must_leave_retention_its_say(
    size: int, seconds: int, minutes: int, megabytes: int, expected: bool
) -> None:
    quota = {"limitSize": size, "limitTime": seconds}
    retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    assert fits(quota, RETENTION.form.read("", retention)) == expected
