"""Tests of the bound of bytes per second."""

import asyncio

import pytest

from engine.base.measures.byte_rate import ByteRate

pytestmark = pytest.mark.virtual_time


async def test_a_rate_bounds_the_bytes_of_all_copies() -> None:
    rate = ByteRate(1000)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(rate.take(1000) for _ in range(6)))
    await rate.take(1)
    assert 5.9 < asyncio.get_running_loop().time() - began < 6.2


async def test_without_a_bound_nothing_waits() -> None:
    began = asyncio.get_running_loop().time()
    await ByteRate(0).take(1 << 40)
    assert asyncio.get_running_loop().time() == began
