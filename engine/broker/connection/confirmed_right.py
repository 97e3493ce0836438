"""A right that is confirmed once more, behind the steps that a command took since it was judged."""

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Verdict
from engine.auth.resource_names import Resource
from engine.broker.errors import NotAuthorized
from engine.wire.states import CommandType


async def confirm(
    judge: Judge, identity: Identity, action: Action, resource: Resource, command: CommandType
) -> None:
    """Return if the right still holds. Cancel-safe.

    A command may wait for long after it was judged, and what it opens is found by ``Revocation`` only once it is open.
    Called behind that, so that a change at any time is noticed by one of the two (A19). Raises NotAuthorized with the
    text of ``command``, and the judge's retriable error.
    """
    judgement = judge.judge(identity, action, resource)
    verdict = judgement if isinstance(judgement, Verdict) else await judgement
    if not verdict.allowed:
        raise NotAuthorized(verdict.client_text or COMMAND_REFUSALS[command.name])
