"""A broker in this process and a link to it."""

from collections.abc import AsyncIterator

import pytest

from engine.client.broker_link import BrokerLink
from tests.support.broker_bench import Bench, link_to, served


@pytest.fixture
async def broker() -> AsyncIterator[tuple[Bench, BrokerLink]]:
    async with served() as (bench, _, url):
        link = await link_to(url)
        yield bench, link
        link.close()
