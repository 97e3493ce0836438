"""The leader of load balance: only the holder of the leader's node moves bundles, and says why it moves none."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from engine.base.errors import Conflict
from engine.base.names import BundleName, NamespaceName
from engine.broker.control.load import leader as module
from engine.broker.control.load.leader import LoadLeader
from engine.metadata.memory import MemoryServer
from engine.ownership.load.planned import Transfer
from engine.ownership.load.recent_moves import RecentMoves
from engine.ownership.load.report import BundleLoad, LoadReport, ResourceUsage
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.registration import BrokerRecord, BrokerRegistration
from tests.support.waiting import until

MOVES = "/loadbalance/moves"
LEADER = "/loadbalance/leader"
NAMESPACE = NamespaceName("t", "n")


class FakeClock:
    """Wall clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.now_ms / 1000


class Bench:
    """Brokers ``a:1`` (busy, with ten bundles) and ``b:1`` (idle, with one), each with a leader of its own; ``a:1``
    leads."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.clock = FakeClock()
        self.settings = LoadBalanceSettings()
        self.asked: list[Transfer] = []
        self.answer: Callable[[Transfer], Awaitable[str]] = self._moved
        self.registrations: dict[str, BrokerRegistration] = {}
        self.leaders: dict[str, LoadLeader] = {}
        for name in ("a:1", "b:1"):
            store = self.server.session()
            record = BrokerRecord(name, f"pulsar://{name}", f"http://{name}", 5, "4.0.8")
            registration = self.registrations[name] = BrokerRegistration(store, record)
            self.leaders[name] = LoadLeader(
                store, registration, "c", self.clock, lambda: self.settings, self._ask
            )

    async def _ask(self, transfer: Transfer) -> str:
        self.asked.append(transfer)
        return await self.answer(transfer)

    async def _moved(self, transfer: Transfer) -> str:
        return "moved"

    async def start(self) -> None:
        for registration in self.registrations.values():
            await registration.renew()
        await self.report()

    async def report(self) -> None:
        shares = {"a:1": [8.0] * 10, "b:1": [0.0]}
        for name, registration in self.registrations.items():
            first = 100 * ("a:1", "b:1").index(name)
            loads = {
                BundleName(NAMESPACE, first + at, first + at + 1): BundleLoad(rate_in=share)
                for at, share in enumerate(shares[name])
            }
            total = sum(shares[name])
            await registration.report(
                LoadReport(
                    name,
                    self.clock.now_ms,
                    ResourceUsage(total, 100.0),
                    total=BundleLoad(rate_in=total),
                    bundles=loads,
                    owned=tuple(loads),
                    owned_count=len(loads),
                )
            )

    async def checks(self, count: int, name: str = "a:1") -> LoadLeader:
        leader = self.leaders[name]
        for _ in range(count):
            self.clock.now_ms += 60_000
            await leader.check()
        return leader

    async def stored(self) -> RecentMoves:
        return RecentMoves.decode((await self.server.session().get(MOVES))[0])

    def reason(self, subject: str, name: str = "a:1") -> str:
        skips = self.leaders[name].balance.skips
        return next((skip.reason for skip in skips if skip.subject == subject), "")


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.start()
    return made


async def test_the_leader_moves_bundles_at_the_third_check_and_records_the_results(
    bench: Bench,
) -> None:
    await bench.checks(2)
    assert not bench.asked
    assert "imbalance found 2 times" in bench.reason("cluster")
    leader = await bench.checks(1)
    assert len(bench.asked) == 5
    assert {(move.source, move.destination) for move in bench.asked} == {("a:1", "b:1")}
    assert set(leader.balance.results.values()) == {"moved"}
    record = await bench.stored()
    assert (record.leader, record.cycle_ms) == ("a:1", bench.clock.now_ms)
    assert [move.result for move in record.moves] == ["moved"] * 5
    await bench.checks(2)
    assert len(bench.asked) == 5


async def test_another_broker_than_the_leader_plans_nothing(bench: Bench) -> None:
    leader = await bench.checks(5, "b:1")
    assert (bench.asked, leader.balance.leads, leader.balance.plan) == ([], False, None)


async def test_the_next_leader_knows_the_moves_of_the_former_one(bench: Bench) -> None:
    async def unloaded(transfer: Transfer) -> str:
        return "unloaded only: the destination failed"

    bench.answer = unloaded
    bench.settings = replace(bench.settings, load_balance_shedding_delay_in_seconds=240)
    await bench.checks(3)
    moved = {move.bundle for move in bench.asked}
    former = bench.registrations["a:1"]._store.session_id
    bench.server.expire(former)
    await bench.registrations["b:1"].stand()
    await until(lambda: bench.registrations["a:1"]._store.session_id != former)
    await bench.registrations["a:1"].renew()
    await bench.report()  # the bundles have not moved after all
    bench.asked.clear()
    await bench.checks(3, "b:1")
    assert not bench.asked
    assert "quiet for" in bench.reason("cluster", "b:1")
    await bench.checks(1, "b:1")
    assert bench.asked
    assert not moved & {move.bundle for move in bench.asked}


async def test_a_bundle_that_a_restarted_broker_lost_may_move_there_again(bench: Bench) -> None:
    bench.settings = replace(bench.settings, load_balancer_shedding_condition_hit_count_threshold=1)
    await bench.checks(1)
    moved = {move.bundle for move in bench.asked}
    recent = (await bench.stored()).recent({})
    assert recent.homes == dict.fromkeys(moved, "b:1")
    assert recent.fills == {"b:1": (bench.clock.now_ms,)}
    bench.asked.clear()
    # The report of ``a:1`` lists them again: ``b:1`` was stopped meanwhile.
    await bench.report()
    await bench.checks(4)
    assert {move.destination for move in bench.asked} == {"b:1"}
    assert moved & {move.bundle for move in bench.asked}


async def test_a_leader_that_is_replaced_between_two_moves_asks_for_no_more(bench: Bench) -> None:
    async def replaced(transfer: Transfer) -> str:
        await bench.server.session().delete(LEADER)
        await bench.registrations["b:1"].stand()
        return "moved"

    bench.answer = replaced
    leader = await bench.checks(3)
    assert len(bench.asked) == 1
    assert list(leader.balance.results.values()).count(module.STOPPED) == 4


async def test_a_leader_whose_record_was_replaced_moves_nothing(bench: Bench) -> None:
    await bench.checks(2)
    read = bench.leaders["a:1"]._read_moves

    async def read_and_lose() -> tuple[RecentMoves, int | None]:
        answer = await read()
        await bench.server.session().create(MOVES, RecentMoves("b:1", 1).encode())
        return answer

    bench.leaders["a:1"]._read_moves = read_and_lose  # type: ignore[method-assign]
    await bench.checks(1)
    assert not bench.asked
    assert (await bench.stored()).leader == "b:1"


async def test_a_refused_move_and_one_without_an_answer_are_results_and_nothing_comes_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOVE_DEADLINE_S", 0.01)
    late = asyncio.Event()

    async def answer(transfer: Transfer) -> str:
        if len(bench.asked) == 1:
            raise Conflict("it is not the owner")
        await late.wait()
        return "moved"

    bench.answer = answer
    leader = await bench.checks(3)
    results = list(leader.balance.results.values())
    assert results[:2] == ["refused: it is not the owner", module.UNKNOWN]
    late.set()
    await asyncio.sleep(0)
    assert list(leader.balance.results.values()) == results
    assert [move.result for move in (await bench.stored()).moves] == results


async def test_switched_off_it_says_which_setting_is_false(bench: Bench) -> None:
    bench.settings = replace(bench.settings, load_balancer_shedding_enabled=False)
    await bench.checks(5)
    assert not bench.asked
    assert bench.reason("cluster") == "loadBalancerSheddingEnabled is false: no bundle is moved"
    bench.settings = replace(bench.settings, load_balancer_enabled=False)
    await bench.checks(1)
    assert "loadBalancerEnabled is false" in bench.reason("cluster")


async def test_a_reason_is_logged_once_while_it_lasts(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.settings = replace(
        bench.settings, load_balancer_shedding_condition_hit_count_threshold=100
    )
    with caplog.at_level("INFO"):
        await bench.checks(5)
    assert caplog.text.count("not moved") == 1


async def test_brokers_of_apache_pulsar_take_no_part(bench: Bench) -> None:
    store = bench.server.session()
    value, stat = await store.get("/loadbalance/brokers/b:1")
    await store.put(
        "/loadbalance/brokers/b:1", value.replace(b"adminRpcUrl", b"other"), stat.version
    )
    await bench.checks(5)
    assert not bench.asked
    assert "it is a broker of Apache Pulsar" in bench.reason("b:1")


async def test_an_unreadable_record_is_replaced_and_begins_a_quiet_time(bench: Bench) -> None:
    await bench.server.session().create(MOVES, b'{"moves":[{}]}')
    await bench.checks(3)
    assert not bench.asked
    assert "quiet for" in bench.reason("cluster")
    await bench.checks(1)
    assert bench.asked
