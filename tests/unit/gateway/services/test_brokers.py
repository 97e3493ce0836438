"""Questions that any broker can answer, while some do not."""

import asyncio
from typing import Any, cast

import pytest

from engine.admin.api.arguments import NoArguments
from engine.admin.api.dynamic_settings import DYNAMIC_SETTINGS
from engine.admin.client import AdminClient, BrokerAddress
from engine.base.errors import NotReady
from engine.metadata.memory import MemoryServer
from gateway.services.admin import brokers
from gateway.services.engine_link import Engine

pytestmark = pytest.mark.virtual_time


class Admin:
    """Brokers of these ids: each answers what is given, raises it, or hangs (None)."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.waiting = 0

    async def brokers(self) -> list[BrokerAddress]:
        return [BrokerAddress(name, f"http://{name}", "") for name in self.answers]

    async def call_on(self, broker: BrokerAddress, *asked: object, principal: str) -> Any:
        answer = self.answers[broker.id]
        if answer is None:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def engine(**answers: Any) -> tuple[Engine, Admin]:
    admin = Admin(answers)
    return Engine(MemoryServer().session(), cast(AdminClient, admin)), admin


async def test_one_healthy_broker_suffices_whatever_the_others_do() -> None:
    asked, admin = engine(hung=None, refusing=NotReady("not yet"), well={})
    began = asyncio.get_running_loop().time()
    await brokers.health(asked, None)
    assert asyncio.get_running_loop().time() == began
    assert admin.waiting == 0, "no caller still waits for the broker that hangs"


async def test_without_a_healthy_broker_the_first_ones_reason_is_reported() -> None:
    asked, _ = engine(refusing=NotReady("not yet"), hung=None)
    with pytest.raises(NotReady, match="No broker is well: not yet"):
        await brokers.health(asked, None)
    with pytest.raises(NotReady, match="No broker is available"):
        await brokers.health(engine()[0], None)


async def test_a_request_for_any_broker_tries_the_next_after_one_that_hangs() -> None:
    asked, _ = engine(hung=None, well={"names": ["a"], "values": {}})
    assert await brokers.dynamic_settings(asked) == (["a"], {})
    with pytest.raises(NotReady, match="Broker hung gave no answer within 5 s"):
        await brokers.on_any(engine(hung=None)[0], DYNAMIC_SETTINGS, NoArguments())
