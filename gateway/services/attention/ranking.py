"""Which problems come first, and which of them share a line. Pure.

Harm is severity, backlog, growth and age together. A problem that is shown keeps its place until its harm differs
clearly from what it was then, so that lines do not jump.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.services.attention.findings import Finding
from gateway.services.attention.memory import AT_LEAST

WEIGHTS = {"error": 4.0, "warning": 1.0, "info": 0.001}
BACKLOG_POWER = 0.5
GROWTH_POWER = 0.5
AGE_POWER = 0.25
"""Age in minutes: what is old is worse, but a large new backlog is worse than a small old one."""
HELD_WITHIN = 2.0
"""A shown problem has the harm that it was shown with until its own is so many times more or less."""
APART = 0.05
"""A problem gets a line of its own when its harm is at least this part of the greatest."""


class Problem(NamedTuple):
    """A subscription that does not drain for a cause; ``worst`` of its partitions' findings, ``parts`` of them.

    ``topic`` as listed. ``backlog`` (entries), the ``messages`` in it and ``growth`` are of all ``parts``; None: not
    known. ``estimated``: the messages are. ``growth`` in messages per second, in entries where messages are not known.
    """

    topic: str
    subscription: str
    cause: str
    severity: str
    backlog: int | None
    growth: float
    since_ms: int
    parts: int
    worst: Finding
    messages: int | None = None
    estimated: bool = False
    at_least: bool = False
    """It may have begun before ``since_ms``."""

    @property
    def key(self) -> str:
        return f"{self.cause}\n{self.topic}\n{self.subscription}"

    @property
    def waiting(self) -> int | None:
        """Messages that wait; entries, of which each holds one at least, where messages are not known."""
        return self.backlog if self.messages is None else self.messages


class Line(NamedTuple):
    """``problem`` is the most harmful of ``members``, all of one cause. ``key`` stays while it is there."""

    key: str
    problem: Problem
    score: float
    members: tuple[Problem, ...]

    @property
    def total(self) -> int:
        return len(self.members)


def merged(findings: Iterable[Finding], listed: dict[str, str]) -> list[Problem]:
    """``listed``: by partition the name of the topic under which it is listed; others are listed as they are."""
    parts: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        where = listed.get(one.topic, one.topic)
        parts.setdefault((where, one.subscription, one.cause), []).append(one)
    return [_problem(topic, those) for (topic, _, _), those in parts.items()]


def _problem(topic: str, parts: Sequence[Finding]) -> Problem:
    worst = parts[0]
    if len(parts) > 1:
        worst = max(
            parts, key=lambda one: (WEIGHTS[one.severity], one.messages or one.backlog or 0)
        )
    known = [one.backlog for one in parts if one.backlog is not None]
    counted = [one.messages for one in parts if one.messages is not None]
    messages = sum(counted) if len(counted) == len(parts) else None
    growth = sum(one.growth for one in parts)
    if messages is not None:
        growth = sum(one.growth * (one.messages or 0) / (one.backlog or 1) for one in parts)
    first = min(parts, key=lambda one: (one.since_ms, not one.evidence.get(AT_LEAST)))
    return Problem(
        topic,
        worst.subscription,
        worst.cause,
        worst.severity,
        sum(known) if len(known) == len(parts) else None,
        growth,
        first.since_ms,
        len(parts),
        worst,
        messages,
        any(one.evidence.get("estimated") for one in parts),
        bool(first.evidence.get(AT_LEAST)),
    )


def harm(problem: Problem, now_ms: int) -> float:
    """A number for comparisons only. A backlog that is not known may be large."""
    waiting = 10_000 if problem.waiting is None else problem.waiting
    minutes = max(now_ms - problem.since_ms, 0) / 60_000
    size: float = (1.0 + waiting) ** BACKLOG_POWER
    grows: float = (1.0 + max(problem.growth, 0.0)) ** GROWTH_POWER
    age: float = (1.0 + minutes) ** AGE_POWER
    return WEIGHTS[problem.severity] * size * grows * age


class Ranking:
    """Remembers with what harm problems are shown."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}

    def lines(self, problems: Sequence[Problem], count: int, now_ms: int) -> list[Line]:
        """At most ``count``, most harmful first; what has no line is in none of them.

        The most harmful have lines of their own, as far as there is room for one line for each cause of the others.
        """
        scored = sorted(
            ((self._score(one, now_ms), one) for one in problems),
            key=lambda pair: (-pair[0], pair[1].since_ms, pair[1].key),
        )
        lines = _share_out(scored, count)
        self._held = {}
        for line in lines:
            self._held[line.problem.key] = line.score
        return lines

    def _score(self, problem: Problem, now_ms: int) -> float:
        score = harm(problem, now_ms)
        held = self._held.get(problem.key)
        if held is not None and held / HELD_WITHIN <= score <= held * HELD_WITHIN:
            return held
        return score


def _share_out(scored: list[tuple[float, Problem]], count: int) -> list[Line]:
    top = scored[0][0] * APART if scored else 0.0
    own = sum(1 for score, _ in scored[:count] if score >= top)
    while own and own + len({one.cause for _, one in scored[own:]}) > count:
        own -= 1
    lines = [Line(one.key, one, score, (one,)) for score, one in scored[:own]]
    groups: dict[str, list[tuple[float, Problem]]] = {}
    for pair in scored[own:]:
        groups.setdefault(pair[1].cause, []).append(pair)
    for those in groups.values():
        score, first = those[0]
        key = first.key if len(those) == 1 else first.cause
        lines.append(Line(key, first, score, tuple(one for _, one in those)))
    lines.sort(key=lambda line: -line.score)
    return lines[:count]
