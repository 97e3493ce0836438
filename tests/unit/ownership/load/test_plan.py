"""The plan of load balance: when bundles move, which, where to, and the reasons when they do not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from engine.base.names import BundleName, NamespaceName
from engine.ownership.load.plan import owners_of, plan, targets
from engine.ownership.load.planned import CLUSTER, Plan, PlanLimits, Recent
from engine.ownership.load.policies import AntiAffinity, PlacementPolicies
from engine.ownership.load.pool import spread_of
from engine.ownership.load.report import BundleLoad, LoadReport, ResourceUsage
from engine.tenancy.resources.isolation import decode_isolation

NAMESPACE = NamespaceName("t", "n")
NOW_MS = 10_000_000
READY = Recent(imbalances=dict.fromkeys("abcdef", 9) | {"a0": 9})
ANYWHERE = PlacementPolicies()


def bundle(number: int, namespace: NamespaceName = NAMESPACE) -> BundleName:
    return BundleName(namespace, number * 16, number * 16 + 16)


def report(broker: str, shares: Sequence[float], first: int = 0, **fields: object) -> LoadReport:
    """Return a report of a broker whose bundles cause these percents of load, 1 MB/s each percent."""
    loads = {
        bundle(first + index): BundleLoad(rate_in=share, bytes_in=share * 1e6, topics=5)
        for index, share in enumerate(shares)
    }
    total = float(sum(shares))
    whole = BundleLoad(rate_in=total, bytes_in=total * 1e6)
    known = LoadReport(
        broker,
        NOW_MS,
        ResourceUsage(total, 100.0),
        total=whole,
        bundles=loads,
        owned=tuple(loads),
        owned_count=len(loads),
    )
    return replace(known, **fields)  # type: ignore[arg-type]


def planned(
    *reports: LoadReport,
    recent: Recent = READY,
    policies: PlacementPolicies = ANYWHERE,
    now_ms: int = NOW_MS,
) -> Plan:
    by_broker = {known.broker_id: known for known in reports}
    return plan(by_broker, owners_of(by_broker), policies, recent, now_ms)


def moves(made: Plan) -> list[tuple[int, str, str]]:
    return [(move.bundle.lower // 16, move.source, move.destination) for move in made.transfers]


def reason(made: Plan, subject: object = CLUSTER) -> str:
    return next(skip.reason for skip in made.skips if skip.subject == str(subject))


BUSY, IDLE = report("a", [30, 20, 20, 10]), report("b", [10], first=100)


def test_half_of_the_difference_moves_from_the_busiest_to_the_idlest_broker() -> None:
    made = planned(BUSY, IDLE)
    assert moves(made) == [(0, "a", "b")]
    assert "load 80.0 % of a, 10.0 % of b; the bundle causes 30.0 %" in made.transfers[0].reason
    assert made.recent == Recent({bundle(0): NOW_MS}, cycle_ms=NOW_MS)


def test_only_an_imbalance_that_lasts_moves_bundles() -> None:
    recent = Recent()
    for check in (1, 2):
        made = planned(BUSY, IDLE, recent=recent)
        assert not made.transfers
        assert f"imbalance found {check} times, acts at 3" in reason(made)
        recent = made.recent
    assert planned(BUSY, BUSY, recent=recent).recent.imbalances == {}
    assert planned(BUSY, IDLE, recent=recent).transfers


def test_balanced_loads_are_left_alone() -> None:
    made = planned(report("a", [40]), report("b", [30], first=100))
    assert not made.transfers
    assert "balanced: standard deviation of loads 0.05, limit 0.25" in reason(made)


def test_a_broker_without_bundles_gets_some_although_the_spread_is_small() -> None:
    loads = [report(name, [8, 8, 8, 8], first=100 * at) for at, name in enumerate("acd")]
    made = planned(*loads, report("b", []))
    assert {move.destination for move in made.transfers} == {"b"}
    assert spread_of(load or 0.0 for load in made.loads.values()) == made.spread


def test_a_broker_without_a_bundle_is_filled_at_the_second_check_and_nothing_else_moves() -> None:
    loads = [report("a", [20] * 4), report("c", [5], first=100), report("b", [], first=200)]
    first = planned(*loads, recent=Recent())
    assert not first.transfers
    once = first.recent
    made = planned(*loads, recent=once)
    assert moves(made) == [(0, "a", "b"), (1, "a", "b")]
    # ``c`` is idle, too, and waits for the checks that show whether that lasts.
    waiting = planned(*loads[:2], recent=once)
    assert not waiting.transfers
    assert "imbalance found 2 times, acts at 3" in reason(waiting)
    often = replace(once, fills={"b": (NOW_MS - 60_000, NOW_MS - 600_000)})
    assert "imbalance found 2 times, acts at 3" in reason(planned(*loads, recent=often))
    former = replace(once, fills={"b": (NOW_MS - 60_000, NOW_MS - 1_900_000)})
    assert planned(*loads, recent=former).transfers
    soon = replace(once, cycle_ms=NOW_MS - 100_000)
    assert "quiet for 80 s more" in reason(planned(*loads, recent=soon))


def test_a_bundle_returns_to_the_broker_that_has_lost_it_by_its_end_and_to_no_other() -> None:
    moved = {bundle(number): NOW_MS - 300_000 for number in range(4)}
    loads = [report("a", [20] * 4), report("c", [30], first=100), report("b", [], first=200)]
    homes = {bundle(0): "b", bundle(1): "c", bundle(2): "gone", bundle(3): "a"}
    made = planned(*loads, recent=replace(READY, moved=moved, homes=homes))
    assert moves(made) == [(0, "a", "b")]
    for number in (2, 3):
        assert "moved 300 s ago, not again" in reason(made, bundle(number))
    assert not planned(*loads, recent=replace(READY, moved=moved)).transfers, (
        "a move that was not done"
    )


def test_brokers_that_do_next_to_nothing_are_balanced() -> None:
    quiet = planned(report("a", [2, 1]), report("b", [0.5], first=100), report("c", [1], first=200))
    assert "balanced" in reason(quiet)
    assert "balanced" in reason(planned(report("a", []), report("b", [])))


def test_no_second_cycle_and_no_second_move_of_a_bundle_in_their_quiet_times() -> None:
    first = planned(BUSY, IDLE)
    soon = replace(first.recent, imbalances=READY.imbalances)
    made = planned(BUSY, IDLE, recent=soon, now_ms=NOW_MS + 179_000)
    assert not made.transfers
    assert "quiet for 1 s more after the last moves" in reason(made)
    made = planned(BUSY, IDLE, recent=soon, now_ms=NOW_MS + 181_000)
    assert bundle(0) not in [move.bundle for move in made.transfers]
    assert "moved 181 s ago, not again for 1800 s" in reason(made, bundle(0))
    made = planned(BUSY, IDLE, recent=soon, now_ms=NOW_MS + 1_800_001)
    assert not made.transfers  # all reports are too old by then
    late = {known.broker_id: replace(known, updated_ms=NOW_MS * 2) for known in (BUSY, IDLE)}
    assert moves(plan(late, owners_of(late), ANYWHERE, soon, NOW_MS * 2)) == [(0, "a", "b")]


def test_a_move_that_is_not_worth_its_interruption_is_not_made() -> None:
    quiet = replace(
        report("a", [3, 3]),
        total=BundleLoad(rate_in=6),
        bundles={bundle(0): BundleLoad(rate_in=3, topics=2)},
    )
    made = planned(quiet, report("b", [0], first=100))
    assert not made.transfers
    assert "not worth it: 1 bundles with 3.0 % of load and 0.0 MB/s could move" in reason(made, "a")
    assert "at least 5.0 % or 10 MB/s are needed" in reason(made, "a")


def test_a_broker_without_a_bundle_receives_also_a_little() -> None:
    small = replace(
        report("a", []),
        cpu=ResourceUsage(9, 100.0),
        bundles={bundle(i): BundleLoad(rate_in=1.5, topics=2) for i in range(6)},
        total=BundleLoad(rate_in=9.0),
        owned=tuple(bundle(i) for i in range(6)),
        owned_count=6,
    )
    own = BundleName(NamespaceName("pulsar", "b:8080", "standalone"), 0, 0xFFFFFFFF)
    came_back = replace(report("b", []), owned=(own,), owned_count=1)
    made = planned(small, came_back)
    assert {move.destination for move in made.transfers} == {"b"}
    assert len(made.transfers) == 3
    used = planned(small, report("b", [0.1], first=200))
    assert "not worth it" in reason(used, "a")


class OnlyPlace(PlacementPolicies):
    """Policies that let the bundle 0 move to ``c`` alone."""

    def preferred(self, bundle_: BundleName, broker_ids: Collection[str]) -> list[str]:
        return ["c"] if bundle_ == bundle(0) else list(broker_ids)


def test_a_bundle_too_large_for_its_only_destination_stays_while_others_can_move() -> None:
    made = planned(
        report("a", [9, 8, 7, 6, 5, 5, 5, 5, 5, 5, 5]),
        report("b", []),
        report("c", [52], first=200),
        policies=OnlyPlace(),
    )
    assert {move.destination for move in made.transfers} == {"b"}
    assert 0 not in [number for number, _, _ in moves(made)]


def test_a_bundle_that_would_only_move_the_problem_stays_and_says_what_helps() -> None:
    hot = {
        bundle(0): BundleLoad(rate_in=90, bytes_in=9e7, topics=3, hot_topic="persistent://t/n/x")
    }
    made = planned(report("a", [90], bundles=hot), report("b", []))
    assert not made.transfers
    assert "against persistent://t/n/x: give the topic partitions" in reason(made, bundle(0))
    made = planned(report("a", [90]), report("b", []))
    assert "a split of the bundle would help" in reason(made, bundle(0))


def test_one_large_bundle_moves_when_that_helps() -> None:
    made = planned(
        report("a", [45, 40]), report("b", [10], first=100), report("c", [12], first=200)
    )
    assert moves(made) == [(1, "a", "b")]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cpu": None, "faults": ("cpu is nan",)}, "its load is unknown (cpu is nan)"),
        ({"updated_ms": None}, "its report has no time"),
        ({"updated_ms": NOW_MS - 1_800_001}, "its report is 1800 s old"),
        ({"updated_ms": NOW_MS + 61_000}, "its clock is 61 s ahead of the leader's"),
    ],
)
def test_a_broker_with_an_unusable_report_takes_no_part(
    fields: Mapping[str, object], why: str
) -> None:
    strange = report("c", [95], first=200, **fields)
    made = planned(BUSY, IDLE, strange)
    assert moves(made) == [(0, "a", "b")]
    assert why in reason(made, "c")
    assert made.loads["c"] is None
    other = replace(strange, broker_id="d")
    made = planned(BUSY, strange, other, replace(other, broker_id="e"))
    assert not made.transfers
    assert "no decision: 1 of 4 brokers can take part" in reason(made)


def test_isolation_and_excluded_brokers_are_respected() -> None:
    isolation = decode_isolation(
        b'{"p":{"namespaces":["t/n"],"primary":["a","c"],"secondary":[],'
        b'"auto_failover_policy":{"policy_type":"min_available","parameters":{"min_limit":"1","usage_threshold":"90"}}}}',
        "/p",
    )
    third = report("c", [20], first=200)
    made = planned(BUSY, IDLE, third, policies=PlacementPolicies(isolation))
    assert {move.destination for move in made.transfers} == {"c"}
    made = planned(BUSY, IDLE, policies=PlacementPolicies(isolation))
    assert not made.transfers
    assert "isolation policies let no other broker relieve it" in reason(made, "a")
    made = planned(BUSY, IDLE, third, policies=PlacementPolicies(excluded={"b": "it drains"}))
    assert {move.destination for move in made.transfers} == {"c"}
    assert "takes no part: it drains" in reason(made, "b")


def test_an_idle_broker_that_may_not_serve_a_bundle_moves_it_to_no_other() -> None:
    isolation = decode_isolation(
        b'{"p":{"namespaces":["x/y"],"primary":["b"],"secondary":[],'
        b'"auto_failover_policy":{"policy_type":"min_available","parameters":{"min_limit":"1","usage_threshold":"90"}}}}',
        "/p",
    )
    others = report("a", [10, 10, 10, 10]), report("c", [10, 10], first=100)
    made = planned(*others, report("b", []), policies=PlacementPolicies(isolation))
    assert not made.transfers
    assert "isolation policies let no other broker relieve it" in reason(made, "b")
    assert "balanced" in reason(made, "a, c")


def test_an_anti_affinity_group_keeps_a_namespace_on_its_brokers() -> None:
    policies = PlacementPolicies(groups={NAMESPACE: AntiAffinity("g", ("t/m", "t/n"))})
    (allowed,) = policies.preferred(bundle(0), ["a", "b"])
    other = "b" if allowed == "a" else "a"
    busy, idle = replace(BUSY, broker_id=other), replace(IDLE, broker_id=allowed)
    assert {move.destination for move in planned(busy, idle, policies=policies).transfers} == {
        allowed
    }
    busy, idle = replace(BUSY, broker_id=allowed), replace(IDLE, broker_id=other)
    assert not planned(busy, idle, policies=policies).transfers


def test_bundles_of_others_and_of_the_system_stay() -> None:
    system = NamespaceName("pulsar", "system")
    heartbeat = NamespaceName("pulsar", "a:1", "c")
    loads = {
        BundleName(namespace, 0, 16): BundleLoad(rate_in=40, bytes_in=4e7)
        for namespace in (system, heartbeat)
    }
    assert not planned(report("a", [80], bundles=loads, owned=tuple(loads)), IDLE).transfers
    newer = replace(IDLE, owned=(*IDLE.owned, *BUSY.owned), updated_ms=NOW_MS + 1)
    assert not planned(BUSY, newer).transfers


def test_at_most_three_brokers_give_in_a_cycle() -> None:
    busy = [report(f"a{at}", [20, 20, 20, 20], first=100 * at) for at in range(5)]
    idle = [report(f"b{at}", [], first=100 * at) for at in range(5)]
    made = planned(*busy, *idle)
    assert len({move.source for move in made.transfers}) == PlanLimits().sources_max


def test_the_bundles_of_a_broker_that_leaves_are_spread_by_load() -> None:
    leaving = report("a", [40, 10, 10, 10, 10])
    others = {
        known.broker_id: known for known in (report("b", []), report("c", []), report("d", []))
    }
    reports = {"a": leaving, **others}
    chosen = targets(leaving.owned, "a", reports, ANYWHERE)
    assert set(chosen) == set(leaving.owned)
    heavy = chosen[bundle(0)]
    assert [destination for destination in chosen.values() if destination == heavy] == [heavy]
    excluded = PlacementPolicies(excluded={"b": "x", "c": "x", "d": "x"})
    assert targets(leaving.owned, "a", reports, excluded) == {}


def test_targets_of_brokers_with_unknown_load_are_those_of_the_hash() -> None:
    reports = {name: LoadReport(name) for name in "abcd"}
    bundles = [bundle(number) for number in range(300)]
    chosen = targets(bundles, "a", reports, ANYWHERE)
    counts = [list(chosen.values()).count(name) for name in "bcd"]
    assert min(counts) > 70
