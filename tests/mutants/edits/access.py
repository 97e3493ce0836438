"""Mistakes in access: a door that does not ask the judge, or asks about something else."""

from tests.mutants.edit import Edit

ROUTING = "unit/net/test_routing.py"
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
        "failing-judge-refuses-for-ever",
        "engine/net/routing.py::Router._unjudged",
        "else ServerError.ServiceNotReady",
        "else ServerError.AuthorizationError",
        (f"{ROUTING}::test_a_judge_that_cannot_know_now_is_no_refusal_for_ever",),
    ),
)
