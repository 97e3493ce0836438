"""Order of problems by harm, and their grouping into lines. Pure.

Harm combines severity, backlog, growth and age. A problem that is shown keeps the harm it was shown with until its own
harm differs by ``HELD_WITHIN``, so that lines do not jump.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.services.attention.findings import Finding
from gateway.services.attention.memory import AT_LEAST

WEIGHTS = {"error": 4.0, "warning": 1.0, "info": 0.001}
BACKLOG_POWER = 0.5
GROWTH_POWER = 0.5
AGE_POWER = 0.25
"""Exponent of the age in minutes; the smallest, so that a large new backlog is worse than a small old one."""
HELD_WITHIN = 2.0
"""The factor by which a shown problem's harm has to rise or fall before its place changes."""
APART = 0.05
"""The smallest share of the greatest harm that gives a problem a line of its own."""


class Problem(NamedTuple):
    """A subscription that does not drain, for one cause, over all its partitions with that cause.

    ``topic``: as it is listed. ``worst``: the most harmful of the ``parts`` findings. ``backlog`` in entries and
    ``messages`` in it are sums over the parts; None: unknown. ``estimated``: ``messages`` is an estimate. ``growth`` in
    messages per second, in entries per second where messages are unknown.
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
    """The problem may have begun before ``since_ms``."""

    @property
    def key(self) -> str:
        return f"{self.cause}\n{self.topic}\n{self.subscription}"

    @property
    def waiting(self) -> int | None:
        """Messages in the backlog; where they are unknown the entries, each of which holds at least one."""
        return self.backlog if self.messages is None else self.messages


class Line(NamedTuple):
    """A line of the overview: ``problem`` is the most harmful of ``members``, which have one cause.

    ``key`` stays the same while the line exists.
    """

    key: str
    problem: Problem
    score: float
    members: tuple[Problem, ...]

    @property
    def total(self) -> int:
        return len(self.members)


def merged(findings: Iterable[Finding], listed: dict[str, str]) -> list[Problem]:
    """Merge findings of partitions into problems of topics.

    ``listed`` has the name under which a partition is listed; topics that it lacks are listed under their own.
    """
    parts: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        name = listed.get(finding.topic, finding.topic)
        parts.setdefault((name, finding.subscription, finding.cause), []).append(finding)
    return [_problem(topic, group) for (topic, _, _), group in parts.items()]


def _problem(topic: str, parts: Sequence[Finding]) -> Problem:
    worst = parts[0]
    if len(parts) > 1:
        worst = max(
            parts, key=lambda part: (WEIGHTS[part.severity], part.messages or part.backlog or 0)
        )
    known = [part.backlog for part in parts if part.backlog is not None]
    counted = [part.messages for part in parts if part.messages is not None]
    messages = sum(counted) if len(counted) == len(parts) else None
    growth = sum(part.growth for part in parts)
    if messages is not None:  # brokers report growth in entries
        growth = sum(part.growth * (part.messages or 0) / (part.backlog or 1) for part in parts)
    first = min(parts, key=lambda part: (part.since_ms, not part.evidence.get(AT_LEAST)))
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
        any(part.evidence.get("estimated") for part in parts),
        bool(first.evidence.get(AT_LEAST)),
    )


def harm(problem: Problem, now_ms: int) -> float:
    """Return a number for comparisons only. A backlog that is unknown counts as a large one."""
    waiting = 10_000 if problem.waiting is None else problem.waiting
    minutes = max(now_ms - problem.since_ms, 0) / 60_000
    size: float = (1.0 + waiting) ** BACKLOG_POWER
    grows: float = (1.0 + max(problem.growth, 0.0)) ** GROWTH_POWER
    age: float = (1.0 + minutes) ** AGE_POWER
    return WEIGHTS[problem.severity] * size * grows * age


class Ranking:
    """Ranking that remembers the harm that problems are shown with."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}

    def lines(self, problems: Sequence[Problem], count: int, now_ms: int) -> list[Line]:
        """Return the lines as ``ranked`` does, and remember the harm that they show."""
        lines = self.ranked(problems, count, now_ms)
        self._held = {}
        for line in lines:
            self._held[line.problem.key] = line.score
        return lines

    def ranked(self, problems: Sequence[Problem], count: int, now_ms: int) -> list[Line]:
        """Return at most ``count`` lines, most harmful first; problems for which there is no room are omitted.

        The most harmful problems have lines of their own as long as one line per cause of the others fits.
        """
        scored = sorted(
            ((self._score(problem, now_ms), problem) for problem in problems),
            key=lambda pair: (-pair[0], pair[1].since_ms, pair[1].key),
        )
        return _share_out(scored, count)

    def _score(self, problem: Problem, now_ms: int) -> float:
        score = harm(problem, now_ms)
        held = self._held.get(problem.key)
        if held is not None and held / HELD_WITHIN <= score <= held * HELD_WITHIN:
            return held
        return score


def _share_out(scored: list[tuple[float, Problem]], count: int) -> list[Line]:
    top = scored[0][0] * APART if scored else 0.0
    own = sum(1 for score, _ in scored[:count] if score >= top)
    while own and own + len({problem.cause for _, problem in scored[own:]}) > count:
        own -= 1
    lines = [Line(problem.key, problem, score, (problem,)) for score, problem in scored[:own]]
    groups: dict[str, list[tuple[float, Problem]]] = {}
    for pair in scored[own:]:
        groups.setdefault(pair[1].cause, []).append(pair)
    for group in groups.values():
        score, first = group[0]
        key = first.key if len(group) == 1 else first.cause
        lines.append(Line(key, first, score, tuple(problem for _, problem in group)))
    lines.sort(key=lambda line: -line.score)
    return lines[:count]
