"""Policies in force in the form the broker uses: a namespace's, and those of a topic for the data path. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.broker.policies import ROW, TopicPolicies, dispatch_rate
from engine.tenancy.policies.in_force import InForce
from engine.tenancy.policies.values import PARTITIONED

_Rows = tuple[tuple[str, str, Callable[[Any], Any]], ...]
"""Fields of a dataclass: each one's name, that of its row in the table of policies, and its conversion."""


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """Policies about a namespace's topics as a whole.

    ``new_partitions``: number of partitions of an automatically created topic, 0 for a plain one. ``max_topics``: 0
    for no limit.
    """

    auto_topic: bool
    new_partitions: int
    max_topics: int


def namespace_policies(policies: Mapping[str, InForce]) -> NamespacePolicies:
    """Derive a namespace's policies from all policies in force, by name."""
    creation = policies["autoTopicCreation"].value
    return NamespacePolicies(
        auto_topic=creation["allowAutoTopicCreation"],
        new_partitions=(
            creation["defaultNumPartitions"] if creation["topicType"] == PARTITIONED else 0
        ),
        max_topics=policies["maxTopicsPerNamespace"].value,
    )


def topic_policies(
    policies: Mapping[str, InForce], rates: Mapping[str, Any], group: str = ""
) -> TopicPolicies:
    """Derive a topic's policies from all policies in force, by name.

    ``rates``: dispatch rates of single subscriptions. ``group``: the namespace's resource group.
    """
    groups: dict[str, Any] = {name: kind(**_values(rows, policies)) for name, kind, rows in _GROUPS}
    groups["rates"] = replace(
        groups["rates"],
        by_subscription={name: dispatch_rate(rate) for name, rate in rates.items()},
        resource_group=group,
    )
    return TopicPolicies(**groups, **_values(_TOP_ROWS, policies))


def _rows_of(kind: Any) -> _Rows:
    own = [part for part in fields(kind) if ROW in part.metadata]
    return tuple((part.name, *part.metadata[ROW]) for part in own)


def _values(rows: _Rows, policies: Mapping[str, InForce]) -> dict[str, Any]:
    return {name: convert(policies[row].value) for name, row, convert in rows}


_NONE: Any = TopicPolicies()
_TOP_ROWS = _rows_of(TopicPolicies)
_GROUPS = [
    (part.name, kind, _rows_of(kind))
    for part in fields(TopicPolicies)
    if ROW not in part.metadata
    for kind in [type(getattr(_NONE, part.name))]
]
"""Groups of a topic's policies: name, class, and the rows of its fields."""
