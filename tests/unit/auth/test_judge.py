"""The judge is asked about every resource of every right that a call needs; what it refuses is refused."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.judge import ALLOWED, AllowAll, Judgement, Verdict, judge_call
from engine.auth.resource_names import CLUSTER, Resource, TenantName
from engine.auth.rights import OPENED, PUBLIC, SUPERUSER, Right

APP = Identity("app")
TENANTS: Right[str] = Right(
    Action.TENANT_ADMIN, TenantName, lambda names: tuple(map(TenantName, names.split()))
)


class Scripted:
    """Allows what ``allowed`` names; ``later``: by awaitables."""

    def __init__(self, *allowed: str, later: bool = False) -> None:
        self._allowed = allowed
        self._later = later
        self.asked: list[str] = []

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        self.asked.append(f"{action.value} on {resource}")
        verdict = ALLOWED if str(resource) in self._allowed else Verdict(False, f"not {resource}")
        if not self._later:
            return verdict

        async def answer() -> Verdict:
            await asyncio.sleep(0)
            return verdict

        return answer()


async def verdict_of(judge: Any, *rights: Right[Any], call: str = "") -> Verdict:
    judgement = judge_call(judge, APP, rights, call)
    return await judgement if isinstance(judgement, Awaitable) else judgement


@pytest.mark.parametrize("later", [False, True])
async def test_every_resource_of_every_right_must_be_allowed(later: bool) -> None:
    judge = Scripted("a", "b", "the cluster", later=later)
    assert await verdict_of(judge, TENANTS, SUPERUSER, call="a b") == ALLOWED
    assert judge.asked == [
        "tenant admin on a",
        "tenant admin on b",
        "superuser on the cluster",
    ]
    for call, refused in (("a c", "not c"), ("c a", "not c")):
        assert await verdict_of(judge, TENANTS, call=call) == Verdict(False, refused)
    judge = Scripted("a", later=later)
    assert await verdict_of(judge, TENANTS, SUPERUSER, call="a") == Verdict(False, f"not {CLUSTER}")


async def test_public_actions_and_unneeded_rights_are_not_judged() -> None:
    judge = Scripted()
    assert await verdict_of(judge, PUBLIC, OPENED, TENANTS, call="") == ALLOWED
    assert judge.asked == []


async def test_verdicts_that_are_at_hand_need_no_task() -> None:
    assert judge_call(Scripted("a"), APP, [TENANTS], "a") is ALLOWED
    assert judge_call(AllowAll(), APP, [TENANTS, SUPERUSER], "a b") is ALLOWED
