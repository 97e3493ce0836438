"""Reasons why an instance ends, as its owner reads them."""

import traceback

from engine.functions.instance.instance import InstanceEnded
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.user.user_code import UserCodeError
from engine.wire.errors import RefusedError, ServerError


def ending_text(plan: InstancePlan, error: BaseException) -> str:
    """Return why an instance ends. Errors that are for the function's owner need no traceback of ours."""
    if isinstance(error, InstanceEnded | UserCodeError):
        return str(error)
    if isinstance(error, RefusedError):
        return _refusal(plan, error)
    return "".join(traceback.format_exception(error))


def _refusal(plan: InstancePlan, error: RefusedError) -> str:
    """Return what a broker refuses to the function, with what its owner can do."""
    if error.code not in (ServerError.AuthorizationError, ServerError.AuthenticationError):
        return f"A broker refuses the {plan.component}: {error}"
    who = f"the role {plan.role}" if plan.role else f"the {plan.component}'s credentials"
    return (
        f"A broker refuses {who}: {error}. A {plan.component} needs the rights to consume its inputs, to produce to "
        f"its output, and both for its state, {plan.state_topic}."
    )
