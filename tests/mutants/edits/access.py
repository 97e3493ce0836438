"""Mistakes in access: a door that does not ask the judge, or asks about something else."""

from tests.mutants.edit import Edit

ROUTING = "unit/net/test_routing.py"
RPC = "unit/rpc/test_access.py"
HTTP = "unit/access/test_http_doors.py"
SOCKETS = "unit/access/test_socket_doors.py"
WIRE = "unit/broker/connection/test_access.py"

EDITS = (
    Edit(
        "command-is-not-judged",
        "engine/net/routing.py::Router.handle",
        "if (route.judged or self._undecided) and not self._passes(family, route, body):",
        "if self._undecided and not self._passes(family, route, body):",
        (f"{WIRE}::test_a_refused_command_is_answered_with_the_reason_and_changes_nothing",),
        "A1",
    ),
    Edit(
        "refused-command-is-handled",
        "engine/net/routing.py::Router._is_allowed",
        "return verdict.allowed",
        "return True",
        (f"{WIRE}::test_a_refused_command_is_answered_with_the_reason_and_changes_nothing",),
        "A1",
    ),
    Edit(
        "initial-subscription-is-not-judged",
        "engine/broker/connection/produce.py::initial_subscription",
        "if not body.initial_subscription_name:",
        "if True:",
        (f"{WIRE}::test_a_producer_that_may_not_consume_creates_no_subscription",),
        "A1",
    ),
    Edit(
        "command-overtakes-the-one-that-is-judged",
        "engine/net/routing.py::Router.handle",
        "if (route.judged or self._undecided) and not self._passes(family, route, body):",
        "if route.judged and not self._passes(family, route, body):",
        (f"{ROUTING}::test_commands_behind_one_that_is_being_judged_keep_their_order",),
        "A1",
    ),
    Edit(
        "only-the-first-resource-is-judged",
        "engine/auth/judge.py::judge_call",
        "        if not judgement.allowed:\n            return judgement\n    return ALLOWED",
        "        return judgement\n    return ALLOWED",
        ("unit/auth/test_judge.py::test_every_resource_of_every_right_must_be_allowed",),
    ),
    Edit(
        "path-is-not-judged",
        "gateway/http/view.py::RestView.admit",
        'await authorize_method(self, request.method or "", user)',
        "pass",
        (f"{HTTP}::test_each_rest_path_refuses_before_it_calls_the_engine",),
        "A2",
    ),
    Edit(
        "refused-request-is-served",
        "gateway/http/auth/access.py::authorize",
        "if not verdict.allowed:",
        "if False:",
        (
            f"{HTTP}::test_each_rest_path_refuses_before_it_calls_the_engine",
            f"{HTTP}::test_each_console_call_refuses_before_it_calls_the_engine",
        ),
        "A2",
    ),
    Edit(
        "console-writes-are-open-to-readers",
        "gateway/http/auth/access.py::SessionJudge.judge",
        "if self._superuser or self._reads or action is Action.AUTHENTICATED:",
        "if True:",
        (f"{HTTP}::test_writing_in_the_console_needs_the_right_of_the_action",),
    ),
    Edit(
        "view-without-a-right-makes-a-url",
        "gateway/http/view.py::RestView.as_view",
        "declared_rights(cls)",
        "pass",
        (
            "unit/access/test_rest_rights.py::test_a_view_without_the_right_of_a_method_makes_no_url",
        ),
    ),
    Edit(
        "channel-is-not-judged",
        "admin_ui/live.py::LiveFeed._subscribe",
        'await authorize(rights, params, self.scope.get("user"), reads=True)',
        "pass",
        (f"{SOCKETS}::test_a_channel_that_may_not_be_watched_makes_no_feed",),
        "A3",
    ),
    Edit(
        "live-feed-is-open",
        "admin_ui/live.py::LiveFeed.connect",
        "await authorize((AUTHENTICATED,), None, user, reads=True)",
        "pass",
        (f"{SOCKETS}::test_the_live_feed_refuses_a_caller_that_the_judge_refuses",),
    ),
    Edit(
        "websocket-endpoint-is-not-judged",
        "gateway/ws/sockets.py::run",
        "await admit(kind, names())",
        "pass",
        (f"{SOCKETS}::test_an_endpoint_refuses_the_handshake_before_it_calls_a_broker",),
        "A3",
    ),
    Edit(
        "operation-is-not-judged",
        "engine/rpc/server.py::RpcPages._rpc",
        "await self._authorize(operation, principal, args)",
        "pass",
        (f"{RPC}::test_a_refused_call_reaches_no_handler",),
        "A4",
    ),
    Edit(
        "proxy-acts-for-nobody",
        "engine/rpc/server.py::RpcPages._authorize",
        "original=principal or None",
        "original=None",
        (f"{RPC}::test_a_refused_call_reaches_no_handler",),
        "A4",
    ),
    Edit(
        "failing-judge-refuses-for-ever",
        "engine/net/routing.py::Router._unjudged",
        "else ServerError.ServiceNotReady",
        "else ServerError.AuthorizationError",
        (f"{ROUTING}::test_an_unavailable_judge_gives_a_retriable_error",),
    ),
)
