"""Arguments that the operations of several resources share. Pure."""

from dataclasses import dataclass
from typing import Any

from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName, check_subscription

JsonObject = dict[str, Any]
"""A JSON object. The answer of a change has ``"before"``, the previous state for the audit log; the answer of a cursor
change has the mark-delete positions ``"before"`` and ``"after"``."""
LONG_MAX = (1 << 63) - 1
COUNT_MAX = 1 << 31


def within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name}: must be from {low} to {high}, not {value}")


@dataclass(frozen=True, slots=True)
class MessagePosition:
    """Position in a topic: earliest is -1:-1, latest is LONG_MAX:LONG_MAX; ``batch_index`` -1 is the whole entry."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    excluded: bool = False

    def __post_init__(self) -> None:
        within("ledger_id", self.ledger_id, -1, LONG_MAX)
        within("entry_id", self.entry_id, -1, LONG_MAX)
        within("batch_index", self.batch_index, -1, COUNT_MAX)

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)


EARLIEST_MESSAGE = MessagePosition(-1, -1)
LATEST_MESSAGE = MessagePosition(LONG_MAX, LONG_MAX)


@dataclass(frozen=True, slots=True)
class NoArguments:
    """Empty arguments, for operations of the broker itself."""


@dataclass(frozen=True, slots=True)
class OnTopic:
    """Topic of an operation; it must not be a partitioned topic, but may be a partition."""

    topic: TopicName


@dataclass(frozen=True, slots=True)
class OnSubscription(OnTopic):
    subscription: str

    def __post_init__(self) -> None:
        check_subscription(self.subscription)


@dataclass(frozen=True, slots=True)
class OnBundle:
    """Bundle of a namespace by its range, such as ``0x00000000_0x40000000``; None for all bundles owned here."""

    namespace: NamespaceName
    bundle: str | None = None
