"""Conditions of rules as they are stored, checked and named. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from engine.admin.lag import LagCause
from engine.base.errors import InvalidField, InvalidNameError
from engine.base.names import NamespaceName, TopicName, check_entity, split_partition, split_topic

SEVERITIES = ("info", "warning", "error")
CAUSES = tuple(cause.value for cause in LagCause)
"""Causes of subscriptions' problems; those of parts and links have codes of their own, which a rule may name, too."""
NAME_CHARS_MAX = 64
CAUSES_MAX = 32
THRESHOLD_MAX = 1e18
FOR_S_MAX = 86_400


class RuleKind(StrEnum):
    """Kind of the objects that a rule is about."""

    ATTENTION = "attention"
    """Items that need attention."""
    TOTALS = "totals"
    """A sum over the topics of its scope."""
    TOPIC = "topic"
    """A figure of each topic of its scope."""
    SUBSCRIPTION = "subscription"
    """A figure of each subscription of its scope."""
    LINK = "link"
    """A figure of each link to another cluster."""
    BROKER = "broker"
    """A figure of each broker."""
    BOOKIE = "bookie"
    """A figure of each bookie."""


OF_PARTS = (RuleKind.LINK, RuleKind.BROKER, RuleKind.BOOKIE)
"""Kinds of rules that have no scope: their objects are of the cluster, and their figures of topics of all tenants."""


class Figure(NamedTuple):
    """A number that a rule may compare.

    ``unit``: behind the number in texts. ``scale``: of what the index has, by which the figure is divided; of brokers
    and bookies what the history has.
    """

    label: str
    unit: str = ""
    scale: int = 1
    is_bytes: bool = False


_RATE, _BYTE_RATE = ("messages/s", 1_000), ("B/s", 1_000, True)
_OF_TOPICS = {
    "producers": Figure("producers"),
    "consumers": Figure("consumers"),
    "subscriptions": Figure("subscriptions"),
    "msg_rate_in": Figure("messages in", *_RATE),
    "msg_rate_out": Figure("messages out", *_RATE),
    "bytes_rate_in": Figure("bytes in", *_BYTE_RATE),
    "bytes_rate_out": Figure("bytes out", *_BYTE_RATE),
    "backlog": Figure("backlog", "messages"),
    "storage_bytes": Figure("stored", "B", 1, True),
}
FIGURES: Mapping[RuleKind, Mapping[str, Figure]] = {
    RuleKind.ATTENTION: {},
    RuleKind.TOTALS: {"topics": Figure("topics"), **_OF_TOPICS},
    RuleKind.TOPIC: {
        **_OF_TOPICS,
        "oldest_age": Figure("oldest unacknowledged message", "s"),
    },
    RuleKind.SUBSCRIPTION: {
        "backlog": Figure("backlog", "entries"),
        "msg_rate_out": Figure("messages out", *_RATE),
    },
    RuleKind.LINK: {
        "backlog": Figure("backlog", "entries"),
        "oldest_age": Figure("oldest message that was not sent", "s"),
        "messages": Figure("messages sent", *_RATE),
        "bytes": Figure("bytes sent", *_BYTE_RATE),
        "received_messages": Figure("messages received", *_RATE),
        "received_bytes": Figure("bytes received", *_BYTE_RATE),
        "stopped": Figure("topics that are not sent"),
    },
    RuleKind.BROKER: {
        "report_age": Figure("time since the last report", "s"),
        "topics": Figure("topics"),
        "msg_rate_in": Figure("messages in", *_RATE),
        "msg_rate_out": Figure("messages out", *_RATE),
        "bytes_rate_in": Figure("bytes in", *_BYTE_RATE),
        "bytes_rate_out": Figure("bytes out", *_BYTE_RATE),
    },
    RuleKind.BOOKIE: {
        "report_age": Figure("time since the last report", "s"),
        "usage": Figure("used of its fullest disk", "%", 10),
        "used_bytes": Figure("used on its disks", "B", 1_000, True),
        "free_bytes": Figure("free on its disks", "B", 1, True),
        "stored_bytes": Figure("stored of ledgers", "B", 1, True),
        "ledgers": Figure("ledgers"),
        "read_only": Figure("read-only (1: it is, 0: it is not)"),
    },
}
"""Figures by the kind of the rule: those that the console shows."""


class RuleScope(NamedTuple):
    """A part of a cluster: a tenant, a namespace by its full name, or a topic; all empty: the cluster."""

    tenant: str = ""
    namespace: str = ""
    topic: str = ""

    @classmethod
    def parse(cls, text: str, field: str = "scope") -> "RuleScope":
        """Parse a tenant, ``tenant/namespace`` or a full topic name; empty: the cluster. Raises InvalidField."""
        try:
            if "://" in text:
                name = TopicName.parse(text)
                if split_partition(str(name))[0]:
                    raise InvalidField(field, "names a partition; name its topic")
                return cls(name.namespace.tenant, split_topic(str(name)).scope, str(name))
            if "/" in text:
                space = NamespaceName.parse(text)
                return cls(space.tenant, str(space))
            return cls(check_entity("tenant", text) if text else "")
        except InvalidNameError as error:
            raise InvalidField(field, str(error)) from error

    @property
    def text(self) -> str:
        return self.topic or self.namespace or self.tenant

    def has(self, topic: str) -> bool:
        """Return whether a topic, by its full name, is part of it."""
        if self.topic or not self.tenant:
            return self.topic in ("", topic)
        parts = split_topic(topic)
        return parts.tenant == self.tenant and self.namespace in ("", parts.scope)


CLUSTER_SCOPE = RuleScope()


@dataclass(frozen=True, slots=True)
class Definition:
    """The condition of a rule. ``causes``: of items that need attention, empty: all of ``severity`` or above.
    ``above``: a figure larger than the threshold meets it, else a smaller one. ``part``: id of a broker or bookie;
    empty: each of them."""

    kind: RuleKind
    scope: RuleScope = CLUSTER_SCOPE
    subscription: str = ""
    causes: frozenset[str] = frozenset()
    severity: str = "warning"
    figure: str = ""
    above: bool = True
    threshold: float = 0.0
    remote: str = ""
    part: str = ""

    @classmethod
    def checked(cls, given: Mapping[str, Any], tenant: str) -> "Definition":
        """Return the condition of a rule of a tenant, or of the cluster (empty). Raises InvalidField."""
        kind = RuleKind(given["kind"])
        scope = RuleScope.parse(given.get("scope") or "")
        causes = _checked_causes(given.get("causes") or ())
        figure = given.get("figure") or ""
        definition = cls(
            kind,
            scope,
            given.get("subscription") or "",
            causes,
            given.get("severity") or "warning",
            figure,
            given.get("op", "above") != "below",
            float(given.get("threshold") or 0),
            given.get("remote") or "",
            given.get("part") or "",
        )
        definition._check(tenant)
        return definition

    def _check(self, tenant: str) -> None:
        if tenant and self.scope.tenant != tenant:
            raise InvalidField("scope", f"must be in tenant {tenant}, whose rule it is")
        if self.kind in OF_PARTS and self.scope.text:
            raise InvalidField(
                "scope", f"must be empty: a {self.kind} has messages of several topics"
            )
        if self.part and self.kind not in (RuleKind.BROKER, RuleKind.BOOKIE):
            raise InvalidField("part", "only rules about brokers and bookies name one")
        if self.kind is not RuleKind.LINK and self.remote:
            raise InvalidField("remote", "only rules about links name a cluster")
        of_subscriptions = self.kind in (RuleKind.SUBSCRIPTION, RuleKind.ATTENTION)
        if self.subscription and not (of_subscriptions and self.scope.topic):
            raise InvalidField("subscription", "needs a rule about subscriptions of one topic")
        if self.kind is RuleKind.TOTALS and self.scope.topic:
            raise InvalidField("scope", "must not be one topic: choose a rule about topics")
        if self.kind is not RuleKind.ATTENTION and self.causes:
            raise InvalidField("causes", "only rules about what needs attention have causes")
        figures = FIGURES[self.kind]
        if figures and self.figure not in figures:
            raise InvalidField("figure", f"must be one of {', '.join(figures)}")
        if not figures and self.figure:
            raise InvalidField("figure", "must be empty: the rule is about what needs attention")
        if abs(self.threshold) > THRESHOLD_MAX or self.threshold != self.threshold:
            raise InvalidField("threshold", f"must be a number up to {THRESHOLD_MAX:.0e}")
        needs_name = self.kind is RuleKind.SUBSCRIPTION and not self.above
        if needs_name and not self.subscription:
            raise InvalidField("subscription", "must be given for a figure below a threshold")

    def stored(self) -> dict[str, Any]:
        """Return the document of which ``checked`` makes an equal condition."""
        return {
            "kind": self.kind.value,
            "scope": self.scope.text,
            "subscription": self.subscription,
            "causes": sorted(self.causes),
            "severity": self.severity,
            "figure": self.figure,
            "op": "above" if self.above else "below",
            "threshold": self.threshold,
            "remote": self.remote,
            "part": self.part,
        }

    def meets(self, value: float) -> bool:
        """Return whether a figure meets the condition."""
        return value > self.threshold if self.above else value < self.threshold

    @property
    def words(self) -> str:
        """The condition as a text."""
        place = f" in {self.scope.text}" if self.scope.text else ""
        named = f", subscription {self.subscription}" if self.subscription else ""
        if self.kind is RuleKind.ATTENTION:
            what = (
                ", ".join(sorted(self.causes)) or f"anything of severity {self.severity} or above"
            )
            return f"{what}{place}{named} needs attention"
        of = f" {self.remote}" if self.remote else ""
        subject = {
            RuleKind.TOTALS: "all topics together",
            RuleKind.TOPIC: "a topic",
            RuleKind.SUBSCRIPTION: "a subscription",
            RuleKind.LINK: f"link{of}" if of else "a link",
            RuleKind.BROKER: f"broker {self.part}" if self.part else "a broker",
            RuleKind.BOOKIE: f"bookie {self.part}" if self.part else "a bookie",
        }[self.kind]
        order = "above" if self.above else "below"
        figure = FIGURES[self.kind][self.figure]
        limit = amount(self.threshold, figure)
        return f"{subject}{place}{named}: {figure.label} {order} {limit}"


def _checked_causes(causes: Sequence[str]) -> frozenset[str]:
    if len(causes) > CAUSES_MAX or any(len(cause) > NAME_CHARS_MAX for cause in causes):
        raise InvalidField("causes", f"at most {CAUSES_MAX}, of {NAME_CHARS_MAX} characters")
    return frozenset(causes)


def amount(value: float, figure: Figure) -> str:
    """Return a figure as text, with its unit."""
    if figure.unit == "s":
        return _span(value)
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
    if figure.is_bytes:
        size, units = float(value), iter(("kB", "MB", "GB", "TB", "PB"))
        unit = ""
        while abs(size) >= 1_000 and (larger := next(units, "")):
            size, unit = size / 1_000, larger
        per = "/s" if figure.unit.endswith("/s") else ""
        text = f"{size:,.1f} {unit}{per}" if unit else f"{text} {figure.unit}"
        return text
    return f"{text} {figure.unit}".rstrip()


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
