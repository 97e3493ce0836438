"""The most harmful comes first and stays there; what is alike shares a line."""

from random import Random
from typing import Any

import pytest

from gateway.services.attention.findings import Finding
from gateway.services.attention.ranking import Problem, Ranking, harm, merged

NOW = 10_000_000_000


def finding(name: str, **changed: Any) -> Finding:
    plain = Finding(name, "s", 100, "slow", "warning", NOW - 60_000, 0.0, {})
    return plain._replace(**changed)


def problems(*findings: Finding) -> list[Problem]:
    return merged(findings, {})


def noise(count: int = 200, seed: int = 1) -> list[Finding]:
    """Return small subscriptions without consumers, some of them for a long time."""
    random = Random(seed)
    return [
        finding(
            f"noise-{number}",
            cause=random.choice(("no-consumer", "not-acknowledged")),
            backlog=random.randrange(1, 50),
            since_ms=NOW - random.randrange(60_000, 86_400_000),
        )
        for number in range(count)
    ]


BIG = [
    finding("growing", backlog=75_253, growth=120.0, severity="error", cause="no-consumer"),
    finding("silent", backlog=34_207, cause="not-acknowledged"),
    finding("slow", backlog=2_000, growth=40.0),
    finding("loop", backlog=5_000, cause="redelivery"),
]


@pytest.mark.parametrize("big", BIG, ids=lambda finding: finding.topic)
def test_a_large_problem_ranks_before_small_ones_of_any_age(big: Finding) -> None:
    lines = Ranking().lines(problems(*noise(), big), 5, NOW)
    assert lines[0].problem.worst == big
    assert lines[0].total == 1
    assert sum(line.total for line in lines) == 201


def test_problems_of_one_cause_have_lines_of_their_own_while_there_is_room() -> None:
    found_problems = problems(*(finding(f"t{i}", backlog=1_000 + i) for i in range(9)))
    lines = Ranking().lines(found_problems, 5, NOW)
    assert [line.total for line in lines] == [1, 1, 1, 1, 5]
    assert [line.problem.topic for line in lines][:4] == ["t8", "t7", "t6", "t5"]
    assert lines[4].key == "slow"


def test_every_cause_has_a_line_before_one_has_two() -> None:
    causes = ("slow", "held", "standby", "redelivery", "hot-key", "no-permits")
    found_problems = problems(*(finding(f"{c}{i}", cause=c) for c in causes for i in range(3)))
    lines = Ranking().lines(found_problems, 5, NOW)
    assert len({line.problem.cause for line in lines}) == 5
    assert [line.total for line in lines] == [3] * 5


def test_partitions_of_a_subscription_are_one_problem() -> None:
    parts = [finding(f"t-partition-{i}", backlog=10 * i, growth=1.0) for i in range(3)]
    (problem,) = merged(parts, {part.topic: "t" for part in parts})
    assert (problem.topic, problem.backlog, problem.growth, problem.parts) == ("t", 30, 3.0, 3)
    assert problem.worst.topic == "t-partition-2"
    (unknown,) = merged([parts[0], parts[1]._replace(backlog=None)], {p.topic: "t" for p in parts})
    assert unknown.backlog is None


def test_lines_do_not_jump_while_figures_waver() -> None:
    random, ranking = Random(3), Ranking()
    orders = set()
    for second in range(300):
        found_problems = problems(
            *(
                finding(f"t{i}", backlog=10_000 + random.randrange(-2_000, 2_000), growth=5.0)
                for i in range(4)
            )
        )
        lines = ranking.lines(found_problems, 5, NOW + second * 1_000)
        orders.add(tuple(line.key for line in lines))
    assert len(orders) == 1


def test_a_problem_that_becomes_much_worse_moves_to_the_top() -> None:
    ranking = Ranking()
    ranking.lines(problems(finding("a", backlog=1_000), finding("b", backlog=900)), 5, NOW)
    lines = ranking.lines(
        problems(finding("a", backlog=1_000), finding("b", backlog=9_000)), 5, NOW
    )
    assert [line.problem.topic for line in lines] == ["b", "a"]


def test_errors_backlog_growth_and_age_harm_and_delays_do_not() -> None:
    (base,) = problems(finding("t"))
    more: tuple[dict[str, Any], ...] = (
        {"severity": "error"},
        {"backlog": 200},
        {"growth": 3.0},
        {"since_ms": NOW - 600_000},
        {"backlog": None},
    )
    for changed in more:
        assert harm(base._replace(**changed), NOW) > harm(base, NOW), changed
    later = base._replace(severity="info", backlog=1_000_000)
    assert harm(later, NOW) < harm(base._replace(backlog=11), NOW)
