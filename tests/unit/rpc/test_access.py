"""Every operation states its rights; the private port calls the judge before a handler."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from types import NoneType
from typing import Any

import pytest

from engine.admin import api
from engine.admin.api.arguments import JsonObject, NoArguments, OnBundle, OnSubscription, OnTopic
from engine.admin.api.cursors import CLEAR_BACKLOG
from engine.admin.api.losses import LOSSES, ChangedRecords
from engine.admin.api.rights import ADMIN
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Identity
from engine.auth.internal import INTERNAL_METHOD, INTERNAL_ROLE, TOKEN_HEADER
from engine.auth.judge import AllowAll, Judgement, Verdict
from engine.auth.resource_names import CLUSTER, SubscriptionName, TenantName
from engine.auth.rights import SUPERUSER, Right, all_of
from engine.base.names import SHADOW_SOURCE, NamespaceName, TopicName
from engine.functions import worker_operations
from engine.functions.ports import OnComponents
from engine.metadata.store import StoreUnavailableError
from engine.net.http import Request
from engine.packages import package_operations
from engine.packages.package_operations import OnPackages
from engine.rpc.operation import Operation, bind, encode_call
from engine.rpc.server import RpcPages
from tests.support.access.judges import REASON, DenyAll

TOKEN = "a-token-of-some-length"
NAME = TopicName.parse("persistent://a/b/t")
WORDS = {
    TopicName: "topic",
    SubscriptionName: "subscription",
    NamespaceName: "namespace",
    TenantName: "tenant",
}
TABLE = {
    "superuser": """
        broker_metrics bundle_cuts change_setting check_quotas close_connection connection connections drain_broker
        drain_plan dynamic_settings end_drain link_rows live_settings load_balance load_report owned_bundles
        prepare_bundle replication runtime_settings
        scan_objects split_bundle subscription_rows take_bundle topic_rows topics_at_rest topics_stats transfer_bundle
        unload_bundle abort_transaction coordinator_log_stats slow_transactions transaction_metadata
        all_functions
        drain_worker function_figures function_metrics held_log held_metrics held_state held_stats held_status
        put_held_state rebalance_workers restart_held store_metadata worker_assignments worker_cluster worker_drain
        worker_leader worker_metrics
    """,
    "functions of namespace, sources of namespace, sinks of namespace": """
        create_function delete_function function_log function_metadata function_names function_state function_stats
        function_status put_function_state restart_function start_function stop_function trigger_function
        try_function update_function
    """,
    "authenticated": "health",
    "tenant admin of topic": """
        change_properties check_schema compact compaction_status delete_schema delete_topic end_tracing
        forget_partitioned grow_elsewhere offload offload_status policy_effect set_topic_policy terminate
        trace_entries trim truncate unload
    """,
    "tenant admin of topic, tenant admin of topic": "create_topic",
    "tenant admin of tenant": "losses",
    "tenant admin of namespace": "namespace_policies scan_ledgers topics_with_policy",
    "lookup of topic": """
        find_schema held_ledgers holdings internal_info internal_stats lookup partitions_to_use schema schema_metadata
        schema_page schemas stored_schemas tiers coordinator_stats transaction_buffer_stats
        transaction_in_buffer topic_policies topic_properties topic_stats
    """,
    "lookup of namespace, superuser": "topics",
    "produce of topic": "register_schema",
    "consume of topic": """
        backlog_size durable_subscriptions examine last_changes last_message_id latest_entries message_by_id
        message_holders message_id_by_time next_entries subscriptions traces
        compacted_entries
    """,
    "consume of subscription": """
        acknowledge_messages analyze_backlog clear_backlog create_subscription delete_subscription
        disconnect_consumer expire_messages expire_to_position holders move_cursor peek preview_change replicate
        replicated
        reset_cursor set_subscription_properties skip_messages subscription_holdings subscription_properties
        pending_ack_log_stats pending_ack_stats position_in_pending_ack transaction_in_pending_ack
    """,
    "packages of namespace, functions of namespace, sources of namespace, sinks of namespace": """
        abandon_package add_package_part begin_package delete_package describe_package package_metadata package_part
        package_versions packages store_package
    """,
}
"""The operations by their rights."""


def operations() -> Iterator[Operation[Any, Any]]:
    modules = [
        importlib.import_module(f"{api.__name__}.{module.name}")
        for module in pkgutil.iter_modules(api.__path__)
    ]
    for module in (*modules, worker_operations, package_operations):
        for value in vars(module).values():
            if isinstance(value, Operation):
                yield value


def shown(right: Right[Any]) -> str:
    kind = WORDS.get(right.kind)  # type: ignore[arg-type]
    return right.action.value + (f" of {kind}" if kind else "")


def test_each_operation_has_its_right() -> None:
    stated: dict[str, set[str]] = {}
    for operation in operations():
        rights = ", ".join(map(shown, all_of(operation.rights)))
        stated.setdefault(rights, set()).add(operation.name)
    assert stated == {rights: set(names.split()) for rights, names in TABLE.items()}


def test_the_resource_is_the_one_that_the_arguments_name() -> None:
    for operation in operations():
        for right in all_of(operation.rights):
            args: Any = LoadedTopics(NAME.namespace)
            if issubclass(operation.arguments, OnSubscription):
                args = OnSubscription(NAME, "s")
            elif operation is CREATE_TOPIC:
                args = CreateTopic(NAME, {SHADOW_SOURCE: str(NAME)})
            elif issubclass(operation.arguments, OnTopic):
                args = OnTopic(NAME)
            elif issubclass(operation.arguments, OnBundle):
                args = OnBundle(NAME.namespace)
            elif operation is LOSSES:
                args = ChangedRecords("a", [])
            elif issubclass(operation.arguments, OnComponents):
                args = OnComponents("function", NAME.namespace)
            elif issubclass(operation.arguments, OnPackages):
                args = OnPackages(NAME.namespace, "function")
            named = (NAME, SubscriptionName(NAME, "s"), NAME.namespace, TenantName("a"), CLUSTER)
            for resource in right.of(args):
                assert resource in named
                assert type(resource) is (right.kind or type(CLUSTER))


def test_functions_sources_and_sinks_each_have_their_own_action() -> None:
    for component in ("function", "source", "sink"):
        args = OnComponents(component, NAME.namespace)
        needed = [right.action.value for right in worker_operations.COMPONENT if right.of(args)]
        assert needed == [f"{component}s"]


def test_the_topics_of_all_namespaces_are_for_a_superuser() -> None:
    of_namespace, of_all = all_of(TOPICS.rights)
    assert (of_namespace.of(LoadedTopics()), of_all.of(LoadedTopics())) == ((), (CLUSTER,))
    assert of_all.of(LoadedTopics(NAME.namespace)) == ()


def test_an_operation_without_a_right_does_not_construct() -> None:
    with pytest.raises(TypeError):
        Operation("x", NoArguments, NoneType)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="states the rights"):
        Operation("x", NoArguments, NoneType, ())
    assert Operation("x", NoArguments, NoneType, SUPERUSER).rights is SUPERUSER


async def called(judge: Any, principal: str = "") -> tuple[int, Any, int]:
    """Return the status and body of a call of CLEAR_BACKLOG, and how often its handler was called."""
    calls = 0

    async def clear(args: OnSubscription) -> JsonObject:
        nonlocal calls
        calls += 1
        return {}

    async def metrics() -> Any:
        yield b""

    pages = RpcPages(
        dict([bind(CLEAR_BACKLOG, clear)]),
        TOKEN,
        judge,
        refusal_of=lambda error: None,
        ready=lambda: True,
        metrics=metrics,
    )
    headers = {TOKEN_HEADER.lower(): TOKEN}
    body = encode_call(OnSubscription(NAME, "s"), principal)
    answer = await pages(Request("POST", "/rpc/clear_backlog", "", headers, body))
    return answer.status, json.loads(answer.body), calls  # type: ignore[arg-type]


async def test_arguments_that_may_hold_secrets_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def store(args: Any) -> None:
        return None

    async def metrics() -> Any:
        yield b""

    pages = RpcPages(
        dict([bind(worker_operations.CREATE_FUNCTION, store)]),
        *(TOKEN, AllowAll()),
        refusal_of=lambda error: None,
        ready=lambda: True,
        metrics=metrics,
    )
    args = worker_operations.StoredFunction("function", NAME.namespace, "f", "c2VjcmV0", "url")
    headers = {TOKEN_HEADER.lower(): TOKEN}
    with caplog.at_level("INFO"):
        await pages(Request("POST", "/rpc/create_function", "", headers, encode_call(args, "")))
    assert "create_function" in caplog.text
    assert "'package': 'url'" in caplog.text
    assert "c2VjcmV0" not in caplog.text


async def test_a_refused_call_reaches_no_handler() -> None:
    judge = DenyAll()
    assert await called(judge, "ann") == (422, {"code": "forbidden", "reason": REASON}, 0)
    assert judge.asked == [
        (
            Identity(INTERNAL_ROLE, original="ann", method=INTERNAL_METHOD),
            all_of(CLEAR_BACKLOG.rights)[0].action,
            SubscriptionName(NAME, "s"),
        )
    ]


async def test_a_call_without_a_principal_has_the_identity_of_the_process() -> None:
    judge = DenyAll(all_of(CLEAR_BACKLOG.rights)[0].action)
    assert (await called(judge))[2] == 1
    assert judge.asked[0][0] == Identity(INTERNAL_ROLE, method=INTERNAL_METHOD)


@pytest.mark.parametrize("later", [False, True])
async def test_a_call_that_the_judge_cannot_decide_is_to_be_repeated(later: bool) -> None:
    class Failing:
        def judge(self, *about: Any) -> Judgement:
            async def fail() -> Verdict:
                raise StoreUnavailableError("silent")

            if later:
                return fail()
            raise StoreUnavailableError("silent")

    status, body, calls = await called(Failing())
    assert (status, body["code"], calls) == (422, "not_ready", 0)


def test_rights_are_shared_by_operations_of_the_same_arguments() -> None:
    assert ADMIN.of(OnTopic(NAME)) == (NAME,)


def identify(request: Request) -> Identity:
    """Accept ``role``, or ``role for original``, in the header Authorization."""
    given = request.headers.get("authorization", "")
    if not given:
        raise AuthenticationFailed("nothing was shown")
    role, _, original = given.partition(" for ")
    return Identity(role, original or None, "token")


async def asked(headers: dict[str, str], principal: str = "") -> tuple[int, Any, Any]:
    """Return the status and body of a call with these headers, and what the judge was asked."""
    judge = DenyAll()

    async def clear(args: OnSubscription) -> JsonObject:
        raise AssertionError("nothing is allowed")

    async def metrics() -> Any:
        yield b"x 1"

    pages = RpcPages(
        dict([bind(CLEAR_BACKLOG, clear)]),
        TOKEN,
        judge,
        refusal_of=lambda error: None,
        ready=lambda: True,
        metrics=metrics,
        identify=identify,
        guard_metrics=True,
    )
    body = encode_call(OnSubscription(NAME, "s"), principal)
    answer = await pages(Request("POST", "/rpc/clear_backlog", "", headers, body))
    page = await pages(Request("GET", "/metrics", "", headers, b""))
    assert page.status == (401 if "authorization" not in headers else 200)
    return answer.status, json.loads(answer.body), [identity for identity, *_ in judge.asked]


async def test_a_caller_with_credentials_of_its_own_is_judged_by_its_roles() -> None:
    status, _, judged = await asked({"authorization": "app"})
    assert (status, judged) == (422, [Identity("app", None, "token")])
    status, _, judged = await asked({"authorization": "proxy for ann"}, "ann")
    assert (status, judged) == (422, [Identity("proxy", "ann", "token")])


async def test_a_caller_without_usable_credentials_is_not_judged() -> None:
    assert await asked({}) == (401, {"reason": "Failed to authenticate"}, [])
    assert (await asked({TOKEN_HEADER.lower(): "wrong"}))[::2] == (401, [])
    assert (await asked({"authorization": "app"}, "ann"))[::2] == (401, [])
    assert (await asked({TOKEN_HEADER.lower(): TOKEN}, "ann"))[0] == 422
