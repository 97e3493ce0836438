"""The judge, which each interface asks before it executes a call. Pure."""

from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.resource_names import Resource
from engine.auth.rights import Right

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision about one call. ``reason`` is a sentence for the refused caller, empty when allowed.

    ``client_text`` is what a client of the wire reads where Apache has a text for this very cause, else empty.
    """

    allowed: bool
    reason: str = ""
    client_text: str = ""


ALLOWED = Verdict(True)
Judgement = Verdict | Awaitable[Verdict]
"""A verdict, at once where all that it depends on is in memory, else as an awaitable."""


class Judge(Protocol):
    """Decides whether an identity may do an action on a resource."""

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        """Return the verdict. Never blocks.

        Raises a retriable MagnetarError, at once or when awaited, if it cannot be known now; nothing is done then.
        """
        ...


class AllowAll:
    """Judge that allows everything, where authorization is off."""

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        return ALLOWED


def judge_call(judge: Judge, identity: Identity, rights: Iterable[Right[T]], call: T) -> Judgement:
    """Return the verdict about a call that needs all of ``rights``: the first refusal, else ALLOWED.

    It is a Verdict if the judge answers at once for every resource. Raises what ``Right.of`` and the judge raise.
    """
    asked = (
        judge.judge(identity, right.action, resource)
        for right in rights
        if right.judged
        for resource in right.of(call)
    )
    for judgement in asked:
        if not isinstance(judgement, Verdict):
            return _first_refusal(judgement, asked)
        if not judgement.allowed:
            return judgement
    return ALLOWED


async def _first_refusal(first: Awaitable[Verdict], others: Iterator[Judgement]) -> Verdict:
    """Return the first refusal among an awaited judgement and those behind it. Cancel-safe."""
    verdict = await first
    if not verdict.allowed:
        return verdict
    for judgement in others:
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        if not verdict.allowed:
            return verdict
    return ALLOWED
