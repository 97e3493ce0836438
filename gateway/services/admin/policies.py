"""Policies of namespaces and topics: reading those that are set or in force, and changing them."""

from typing import Any

from engine.admin.api.arguments import OnBundle, OnTopic
from engine.admin.api.policies import (
    NAMESPACE_POLICIES,
    SET_TOPIC_POLICY,
    TOPIC_POLICIES,
    SetTopicPolicy,
)
from engine.base.errors import PreconditionFailed
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.namespaces import ANYTHING, check_clusters, get_policies, set_policy
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.policy import Level, Policy, find
from gateway.services.admin import existence
from gateway.services.engine_link import Engine


async def of_namespace(engine: Engine, name: NamespaceName, policy: Policy) -> Any:
    """Return the value set on the namespace, None without one. Raises NotFound without the namespace."""
    return find(of_cluster(await get_policies(engine.store, name), engine.cluster), policy.key)


async def set_on_namespace(
    engine: Engine, name: NamespaceName, policy: Policy, value: Any, *, expected: Any = ANYTHING
) -> None:
    """Set the policy to ``value``, as ``policy.read`` returns it; None removes it. See
    ``engine.tenancy.namespaces.set_policy``."""
    await set_policy(engine.store, name, policy, value, cluster=engine.cluster, expected=expected)


async def in_force_on_namespace(engine: Engine, name: NamespaceName) -> dict[str, Any]:
    """Return ``{value, level, own, default}`` of each policy by name: see NAMESPACE_POLICIES."""
    return await engine.call(NAMESPACE_POLICIES, OnBundle(name))


async def of_topic(engine: Engine, name: TopicName) -> dict[str, Any]:
    """Return the answer to TOPIC_POLICIES, by the name of each policy. Raises NotFound without the topic,
    PreconditionFailed for a partition."""
    await _require(engine, name)
    return await engine.call(TOPIC_POLICIES, OnTopic(name))


async def set_on_topic(
    engine: Engine,
    name: TopicName,
    policy: Policy,
    value: Any,
    *,
    expected: Any = ANYTHING,
    subscription: str = "",
    everywhere: bool = False,
) -> None:
    """Set a policy as ``set_on_namespace`` does, on a topic or, where one is named, on one of its subscriptions;
    ``everywhere``: in all clusters. Raises NotFound without the topic, PreconditionFailed for a partition."""
    await _require(engine, name)
    if value is not None:
        await check_clusters(
            engine.store,
            name.namespace,
            policy,
            value,
            cluster=engine.cluster,
            level=Level.GLOBAL if everywhere else Level.TOPIC,
        )
    checked = expected is not ANYTHING
    await engine.call(
        SET_TOPIC_POLICY,
        SetTopicPolicy(
            name,
            policy.name,
            value,
            checked,
            expected if checked else None,
            subscription,
            everywhere,
        ),
    )


async def _require(engine: Engine, name: TopicName) -> None:
    if name.partition >= 0:
        raise PreconditionFailed("Not allowed to set/get topic policy for a partition")
    if not await existence.partitions_of(engine, name):
        await existence.require(engine, name)
