"""Figures of works, and the table of several rounds and sides: medians with their range, ours to the others."""

import statistics
from collections.abc import Iterator, Sequence

Figures = dict[str, float]
Rounds = dict[int, Figures]
Results = dict[tuple[str, str], Rounds]
"""Figures by row and side, then by the number of the round."""


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def medians(rounds: Sequence[Figures]) -> Figures:
    """Return medians of the figures that every round has."""
    names = [name for name in rounds[0] if all(name in figures for figures in rounds)]
    return {name: statistics.median(figures[name] for figures in rounds) for name in names}


def short(figures: Figures) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in figures.items())


def table(
    rows: Sequence[str],
    mine: Sequence[str],
    others: Sequence[str],
    results: Results,
    shown: Sequence[str] = (),
) -> Iterator[str]:
    """Yield lines of Markdown: for each figure of a row the median of each side, and the ratio of ``mine`` to
    ``others``.

    In brackets the lowest and the highest of the rounds: a difference smaller than that range is noise. Sides that are
    ``shown`` are compared with none.
    """
    heads = [*mine, *shown]
    for other in others:
        heads += [other, *(f"{side} to {other}" for side in mine)]
    yield f"| work | figure | {' | '.join(heads)} |"
    yield "|" + "---|" * (2 + len(heads))
    for row in rows:
        by_side = {side: results.get((row, side), {}) for side in (*mine, *shown, *others)}
        first = next((rounds for side in mine if (rounds := by_side[side])), {})
        for figure in medians(list(first.values())) if first else ():
            cells = [cell(figure, by_side[side]) for side in (*mine, *shown)]
            for other in others:
                cells.append(cell(figure, by_side[other]))
                cells += [_ratio(figure, by_side[side], by_side[other]) for side in mine]
            yield f"| {row} | {figure} | {' | '.join(cells)} |"


def _values(figure: str, rounds: Rounds) -> dict[int, float]:
    return {number: figures[figure] for number, figures in rounds.items() if figure in figures}


def cell(figure: str, rounds: Rounds) -> str:
    """Return the median of a figure with its range; a dash where no round has it."""
    values = list(_values(figure, rounds).values())
    if not values:
        return "–"
    return f"{statistics.median(values):.4g}{_range(values, '.3g')}"


def _ratio(figure: str, ours: Rounds, theirs: Rounds) -> str:
    here, there = _values(figure, ours), _values(figure, theirs)
    ratios = [here[n] / there[n] for n in here.keys() & there.keys() if there[n]]
    if not ratios or not (middle := statistics.median(there.values())):
        return "–"
    return f"{statistics.median(here.values()) / middle:.3g}{_range(ratios, '.2f')}"


def _range(values: Sequence[float], form: str) -> str:
    if len(values) < 2:
        return ""
    return f" ({min(values):{form}}–{max(values):{form}})"
