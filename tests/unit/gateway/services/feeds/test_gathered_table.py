"""A table that takes long to gather delays the first request alone, and gathering takes a bounded share of the time."""

import asyncio
from typing import cast

import pytest

from engine.base.errors import NotReady
from gateway.services.engine_link import Engine
from gateway.services.feeds.gathered_table import (
    FRESH_MAX_S,
    FRESH_S,
    USABLE_S,
    WAIT_S,
    GatheredTable,
)

pytestmark = pytest.mark.virtual_time
ENGINE = cast(Engine, None)


class Gathering:
    """Tables numbered from 1, each of which takes ``takes_s``; ``fails`` instead."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.begun = 0
        self.fails = False
        self.gathered: GatheredTable[int] = GatheredTable("numbers", self.gather)

    async def gather(self, engine: Engine) -> int:
        self.begun += 1
        number = self.begun
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise NotReady("away")
        return number

    async def timed(self) -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        return await self.gathered.table(ENGINE), loop.time() - began


async def test_requests_share_a_gathering_and_a_fresh_table_needs_none() -> None:
    gathering = Gathering(0.5)
    assert await asyncio.gather(*(gathering.timed() for _ in range(3))) == [(1, 0.5)] * 3
    assert await gathering.timed() == (1, 0.0)
    assert gathering.begun == 1


async def test_a_usable_table_is_answered_while_the_next_one_is_gathered() -> None:
    gathering = Gathering(2.0)
    await gathering.timed()
    await asyncio.sleep(FRESH_MAX_S + 1)
    table, took_s = await gathering.timed()
    assert (table, gathering.begun) == (1, 2)
    assert took_s == pytest.approx(WAIT_S)
    await asyncio.sleep(2)
    assert await gathering.timed() == (2, 0.0)


async def test_a_quick_gathering_is_waited_for() -> None:
    gathering = Gathering(WAIT_S / 2)
    await gathering.timed()
    await asyncio.sleep(FRESH_S + 0.1)
    assert (await gathering.timed())[0] == 2


async def test_a_table_that_is_too_old_is_not_answered() -> None:
    gathering = Gathering(1.0)
    await gathering.timed()
    await asyncio.sleep(USABLE_S + 1)
    assert await gathering.timed() == (2, 1.0)


async def test_a_constant_viewer_causes_a_bounded_share_of_work() -> None:
    gathering = Gathering(0.8)
    for _ in range(100):
        await gathering.timed()
        await asyncio.sleep(1.0)
    assert gathering.begun <= 100 / 8 + 1


async def test_a_forgotten_table_is_not_answered_nor_one_that_was_begun_before() -> None:
    gathering = Gathering(1.0)
    await gathering.timed()
    gathering.gathered.forget()
    request = asyncio.ensure_future(gathering.timed())
    await asyncio.sleep(0.5)
    gathering.gathered.forget()
    assert (await gathering.timed())[0] == 3
    assert (await request)[0] == 3


async def test_a_failure_reaches_those_who_have_no_table_and_the_next_request_tries_again() -> None:
    gathering = Gathering(0.1)
    gathering.fails = True
    for answer in await asyncio.gather(
        *(gathering.timed() for _ in range(2)), return_exceptions=True
    ):
        assert isinstance(answer, NotReady)
    gathering.fails = False
    assert (await gathering.timed())[0] == 2


async def test_a_quick_failure_is_not_hidden_by_the_last_table() -> None:
    gathering = Gathering(WAIT_S / 2)
    await gathering.timed()
    gathering.fails = True
    await asyncio.sleep(FRESH_S + 0.1)
    with pytest.raises(NotReady):
        await gathering.timed()


async def test_a_caller_that_leaves_does_not_end_the_gathering_of_others() -> None:
    gathering = Gathering(1.0)
    leaving = asyncio.ensure_future(gathering.timed())
    staying = asyncio.ensure_future(gathering.timed())
    await asyncio.sleep(0.5)
    leaving.cancel()
    assert (await staying)[0] == 1
