"""A run asks its workloads for their parts in order, heals before it asks for quiet, and judges whatever happened."""

import random
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.sim.kit.cluster import Shape
from tests.sim.kit.play import Result, play
from tests.sim.kit.scenario import Run, Scenario, first_of
from tests.sim.scenarios import SCENARIOS


@dataclass(frozen=True)
class Noting:
    """Notes what it is asked for."""

    name: str
    notes: list[str] = field(repr=False)
    fails_in: str = ""

    def setup(self, run: Run) -> "Noted":
        run.faults[self.name] = lambda nemesis: self.notes.append(f"{self.name} breaks")
        return Noted(run, self)


class Noted:
    def __init__(self, run: Run, plan: Noting) -> None:
        self.run = run
        self.plan = plan
        self._note("setup")

    def _note(self, what: str) -> None:
        self.plan.notes.append(f"{self.plan.name} {what}")
        if what == self.plan.fails_in:
            raise ValueError(what)

    async def start(self) -> None:
        assert all(machine.node is not None for machine in self.run.cluster.machines.values())
        self._note("start")

    async def quiet(self) -> None:
        assert self.run.nemesis.over
        self._note("quiet")
        await self.run.reach("get anywhere", lambda: False, 1.0, lambda: ["nothing"])

    def check(self) -> list[str]:
        self._note("check")
        return [f"{self.plan.name}: as ever"]


def played(plans: tuple[Noting, ...], faults: dict[str, float]) -> Result:
    shape = Shape.draw(random.Random(1))
    return play(1, partial(Run, lambda rng: Scenario(shape, plans, faults, 2.0)), 30.0)


def test_workloads_of_a_run_pass_its_phases_together() -> None:
    notes: list[str] = []
    result = played((Noting("a", notes), Noting("b", notes)), {"b": 5.0})
    assert set(notes) == {"b breaks", *(f"{n} {w}" for n in "ab" for w in PARTS)}
    assert [note for note in notes if note != "b breaks"] == [
        f"{n} {w}" for w in PARTS for n in "ab"
    ]
    assert notes.index("b start") < notes.index("b breaks") < notes.index("a quiet")
    late = "liveness: could not get anywhere in 1 s: nothing"
    assert result.violations == [late, late, "a: as ever", "b: as ever"]


@pytest.mark.parametrize("part", ["start", "quiet"])
def test_a_run_that_fails_is_judged(part: str) -> None:
    result = played((Noting("a", [], fails_in=part),), {})
    assert result.violations[0].startswith("the run failed: ")
    assert result.violations[-1] == "a: as ever"


def test_a_scenario_prints_everything_that_was_drawn() -> None:
    for draw in SCENARIOS.values():
        scenario, same, other = (draw(random.Random(seed)) for seed in (1, 1, 2))
        assert scenario == same != other
        assert str(scenario) == str(same) != str(other)
        for name, rate in scenario.faults.items():
            assert f"'{name}': {rate}" in str(scenario)


def test_only_the_first_of_many_findings_are_reported() -> None:
    assert first_of(["a", "b", "c"], "rule") == ["a", "b", "c"]
    assert first_of(["a", "b", "c", "d", "e"], "rule") == ["a", "b", "c", "rule: 2 more"]


PARTS = ("setup", "start", "quiet", "check")
