"""A broker that joins a busy one receives its share of the bundles: reports, plan, calls and moves of real brokers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import LOAD_BALANCE, LOAD_REPORT
from engine.admin.client import AdminClient
from engine.base.names import BundleName, NamespaceName
from engine.broker.service import BrokerService
from engine.ownership.load.report import BundleLoad
from engine.ownership.owner import BundleOwnership
from tests.support.admin.several_brokers import TOKEN, SeveralBrokers

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName("public", "default")


class FakeLoad:
    """Load of a broker: each bundle of NAMESPACE keeps its event loop busy for a fifteenth of the time."""

    def __init__(self, ownership: BundleOwnership) -> None:
        self._ownership = ownership

    def measure(self) -> float:
        return len(self._owned()) / 15

    async def count(self) -> None:
        pass

    def loads(self) -> dict[BundleName, BundleLoad]:
        return {bundle: BundleLoad(100.0, 1e6, 0.0, 0.0, 1, 1, 3) for bundle in self._owned()}

    def _owned(self) -> list[BundleName]:
        return [bundle for bundle in self._ownership.owned() if bundle.namespace == NAMESPACE]


@pytest.fixture
async def brokers() -> AsyncIterator[SeveralBrokers]:
    made = SeveralBrokers(default_number_of_namespace_bundles="10")
    await made.start(1)
    yield made
    await made.close()


def burden(broker: BrokerService) -> FakeLoad:
    load = FakeLoad(broker.running.ownership)
    broker.running.load_reporter._bundles = load
    broker.running.load_reporter._busy = load  # type: ignore[assignment]
    return load


async def test_a_broker_that_joins_receives_half_of_the_load_and_everything_is_explained(
    brokers: SeveralBrokers,
) -> None:
    [first] = brokers.brokers
    for bundle in await first.running.ownership.bundles(NAMESPACE):
        await first.running.ownership.acquire(bundle)
    second = await brokers.add()
    loads = burden(first), burden(second)
    admin = AdminClient(brokers.store, brokers.cluster.network, TOKEN)
    by_id = {broker.id: broker for broker in await admin.brokers()}
    leader = by_id[first.record.id]
    balance = await admin.call_on(leader, LOAD_BALANCE, NoArguments())
    assert (balance["leads"], balance["moves"]) == (False, [])
    # It has no bundle, so the second check that knows its load fills it.
    await asyncio.sleep(150.0)
    assert [len(load.loads()) for load in loads] == [5, 5]
    balance = await admin.call_on(leader, LOAD_BALANCE, NoArguments())
    assert [move["result"] for move in balance["moves"]] == ["moved"] * 5
    assert {(move["source"], move["destination"]) for move in balance["moves"]} == {
        (first.record.id, second.record.id)
    }
    report = await admin.call_on(by_id[second.record.id], LOAD_REPORT, NoArguments())
    assert report["cpu"] == {"usage": pytest.approx(100 / 3, abs=1), "limit": 100.0}
    other = await admin.call_on(by_id[second.record.id], LOAD_BALANCE, NoArguments())
    assert (other["leads"], other["moves"]) == (False, balance["moves"])
    await asyncio.sleep(600.0)
    assert [len(load.loads()) for load in loads] == [5, 5]
    balance = await admin.call_on(leader, LOAD_BALANCE, NoArguments())
    assert balance["skips"][0]["kind"] == "balanced"
    admin.close()
