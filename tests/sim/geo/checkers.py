"""Checkers of what clusters received from each other. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.base.ids import Position

EVERYWHERE: tuple[str, ...] = ()


class Own(NamedTuple):
    """An entry that was published in a cluster. ``replicate_to``: the only clusters that are to have it, if any."""

    position: Position
    replicate_to: tuple[str, ...] = EVERYWHERE
    schema: bytes | None = None
    """The definition of its schema, as its cluster returns it for the entry's version."""


class Received(NamedTuple):
    """An entry of another cluster, ``origin``, with its position there."""

    origin: str
    position: Position | None
    schema: bytes | None = None


@dataclass
class Gap:
    """Entries that need not arrive, because their cluster did not send to the other one when they were stored: those
    behind ``lower``, and up to ``upper`` once it is known."""

    lower: Position
    upper: Position | None = None

    def has(self, position: Position) -> bool:
        return self.lower < position and (self.upper is None or position <= self.upper)


def compared(
    source: str,
    own: Sequence[Own],
    target: str,
    received: Sequence[Received],
    gaps: Collection[Gap] = (),
) -> list[str]:
    """Return what is wrong with the entries of ``source`` among those that ``target`` received.

    ``own``: all entries that were published in ``source``.
    """
    meant = [e.position for e in own if not e.replicate_to or target in e.replicate_to]
    positions = [entry.position for entry in received if entry.origin == source]
    copies = Counter(positions)
    wrong = [
        f"G2: {position} of {source} is {copies[position]} times in {target}"
        for position in meant
        if copies[position] > 1
        or (not copies[position] and not any(gap.has(position) for gap in gaps))
    ]
    kept = {entry.position for entry in own}.difference(meant)
    wrong += [
        f"G3: {position} of {source} is in {target}, for which it was not meant"
        for position in sorted(kept.intersection(copies))
    ]
    unknown = set(copies) - {entry.position for entry in own}
    wrong += [f"G2: {p} is in {target} and not in {source}" for p in sorted(map(str, unknown))]
    if not wrong and positions != [position for position in meant if copies[position]]:
        wrong.append(f"G2: entries of {source} are in another order in {target}")
    schemas = {entry.position: entry.schema for entry in own}
    wrong += [
        f"G6: {e.position} of {source} has another schema in {target}: {e.schema!r}"
        for e in received
        if e.origin == source and e.schema != schemas.get(e.position, e.schema)
    ]
    return wrong


def strangers(target: str, sources: Collection[str], received: Sequence[Received]) -> list[str]:
    """Return the entries in ``target`` whose origin is none of ``sources``, the clusters that send to it."""
    return [
        f"G3: an entry of {entry.origin} came to {target}"
        for entry in received
        if entry.origin not in sources
    ]
