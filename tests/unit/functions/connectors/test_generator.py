"""The generator's numbers have no gap and no repetition over restarts, at its rate."""

import asyncio
import json

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.generator import SETTINGS, GeneratorSource
from engine.functions.connectors.spi import Record
from tests.support.functions.connector_host import FakeContext

pytestmark = pytest.mark.virtual_time


async def opened(context: FakeContext, **settings: object) -> GeneratorSource:
    source = GeneratorSource()
    await source.open(checked(SETTINGS, settings), context)
    return source


async def test_records_are_due_at_the_rate() -> None:
    source = await opened(FakeContext(), rate=10)
    loop = asyncio.get_running_loop()
    began, got = loop.time(), 0
    while got < 31:
        got += len(await source.read())
    assert loop.time() - began == pytest.approx(3.0, abs=0.11)


async def test_it_goes_on_behind_what_was_acknowledged_in_order() -> None:
    context = FakeContext()
    source = await opened(context, rate=1000, count=8, template="{n}")
    records: list[Record] = []
    while len(records) < 8:
        records += await source.read()
    for n in (1, 2, 3, 5):  # 4 is not stored yet
        records[n - 1].ack()
    await source.commit()
    again = await opened(context, rate=1000, count=8, template="{n}")
    rest: list[Record] = []
    while len(rest) < 5:
        rest += await again.read()
    assert [record.value for record in rest] == [b"4", b"5", b"6", b"7", b"8"]
    assert [record.sequence for record in rest] == [4, 5, 6, 7, 8]


async def test_it_waits_behind_its_last_number() -> None:
    source = await opened(FakeContext(), rate=1000, count=1)
    await source.read()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(source.read(), 60)


async def test_values_without_a_template_are_json_with_keys() -> None:
    source = await opened(FakeContext(instance=2), keys=3)
    (record,) = await source.read()
    assert json.loads(record.value) == {"n": 1, "instance": 2, "time": record.event_time_ms}
    assert record.key == "key-1"
