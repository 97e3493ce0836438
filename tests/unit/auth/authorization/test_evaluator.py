"""Rights by Pulsar's rules, a table per rule."""

import pytest

from engine.auth.actions import KINDS, UNJUDGED, Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.policy_view import NotKnown
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.internal import INTERNAL_METHOD, INTERNAL_ROLE
from engine.auth.judge import ALLOWED, Verdict
from engine.auth.resource_names import CLUSTER, Resource, SubscriptionName, TenantName
from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.change_events import LOCAL_NAME
from tests.unit.auth.authorization.access_records import Records, policies

RULES = AccessRules(frozenset({"root"}), frozenset({"proxy"}), cluster="here")
WILDCARDS = AccessRules(cluster="here", wildcards=True)
TENANT = TenantName("t1")
SPACE = NamespaceName.parse("t1/n")
TOPIC = TopicName.parse("persistent://t1/n/t")
OTHER_TOPIC = TopicName.parse("persistent://t1/n/t2")
SUBSCRIPTION = SubscriptionName(TOPIC, "s")
BY_KIND: dict[type, Resource] = {
    type(resource): resource for resource in (CLUSTER, TENANT, SPACE, TOPIC, SUBSCRIPTION)
}
TENANTS = {"t1": {"adminRoles": ["boss"]}, "t2": {"adminRoles": ["other-boss"]}}
GRANTED = Records(
    TENANTS,
    {
        "t1/n": policies(
            {word: [word] for word in ("produce", "consume", "packages", "functions")}
            | {word: [word] for word in ("sources", "sinks")},
            topics={
                str(TOPIC): {
                    f"{word}-topic": [word] for word in ("produce", "consume", "functions")
                }
            },
        )
    },
)
CALLS = [
    (action, BY_KIND[kind])
    for action, kinds in KINDS.items()
    if action not in UNJUDGED
    for kind in kinds or (type(CLUSTER),)
]
GRANTS = {
    Action.LOOKUP: ("produce", "consume"),
    Action.PRODUCE: ("produce",),
    Action.CONSUME: ("consume",),
    Action.PACKAGES: ("packages",),
    Action.FUNCTIONS: ("functions",),
    Action.SOURCES: ("sources",),
    Action.SINKS: ("sinks",),
}
WORDS = {word for words in GRANTS.values() for word in words}
ON_TOPIC = {f"{word}-topic" for word in ("produce", "consume", "functions")}
ROLES = {"root", "boss", "other-boss", "stranger", *WORDS, *ON_TOPIC}


def allowed(
    role: str,
    action: Action,
    resource: Resource,
    view: Records = GRANTED,
    rules: AccessRules = RULES,
) -> bool:
    return judge(Identity(role), action, resource, view, rules).allowed


@pytest.mark.parametrize(("action", "resource"), CALLS)
def test_each_action_is_allowed_to_its_roles_alone(action: Action, resource: Resource) -> None:
    expected = {"root"}
    if action is Action.AUTHENTICATED:
        expected = ROLES
    elif resource is not CLUSTER:
        expected |= {"boss", *GRANTS.get(action, ())}
        if resource in (TOPIC, SUBSCRIPTION):
            expected |= {f"{word}-topic" for word in GRANTS.get(action, ())}
    assert {role for role in ROLES if allowed(role, action, resource)} == expected


def test_a_grant_on_one_topic_is_none_on_another_of_the_same_beginning_or_domain() -> None:
    others = (OTHER_TOPIC, TopicName.parse("persistent://t1/n/t-partition"))
    for topic in (*others, TopicName.parse("non-persistent://t1/n/t")):
        assert not allowed("produce-topic", Action.PRODUCE, topic)
    assert not allowed("consume-topic", Action.CONSUME, SPACE)


@pytest.mark.parametrize(
    ("granted_on", "asked"),
    [
        ("persistent://t1/n/t", "persistent://t1/n/t-partition-3"),
        ("persistent://t1/n/t-partition-3", "persistent://t1/n/t-partition-3"),
    ],
)
def test_a_partition_is_judged_by_its_own_grants_and_those_of_its_topic(
    granted_on: str, asked: str
) -> None:
    view = Records(TENANTS, {"t1/n": policies(topics={granted_on: {"app": ["produce"]}})})
    assert allowed("app", Action.PRODUCE, TopicName.parse(asked), view)
    assert not allowed(
        "app", Action.PRODUCE, TopicName.parse("persistent://t1/n/t-partition-4x"), view
    )
    if granted_on != "persistent://t1/n/t":
        assert not allowed("app", Action.PRODUCE, TOPIC, view)


@pytest.mark.parametrize(
    ("identity", "is_allowed"),
    [
        (Identity("proxy", "produce"), True),
        (Identity("proxy", "stranger"), False),
        (Identity("stranger", "produce"), False),
        (Identity("proxy"), False),
        (Identity("proxy", "proxy"), False),
        (Identity("proxy", ""), False),
    ],
)
def test_a_proxy_and_its_client_both_need_the_right(identity: Identity, is_allowed: bool) -> None:
    view = Records(TENANTS, {"t1/n": policies({"proxy": ["produce"], "produce": ["produce"]})})
    assert judge(identity, Action.PRODUCE, TOPIC, view, RULES).allowed is is_allowed
    if is_allowed:
        without = Records(TENANTS, {"t1/n": policies({"produce": ["produce"]})})
        assert not judge(identity, Action.PRODUCE, TOPIC, without, RULES).allowed


def test_a_proxy_that_is_a_superuser_gives_its_client_nothing() -> None:
    rules = AccessRules(frozenset({"proxy"}), frozenset({"proxy"}))
    for original, is_allowed in (("produce", True), ("stranger", False)):
        identity = Identity("proxy", original)
        assert judge(identity, Action.PRODUCE, TOPIC, GRANTED, rules).allowed is is_allowed
    assert not judge(Identity("proxy", "boss"), Action.SUPERUSER, CLUSTER, GRANTED, rules).allowed


def test_an_internal_process_is_trusted_by_its_token_alone_and_its_client_is_judged() -> None:
    for identity, is_allowed in (
        (Identity(INTERNAL_ROLE, method=INTERNAL_METHOD), True),
        (Identity(INTERNAL_ROLE, "boss", INTERNAL_METHOD), True),
        (Identity(INTERNAL_ROLE, "stranger", INTERNAL_METHOD), False),
        (Identity(INTERNAL_ROLE, method="token"), False),
        (Identity("app", method=INTERNAL_METHOD), False),
        (Identity("app", INTERNAL_ROLE, INTERNAL_METHOD), False),
        (Identity(INTERNAL_ROLE, INTERNAL_ROLE, INTERNAL_METHOD), False),
    ):
        verdict = judge(identity, Action.TENANT_ADMIN, TENANT, GRANTED, RULES)
        assert verdict.allowed is is_allowed, identity


def test_a_caller_without_a_role_is_refused_every_judged_action() -> None:
    for identity in (UNAUTHENTICATED, Identity("")):
        for action, resource in CALLS:
            assert not judge(identity, action, resource, GRANTED, RULES).allowed
        for action in UNJUDGED:
            assert judge(identity, action, CLUSTER, GRANTED, RULES) is ALLOWED


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("app*", ["app", "app1", "app*"], ["ap", "1app"]),
        ("*app", ["app", "1app"], ["app1"]),
        ("*", ["anything"], []),
        ("a*p", ["a*p"], ["app"]),
    ],
)
def test_wildcards_match_at_one_end_where_they_are_switched_on(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    for where in (
        {"roles": {pattern: ["produce"]}},
        {"topics": {str(TOPIC): {pattern: ["produce"]}}},
    ):
        view = Records(TENANTS, {"t1/n": policies(**where)})
        roles = [*matching, *others]
        assert [r for r in roles if allowed(r, Action.PRODUCE, TOPIC, view, WILDCARDS)] == matching
        assert [r for r in roles if allowed(r, Action.PRODUCE, TOPIC, view)] == [
            role for role in roles if role == pattern
        ]
        assert not allowed(matching[0], Action.CONSUME, TOPIC, view, WILDCARDS)


def test_wildcards_make_no_superuser_and_no_administrator() -> None:
    view = Records({"t1": {"adminRoles": ["*"]}}, {})
    rules = AccessRules(frozenset({"*"}), wildcards=True)
    assert not allowed("app", Action.SUPERUSER, CLUSTER, view, rules)
    assert not allowed("app", Action.TENANT_ADMIN, TENANT, view, rules)


CONSUMERS = {role: ["consume"] for role in ("app", "app2", "job")}


@pytest.mark.parametrize(
    ("subscriptions", "mode", "expected"),
    [
        ({}, "None", {"app", "app2", "job", "boss"}),
        ({}, None, {"app", "app2", "job", "boss"}),
        ({"app2-x": []}, "None", {"app", "app2", "job", "boss"}),
        ({"app2-x": ["job", "stranger"]}, "None", {"job", "boss"}),
        ({"other": ["job"]}, "None", {"app", "app2", "job", "boss"}),
        ({}, "Prefix", {"app2", "boss"}),
        ({}, "Unheard-of", {"app2", "boss"}),
        ({"app2-x": ["job"]}, "Prefix", {"boss"}),
    ],
)
def test_a_subscription_is_open_to_the_roles_that_its_rules_name(
    subscriptions: dict[str, list[str]], mode: str | None, expected: set[str]
) -> None:
    view = Records(TENANTS, {"t1/n": policies(CONSUMERS, subscriptions=subscriptions, mode=mode)})
    roles = {*CONSUMERS, "boss", "stranger"}
    asked = SubscriptionName(TOPIC, "app2-x")
    assert {r for r in roles if allowed(r, Action.CONSUME, asked, view)} == expected
    closed = mode not in (None, "None")
    open_to = {r for r in CONSUMERS if all(r in roles for roles in subscriptions.values() if roles)}
    expected = {"boss"} | (set() if closed else open_to)
    assert {r for r in roles if allowed(r, Action.CONSUME, SPACE, view)} == expected


def test_a_subscription_named_after_a_longer_role_is_not_the_shorter_ones() -> None:
    view = Records(TENANTS, {"t1/n": policies({"app": ["consume"]}, mode="Prefix")})
    names = ["app", "app-x", "application", "app2-x", "ap", "App-x"]
    own = [n for n in names if allowed("app", Action.CONSUME, SubscriptionName(TOPIC, n), view)]
    assert own == ["app", "app-x"]


def test_a_grant_counts_in_legacy_names_of_this_cluster_alone() -> None:
    names = ["t1/here/n", "t1/global/n", "t1/there/n"]
    view = Records(TENANTS, {name: policies({"app": ["produce"]}) for name in names})
    topics = [NamespaceName.parse(name).topic("t") for name in names]
    assert [allowed("app", Action.PRODUCE, topic, view) for topic in topics] == [True, True, False]


def test_a_refusal_is_the_same_whether_what_it_names_exists_or_not() -> None:
    nothing = Records({}, {})
    for action, resource in CALLS:
        if action is not Action.AUTHENTICATED:
            here = judge(Identity("stranger"), action, resource, GRANTED, RULES)
            assert here == judge(Identity("stranger"), action, resource, nothing, RULES)
            assert here.reason
            assert not here.allowed


def test_a_name_is_no_path_to_another_namespace() -> None:
    for text in ("t1/..", "../n", "t2/../t1/n", "t1/n/", "t1//n"):
        with pytest.raises(InvalidNameError):
            NamespaceName.parse(text)
    assert not allowed("packages", Action.PACKAGES, NamespaceName.parse("t2/t1/n"))


def test_the_right_to_functions_is_not_the_right_to_what_they_read_and_write() -> None:
    assert allowed("functions", Action.FUNCTIONS, SPACE)
    for action in (Action.PRODUCE, Action.CONSUME, Action.LOOKUP):
        assert not allowed("functions", action, TOPIC)


@pytest.mark.parametrize(
    "name",
    [
        LOCAL_NAME,
        f"{LOCAL_NAME}-partition-0",
        "__transaction_buffer_snapshot",
        "__unlimited",
        "__unlimited-partition-3",
    ],
)
def test_a_grant_to_publish_is_none_to_set_policies(name: str) -> None:
    """Refuse to publish to the topic of a namespace's policies, which Apache's broker allows, and to any other name of
    the cluster's own, on which no limit counts."""
    stored = policies({"app": ["produce", "consume"]})
    view = Records({"t": {"adminRoles": ["admin"]}}, {"t/n": stored})
    topic = NamespaceName.parse("t/n").topic(name)
    rules = AccessRules(superusers=frozenset({"root"}))
    for role, is_allowed in (("app", False), ("admin", True), ("root", True)):
        verdict = judge(Identity(role), Action.PRODUCE, topic, view, rules)
        assert verdict.allowed is is_allowed
    assert judge(Identity("app"), Action.LOOKUP, topic, view, rules).allowed
    # A consumer may create a topic, also one of those that no limit counts.
    subscription = SubscriptionName(topic, "s")
    for role in ("app", "admin", "root"):
        verdict = judge(Identity(role), Action.CONSUME, subscription, view, rules)
        assert verdict.allowed is (role != "app" or name.startswith(LOCAL_NAME))


def test_the_state_of_functions_is_opened_by_grants() -> None:
    view = Records({"t": {}}, {"t/n": policies({"app": ["produce", "consume"]})})
    topic = NamespaceName.parse("t/n").topic("__function_state_f")
    for role, is_allowed in (("app", True), ("other", False)):
        assert judge(Identity(role), Action.PRODUCE, topic, view, RULES).allowed is is_allowed
        subscription = SubscriptionName(topic, "s")
        assert (
            judge(Identity(role), Action.CONSUME, subscription, view, RULES).allowed is is_allowed
        )


def test_a_record_that_is_not_in_memory_is_named() -> None:
    with pytest.raises(NotKnown) as tenant:
        judge(Identity("app"), Action.PRODUCE, TOPIC, Records({}, {}, ["t1"]), RULES)
    assert tenant.value.resource == TENANT
    assert tenant.value.retriable
    unloaded = Records(TENANTS, {}, ["t1/n"])
    with pytest.raises(NotKnown) as namespace:
        judge(Identity("app"), Action.PRODUCE, TOPIC, unloaded, RULES)
    assert namespace.value.resource == SPACE
    assert allowed("boss", Action.PRODUCE, TOPIC, unloaded)
    assert allowed("root", Action.PRODUCE, TOPIC, Records({}, {}, ["t1"]))


PREFIXED = Records(
    TENANTS, {"t1/n": policies(CONSUMERS, subscriptions={"job-1": ["app"]}, mode="Prefix")}
)


@pytest.mark.parametrize(
    ("identity", "action", "resource", "reason"),
    [
        (
            *(Identity("app"), Action.PRODUCE, TOPIC),
            "role app lacks produce on persistent://t1/n/t; a tenant admin of t1 can grant it",
        ),
        (
            *(Identity("stranger"), Action.CONSUME, SubscriptionName(TOPIC, "job-1")),
            "role stranger lacks consume on persistent://t1/n/t; a tenant admin of t1 can grant it",
        ),
        (
            *(Identity("proxy", "app"), Action.LOOKUP, SPACE),
            "role proxy lacks produce or consume on t1/n; a tenant admin of t1 can grant it",
        ),
        (
            *(Identity("app"), Action.TENANT_ADMIN, TOPIC),
            "role app is no administrator of tenant t1; a superuser can make it one",
        ),
        (
            *(Identity("boss"), Action.SUPERUSER, CLUSTER),
            "role boss is no superuser; the setting super_user_roles makes it one",
        ),
        (
            *(Identity("job"), Action.CONSUME, SubscriptionName(TOPIC, "job-1")),
            "role job is not among the roles of subscription job-1 of persistent://t1/n/t;"
            " a tenant admin of t1 can add it",
        ),
        (
            *(Identity("app"), Action.CONSUME, SPACE),
            "role app may not use all subscriptions of t1/n; a tenant admin of t1 can do it",
        ),
        (
            *(Identity("a\nb"), Action.SUPERUSER, CLUSTER),
            "role 'a\\nb' is no superuser; the setting super_user_roles makes it one",
        ),
        (
            *(Identity("proxy"), Action.PRODUCE, TOPIC),
            "role proxy is a proxy's; it must name a client, which is no proxy",
        ),
        (
            *(UNAUTHENTICATED, Action.AUTHENTICATED, CLUSTER),
            "The client is not authenticated; it must present credentials",
        ),
    ],
)
def test_a_refusal_names_what_is_missing_and_who_can_give_it(
    identity: Identity, action: Action, resource: Resource, reason: str
) -> None:
    assert judge(identity, action, resource, PREFIXED, RULES) == Verdict(False, reason)


def test_a_subscription_without_the_role_has_apaches_text() -> None:
    asked = SubscriptionName(TOPIC, "x")
    assert judge(Identity("app"), Action.CONSUME, asked, PREFIXED, RULES) == Verdict(
        False,
        "subscription x of persistent://t1/n/t does not begin with app-, as this namespace demands;"
        " a tenant admin of t1 can change subscription_auth_mode",
        "org.apache.pulsar.broker.PulsarServerException: Failed to create consumer - The subscription name needs to be"
        " prefixed by the authentication role, like app-xxxx for topic: persistent://t1/n/t",
    )
