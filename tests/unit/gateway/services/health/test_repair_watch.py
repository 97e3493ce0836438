"""Speed and forecast of the repair of ledgers, by the marks that were read."""

from engine.repair.under_replication import MarkedLedger, UnderReplication
from gateway.services.health.repair_watch import TREND_MS, RepairState, RepairWatch


def state(at: int, ledgers: int, size: int) -> RepairState:
    row = MarkedLedger(1, "", ("b",), 0, size, open=False, worker=None)
    return RepairState(at, True, "a", 60.0, UnderReplication(ledgers, True, [row]), {})


class Watch(RepairWatch):
    def __init__(self) -> None:
        self.changes = 0
        super().__init__(lambda: 0, self._count)

    def _count(self) -> None:
        self.changes += 1

    def saw(self, *states: RepairState) -> None:
        for state in states:
            self._keep(state)


def test_forecast_is_by_the_fall_since_the_most_were_marked() -> None:
    watch = Watch()
    watch.saw(state(0, 100, 1000), state(10_000, 300, 3000))
    assert watch.seconds_left is None, "it still rises"
    watch.saw(state(12_000, 290, 2900))
    assert watch.seconds_left is None, "too short to be measured"
    watch.saw(state(30_000, 200, 2000))
    assert watch.ledgers_per_s == 5
    assert watch.bytes_per_s == 50
    assert watch.seconds_left == 40


def test_forecast_forgets_what_is_long_ago_and_ends_with_the_marks() -> None:
    watch = Watch()
    watch.saw(state(0, 900, 900), state(TREND_MS, 500, 500), state(TREND_MS + 1, 500, 500))
    assert watch.ledgers_per_s is None, "it stands still since"
    watch.saw(state(TREND_MS + 60_000, 0, 0))
    assert watch.seconds_left is None


def test_version_grows_with_changes_alone() -> None:
    watch = Watch()
    watch.saw(state(0, 5, 5), state(1, 5, 5))
    assert (watch.version, watch.changes) == (1, 1)
    watch.saw(state(2, 4, 5))
    assert watch.version == 2
