"""Texts for the owner of a function when an instance of it ends."""

from engine.functions.instance.end_reason import ending_text
from engine.functions.instance.instance import InstanceEnded
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.user.user_code import UserCodeError
from engine.wire.errors import REFUSALS, ServerError

PLAN = InstancePlan("t", "n", "f", "m.C", role="app")


def test_errors_for_the_owner_have_no_traceback_and_others_have() -> None:
    assert ending_text(PLAN, InstanceEnded("no lease")) == "no lease"
    assert ending_text(PLAN, UserCodeError("no class m.C")) == "no class m.C"
    try:
        raise OSError("disk")
    except OSError as error:
        text = ending_text(PLAN, error)
    assert text.startswith("Traceback")
    assert text.endswith("OSError: disk\n")


def test_a_refusal_of_a_broker_states_the_role_and_the_rights_that_it_needs() -> None:
    denied = REFUSALS[ServerError.AuthorizationError]("not allowed")
    text = ending_text(PLAN, denied)
    assert text.startswith("A broker refuses the role app: ")
    assert f"both for its state, {PLAN.state_topic}." in text
    busy = REFUSALS[ServerError.ServiceNotReady]("too many")
    assert ending_text(PLAN, busy).startswith("A broker refuses the function: ")
