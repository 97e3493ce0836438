"""The evaluator answers random questions about random grants as a naive reading of the stored documents does."""

import random
from typing import Any

import pytest

from engine.auth.actions import KINDS, Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.viewer_of_roles import viewer_for
from engine.auth.identity import Identity
from engine.auth.resource_names import CLUSTER, Resource, SubscriptionName, TenantName
from engine.base.names import NamespaceName, TopicName
from tests.unit.auth.authorization.access_records import Records, policies

ROLES = ["a", "a2", "ab", "b", "root", "proxy"]
PATTERNS = [*ROLES, "a*", "*b", "*"]
WORDS = ["produce", "consume", "packages", "functions", "sources", "sinks"]
SPACES = ["t1/n", "t1/m", "t2/n", "t2/here/n", "t2/there/n"]
LOCALS = ["t", "t-partition-0", "t2"]
SUBSCRIPTIONS = ["a", "a-1", "a2-1", "b-1"]


def random_documents(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    def granted() -> dict[str, list[str]]:
        roles = draw.sample(PATTERNS, draw.randint(0, 3))
        return {role: draw.sample(WORDS, draw.randint(0, 3)) for role in roles}

    tenants = {
        name: {"adminRoles": draw.sample(ROLES, draw.randint(0, 1))} for name in ("t1", "t2")
    }
    spaces = {}
    for name in draw.sample(SPACES, draw.randint(0, len(SPACES))):
        spaces[name] = policies(
            granted(),
            topics={f"persistent://{name}/{draw.choice(LOCALS)}": granted() for _ in range(2)},
            subscriptions={
                draw.choice(SUBSCRIPTIONS): draw.sample(ROLES, draw.randint(0, 3)) for _ in range(2)
            },
            mode=draw.choice(["None", "None", "Prefix"]),
        )
    return tenants, spaces


def random_call(draw: random.Random) -> tuple[Action, Resource]:
    space = NamespaceName.parse(draw.choice(SPACES))
    topic = space.topic(draw.choice(LOCALS))
    action = draw.choice([action for action in Action if KINDS[action]])
    by_kind: dict[type, Resource] = {
        type(CLUSTER): CLUSTER,
        TenantName: TenantName(space.tenant),
        NamespaceName: space,
        TopicName: topic,
        SubscriptionName: SubscriptionName(topic, draw.choice(SUBSCRIPTIONS)),
    }
    return action, by_kind[draw.choice(KINDS[action])]


def naive(
    identity: Identity,
    action: Action,
    resource: Resource,
    tenants: dict[str, Any],
    spaces: dict[str, Any],
    rules: AccessRules,
) -> bool:
    if identity.original is not None:
        own, client = Identity(identity.role), Identity(identity.original)
        trusting = AccessRules(rules.superusers, frozenset(), rules.cluster, rules.wildcards)
        return naive(own, action, resource, tenants, spaces, trusting) and naive(
            client, action, resource, tenants, spaces, rules
        )
    role = identity.role or ""
    if role in rules.proxies:
        return False
    if role in rules.superusers:
        return True
    text = str(resource.topic if isinstance(resource, SubscriptionName) else resource)
    path = text.partition("://")[2] or text
    if role in tenants.get(path.split("/")[0], {}).get("adminRoles", []):
        return True
    if action in (Action.SUPERUSER, Action.TENANT_ADMIN):
        return False
    scope = path.rpartition("/")[0] if "://" in text else path
    if scope not in spaces or scope == "t2/there/n":
        return False
    stored = spaces[scope]
    grants = [stored["auth_policies"]["namespace_auth"]]
    if "://" in text:
        by_topic = stored["auth_policies"]["destination_auth"]
        grants += [by_topic.get(name, {}) for name in (text, text.removesuffix("-partition-0"))]
    wanted = {"produce", "consume"} if action is Action.LOOKUP else {action.value}
    if not any(
        wanted & set(words)
        for granted in grants
        for pattern, words in granted.items()
        if pattern == role
        or (rules.wildcards and pattern[0] == "*" and role.endswith(pattern[1:]))
        or (rules.wildcards and pattern[-1] == "*" and role.startswith(pattern[:-1]))
    ):
        return False
    asked = SUBSCRIPTIONS
    closed = {n: r for n, r in stored["auth_policies"]["subscription_auth_roles"].items() if r}
    prefixed = stored["subscription_auth_mode"] == "Prefix"
    if isinstance(resource, SubscriptionName):
        asked = [resource.name]
    elif action is not Action.CONSUME or "://" in text:
        return True
    return all(
        role in closed.get(name, [role])
        and (
            not prefixed
            or (isinstance(resource, SubscriptionName) and f"{name}-".startswith(f"{role}-"))
        )
        for name in asked
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_verdict_is_that_of_a_naive_reading(seed: int) -> None:
    draw = random.Random(seed)
    tenants, spaces = random_documents(draw)
    view = Records(tenants, spaces)
    proxies = frozenset({"proxy"})
    rules = AccessRules(frozenset({"root"}), proxies, "here", wildcards=draw.random() < 0.5)
    for _ in range(60):
        identity = Identity(draw.choice(ROLES), draw.choice([None, None, *ROLES]))
        action, resource = random_call(draw)
        verdict = judge(identity, action, resource, view, rules)
        expected = naive(identity, action, resource, tenants, spaces, rules)
        assert verdict.allowed is expected, (identity, action, str(resource), tenants, spaces)
        assert bool(verdict.reason) is not verdict.allowed


@pytest.mark.parametrize("seed", range(40))
def test_a_viewer_sees_a_namespace_exactly_where_it_may_list_its_topics(seed: int) -> None:
    draw = random.Random(seed)
    tenants, spaces = random_documents(draw)
    view = Records(tenants, spaces)
    rules = AccessRules(frozenset({"root"}), frozenset({"proxy"}), "here")
    for role in ROLES:
        for identity in (Identity(role), Identity("root", role), Identity("a", role)):
            viewer = viewer_for(identity, view, rules)
            for name in spaces:
                listed = judge(identity, Action.LOOKUP, NamespaceName.parse(name), view, rules)
                assert viewer.sees(name) is listed.allowed, (identity, name, tenants, spaces)
            for name in tenants:
                manages = judge(identity, Action.TENANT_ADMIN, TenantName(name), view, rules)
                assert (viewer.everything or name in viewer.tenants) is manages.allowed
