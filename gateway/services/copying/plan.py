"""The plan of a copy, made once and stored: which entries are read, and what sequence ids their copies have.

A sequence id is derived from the position in the source alone: the number of the entry in its topic and the index in
its batch. A copy that is resumed therefore sends what it may have sent before under the same ids, which brokers drop
where deduplication is on.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID, MESSAGE_ID_BY_TIME, MessageIdByTime
from engine.admin.api.statistics import INTERNAL_STATS, TOPIC_STATS, InternalStats, TopicStats
from engine.base.errors import InvalidField, NotFound, Unsupported
from engine.base.names import TopicName
from engine.tenancy.namespaces import get_policies
from gateway.services import catalog
from gateway.services.admin import existence
from gateway.services.copying.conditions import Conditions
from gateway.services.engine_link import Engine

INDEX_BITS = 20
"""Bits of a sequence id for the index in a batch: brokers accept no batch of more messages."""


@dataclass(slots=True)
class SourcePart:
    """A topic or partition that is read. ``ledgers``: each with the number of entries before it. ``start``: ledger and
    entry to read from; ``end``: the last ones; None: it has none. ``entries``: number of entries between them."""

    topic: str
    ledgers: list[list[int]]
    start: list[int]
    end: list[int] | None
    entries: int

    def sequence(self, ledger_id: int, entry_id: int, index: int) -> int:
        """Return the sequence id of a message's copy; they rise with positions (J11)."""
        return (self.ordinal(ledger_id, entry_id) << INDEX_BITS) + max(index, 0)

    def ordinal(self, ledger_id: int, entry_id: int) -> int:
        """Return the number of entries before this one, as of when the plan was made."""
        return next(base for ledger, base in self.ledgers if ledger == ledger_id) + entry_id


@dataclass(slots=True)
class Target:
    """A topic that is written to. ``partitions``: 0 for a plain one. ``deduplicated``: its brokers drop repetitions.
    ``behind``: the last entry of each member before the copy began, by full name."""

    partitions: int
    deduplicated: bool
    behind: dict[str, list[int]] = field(default_factory=dict)

    def member(self, topic: str, choice: int) -> str:
        """Return the full name of the partition that a number chooses."""
        if not self.partitions:
            return topic
        return str(TopicName.parse(topic).partition_at(choice % self.partitions))


@dataclass(slots=True)
class CopyPlan:
    """The entries that a copy reads and the topics that it writes, ``targets`` by full name."""

    sources: list[SourcePart]
    targets: dict[str, Target] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        return sum(part.entries for part in self.sources)

    def entries_before(self, number: int, ledger_id: int, entry_id: int) -> int:
        """Return how many entries are read when reading goes on at this place of a part."""
        before = sum(part.entries for part in self.sources[:number])
        if ledger_id < 0:
            return before
        part = self.sources[number]
        read = _ordinal_at(part, [ledger_id, entry_id]) - _ordinal_at(part, part.start)
        return before + min(max(read, 0), part.entries)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "CopyPlan":
        """Return the plan that ``as_json`` made."""
        return cls(
            [SourcePart(**part) for part in stored["sources"]],
            {name: Target(**target) for name, target in stored["targets"].items()},
        )


async def planned_sources(
    engine: Engine, source: TopicName, conditions: Conditions
) -> list[SourcePart]:
    """Return what is to be read of a topic: all its messages by now that the conditions' range has.

    Raises Unsupported, NotFound, InvalidField.
    """
    if not source.persistent:
        raise Unsupported("A non-persistent topic keeps no messages to copy")
    await existence.require_any(engine, source)
    count = await catalog.partition_count(engine.store, source)
    if count and (conditions.first or conditions.last):
        raise InvalidField("first", "a position is one of a partition: name it as the source")
    names = [source.partition_at(index) for index in range(count)] or [source]
    parts = await catalog.each(names, lambda name: _part(engine, name, conditions))
    return [part for part in parts if part is not None]


async def written_since(
    engine: Engine, behind: Iterable[tuple[str, list[int]]]
) -> list[SourcePart]:
    """Return what was written to topics behind an entry of each. Raises NotFound."""
    parts = []
    for topic, (ledger, entry) in behind:
        conditions = Conditions(first=(ledger, entry + 1, -1))
        part = await _part(engine, TopicName.parse(topic), conditions)
        if part is not None:
            parts.append(part)
    return parts


async def _part(engine: Engine, name: TopicName, conditions: Conditions) -> SourcePart | None:
    """Return the part of a topic; None for a partition that was never used."""
    try:
        last = await engine.call(LAST_MESSAGE_ID, OnTopic(name))
        stats = await engine.call(INTERNAL_STATS, InternalStats(name))
        start = [-1, -1]
        if conditions.since_ms is not None:
            first = await engine.call(
                MESSAGE_ID_BY_TIME, MessageIdByTime(name, conditions.since_ms)
            )
            start = [first["ledgerId"], max(first["entryId"], 0)]
    except NotFound:
        if name.partition >= 0:
            return None
        raise
    if conditions.first is not None:
        start = max(start, list(conditions.first[:2]))
    ledgers, before = [], 0
    for ledger in stats["ledgers"]:
        ledgers.append([ledger["ledgerId"], before])
        before += ledger["entries"]
    end = [last["ledgerId"], last["entryId"]]
    if conditions.last is not None:
        end = min(end, list(conditions.last[:2]))
    known = [ledger for ledger, _ in ledgers]
    # The last message may be in a ledger of the list before the open one; without any the topic is empty.
    if not known or end[1] < 0 or end[0] < known[0]:
        return SourcePart(str(name), ledgers, start, None, 0)
    part = SourcePart(str(name), ledgers, start, end, 0)
    part.entries = max(_ordinal_at(part, end) + 1 - _ordinal_at(part, start), 0)
    if not part.entries:
        part.end = None
    return part


def _ordinal_at(part: SourcePart, place: list[int]) -> int:
    """Return the number of entries before a place, which may be in none of the ledgers."""
    ledger_id, entry_id = place
    at_or_before = [row for row in part.ledgers if row[0] <= ledger_id]
    if not at_or_before:
        return 0
    ledger, base = at_or_before[-1]
    if ledger == ledger_id:
        return base + max(entry_id, 0)
    following = part.ledgers[len(at_or_before) :]
    return following[0][1] if following else base


async def target_of(engine: Engine, topic: TopicName) -> Target:
    """Return a topic as a target. Raises Unsupported for a non-persistent one, NotFound without it."""
    if not topic.persistent:
        raise Unsupported(f"{topic} is non-persistent: copies would not be kept")
    await existence.require_any(engine, topic)
    count = await catalog.partition_count(engine.store, topic)
    members = [topic.partition_at(index) for index in range(count)] or [topic]
    target = Target(count, True)

    async def look(member: TopicName) -> None:
        try:
            last = await engine.call(LAST_MESSAGE_ID, OnTopic(member))
            stats = await engine.call(TOPIC_STATS, TopicStats(member, exclude_publishers=True))
        except NotFound:
            if member.partition < 0:
                raise
            # A partition that was never used is created by the first message, with its namespace's policy.
            target.behind[str(member)] = [-1, -1]
            policies = await get_policies(engine.store, topic.namespace)
            target.deduplicated &= policies.get("deduplicationEnabled") is True
            return
        target.behind[str(member)] = [last["ledgerId"], last["entryId"]]
        target.deduplicated &= stats.get("deduplicationStatus") == "Enabled"

    await catalog.each(members, look)
    return target
