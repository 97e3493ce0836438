"""Operations that report the statistics of a topic. Pure."""

from dataclasses import dataclass

from engine.admin.api.arguments import JsonObject, MessagePosition, OnTopic
from engine.admin.api.rights import CONSUME, LOOKUP_TOPIC
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class TopicStats(OnTopic):
    """Flags of Pulsar's stats route, and our own flag ``schema_versions`` for those of producers and consumers."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False
    schema_versions: bool = False


@dataclass(frozen=True, slots=True)
class InternalStats(OnTopic):
    """Flags of the internal statistics; ``metadata`` adds each ledger's metadata."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class BacklogSize(OnTopic):
    """Position behind which the backlog is measured."""

    position: MessagePosition


TOPIC_STATS = Operation("topic_stats", TopicStats, JsonObject, LOOKUP_TOPIC, reads=True)
"""Pulsar's TopicStats."""
INTERNAL_STATS = Operation("internal_stats", InternalStats, JsonObject, LOOKUP_TOPIC, reads=True)
"""Pulsar's PersistentTopicInternalStats."""
INTERNAL_INFO = Operation("internal_info", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""Pulsar's ManagedLedgerInfo: ledgers and cursors as stored. The topic is not loaded for it; any broker answers."""
BACKLOG_SIZE = Operation("backlog_size", BacklogSize, int, CONSUME, reads=True)
"""Bytes stored behind a position, estimated from the mean size of entries; all bytes if the topic lacks its ledger."""
