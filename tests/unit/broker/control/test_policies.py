"""What is stored of a namespace goes before the broker's defaults."""

from engine.broker.control.policies import effective
from engine.broker.settings import NodeSettings

NODE = NodeSettings(allow_auto_topic_creation_type="partitioned", default_num_partitions=3)


def test_without_anything_stored_the_defaults_hold() -> None:
    found = effective({}, NODE)
    assert found.auto_topic == NODE.allow_auto_topic_creation
    assert found.new_partitions == 3
    assert (found.max_topics, found.message_ttl_s) == (0, None)
    assert found.topic.ensemble is None
    assert (found.topic.retention_minutes, found.topic.retention_mb) == (0, 0)
    assert found.topic.auto_subscription == NODE.allow_auto_subscription_creation


def test_what_is_stored_goes_before_them() -> None:
    found = effective(
        {
            "autoTopicCreationOverride": {
                "allowAutoTopicCreation": False,
                "topicType": "non-partitioned",
                "defaultNumPartitions": 7,
            },
            "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
            "max_topics_per_namespace": 5,
            "message_ttl_in_seconds": 0,
            "persistence": {
                "bookkeeperEnsemble": 5,
                "bookkeeperWriteQuorum": 3,
                "bookkeeperAckQuorum": 2,
            },
            "retention_policies": {"retentionTimeInMinutes": -1, "retentionSizeInMB": 10},
        },
        NODE,
    )
    assert (found.auto_topic, found.new_partitions, found.max_topics) == (False, 0, 5)
    assert found.message_ttl_s == 0
    topic = found.topic
    assert (topic.ensemble, topic.write_quorum, topic.ack_quorum) == (5, 3, 2)
    assert (topic.retention_minutes, topic.retention_mb) == (-1, 10)
    assert not topic.auto_subscription


def test_a_partitioned_override_without_a_count_takes_the_brokers() -> None:
    override = {"allowAutoTopicCreation": True, "topicType": "partitioned"}
    assert effective({"autoTopicCreationOverride": override}, NODE).new_partitions == 3
