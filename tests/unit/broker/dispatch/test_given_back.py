"""What one consumer holds is not another's to give back: it would be out at two (D4)."""

import asyncio

from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated


@simulated
async def test_what_another_consumer_holds_goes_out_to_nobody_else() -> None:
    reading, holding, giving = Reading(DataPathSettings()), Client(), Client()
    await reading.join(holding, 1000)
    reading.publish(5)
    await asyncio.sleep(1)
    assert len(holding.received) == 5
    other = await reading.join(giving, 1000)
    reading.subscription.redeliver(other, list(holding.received), None)
    await asyncio.sleep(1)
    assert giving.received == []
    assert len(holding.received) == 5
