"""Description of a policy of namespaces and topics: its form, and where each level's value is stored. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.metadata.records import Document
from engine.tenancy.policies.forms import Form
from engine.tenancy.policies.policy_calls import PolicyRoute, ToolCommand
from engine.tenancy.settings import PolicySettings


class Level(StrEnum):
    """Level at which a value is set; a later level takes precedence over an earlier one."""

    BROKER = "broker"
    NAMESPACE = "namespace"
    GLOBAL = "global"
    """Level of a topic's values that apply in all clusters which replicate it."""
    TOPIC = "topic"

    @property
    def of_a_topic(self) -> bool:
        return self in (Level.GLOBAL, Level.TOPIC)


class EffectKind(StrEnum):
    """Kinds of policies that may delete stored messages, subscriptions or topics, or hold producers up."""

    RETENTION = "retention"
    TTL = "ttl"
    SIZE_QUOTA = "size quota"
    AGE_QUOTA = "age quota"
    SUBSCRIPTION_EXPIRY = "subscription expiry"
    INACTIVITY = "inactivity"


@dataclass(frozen=True, slots=True)
class Policy:
    """Row of the table of policies.

    * ``key`` is the path of the value in a namespace's stored Policies, ``topic_key`` in a topic's; it is empty when
      the policy does not exist at that level.
    * ``settings`` names the broker's settings that ``default`` reads, for documentation.
    * ``topic_fields`` pairs fields of the value with the keys of a topic's policies that store them one by one;
      ``topic_key`` is one of these keys then.
    * ``unset`` and ``topic_unset`` are the answers of the namespace's and the topic's route when no value is set.
    * ``nothing`` and ``topic_nothing`` are stored values that count as not set.
    * ``older`` reads the value of an older policy, which applies to a namespace that does not set this one.
    * ``per_cluster``: a namespace stores one value for each cluster, by name (``of_cluster``).
    * ``per_subscription`` is the key under which a topic stores a value for one subscription (``of_subscriptions``).
    * ``also`` is another key that the value is stored at, for older readers.
    * ``removed`` is stored when the value is removed.
    * ``within`` has the other fields of the record that holds the value, for when this value creates the record.
    * ``shown``: the console offers the policy.
    * ``effect`` is the kind of a policy that may delete something; brokers compute its effect before it is saved.
    * ``route`` and ``topic_route`` are the routes of a namespace's and a topic's policy in Pulsar's REST interface;
      None stands for a route named like the policy, with POST and DELETE.
    * ``commands`` are those of Pulsar's tools that set and remove the policy.
    """

    name: str
    title: str
    meaning: str
    key: tuple[str, ...]
    form: Form
    default: Callable[[PolicySettings], Any]
    settings: tuple[str, ...] = ()
    topic_key: tuple[str, ...] = ()
    topic_fields: tuple[tuple[str, str], ...] = ()
    check: Callable[[Any], None] | None = None
    unset: Any = None
    topic_unset: Any = None
    nothing: tuple[Any, ...] = ()
    topic_nothing: tuple[Any, ...] = ()
    older: Callable[[Mapping[str, Any]], Any] | None = None
    per_cluster: bool = False
    per_subscription: str = ""
    also: str = ""
    removed: Any = None
    within: Mapping[str, Any] | None = None
    shown: bool = True
    effect: EffectKind | None = None
    route: PolicyRoute | None = None
    topic_route: PolicyRoute | None = None
    commands: tuple[ToolCommand, ...] = ()

    def read(self, given: Any) -> Any:
        """Return the stored form of a caller's value.

        Raises InvalidRequest or PreconditionFailed for a value that is not allowed.
        """
        value = self.form.read(self.name, given)
        if self.check is not None:
            self.check(value)
        return value

    def says(self, level: Level, document: Mapping[str, Any]) -> Any:
        """Return the value that the document of a level sets, None when it sets none."""
        path = self.stored_at(level)
        value = find(document, path) if path else None
        if value is not None and level.of_a_topic and self.topic_fields:
            fields = {name: document.get(key) for name, key in self.topic_fields}
            return {name: field for name, field in fields.items() if field is not None}
        unset_values = self.topic_nothing if level.of_a_topic else self.nothing
        return None if value in unset_values else value

    def holds(self, level: Level, document: Mapping[str, Any]) -> Any:
        """Return the value that applies by the document of a level, which an older policy may set."""
        value = self.says(level, document)
        if value is None and level is Level.NAMESPACE and self.older is not None:
            return self.older(document)
        return value

    def store(self, level: Level, document: Document, value: Any) -> None:
        """Store ``value`` in the document of a level; None removes it."""
        if level.of_a_topic and self.topic_fields:
            for name, key in self.topic_fields:
                put(document, (key,), None if value is None else value.get(name))
        else:
            put(document, self.stored_at(level), value)

    def stored_at(self, level: Level) -> tuple[str, ...]:
        """Return the path of the value in the document of a level."""
        return self.topic_key if level.of_a_topic else self.key

    def route_at(self, level: Level) -> PolicyRoute | None:
        """Return the policy's route at a level, None when it does not exist there."""
        if not self.stored_at(level):
            return None
        return (self.topic_route if level.of_a_topic else self.route) or PolicyRoute(self.name)

    def commands_at(self, level: Level) -> list[ToolCommand]:
        """Return the tools' commands at a level."""
        return [command for command in self.commands if command.of_topics == level.of_a_topic]


def find(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value at ``path``, None when there is none."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Store ``value`` at ``path``; None removes it."""
    for name in path[:-1]:
        document[name] = inner = dict(document.get(name) or {})
        document = inner
    if value is None:
        document.pop(path[-1], None)
    else:
        document[path[-1]] = value


def completed(default: Any, value: Any) -> Any:
    """Return ``value`` with the default's fields where it lacks them: older versions stored fewer fields."""
    return {**default, **value} if isinstance(default, dict) else value
