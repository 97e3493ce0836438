"""Seeds that once found a bug, a spread of others, and the proof that a seed repeats its run and a mistake is found."""

import multiprocessing

import pytest

from tests.sim import plants
from tests.sim.run import differing
from tests.sim.scenario import Result, run_seed

# A seed names a run of one version of the simulator: after a change here, take the fix back, search anew, and keep
# the seed that finds it.
FOUND = {
    # A ledger whose bookie died while it entered the topic's list was used for ever: every append failed.
    "a_ledger_that_fails_while_it_is_listed": 12,
    # The answer to taking a bundle was lost: the broker sent its clients to itself and refused them, for ever.
    "a_bundle_taken_without_hearing_so": 31,
    # A check of ownership died of a store that did not answer, and nobody looked again.
    "ownership_looks_again_after_the_store_failed": 4,
    # The metadata session's timer span without time passing, just before the session had to be given up.
    "a_session_timer_that_does_not_spin": 2,
    # A ledger failed while the topic's cursors were being loaded: all ledgers were trimmed, with unread messages.
    "nothing_is_trimmed_before_cursors_are_known": 1258,
    # Detaching the first consumer of a lost topic read from its dead cursor: the others were never sent away.
    "consumers_of_a_lost_topic_are_sent_away": 3,
}


def _run(work: tuple[int, str | None]) -> Result:
    seed, plant = work
    with plants.planted(plant):
        return run_seed(seed)


def run(seed: int, plant: str | None = None) -> Result:
    """In a process of its own: tasks killed in mid-air must not be freed in this one."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_run, ((seed, plant),))


pytestmark = pytest.mark.timeout(120)  # of wall time; a seed takes half a second of a CPU


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_mended(seed: int) -> None:
    assert run(seed).violations == []


@pytest.mark.parametrize("seed", range(101, 106))
def test_promises_hold(seed: int) -> None:
    result = run(seed)
    assert result.violations == []
    assert result.counts["confirmed"] > 0


def test_a_seed_repeats_its_run_whatever_the_hash_seed() -> None:
    assert differing([7]) == []


def test_the_campaign_sees_an_unsynced_acknowledgement() -> None:
    assert any("synced copies" in text for text in run(1, "ack-before-fsync").violations)
