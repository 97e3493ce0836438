"""Balance of a Key_Shared subscription over its consumers, by the broker's own division of the keys. Pure."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from engine.broker.dispatch.choose.keys import (
    SLOTS,
    KeyHalves,
    KeyMap,
    KeyPolicy,
    KeyRing,
    ring_slot_of,
    slot_of,
)

RING_POINTS = 100
"""Points of a consumer on the ring: the broker's default."""
NAMINGS = 5
"""Sets of consumer names for which the ring is computed: it depends on the names, which are not known beforehand."""
ENOUGH = 0.9
"""Share of the best speed-up that the recommended number of consumers reaches."""


class Selector(StrEnum):
    """The broker's ways to divide keys."""

    HASHING = "consistent-hashing"
    SPLIT = "auto-split"


class KeyBalance(NamedTuple):
    """Work of a number of consumers. ``busiest``: share of all messages that the busiest one receives, 0 to 1.

    ``idle``: consumers without a message. ``moved``: share of the messages whose key changed its consumer when the last
    of the consumers joined.
    """

    consumers: int
    busiest: float
    idle: float
    moved: float

    @property
    def speedup(self) -> float:
        """Work per time of all consumers as a multiple of one consumer's; the busiest one decides."""
        return 1 / self.busiest


def slot_of_key(selector: Selector, key: bytes) -> int:
    return ring_slot_of(key) if selector is Selector.HASHING else slot_of(key)


def balances(counts: Any, unkeyed: int, consumers_max: int, selector: Selector) -> list[KeyBalance]:
    """Return the balance of 1 to ``consumers_max`` consumers.

    ``counts``: messages by slot, as a numpy array. ``unkeyed``: messages without a key, which the broker spreads
    evenly. There must be a message.
    """
    namings = NAMINGS if selector is Selector.HASHING else 1
    runs = [
        np.array(list(_of_naming(counts, unkeyed, consumers_max, selector, naming)))
        for naming in range(namings)
    ]
    means = np.mean(runs, axis=0)
    return [KeyBalance(number, *map(float, row)) for number, row in enumerate(means, 1)]


def _of_naming(
    counts: Any, unkeyed: int, consumers_max: int, selector: Selector, naming: int
) -> Iterator[tuple[float, float, float]]:
    """Yield the figures of ``KeyBalance`` while consumers join one by one."""
    total = int(counts.sum()) + unkeyed
    keys: KeyMap[int] = KeyRing(RING_POINTS) if selector is Selector.HASHING else KeyHalves()
    before = np.zeros(SLOTS, np.int64)
    for consumers in range(1, consumers_max + 1):
        keys.add(consumers - 1, f"consumer-{naming}-{consumers}", KeyPolicy())
        owners = np.zeros(SLOTS, np.int64)
        for member, first, last in keys.ranges():
            owners[first : last + 1] = member
        of_consumer = np.bincount(owners, counts, consumers) + unkeyed / consumers
        moved = counts[owners != before].sum() if consumers > 1 else 0
        yield of_consumer.max() / total, (of_consumer == 0).sum(), moved / total
        before = owners


def recommended(given: list[KeyBalance]) -> KeyBalance:
    """Return the fewest consumers that reach ENOUGH of the best speed-up."""
    best = max(balance.speedup for balance in given)
    return next(balance for balance in given if balance.speedup >= ENOUGH * best)
