"""A spread of seeds, the proof that a seed repeats its run, and planted mistakes that must be detected.

A seed names a run of one version of the simulator and of the code. Therefore a fault that was found once is kept as a
planted mistake (``plants/found.py``), to be detected within the first seeds, and not as a seed's number.
"""

import multiprocessing
import random
from dataclasses import replace

import pytest

from tests.sim import bugs
from tests.sim.kit.play import Result
from tests.sim.kit.scenario import Scenario, play_scenario
from tests.sim.run import Play, differing, play_one
from tests.sim.scenarios import TURNS, days

pytestmark = pytest.mark.timeout(300)  # of wall time; a seed takes a third of a second of a CPU

SEEN_SOON = (
    "ack-before-fsync",
    "entry-log-not-synced",
    "fence-not-durable",
    "replay-drops-the-last-record",
    "recovery-without-fence",
    "fenced-writer-continues",
    "ensemble-change-at-the-wrong-entry",
    "set-without-compare",
    "named-before-the-copy-is-durable",
    "bookies-away-are-not-asked-about",
    "ack-confirmed-before-persisted",
    "trimmed-by-the-unpersisted-mark",
    "reset-answered-before-durable",
    "unconfirmed-entries-delivered",
    "unordered-confirmation",
    "session-timer-spins",
    "partitions-grow-without-subscriptions",
    "partial-acknowledgements-wake-nobody",
    "watch-is-lost-at-a-reconnect",
    "version-is-skipped-by-a-replay",
    "passed-when-sent",
    "copy-counts-before-it-is-read-back",
    "objects-go-before-the-record-does",
)
"""Mistakes that a few seeds sufficed for; ``make bugs`` hunts all of them."""
SOON = 40


def run(play: Play) -> Result:
    """Play in a process of its own: tasks killed while they ran must not be freed in this one."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(play_one, (play,))


@pytest.mark.parametrize("workload", dict.fromkeys(TURNS))
@pytest.mark.parametrize("seed", range(101, 103))
def test_promises_hold(workload: str, seed: int) -> None:
    result = run(Play(workload, seed))
    assert result.violations == []
    assert sum(result.counts.values()) > 50


def test_promises_hold_over_three_hundred_seconds_with_little_traffic() -> None:
    result = run(Play("light", 1))
    assert result.violations == []
    assert result.simulated_s > 300
    assert result.counts["confirmed"] > 0


def two_days(rng: random.Random) -> Scenario:
    return replace(days(rng), duration_s=172_800.0)


def test_all_copies_are_there_in_time_after_each_loss_of_two_days() -> None:
    """``--workload days`` plays ten of them."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        result = pool.apply(play_scenario, (two_days, 1))
    assert result.violations == []
    assert result.counts["losses repaired in time"] > 2


def test_a_seed_repeats_its_run_under_any_hash_seed_and_after_any_run() -> None:
    plays = [Play(workload, seed) for workload in dict.fromkeys(TURNS) for seed in (7, 8)]
    assert differing([*plays, Play("light", 1)]) == []


@pytest.mark.parametrize("name", SEEN_SOON)
def test_a_mistake_is_detected_within_forty_seeds(name: str) -> None:
    caught = bugs.hunt(name, SOON, jobs=1)
    assert caught.invariant is not None, f"{SOON} seeds found nothing"
