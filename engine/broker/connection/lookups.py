"""Lookup, partitioned metadata, topics of a namespace: the requests of clients without a producer or consumer."""

from typing import Protocol

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.rights import Right
from engine.base.clock import Clock
from engine.base.errors import InvalidNameError
from engine.base.measures.durations import Durations
from engine.base.names import NamespaceName, TopicName
from engine.broker.connection.patterns import (
    NAME_MAX,
    PatternError,
    matching,
    name_matcher,
    topics_hash,
)
from engine.broker.errors import BrokerError, InvalidTopicName, MetadataError
from engine.broker.ports import Namespaces, Ownership, TopicMode
from engine.broker.settings import DataPathSettings
from engine.broker.topics.registry import TopicRegistry
from engine.net.routing import Route, Routes
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ProtocolViolation, ServerError
from engine.wire.states import CommandType

FILTER_S = 1.0
"""Time that matching a pattern with all names may take; after it the client has to filter."""


class NamesTopic(Protocol):
    """A command with the name of a topic."""

    @property
    def topic(self) -> str: ...


class NamesNamespace(Protocol):
    """A command with the name of a namespace."""

    @property
    def namespace(self) -> str: ...


def parse_topic(text: str) -> TopicName:
    """Parse a topic name sent by a client. Raises InvalidTopicName."""
    try:
        return TopicName.parse(text)
    except InvalidNameError as error:
        raise InvalidTopicName(f"Invalid topic name: {error}") from error


def topic_of(body: NamesTopic) -> TopicName:
    """Return the topic that a command names. Raises InvalidTopicName."""
    return parse_topic(body.topic)


def namespace_of(body: NamesNamespace) -> NamespaceName:
    """Return the namespace that a command names. Raises ProtocolViolation for an invalid name, which closes the
    connection as in Pulsar."""
    try:
        return NamespaceName.parse(body.namespace)
    except InvalidNameError as error:
        raise ProtocolViolation(str(error)) from error


LOOKUP_TOPIC: Right[NamesTopic] = Right(Action.LOOKUP, TopicName, topic_of)


class LookupCommands:
    """Commands that need no producer or consumer, shared by all connections of a broker."""

    def __init__(
        self,
        registry: TopicRegistry,
        ownership: Ownership,
        namespaces: Namespaces,
        settings: DataPathSettings,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.times = Durations()
        """Durations of lookups that were answered or redirected."""
        self.redirects = 0
        self.pending = 0
        self._registry = registry
        self._ownership = ownership
        self._namespaces = namespaces
        self._pattern_length_max = (
            settings.subscription_pattern_max_length
            if settings.enable_broker_side_subscription_pattern_evaluation
            else -1
        )

    async def lookup(self, body: pb.CommandLookupTopic) -> bytes:
        began_s = self._clock.monotonic_s()
        self.pending += 1
        try:
            topic = parse_topic(body.topic)
            owner = await self._namespaces.peer_of(topic) or await self._ownership.lookup(
                topic,
                authoritative=body.authoritative,
                listener=body.advertised_listener_name,
            )
        except BrokerError as error:
            self.times.failed += 1
            return commands.lookup_failed(body.request_id, error.code, str(error))
        finally:
            self.pending -= 1
        self.times.add(self._clock.monotonic_s() - began_s)
        if owner.redirect:
            self.redirects += 1
            return commands.lookup_redirect(
                body.request_id,
                owner.broker_url or None,
                owner.broker_url_tls or None,
                authoritative=owner.authoritative,
                proxy_through_service_url=owner.proxy_through_service_url,
            )
        return commands.lookup_connect(
            body.request_id,
            owner.broker_url or None,
            owner.broker_url_tls or None,
            proxy_through_service_url=owner.proxy_through_service_url,
        )

    def refuse_lookup(self, body: pb.CommandLookupTopic, code: ServerError, text: str) -> bytes:
        """Return the answer to a client that may not look up the topic."""
        self.times.failed += 1
        return commands.lookup_failed(body.request_id, code, text)

    def refuse_metadata(
        self, body: pb.CommandPartitionedTopicMetadata, code: ServerError, text: str
    ) -> bytes:
        """Return the answer to a client that may not ask for the topic's partitions."""
        return commands.partitioned_metadata_failed(body.request_id, code, text)

    async def partitioned_metadata(self, body: pb.CommandPartitionedTopicMetadata) -> bytes:
        try:
            count = await self._namespaces.partitions(
                parse_topic(body.topic), allow_create=body.metadata_auto_creation_enabled
            )
        except BrokerError as error:
            return commands.partitioned_metadata_failed(body.request_id, error.code, str(error))
        return commands.partitioned_metadata(body.request_id, count)

    async def topics_of_namespace(self, body: pb.CommandGetTopicsOfNamespace) -> bytes:
        """Return the topics of a namespace. Raises ProtocolViolation as ``namespace_of``."""
        namespace = namespace_of(body)
        mode = TopicMode(body.mode)
        topics = await self._namespaces.topics_of_namespace(namespace, mode)
        if mode is not TopicMode.PERSISTENT:
            loaded = (topic.name for topic in self._registry.topics(namespace))
            topics = [*topics, *(name.full for name in loaded if not name.persistent)]
        filtered = False
        longest = self._pattern_length_max
        if body.HasField("topics_pattern") and len(body.topics_pattern) <= longest:
            matching_topics = await filter_topics(topics, body.topics_pattern)
            if matching_topics is not None:
                filtered, topics = True, matching_topics
        digest = topics_hash(topics)
        changed = not body.HasField("topics_hash") or body.topics_hash != digest
        return commands.topics_of_namespace(
            body.request_id,
            topics if changed else [],
            filtered=filtered,
            topics_hash=digest,
            changed=changed,
        )


ROUTES: Routes = {
    CommandType.LOOKUP: Route(
        LookupCommands.lookup,
        LOOKUP_TOPIC,
        refuse=LookupCommands.refuse_lookup,
        refusal=COMMAND_REFUSALS["LOOKUP"],
    ),
    CommandType.PARTITIONED_METADATA: Route(
        LookupCommands.partitioned_metadata,
        LOOKUP_TOPIC,
        refuse=LookupCommands.refuse_metadata,
        refusal=COMMAND_REFUSALS["PARTITIONED_METADATA"],
    ),
    CommandType.GET_TOPICS_OF_NAMESPACE: Route(
        LookupCommands.topics_of_namespace,
        Right(Action.LOOKUP, NamespaceName, namespace_of),
        refusal=COMMAND_REFUSALS["GET_TOPICS_OF_NAMESPACE"],
    ),
}


async def filter_topics(topics: list[str], pattern: str) -> list[str] | None:
    """Return the topics whose name without scheme and partition suffix fully matches ``pattern`` (its scheme is
    ignored).

    None when the client has to filter, because the broker does not support the pattern or cannot match it in time.
    Raises MetadataError for an invalid pattern. Cancel-safe; other tasks run in between.
    """
    try:
        matches = name_matcher(pattern, memo=True)
    except PatternError as error:
        raise MetadataError(f"Invalid topics pattern: {error}") from error
    if matches is None or any(len(topic) > NAME_MAX for topic in topics):
        return None
    return await matching(topics, matches, FILTER_S)
