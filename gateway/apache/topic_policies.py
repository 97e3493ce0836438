"""The policies of topics of an Apache Pulsar cluster: each is read, set and removed by a call of its own.

Apache states what a topic sets; what is inherited follows from its namespace and the settings of the brokers. A change
is refused when the value is not the expected one, which is read just before: Apache itself cannot bind it to that.
"""

import asyncio
from typing import Any
from urllib.parse import parse_qsl

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import (
    POLICY_EFFECT,
    SET_TOPIC_POLICY,
    TOPIC_POLICIES,
    TOPICS_WITH_POLICY,
    OwnPolicy,
    PolicyEffect,
    SetTopicPolicy,
)
from engine.base.errors import Conflict, NotFound, Refusal, Unsupported
from engine.base.names import TopicName
from engine.metadata.records import Document
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies.in_force import in_force, of_cluster
from engine.tenancy.policies.policy import Level, Policy
from engine.tenancy.policies.policy_calls import PolicyRoute
from engine.tenancy.policies.table import AGE_QUOTA, BY_NAME, POLICIES, SIZE_QUOTA
from gateway.apache.abilities import LACKS
from gateway.apache.brokers import Handlers, Target
from gateway.apache.policies import RUNTIME, policy_settings
from gateway.apache.rest import topic_path
from gateway.services import catalog
from gateway.services.source import Ability

Json = dict[str, Any]
AT_ONCE = 8
"""Requests for values that are pending at a time."""
APPLIED_S = 5.0
"""Longest wait until a broker answers with a value that it has just stored: it reads its own log of changes."""
LOOK_AGAIN_S = 0.1
_QUOTAS = (SIZE_QUOTA, AGE_QUOTA)
_QUOTA_MAP = "backlogQuotaMap"
_OF_TOPICS = [policy for policy in POLICIES if policy.topic_key]
_NO_LIST = "Apache does not list the topics that keep a value of their own"


def _route(policy: Policy) -> PolicyRoute:
    route = policy.route_at(Level.TOPIC)
    assert route is not None, policy.name
    return route


def _read_path(policy: Policy) -> str:
    """Return the last segment of the call that reads a policy: both quotas are in one answer."""
    return _QUOTA_MAP if policy in _QUOTAS else _route(policy).path


def _stored(policy: Policy, answer: Any) -> Any:
    """Return the value of a policy in its answer, in the form that is stored; None: the topic sets none."""
    value = (answer or {}).get(policy.topic_key[-1]) if policy in _QUOTAS else answer
    # Apache answers false or an empty list for some policies that are not set.
    if value is None or value == policy.topic_unset:
        return None
    try:
        return policy.form.read(policy.name, value)
    except Refusal:
        # A value that only a later version of Apache has is shown as it is.
        return value


async def _answer(target: Target, topic: TopicName, path: str, *, everywhere: bool) -> Any:
    path = topic_path(topic, path)
    return await target.rest.get(path, applied=False, isGlobal=everywhere or None)


async def _own(target: Target, topic: TopicName, policy: Policy, *, everywhere: bool) -> Any:
    answer = await _answer(target, topic, _read_path(policy), everywhere=everywhere)
    document: Document = {}
    policy.store(Level.TOPIC, document, _stored(policy, answer))
    return policy.says(Level.TOPIC, document)


async def _documents(target: Target, topic: TopicName) -> tuple[Document, Document]:
    """Return what the topic sets for this cluster, and for all clusters."""
    wanted = {(_read_path(policy), False) for policy in _OF_TOPICS}
    wanted |= {(_read_path(policy), True) for policy in _OF_TOPICS if _route(policy).everywhere}
    calls = sorted(wanted)
    read = await catalog.each(
        calls, lambda call: _answer(target, topic, call[0], everywhere=call[1]), AT_ONCE
    )
    answers = dict(zip(calls, read, strict=True))
    documents: tuple[Document, Document] = ({}, {})
    for everywhere, document in enumerate(documents):
        for policy in _OF_TOPICS:
            answer = answers.get((_read_path(policy), bool(everywhere)))
            policy.store(Level.TOPIC, document, _stored(policy, answer))
    return documents


async def _topic_policies(target: Target, args: OnTopic) -> Json:
    settings = policy_settings(await target.rest.get(RUNTIME))
    record = await get_policies(target.store, args.topic.namespace)
    namespace = of_cluster(record, target.rest.cluster.own_name)
    own, everywhere = await _documents(target, args.topic)
    effective = in_force(settings, namespace, own, everywhere)
    inherited = in_force(settings, namespace, {}, everywhere)
    return {
        policy.name: {
            "value": effective[policy.name].value,
            "level": effective[policy.name].level.value,
            "own": policy.says(Level.TOPIC, own),
            "everywhere": policy.says(Level.GLOBAL, everywhere),
            "inherited": inherited[policy.name].value,
            "inherited_level": inherited[policy.name].level.value,
        }
        for policy in _OF_TOPICS
    }


async def _set_topic_policy(target: Target, args: SetTopicPolicy) -> Json:
    policy = BY_NAME.get(args.name)
    if policy is None or not policy.topic_key:
        raise NotFound(f"Topics have no policy {args.name}")
    if args.subscription:
        raise Unsupported("Policies of single subscriptions are not changed at an Apache Pulsar")
    route = _route(policy)
    before = await _own(target, args.topic, policy, everywhere=args.everywhere)
    if args.checked and before != args.expected:
        raise Conflict(f"{policy.name} was changed meanwhile; look at it again")
    query: Json = dict(parse_qsl(route.query))
    if args.everywhere and route.everywhere:
        query["isGlobal"] = True
    method, body = route.method, args.value
    if args.value is None and route.removal is None:
        body = policy.topic_unset  # which Apache does not distinguish from none
    elif args.value is None:
        assert route.removal is not None
        method, body = route.removal.method, route.removal.body
    elif route.value_query:
        query[route.value_query], body = args.value, None
    await target.rest.call(method, topic_path(args.topic, route.path), body, **query)
    await _await_own(target, args, policy)
    return {"before": before}


async def _await_own(target: Target, args: SetTopicPolicy, policy: Policy) -> None:
    """Wait until the broker answers with the value that was set, for APPLIED_S: it is stored by now."""
    document: Document = {}
    policy.store(Level.TOPIC, document, args.value)
    wanted = policy.says(Level.TOPIC, document)
    until_s = asyncio.get_running_loop().time() + APPLIED_S
    while await _own(target, args.topic, policy, everywhere=args.everywhere) != wanted:
        if asyncio.get_running_loop().time() > until_s:
            return
        await asyncio.sleep(LOOK_AGAIN_S)


async def _policy_effect(target: Target, args: PolicyEffect) -> Json:
    raise Unsupported(LACKS[Ability.POLICY_PREVIEW])


async def _topics_with_policy(target: Target, args: OwnPolicy) -> Json:
    raise Unsupported(_NO_LIST)


TOPIC: Handlers = {
    TOPIC_POLICIES.name: _topic_policies,
    SET_TOPIC_POLICY.name: _set_topic_policy,
    POLICY_EFFECT.name: _policy_effect,
    TOPICS_WITH_POLICY.name: _topics_with_policy,
}
