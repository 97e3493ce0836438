"""A timer reports the keys that are due, in order, and none that was discarded."""

import asyncio

import pytest

from engine.client.consuming.delays import TICK_S, Delays

pytestmark = pytest.mark.virtual_time


async def test_added_messages_are_due_after_the_delay_in_order() -> None:
    due: list[tuple[float, list[str]]] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    delays = Delays[str](3.0, lambda keys: due.append((round(loop.time() - began, 2), keys)))
    delays.add("a")
    await asyncio.sleep(0.01)
    delays.add("b")
    delays.add("gone")
    await asyncio.sleep(1.0)
    delays.add("c")
    delays.add("a")  # its delay starts again
    delays.discard("gone")
    await asyncio.sleep(10.0)
    assert not len(delays)
    delays.add("d")
    delays.add("e")
    delays.keep(lambda key: key != "d")
    await asyncio.sleep(4.0)
    delays.add("never")
    delays.close()
    await asyncio.sleep(4.0)
    assert due == [(3.0, ["b"]), (4.01, ["c", "a"]), (14.01, ["e"])]


async def test_no_delay_is_a_short_one() -> None:
    due: list[list[int]] = []
    delays = Delays[int](0.0, due.append)
    delays.add(1)
    await asyncio.sleep(TICK_S / 2)
    assert due == []
    await asyncio.sleep(TICK_S)
    assert due == [[1]]


async def test_all_can_be_due_at_once() -> None:
    due: list[list[str]] = []
    delays: Delays[str] = Delays(3600.0, due.append)
    delays.expire_all()
    for key in ("a", "b"):
        delays.add(key)
    delays.expire_all()
    assert due == [["a", "b"]]
    assert len(delays) == 0
    delays.add("c")
    assert delays._timer is not None
    delays.close()
