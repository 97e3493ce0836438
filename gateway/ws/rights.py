"""Rights of the WebSocket endpoints: what opening a socket does, in the terms of authorization."""

from dataclasses import dataclass

from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import Right
from engine.base.names import NamespaceName, TopicName


@dataclass(frozen=True, slots=True)
class Opening:
    """The names that a socket's path and query give: full names of topics.

    With ``is_pattern`` the topics are one pattern, of the topics of its namespace.
    """

    topics: tuple[str, ...]
    is_pattern: bool = False
    subscription: str = ""
    dead_letters: str = ""


def _topics(opening: Opening) -> tuple[TopicName, ...]:
    return tuple(map(TopicName.parse, opening.topics))


def _subscriptions(opening: Opening) -> tuple[SubscriptionName, ...]:
    names = () if opening.is_pattern else _topics(opening)
    return tuple(SubscriptionName(name, opening.subscription) for name in names)


def _namespaces(opening: Opening) -> tuple[NamespaceName, ...]:
    return tuple(name.namespace for name in _topics(opening)) if opening.is_pattern else ()


def _dead_letters(opening: Opening) -> tuple[TopicName, ...]:
    return (TopicName.parse(opening.dead_letters),) if opening.dead_letters else ()


RIGHTS: dict[str, tuple[Right[Opening], ...]] = {
    "producer": (Right(Action.PRODUCE, TopicName, _topics),),
    "consumer": (
        Right(Action.CONSUME, SubscriptionName, _subscriptions),
        # A pattern also attaches to topics that are created later.
        Right(Action.LOOKUP, NamespaceName, _namespaces),
        Right(Action.CONSUME, NamespaceName, _namespaces),
        Right(Action.PRODUCE, TopicName, _dead_letters),
    ),
    "reader": (Right(Action.CONSUME, TopicName, _topics),),
}
"""The rights by kind of endpoint; an endpoint that is not listed opens for no caller."""
