"""The namespace and the topics of the workers, which a worker creates where they are missing before it joins."""

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.admin.client import AdminClient
from engine.base.errors import Conflict
from engine.base.names import NamespaceName, TopicName
from engine.functions.worker.placing.followed_topics import SystemTopics
from engine.metadata import paths
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import MetadataStore
from engine.metadata.update import update
from engine.tenancy.documents import ordered
from engine.tenancy.initialization import ensure_namespace, ensure_tenant

KEPT = {
    # The topics have no subscriptions, and their messages are read from the first one again and again.
    "retention_policies": {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    "inactive_topic_policies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": False,
    },
}
"""Policies of the namespace that a worker sets where they are not set."""


async def ensure_functions_namespace(
    store: MetadataStore, namespace: NamespaceName, cluster: str
) -> None:
    """Create the workers' namespace if it is missing. Raises the store's errors; may be repeated."""
    await ensure_tenant(store, namespace.tenant, cluster)
    await ensure_namespace(store, namespace, cluster, bundles=1)
    path = paths.namespace_policies(str(namespace))

    def change(value: bytes) -> bytes | None:
        record = decode_json(value, path)
        missing = {key: policy for key, policy in KEPT.items() if record.get(key) is None}
        return encode_json(ordered({**record, **missing})) if missing else None

    await update(store, path, change)


async def ensure_topics(brokers: AdminClient, topics: SystemTopics) -> None:
    """Create the workers' topics, which must not be partitioned. Raises Refusal; may be repeated."""
    for topic in topics:
        try:
            await brokers.call(CREATE_TOPIC, CreateTopic(TopicName.parse(topic)))
        except Conflict:
            continue  # it exists
