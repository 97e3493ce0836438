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
HELD_LEDGERS = Operation("held_ledgers", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""Reasons that keep the ledgers of a topic, by the rules of its trimming: ``{"at": ms, "copies", "retention_s",
"retention_bytes", "ledgers": number, "held": [{"holder", "ledgers", "bytes", "why", "next"}], "subscriptions":
[{"name", "ledgers", "bytes", "alone_bytes"}], "largest": [{"ledger_id", "entries", "bytes", "closed_ms", "holder",
"subscriptions", "until_ms"}]}``. Bytes are those of one copy, of ``copies``. ``holder`` is one of
``ledger_holders.Holder``, ``next`` the step that would free its ledgers; ``alone_bytes`` are of ledgers that no other
subscription needs; ``closed_ms`` is 0 while a ledger accepts entries. ``subscriptions`` and ``largest`` have the
largest, at most HELD_MAX."""
HELD_MAX = 200
HELD_NAMES_MAX = 20
"""Subscriptions named for each ledger."""
BACKLOG_SIZE = Operation("backlog_size", BacklogSize, int, CONSUME, reads=True)
"""Bytes stored behind a position, estimated from the mean size of entries; all bytes if the topic lacks its ledger."""
