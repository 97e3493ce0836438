"""Pages about rights say what the judge does, and name exactly what gives each right."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.reasons import (
    ACTIONS,
    RightReason,
    RightSource,
    any_topic,
    bases_of,
    counts_of_roles,
    judged_as,
    reach_of,
    roles_at,
)
from engine.auth.identity import Identity
from engine.auth.resource_names import CLUSTER, Resource, SubscriptionName, TenantName
from engine.base.names import NamespaceName, TopicName
from tests.unit.auth.authorization.access_records import Records, policies
from tests.unit.auth.authorization.test_evaluator_model import (
    LOCALS,
    PATTERNS,
    ROLES,
    SPACES,
    SUBSCRIPTIONS,
    random_documents,
)

SEEDS = range(25)


def rules_of(draw: random.Random) -> AccessRules:
    proxies = frozenset({"proxy"})
    return AccessRules(frozenset({"root"}), proxies, "here", wildcards=draw.random() < 0.5)


def resources() -> Iterator[Resource]:
    yield CLUSTER
    yield from (TenantName("t1"), TenantName("t2"))
    for name in SPACES:
        space = NamespaceName.parse(name)
        yield space
        for local in LOCALS:
            topic = space.topic(local)
            yield topic
            yield from (SubscriptionName(topic, subscription) for subscription in SUBSCRIPTIONS)


def allowed(role: str, action: Action, resource: Resource, view: Any, rules: AccessRules) -> bool:
    return judge(Identity(role), action, resource, view, rules).allowed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_has_a_reason_exactly_where_the_judge_allows_it(seed: int) -> None:
    draw = random.Random(seed)
    view, rules = Records(*random_documents(draw)), rules_of(draw)
    for resource in resources():
        for action in ACTIONS[type(resource)]:
            for role in PATTERNS:
                bases = bases_of(role, action, resource, view, rules)
                assert bool(bases) is allowed(role, action, resource, view, rules), (
                    role,
                    action,
                    str(resource),
                )


def without(basis: RightReason, tenants: Any, spaces: Any, rules: AccessRules) -> AccessRules:
    """Take what a basis names out of the documents; return the rules without it."""
    match basis.source:
        case RightSource.SUPERUSER:
            return AccessRules(frozenset(), rules.proxies, rules.cluster, rules.wildcards)
        case RightSource.TENANT_ADMIN:
            tenants[str(basis.place)]["adminRoles"].remove(basis.role)
        case RightSource.GRANT:
            topic = basis.place if isinstance(basis.place, TopicName) else None
            namespace = topic.namespace if topic else basis.place
            stored = spaces[str(namespace)]["auth_policies"]
            granted = stored["destination_auth"][str(topic)] if topic else stored["namespace_auth"]
            for word in basis.words:
                granted[basis.role].remove(word)
    return rules


@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_ends_with_all_of_its_reasons_and_not_before(seed: int) -> None:
    draw = random.Random(seed)
    rules = rules_of(draw)
    for resource in resources():
        for action in ACTIONS[type(resource)]:
            tenants, spaces = random_documents(draw)
            role = draw.choice(ROLES)
            left = bases_of(role, action, resource, Records(tenants, spaces), rules)
            own_rules = rules
            while left:
                assert allowed(role, action, resource, Records(tenants, spaces), own_rules)
                own_rules = without(left[0], tenants, spaces, own_rules)
                fewer = bases_of(role, action, resource, Records(tenants, spaces), own_rules)
                assert set(fewer) < set(left)
                left = fewer
            assert not allowed(role, action, resource, Records(tenants, spaces), own_rules)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_roles_of_a_resource_are_all_that_may_do_something_there(seed: int) -> None:
    draw = random.Random(seed)
    view, rules = Records(*random_documents(draw)), rules_of(draw)
    for resource in resources():
        rows = {row.role: row for row in roles_at(resource, view, rules)}
        for role in PATTERNS:
            may = [
                action
                for action in ACTIONS[type(resource)]
                if allowed(role, action, judged_as(action, resource, view), view, rules)
            ]
            if role in rows:
                assert [action for action, _ in rows[role].allowed] == may
            else:
                patterns = [name for name, row in rows.items() if row.is_pattern]
                assert not may or any(
                    role.startswith(p[:-1]) or role.endswith(p[1:]) for p in patterns
                )


def reached(role: str, action: Action, resource: Resource, rows: Any, view: Any) -> bool:
    """Return whether a list of what a role may do covers an action on a topic."""
    assert isinstance(resource, TopicName)
    for row in rows:
        covers = (
            row.resource == CLUSTER
            or row.resource == TenantName(resource.tenant)
            or (action in [a for a, _ in row.allowed] and row.resource == resource)
            or (action in [a for a, _ in row.allowed] and row.resource == resource.namespace)
            or (action in [a for a, _ in row.allowed] and row.resource == resource.partitioned)
        )
        if covers:
            return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_the_listed_rights_of_a_role_cover_exactly_the_topics_that_the_judge_allows(
    seed: int,
) -> None:
    draw = random.Random(seed)
    view, rules = Records(*random_documents(draw)), rules_of(draw)
    for role in PATTERNS:
        rows = list(reach_of(role, view, rules))
        for name in SPACES:
            for local in LOCALS:
                topic = NamespaceName.parse(name).topic(local)
                for action in ACTIONS[TopicName]:
                    expected = allowed(role, action, topic, view, rules)
                    assert reached(role, action, topic, rows, view) is expected, (
                        role,
                        action,
                        str(topic),
                    )
        for row in rows:
            assert row.allowed
            for action, bases in row.allowed:
                assert bases
                place = row.resource
                if isinstance(place, NamespaceName) and action in ACTIONS[TopicName]:
                    access = view.namespace(place)
                    assert access is not None
                    place = any_topic(place, access)
                assert allowed(role, action, place, view, rules)


RULES = AccessRules(frozenset({"root"}), cluster="here", wildcards=True)
TOPIC = TopicName.parse("persistent://t1/n/t-partition-2")
VIEW = Records(
    {"t1": {"adminRoles": ["boss"]}, "t2": {"adminRoles": ["boss", "app-1"]}},
    {
        "t1/n": policies(
            {"app-*": ["produce", "consume"], "idle": []},
            topics={
                "persistent://t1/n/t": {"app-1": ["consume"]},
                "persistent://t1/n/any": {"guest": ["produce"]},
                "not a name": {"app-1": ["consume"]},
            },
            subscriptions={"s": ["app-1"]},
        )
    },
)


def test_every_reason_is_named_with_the_place_that_holds_it() -> None:
    texts = [basis.why for basis in bases_of("app-1", Action.CONSUME, TOPIC, VIEW, RULES)]
    assert texts == [
        "consume is granted to app-* on t1/n",
        "consume is granted to app-1 on persistent://t1/n/t",
    ]
    texts = [basis.why for basis in bases_of("boss", Action.TENANT_ADMIN, TOPIC, VIEW, RULES)]
    assert texts == ["boss is an administrator of tenant t1"]
    texts = [basis.why for basis in bases_of("root", Action.PRODUCE, TOPIC, VIEW, RULES)]
    assert texts == ["root is a superuser, by the setting super_user_roles"]
    texts = [basis.why for basis in bases_of("app-2", Action.LOOKUP, TOPIC, VIEW, RULES)]
    assert texts == ["produce and consume are granted to app-* on t1/n"]


def test_roles_are_listed_also_where_they_may_do_nothing() -> None:
    rows = {row.role: row for row in roles_at(TOPIC, VIEW, RULES)}
    assert rows.keys() == {"root", "boss", "app-*", "app-1", "idle"}
    assert rows["idle"].allowed == ()
    assert [name for name, row in rows.items() if row.is_pattern] == ["app-*"]
    rows = {row.role: row for row in roles_at(SubscriptionName(TOPIC, "s"), VIEW, RULES)}
    assert [name for name, row in rows.items() if row.allowed] == ["app-1", "boss", "root"]


def test_a_role_reaches_its_tenants_namespaces_topics_and_subscriptions() -> None:
    rows = {
        str(row.resource): [a.value for a, _ in row.allowed]
        for row in reach_of("app-1", VIEW, RULES)
    }
    assert rows == {
        "t2": ["tenant admin"],
        "t1/n": ["lookup", "produce", "consume"],
        "subscription s of persistent://t1/n/any-": ["consume"],
    }
    rows = {
        str(row.resource): [a.value for a, _ in row.allowed]
        for row in reach_of("guest", VIEW, RULES)
    }
    assert rows == {"persistent://t1/n/any": ["lookup", "produce"]}
    assert [str(row.resource) for row in reach_of("root", VIEW, RULES)] == ["the cluster"]
    assert list(reach_of("stranger", VIEW, RULES)) == []


def test_roles_are_counted_of_all_tenants_or_of_some() -> None:
    counts = counts_of_roles(VIEW, RULES, None)
    assert counts.keys() == {"root", "boss", "app-1", "app-*", "idle", "guest"}
    assert counts["root"].is_superuser
    assert counts["boss"].tenants == 2
    app = counts["app-1"]
    assert (app.tenants, app.namespaces, app.grants, app.subscriptions) == (1, {"t1/n"}, 2, 1)
    assert counts_of_roles(VIEW, RULES, ["t2"]).keys() == {"boss", "app-1"}
