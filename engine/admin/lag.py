"""Causes of a subscription's backlog, as brokers diagnose and report them. Pure."""

from enum import StrEnum
from typing import Any, NamedTuple


class LagCause(StrEnum):
    """Cause of a subscription's backlog, from the most severe to those that are no problem."""

    STORAGE = "storage"
    """The cursor's state or the messages cannot be read now."""
    NO_CONSUMER = "no-consumer"
    RECONNECTING = "reconnecting"
    """Consumers connect and disconnect without acknowledging anything."""
    HELD = "held"
    """One consumer holds the subscription exclusively and acknowledges nothing; others are refused."""
    STANDBY = "standby"
    """The active consumer has no permits, and other consumers are on standby."""
    NO_PERMITS = "no-permits"
    """No consumer has permits."""
    UNACKED_LIMIT = "unacked-limit"
    """The limit of unacknowledged messages is reached, so that no more are sent."""
    REDELIVERY = "redelivery"
    """Messages are returned by consumers and redelivered repeatedly."""
    NOT_ACKNOWLEDGED = "not-acknowledged"
    """Consumers receive messages and acknowledge none."""
    HOT_KEY = "hot-key"
    """Messages wait for the one consumer of their key (Key_Shared)."""
    RATE_LIMIT = "rate-limit"
    """A dispatch rate limits what consumers have permits for."""
    SLOW = "slow"
    """Messages are acknowledged no faster than they arrive."""
    LATE = "late"
    """The oldest message is older than the subscription's target. Found by gateways, from what brokers report."""
    DELAYED = "delayed"
    """All pending messages have a delivery time in the future."""


class LagSeverity(StrEnum):
    ERROR = "error"
    """Severity of a backlog that grows without acknowledgements, or that cannot be read."""
    WARNING = "warning"
    INFO = "info"


class Lag(NamedTuple):
    """Diagnosis of a subscription's backlog.

    ``since_ms`` is the begin of the cause in epoch milliseconds. ``growth`` is the growth of the backlog in thousandths
    of entries per second. ``evidence`` has the figures and names that matter for the cause (``EVIDENCE``).
    """

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
    "loaded_ms": "when the broker loaded the topic: what began shortly after may have been so before",
    "given_back": "entries that consumers gave back to be sent again and that are unacknowledged",
    "joined": "how often a consumer attached since something was acknowledged",
    "refused": "how often a consumer was refused since something was acknowledged",
    "standby": "consumers that stand by",
    "waiting": "entries that wait for ``consumer``",
    "keys": "and of how many keys they are, at most",
    "delayed": "messages whose delivery time has not come",
    "rate_in": "messages per second that arrive",
    "rate_out": "messages per second that are sent",
    "messages": "messages in the backlog; not there when not known",
    "estimated": "whether they are an estimate, of two digits",
    "reason": "why it cannot be read",
    "oldest_at": "when the oldest unacknowledged message was published, where it is older than the target",
    "target_s": "age in seconds that it was not to exceed",
}
