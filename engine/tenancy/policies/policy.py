"""A policy of namespaces and topics: its form, and where each level's value is stored. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.metadata.records import Document
from engine.tenancy.policies.forms import Form
from engine.tenancy.settings import PolicySettings


class Level(StrEnum):
    """Where a value was set; the last one that has it wins."""

    BROKER = "broker"
    NAMESPACE = "namespace"
    GLOBAL = "global"
    """Of a topic, in all clusters that replicate it."""
    TOPIC = "topic"

    @property
    def of_a_topic(self) -> bool:
        return self in (Level.GLOBAL, Level.TOPIC)


@dataclass(frozen=True, slots=True)
class Policy:
    """One row. ``key``: path in a namespace's stored Policies; ``topic_key``: in a topic's. Empty without that level.

    ``name`` and ``topic_name`` are the routes' segments. ``unset``, ``topic_unset``: what reading the namespace's or
    topic's answers when nothing is set. ``settings``: the broker's, for readers. ``nothing``, ``topic_nothing``: what a
    namespace or topic may have stored for it that says nothing. ``older``: what the namespace says by an older policy
    where it says nothing by this one. ``per_cluster``: the namespace has one of each cluster, by name (``of_cluster``);
    ``per_subscription``: where each of a topic's has its own (``of_subscriptions``).
    ``also``: at the key of that name as well, for older readers. ``removed``: what is stored when it is removed.
    ``within``: what a namespace's record that holds the value has besides, when this value makes it.
    ``shown``: whether the console offers it.
    ``takes``: what is stored may go because of it: messages, subscriptions, topics.
    ``topic_fields``: fields of the value and the keys in a topic's policies under which each is stored by itself;
    ``topic_key`` is one of them then.
    """

    name: str
    title: str
    meaning: str
    key: tuple[str, ...]
    form: Form
    default: Callable[[PolicySettings], Any]
    settings: tuple[str, ...] = ()
    topic_name: str = ""
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
    takes: bool = False

    def read(self, given: Any) -> Any:
        """What is stored of a caller's value. Raises InvalidRequest or PreconditionFailed for what it may not
        be."""
        value = self.form.read(self.name, given)
        if self.check is not None:
            self.check(value)
        return value

    def says(self, level: Level, document: Mapping[str, Any]) -> Any:
        """What the document of that level says, None when it says nothing."""
        path = self.stored_at(level)
        value = find(document, path) if path else None
        if value is not None and level.of_a_topic and self.topic_fields:
            found = {name: document.get(key) for name, key in self.topic_fields}
            return {name: one for name, one in found.items() if one is not None}
        return (
            None if value in (self.topic_nothing if level.of_a_topic else self.nothing) else value
        )

    def holds(self, level: Level, document: Mapping[str, Any]) -> Any:
        """What acts by that document: what it says, or by an older policy."""
        value = self.says(level, document)
        if value is None and level is Level.NAMESPACE and self.older is not None:
            return self.older(document)
        return value

    def store(self, level: Level, document: Document, value: Any) -> None:
        """Have the document of that level say ``value``; None: nothing."""
        if level.of_a_topic and self.topic_fields:
            for name, key in self.topic_fields:
                put(document, (key,), None if value is None else value.get(name))
        else:
            put(document, self.stored_at(level), value)

    def stored_at(self, level: Level) -> tuple[str, ...]:
        """The path in the document of that level."""
        return self.topic_key if level.of_a_topic else self.key


def find(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at ``path``; None when there is none."""
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
    """``value`` as it acts: older versions stored fewer fields of a record, which are then the default's."""
    return {**default, **value} if isinstance(default, dict) else value
