"""The switchboard of planted mistakes fits the present code, and leaves nothing behind."""

import pytest

from engine.metadata.memory import MemoryServer
from engine.metadata.store import SessionState
from tests.sim import bugs
from tests.sim.plants import catalogue as plants
from tests.sim.run import Play
from tests.sim.scenarios import SCENARIOS


@pytest.mark.parametrize("name", [*plants.PLANTS, *plants.CONTROLS])
def test_a_mistake_has_a_place_in_the_code_and_is_removed_again(name: str) -> None:
    plant = {**plants.PLANTS, **plants.CONTROLS}[name]
    places = [(owner, attribute) for owner, attribute, _ in plant.make()]
    before = [getattr(owner, attribute) for owner, attribute in places]
    with plants.planted(name):
        during = [getattr(owner, attribute) for owner, attribute in places]
    assert all(old is not new for old, new in zip(before, during, strict=True))
    assert [getattr(owner, attribute) for owner, attribute in places] == before


@pytest.mark.parametrize("name", [*plants.PLANTS, *plants.CONTROLS])
def test_a_mistake_has_a_description_and_a_known_workload(name: str) -> None:
    plant = {**plants.PLANTS, **plants.CONTROLS}[name]
    assert plant.text.endswith(".")
    assert plant.workload in SCENARIOS


@pytest.mark.parametrize("name", ["session-never-lapses", "lease-off"])
async def test_a_broker_without_a_lease_trusts_its_session_however_old_its_proof(name: str) -> None:
    store = MemoryServer().session(10.0)
    await store.create("/a")
    store._proof -= 100.0
    lapsed = store.session_proven, store.state
    with plants.planted(name):
        trusted = store.session_proven, store.state
    await store.close()
    assert lapsed == (False, SessionState.SUSPENDED)
    assert trusted == (True, SessionState.CONNECTED)


def test_at_least_fifteen_mistakes_are_known() -> None:
    assert len(plants.PLANTS) >= 15


def test_a_broken_rule_is_reported_before_its_consequences() -> None:
    ends = "bookie-4#2 ended: IdentityError"
    late = "liveness: could not drain"
    named = "confirmed_acks_hold: t0 was delivered again"
    ruled = "C3 ledger 1 ends at 43, but 49 was confirmed\nmore"
    assert bugs.invariant([late, ends, named, ruled]) == ruled.splitlines()[0]
    assert bugs.invariant([late, ends, named]) == named
    assert bugs.invariant([late, ends]) == ends
    assert bugs.invariant([late]) == late


def test_the_command_of_a_play_repeats_its_run() -> None:
    play = Play("topics", 8, "ack-before-fsync")
    assert play.command == (
        "python -m tests.sim.run --workload topics --seed 8 --plant ack-before-fsync --verbose"
    )
