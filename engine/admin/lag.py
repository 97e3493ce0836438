"""Why a subscription does not drain: what brokers find, in the words of their operations. Pure."""

from enum import StrEnum
from typing import Any, NamedTuple


class LagCause(StrEnum):
    """Of a subscription, from the worst to what is no problem."""

    STORAGE = "storage"
    """What it stores, or the messages, cannot be read now."""
    NO_CONSUMER = "no-consumer"
    RECONNECTING = "reconnecting"
    """Consumers come and go without acknowledging anything."""
    HELD = "held"
    """One consumer has it for itself, acknowledges nothing, and others are refused."""
    STANDBY = "standby"
    """The active consumer takes nothing more, and others stand by."""
    NO_PERMITS = "no-permits"
    """No consumer takes anything more."""
    UNACKED_LIMIT = "unacked-limit"
    """So much is out unacknowledged that nothing more is sent."""
    REDELIVERY = "redelivery"
    """What is sent comes back, again and again."""
    NOT_ACKNOWLEDGED = "not-acknowledged"
    """Consumers receive and acknowledge nothing."""
    HOT_KEY = "hot-key"
    """Messages wait for the one consumer of their key (Key_Shared)."""
    RATE_LIMIT = "rate-limit"
    """A dispatch rate holds back what consumers would take."""
    SLOW = "slow"
    """It is acknowledged more slowly than it arrives, or no faster."""
    DELAYED = "delayed"
    """All that waits has a delivery time to come."""


class LagSeverity(StrEnum):
    ERROR = "error"
    """Nothing is acknowledged, and more arrives; or it cannot be read."""
    WARNING = "warning"
    INFO = "info"


class Lag(NamedTuple):
    """``since_ms``: since when, epoch milliseconds. ``growth``: of the backlog, entries per second in thousandths.
    ``evidence``: figures and names by name, those that matter for the cause (``EVIDENCE``)."""

    cause: LagCause
    severity: LagSeverity
    since_ms: int
    growth: int
    evidence: dict[str, Any]


EVIDENCE = {
    "consumers": "consumers attached",
    "consumer": "name of the consumer that it is about",
    "address": "and where it is",
    "unacked": "messages out unacknowledged; those of ``consumer`` where it is named",
    "limit": "how many may be",
    "acked_ms": "when something was last acknowledged; 0: not since the topic was loaded",
    "left_ms": "when the last consumer left; 0: there was none since the topic was loaded",
    "given_back": "messages that consumers gave back to be sent again and that are unacknowledged",
    "joined": "how often a consumer attached since something was acknowledged",
    "refused": "how often a consumer was refused since something was acknowledged",
    "standby": "consumers that stand by",
    "waiting": "messages that wait for ``consumer``",
    "keys": "and of how many keys they are, at most",
    "delayed": "messages whose delivery time has not come",
    "rate_in": "messages per second that arrive",
    "rate_out": "messages per second that are sent",
    "per_entry": "messages per entry published since the topic was loaded, two digits; not there when not known",
    "reason": "why it cannot be read",
}
