"""Operations on the policies of topics and namespaces. Pure."""

from dataclasses import dataclass
from typing import Any

from engine.admin.api.arguments import JsonObject, OnBundle, OnTopic
from engine.admin.api.rights import ADMIN, ADMIN_OF_NAMESPACE, LOOKUP_TOPIC
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class SetTopicPolicy(OnTopic):
    """Change of a policy by its ``name`` in the table of policies; ``value`` is the result of ``Policy.read``.

    A value of None removes the policy. With ``checked``, the change is made only while ``expected`` is stored.
    ``subscription`` selects the value of one subscription, for policies that have those. ``everywhere`` selects the
    value for all clusters instead of this one.
    """

    name: str
    value: Any = None
    checked: bool = False
    expected: Any = None
    subscription: str = ""
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PolicyEffect(OnTopic):
    """Policy whose effect is computed: ``name`` of one with ``Policy.effect``, and its complete effective ``value``.

    ``at_ms`` is the time for which the effect is computed (epoch milliseconds), None for now. With ``measured``,
    messages are counted besides entries.
    """

    name: str
    value: Any
    at_ms: int | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class OwnPolicy(OnBundle):
    """Policy by its ``name`` in the table of policies."""

    name: str = ""


# Readers of the topic's schemas also need it, because the compatibility strategy is a policy.
TOPIC_POLICIES = Operation("topic_policies", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""Policies of a topic by name: ``{"value": effective value, "level": level that sets it, "own": the topic's value or
null, "everywhere": its value for all clusters or null, "inherited", "inherited_level": effective value and level
without the topic's}``. Policies with values for single subscriptions also have ``"subscriptions"`` and
``"subscriptions_everywhere"``, values by subscription name. ``topic`` must not be a partition; it need not exist."""
SET_TOPIC_POLICY = Operation("set_topic_policy", SetTopicPolicy, JsonObject, ADMIN)
"""Change of a topic's policy, which is durable before the answer. Raises Conflict when another value than expected is
stored, PreconditionFailed for retention and backlog quota that do not fit."""
POLICY_EFFECT = Operation("policy_effect", PolicyEffect, JsonObject, ADMIN, reads=True)
"""Deletions that a policy would cause: ``{"bytes": stored bytes that would be deleted, "deleted": whether the topic
would be deleted once it was unused for the whole time, "subscriptions": [{name, deleted, entries, messages, exact}] of
those that would lose entries or be deleted, "producers": number that would be disconnected, "unknown": subscriptions
whose effect is unknown, with the reason, "within_s": seconds in which brokers act on the policy at the latest}``.
``messages`` is null when not measured or when it cannot be determined, and estimated unless ``exact``."""
TOPICS_WITH_POLICY = Operation(
    "topics_with_policy", OwnPolicy, JsonObject, ADMIN_OF_NAMESPACE, reads=True
)
"""Topics of a namespace with an own value, for this cluster or all clusters, by full name; a partitioned topic is
included once. Any broker answers."""
NAMESPACE_POLICIES = Operation(
    "namespace_policies", OnBundle, JsonObject, ADMIN_OF_NAMESPACE, reads=True
)
"""Policies of a namespace by name, as in TOPIC_POLICIES; ``own`` is the namespace's value, ``default`` the broker's,
which applies without it. Any broker answers."""
