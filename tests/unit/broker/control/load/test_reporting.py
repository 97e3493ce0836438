"""Load reports: the measured share of time, when a report is written, and sessions that end meanwhile."""

import json
from dataclasses import replace

import pytest

from engine.base.names import BundleName, NamespaceName
from engine.broker.control.load.reporting import BusyShare, LoadReporter
from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import StoreUnavailableError
from engine.ownership.load.report import BundleLoad, LoadReport, decode_report
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.registration import BrokerRecord, BrokerRegistration
from tests.support.waiting import until

RECORD = BrokerRecord("b:1", "pulsar://b:2", "http://b:1", 5, "4.0.8")
PATH = "/loadbalance/brokers/b:1"
BUNDLES = [BundleName(NamespaceName("t", "n"), at, at + 1) for at in range(20)]


class FakeLoop:
    """Time of an event loop, and clocks derived from it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waited_s = 0.0

    def run(self, seconds: float, busy: float) -> None:
        self.now_s += seconds
        self.waited_s += seconds * (1 - busy)

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


class FakeBundles:
    """Bundles with loads that a test sets."""

    def __init__(self) -> None:
        self.by_bundle: dict[BundleName, BundleLoad] = {}
        self.counts = 0

    async def count(self) -> None:
        self.counts += 1

    def loads(self) -> dict[BundleName, BundleLoad]:
        return dict(self.by_bundle)


class Bench:
    """A reporter on a store in memory, with a clock that a test moves."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.store = server.session()
        self.loop, self.bundles = FakeLoop(), FakeBundles()
        self.settings = LoadBalanceSettings()
        self.registration = BrokerRegistration(self.store, RECORD)
        busy = BusyShare(lambda: self.loop.waited_s, self.loop.monotonic_s)
        self.reporter = LoadReporter(
            self.registration, self.bundles, busy, self.loop, lambda: self.settings
        )

    async def check(self, seconds: float = 5.0, busy: float = 0.0) -> int:
        """Let time pass and check; return the number of reports written so far."""
        self.loop.run(seconds, busy)
        await self.reporter.check()
        return await self.version()

    async def version(self) -> int:
        _, stat = await self.store.get(PATH)
        return stat.version

    async def stored(self) -> LoadReport:
        value, _ = await self.store.get(PATH)
        assert BrokerRecord.decode(RECORD.id, value) == RECORD
        return decode_report(RECORD.id, value)


@pytest.fixture
async def bench() -> Bench:
    made = Bench(MemoryServer())
    await made.registration.renew()
    return made


def test_the_share_is_that_of_the_time_in_which_the_loop_did_not_wait() -> None:
    loop = FakeLoop()
    busy = BusyShare(lambda: loop.waited_s, loop.monotonic_s)
    assert busy.measure() is None
    loop.run(5, 0.8)
    assert busy.measure() == pytest.approx(0.8)
    loop.run(30, 0.2)
    assert busy.measure() == pytest.approx(0.2 + 0.6 / 2.718, abs=1e-3)
    for _ in range(100):
        loop.run(5, 1.0)
        share = busy.measure()
    assert share == pytest.approx(1.0)
    loop.waited_s += 1e9
    loop.now_s += 5
    assert 0.0 <= (busy.measure() or -1.0) <= 1.0
    assert BusyShare(lambda: None, loop.monotonic_s).measure() is None


async def test_a_registration_knows_no_load_and_the_first_report_has_it(bench: Bench) -> None:
    assert (await bench.stored()).usage is None
    bench.bundles.by_bundle = {BUNDLES[0]: BundleLoad(5.0, 500.0, 2.0, 200.0, 1, 1, 1)}
    await bench.check()
    assert (await bench.stored()).usage is None
    await bench.check(busy=0.4)
    report = await bench.stored()
    assert report.usage == pytest.approx(0.4)
    assert (report.bandwidth_in, report.owned, report.ours) == (None, (BUNDLES[0],), True)
    assert report.total == BundleLoad(5.0, 500.0, 2.0, 200.0, 1, 1, 1)


async def test_small_changes_are_written_after_fifteen_minutes_only(bench: Bench) -> None:
    await bench.check()
    before = await bench.check(busy=0.5)
    for _ in range(170):
        assert await bench.check(busy=0.52) == before
    for _ in range(12):
        after = await bench.check(busy=0.52)
    assert after == before + 1
    assert await bench.check(seconds=60, busy=0.7) == after + 1
    assert bench.bundles.counts > 10


async def test_bundles_that_come_and_go_are_written_at_once_with_gains_and_losses(
    bench: Bench,
) -> None:
    idle = BundleLoad()
    bench.bundles.by_bundle = {BUNDLES[0]: idle, BUNDLES[1]: idle}
    before = await bench.check()
    bench.bundles.by_bundle = {BUNDLES[1]: idle, BUNDLES[2]: idle}
    assert await bench.check() == before + 1
    report = await bench.stored()
    assert (report.gains, report.losses) == ((BUNDLES[2],), (BUNDLES[0],))
    assert await bench.check() == before + 1
    assert await bench.check(busy=0.9) == before + 2
    assert (await bench.stored()).gains == ()


async def test_topics_are_counted_each_minute_and_when_bundles_have_come(bench: Bench) -> None:
    await bench.check()
    await bench.check()
    assert bench.bundles.counts == 1
    bench.bundles.by_bundle = {BUNDLES[0]: BundleLoad()}
    await bench.check()
    assert bench.bundles.counts == 2
    for _ in range(12):
        await bench.check()
    assert bench.bundles.counts == 3


async def test_apaches_part_has_the_bundles_with_most_load_and_all_are_known_to_our_brokers(
    bench: Bench,
) -> None:
    bench.bundles.by_bundle = {
        bundle: BundleLoad(rate_in=100.0 - at, hot_topic="persistent://t/n/x")
        for at, bundle in enumerate(BUNDLES)
    }
    await bench.check()
    report = await bench.stored()
    stored = json.loads((await bench.store.get(PATH))[0])
    assert list(stored["lastStats"]) == [str(bundle) for bundle in BUNDLES[:10]]
    assert report.bundles == bench.bundles.by_bundle
    assert {load.hot_topic for load in report.bundles.values()} == {"persistent://t/n/x"}
    assert (report.owned, report.owned_count) == (tuple(sorted(BUNDLES, key=str)), 20)


async def test_the_bandwidth_is_known_when_the_speed_of_the_network_is_set(bench: Bench) -> None:
    bench.settings = replace(bench.settings, load_balancer_override_broker_nic_speed_gbps=1.0)
    bench.bundles.by_bundle = {BUNDLES[0]: BundleLoad(bytes_in=62.5e6)}
    await bench.check()
    await bench.check(busy=0.1)
    report = await bench.stored()
    assert report.bandwidth_in is not None
    assert report.bandwidth_in.share == pytest.approx(0.5)
    assert report.usage == pytest.approx(0.5)


async def test_a_report_whose_answer_was_lost_is_written_again(bench: Bench) -> None:
    await bench.check()
    bench.bundles.by_bundle = {BUNDLES[0]: BundleLoad()}
    bench.server.on_call = lambda session, operation, path: (
        Fault(lose_reply=True) if operation == "put" else None
    )
    bench.loop.run(5, 0.0)
    with pytest.raises(StoreUnavailableError):
        await bench.reporter.check()
    bench.server.on_call = None
    version = await bench.version()
    assert await bench.check() == version + 1
    assert (await bench.stored()).gains == (BUNDLES[0],)


async def test_after_the_end_of_a_session_the_next_registration_has_the_load(bench: Bench) -> None:
    await bench.check()
    await bench.check(busy=0.5)
    former = bench.store.session_id
    bench.server.expire(former)
    await until(lambda: bench.store.session_id != former)
    bench.bundles.by_bundle = {BUNDLES[0]: BundleLoad()}
    bench.loop.run(5, 0.5)
    await bench.reporter.check()
    assert await bench.store.exists(PATH) is None
    await bench.registration.renew()
    report = await bench.stored()
    assert (report.owned, report.usage) == ((BUNDLES[0],), pytest.approx(0.5))
    assert await bench.check(busy=0.5) == 1


async def test_the_leader_is_the_holder_of_the_node_under_its_present_session(bench: Bench) -> None:
    other = BrokerRegistration(bench.server.session(), replace(RECORD, id="c:1"))
    await other.renew()
    assert await bench.registration.leads()
    assert not await other.leads()
    former = bench.store.session_id
    bench.server.expire(former)
    await other.stand()
    assert await other.leads()
    await until(lambda: bench.store.session_id != former)
    assert not await bench.registration.leads()
