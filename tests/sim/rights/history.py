"""Rights as an administrator changed them, and what a broker must have noticed of the changes. Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

PROMISE_S = 1.0
"""Time in which a broker acts on a change, once its store has answered."""
SAMPLE_S = 0.25


@dataclass
class Right:
    """The right of one role: what it is, or is being changed to, and when that was confirmed; None until then."""

    allowed: bool = True
    confirmed: float | None = 0.0

    def begin(self, allowed: bool) -> None:
        self.allowed, self.confirmed = allowed, None

    def confirm(self, at: float) -> None:
        self.confirmed = at

    def is_surely(self, allowed: bool, by: float | None) -> bool:
        """Return whether it had this value from the time ``by`` on, which is None where nothing is known."""
        if by is None or self.confirmed is None:
            return False
        return self.allowed is allowed and self.confirmed <= by


class Sample(NamedTuple):
    """A broker at a time: its process, its connection to the store, None while the store or the process is away.

    ``proof``: everything before it has reached the broker.
    """

    at: float
    proof: float
    connection: tuple[str, int] | None


@dataclass
class Notices:
    """The samples of one broker in the last seconds, by which is known what it must have acted on."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=16))

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)

    def acted_by(self, now: float, connection: tuple[str, int] | None) -> float | None:
        """Return the time of which all confirmed changes must be in effect at ``now``; None where nothing must be.

        The broker had the whole PROMISE_S since a sample to act, on one connection and without a stop.
        """
        for sample in reversed(self.samples):
            if sample.connection is None or sample.connection != connection:
                return None
            if sample.at <= now - PROMISE_S - SAMPLE_S:
                return sample.proof
        return None
