"""Deduplication of the topics to which functions publish effectively once."""

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, TOPIC_POLICIES, SetTopicPolicy
from engine.admin.client import AdminClient
from engine.base.names import TopicName
from engine.functions.definitions import functions_pb2 as pb

POLICY = "deduplication"


class OutputDeduplication:
    """Switches deduplication on where an instance needs it: its results would be repeated without."""

    def __init__(self, brokers: AdminClient) -> None:
        self._brokers = brokers

    async def __call__(self, details: pb.FunctionDetails) -> None:
        """Make the output topic of an effectively-once function drop repeated messages. Raises MagnetarError."""
        if details.processingGuarantees != pb.ProcessingGuarantees.EFFECTIVELY_ONCE:
            return
        if not details.sink.topic:
            return
        topic = TopicName.parse(details.sink.topic)
        policies = await self._brokers.call(TOPIC_POLICIES, OnTopic(topic))
        if policies[POLICY]["value"]:
            return
        await self._brokers.call(SET_TOPIC_POLICY, SetTopicPolicy(topic, POLICY, True))
